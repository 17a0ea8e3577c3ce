r"""The audit log: JSON lines that are only appended, each bound to the one before by its hash.

A record is one line of ASCII with sorted keys:
`{"event": {...}, "previous": "...", "seq": 7, "time": "2026-01-31T12:00:00.000Z"}`.
Its hash is the SHA-256 of the line's bytes without the line end, so it can be had without this program
(`sed -n 7p audit.jsonl | tr -d '\n' | sha256sum`); `previous` holds the hash of the record before.
Event fields carry the content NIST SP 800-53 AU-3 asks for: `type` (what happened), `where`, `source`,
`outcome`, `subject` and `object` (whom and what it concerns); when it happened is the record's `time`.

Invariants:
* `append` returns after the record is on disk, or raises `AuditUnavailable` and the log ends as before;
* whatever several threads or servers append to one log is one chain;
* the head beside the log (`audit.head`: last `seq` and hash) follows each record, so a lost end is noticed;
* nothing is repaired in silence: an unterminated last line (a crash while writing) was never acknowledged;
  it is cut off, and a record of type `audit.recovered` holds its length and hash. A record of the same type
  tells of a head that was behind;
* a log that ends before its head, or in something that is no record, is refused: nothing is appended to it.

Not guaranteed: someone who may write both the log and its head can rewrite everything. Keep `checkpoint()`
where they cannot write, and give it to `verify`: rewriting what lies before it is then noticed.
"""

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gdal_mcp.ledger.audit_files import (
    AuditUnavailable,
    Files,
    Head,
    distrusted,
    explained,
    opened,
    read_head,
    write_head,
)
from gdal_mcp.ledger.audit_reading import Verification, backwards, tail, verify, walk
from gdal_mcp.ledger.audit_record import EMPTY, AuditRecord, Checkpoint, parse_line, time_text, write_line

__all__ = [
    "RECOVERED",
    "AuditLog",
    "AuditRecord",
    "AuditUnavailable",
    "Checkpoint",
    "Verification",
    "tail",
    "verify",
]

RECOVERED = "audit.recovered"


class AuditLog:
    """Appends to one log. Instances, threads and servers may share it."""

    def __init__(self, path: Path) -> None:
        """Creates what is missing, files with mode 0600. Raises AuditUnavailable."""
        self.path = path
        with explained(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.checkpoint()

    def append(self, event: Mapping[str, Any]) -> AuditRecord:
        """Write one record and wait until it is on disk. Raises AuditUnavailable.

        What JSON cannot hold is written as text; a field that would make the record longer than MAX_LINE is
        written as its start, length and hash.
        """
        with explained(self.path), opened(self.path) as files:
            at = _settle(files)
            return _write(files, at, event, Head(at))

    def checkpoint(self) -> Checkpoint:
        """Where the log ends, to be kept elsewhere. Raises AuditUnavailable."""
        with explained(self.path), opened(self.path) as files:
            return _settle(files)


def _settle(files: Files) -> Checkpoint:
    """Where the log ends, after repairing and recording what a crash left. Raises AuditUnavailable."""
    head = read_head(files.head)
    last, torn = _read_end(files.log)
    at = last.checkpoint if last else EMPTY
    if at != head.at:
        _accept_behind(files.log, last, head.at)
    noted = head.torn
    if torn:
        noted = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
        # First of all noted: a crash between here and the record must not lose the fact.
        write_head(files.head, Head(head.at, noted))
        os.ftruncate(files.log, os.fstat(files.log).st_size - len(torn))
    if noted is None and at == head.at:
        return at
    found = {"torn_line": noted, "head_behind": at.seq - head.at.seq}
    event = {"type": RECOVERED, "source": "audit", "outcome": "repaired", **found}
    return _write(files, at, event, Head(head.at, noted)).checkpoint


def _read_end(log: int) -> tuple[AuditRecord | None, bytes]:
    """The last record, None in an empty log, and the unterminated bytes after it."""
    lines = backwards(log)
    torn, line = next(lines), next(lines, None)
    record = None if line is None else parse_line(line)
    if line is not None and record is None:
        raise distrusted("its last line is not a record")
    return record, torn


def _accept_behind(log: int, last: AuditRecord | None, head: Checkpoint) -> None:
    """Accept a head behind the log, as a crash leaves it; refuse any other that differs."""
    seq = last.seq if last else 0
    if last is None or seq <= head.seq:
        raise distrusted(f"it ends at record {seq}, not as its head says at record {head.seq}")
    if (last.seq, last.previous) == (head.seq + 1, head.hash):
        return
    if head.seq == 0:
        # On disk from the first record on, it was removed, and with it the proof of where the log ended.
        raise distrusted("its head is missing or unreadable")
    found = walk(log, os.fstat(log).st_size, head)
    if found.missing or found.last != last.checkpoint:
        raise distrusted(f"it does not hold the record {head.seq} that its head names")


def _write(files: Files, at: Checkpoint, event: Mapping[str, Any], before: Head) -> AuditRecord:
    """Append one record and move the head; on failure both are as before."""
    line = write_line(at, time_text(time.time()), event)
    record = parse_line(line)
    assert record is not None
    size = os.fstat(files.log).st_size
    try:
        rest = line + b"\n"
        while rest:
            rest = rest[os.write(files.log, rest) :]
        os.fdatasync(files.log)
        write_head(files.head, Head(record.checkpoint))
    except OSError:
        # Where even this fails, the next append finds a torn line or a head that is behind.
        with suppress(OSError):
            os.ftruncate(files.log, size)
            write_head(files.head, before)
        raise
    return record
