"""Reads the chain of records in a file of the audit log."""

import os
from collections.abc import Iterator
from typing import Final

from gdal_mcp.records.audit_files import distrusted
from gdal_mcp.records.audit_record import EMPTY, MAX_LINE, AuditRecord, Checkpoint, parse_line

ROTATED: Final = "audit.rotated"  # type of the first record of each file except the first file
_BLOCK: Final = 16 << 10  # bytes read at a time from the end; most records are shorter


def first_record(log: int) -> AuditRecord | None:
    """The first record of a file."""
    with os.fdopen(log, "rb", closefd=False) as stream:
        stream.seek(0)
        return parse_line(stream.readline(MAX_LINE))


def base_of(log: int) -> Checkpoint:
    """The checkpoint before the first record of a file: EMPTY, or the end of the file that was closed before it."""
    first = first_record(log)
    if first is None or first.event.get("type") != ROTATED:
        return EMPTY
    return Checkpoint(first.seq - 1, first.previous)


def walk(
    log: int, size: int, *expected: Checkpoint, last: Checkpoint = EMPTY
) -> tuple[Checkpoint, str, set[Checkpoint]]:
    """Follows the chain from `last` through the first `size` bytes of a file, with one line in memory at a time.

    Returns the last valid checkpoint, the reason if the chain ends too early, and the expected checkpoints that the
    file does not contain.
    """
    problem, left = "", size
    missing = set(expected) - {last, EMPTY}
    with os.fdopen(log, "rb", closefd=False) as stream:
        stream.seek(0)
        while left and not problem:
            line = stream.readline(min(MAX_LINE, left))
            left -= len(line)
            record = parse_line(line)
            if not line.endswith(b"\n"):
                problem = "the line has no end: a crash while writing, a file that was cut off, or a line longer than any record"
            elif record is None:
                problem = "the line is not a record"
            elif record.seq != last.seq + 1:
                problem = f"the record has number {record.seq} instead of {last.seq + 1}"
            elif record.previous != last.hash:
                problem = "this record or the one before it was changed"
            else:
                last = record.checkpoint
                missing.discard(last)
    return last, problem, missing


def lines_backwards(log: int) -> Iterator[bytes]:
    """The text after the last newline, which is often empty, then each line without its newline, from last to first."""
    at, rest = os.fstat(log).st_size, b""
    while at:
        step = min(_BLOCK, at)
        at -= step
        rest, *lines = (os.pread(log, step, at) + rest).split(b"\n")
        yield from reversed(lines)
        if len(rest) > MAX_LINE:
            raise distrusted(f"it contains a line longer than {MAX_LINE} bytes")
    yield rest
