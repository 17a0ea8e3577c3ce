"""The audit log as it is read: followed from its first record, or from its last backwards. Nothing is changed here.

Someone who may write both the log and its head can rewrite everything; `verify` notices it of what lies before a checkpoint that
was kept elsewhere.
"""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gdal_mcp.ledger.audit_files import distrusted, explained, locked, read_head, sidecar
from gdal_mcp.ledger.audit_record import EMPTY, MAX_LINE, AuditRecord, Checkpoint, parse_line

_BLOCK = 16 << 10  # bytes read at a time from the end: most records are shorter


@dataclass(frozen=True, slots=True)
class Verification:
    """What a walk over the whole log found. `first_bad` is a line number from 1, None when all are sound."""

    ok: bool
    records: int  # sound ones, up to the first bad line
    reason: str = ""
    first_bad: int | None = None
    head_matches: bool = False
    last: Checkpoint = EMPTY


def verify(path: Path, kept: Checkpoint | None = None) -> Verification:
    """Check every record, the head and, where given, that the log still holds a checkpoint kept elsewhere.

    Reads line by line; servers may append meanwhile. Raises AuditUnavailable when the log cannot be read.
    """
    with explained(path):
        try:
            log = path.open("rb")
        except FileNotFoundError:
            return Verification(ok=False, records=0, reason=f"there is no log at {path}")
        with log:
            with locked(path, fcntl.LOCK_SH):
                size = os.fstat(log.fileno()).st_size
                head = read_head(sidecar(path, "head")).at
            return _judge(walk(log.fileno(), size, head, kept or EMPTY), head, kept)


def tail(path: Path, count: int) -> tuple[AuditRecord, ...]:
    """The last records, oldest first, read from the end. Checks nothing: what is no record is left out."""
    with explained(path), path.open("rb") as log:
        lines = islice(backwards(log.fileno()), 1, max(count, 0) + 1)
        found = [record for line in lines if (record := parse_line(line)) is not None]
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Walk:
    """How far the chain holds, why it ends there, and which of the checkpoints asked for it does not hold."""

    last: Checkpoint
    problem: str
    missing: frozenset[Checkpoint]


def walk(log: int, size: int, *wanted: Checkpoint) -> Walk:
    """Follow the chain through the first `size` bytes, one line in memory."""
    last, problem, left = EMPTY, "", size
    missing = set(wanted) - {last}
    with os.fdopen(log, "rb", closefd=False) as stream:
        stream.seek(0)
        while left and not problem:
            line = stream.readline(min(MAX_LINE, left))
            left -= len(line)
            record = parse_line(line)
            problem = _problem(line, record, last)
            if record is not None and not problem:
                last = record.checkpoint
                missing.discard(last)
    return Walk(last, problem, frozenset(missing))


def _problem(line: bytes, record: AuditRecord | None, last: Checkpoint) -> str:
    if not line.endswith(b"\n"):
        return "the line has no end: a crash while writing, something cut off, or longer than any record"
    if record is None:
        return "the line is not a record"
    if record.seq != last.seq + 1:
        return f"the record is number {record.seq} where {last.seq + 1} is expected"
    return "" if record.previous == last.hash else "one of this record and the one before was changed"


def _judge(walk: Walk, head: Checkpoint, kept: Checkpoint | None) -> Verification:
    matches = head == walk.last and not walk.problem
    reason, bad = walk.problem, None
    if reason:
        bad = walk.last.seq + 1
    elif kept in walk.missing:
        reason = f"the log does not hold record {kept.seq} as the checkpoint kept elsewhere has it"
    elif head in walk.missing:
        reason = f"the log ends at {walk.last.seq} and does not hold record {head.seq} as its head has it"
    elif not matches:
        reason = f"the head names {head.seq}, not the last: removed, a crash, or records no server wrote"
    return Verification(not reason, walk.last.seq, reason, bad, matches, walk.last)


def backwards(log: int) -> Iterator[bytes]:
    """What follows the last line end, often nothing, then each line without its end, last first."""
    at, rest = os.fstat(log).st_size, b""
    while at:
        step = min(_BLOCK, at)
        at -= step
        rest, *lines = (os.pread(log, step, at) + rest).split(b"\n")
        yield from reversed(lines)
        if len(rest) > MAX_LINE:
            raise distrusted(f"it holds a line longer than {MAX_LINE} bytes")
    yield rest
