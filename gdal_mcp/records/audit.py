r"""The audit log: JSON lines that are only appended, each bound to the one before by its hash.

A record is one line of ASCII with sorted keys: `{"event": {...}, "previous": "...", "seq": 7, "time":
"2026-01-31T12:00:00.000Z"}`. Its hash is the SHA-256 of the line's bytes without the newline, so it can be computed
without this program (`sed -n 7p audit.jsonl | tr -d '\n' | sha256sum`); `previous` is the hash of the record before.
Event fields have the content that NIST SP 800-53 AU-3 asks for: `type` (what happened), `where`, `source`, `outcome`,
`subject` and `object` (who and what it concerns); the record's `time` says when.

Invariants:
* `append` returns after the record is on disk, or raises `AuditUnavailable` and the log is unchanged;
* everything that several threads and servers append to one log is one chain;
* the head file (`audit.head`: last `seq` and hash) is updated after each record, so a lost end is noticed;
* nothing is repaired without a record: an unterminated last line (a crash while writing) was never acknowledged; it
  is cut off, and a record of type `audit.recovered` has its length and hash. A record of the same type reports a head
  that was behind;
* a log that ends before its head, or in something that is not a record, is refused: nothing is appended to it;
* log, head and lock are regular files that only this user may read, never reached through a link;
* `rotate` closes a file and continues in a new one, whose first record is bound to the last one of the closed file,
  so the files together are one chain. If files were moved to an archive, the remaining ones are verified from their
  first record on.

Not guaranteed: someone who may write both the log and its head can rewrite everything. Keep `checkpoint()` where they
cannot write, and pass it to `verify`: then a change of anything before it is noticed.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from gdal_mcp.records.audit_chain import ROTATED, base_of, first_record, lines_backwards, walk
from gdal_mcp.records.audit_files import (
    AuditUnavailable,
    Head,
    distrusted,
    locked,
    open_log,
    read_head,
    replace_file,
    translate_errors,
    write_head,
)
from gdal_mcp.records.audit_record import EMPTY, AuditRecord, Checkpoint, parse_line, time_text, write_line
from sandbox.portable import sync_contents

RECOVERED: Final = "audit.recovered"


class AuditLog:
    """Appends to one log. Instances, threads and servers may share it."""

    def __init__(self, path: Path) -> None:
        """Creates missing files with mode 0600. Raises AuditUnavailable."""
        self.path = path
        with translate_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.checkpoint()

    def append(self, event: Mapping[str, Any]) -> AuditRecord:
        """Writes one record and waits until it is on disk. Raises AuditUnavailable.

        Values that JSON does not have are written as text. A field that would make the record longer than MAX_LINE is
        written as its start, length and hash.
        """
        with translate_errors(self.path), open_log(self.path) as (log, head):
            at = _repair_tail(log, head)
            return _write(log, head, at, event, Head(at))

    def size(self) -> int:
        """The bytes of the file to which records are appended."""
        with translate_errors(self.path):
            return self.path.stat().st_size if self.path.exists() else 0

    def rotate(self, source: Mapping[str, Any]) -> Path:
        """Closes the file under a name with its first and last record, and continues in a new one. Raises
        AuditUnavailable.

        The new file takes the old one's place at once, with its first record in it: a crash leaves one or the other,
        and at most a head that is one record behind.
        """
        with translate_errors(self.path), open_log(self.path) as (log, head):
            at = _repair_tail(log, head)
            first = first_record(log)
            if first is None or first.seq > at.seq:
                raise AuditUnavailable("the audit log is empty, so that there is nothing to close.")
            # names such as audit-000000000001-000000004211.jsonl sort like their records
            closed = self.path.with_name(f"{self.path.stem}-{first.seq:012d}-{at.seq:012d}{self.path.suffix}")
            event = {"type": ROTATED, "source": source, "outcome": "OK", "segment": closed.name}
            line = write_line(at, time_text(time.time()), event)
            record = parse_line(line)
            assert record is not None
            for segment in _segment_names(self.path):
                if segment.samefile(self.path):  # left by a crash before the new file took this one's place
                    segment.unlink()
            os.link(self.path, closed)
            replace_file(self.path, line + b"\n")
            write_head(head, Head(record.checkpoint))
        return closed

    def checkpoint(self) -> Checkpoint:
        """A checkpoint of the end of the log, to be stored in another place. Raises AuditUnavailable."""
        with translate_errors(self.path), open_log(self.path) as files:
            return _repair_tail(*files)


def segments(path: Path) -> tuple[Path, ...]:
    """The closed files of a log, oldest first."""
    there = path.exists()
    return tuple(segment for segment in _segment_names(path) if not (there and segment.samefile(path)))


def _segment_names(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}-{'[0-9]' * 12}-{'[0-9]' * 12}{path.suffix}"))


def copied(path: Path, folder: Path) -> list[Path]:
    """Copies the log, its head and the closed files into a folder; no record is written in between. Raises
    AuditUnavailable, OSError.
    """
    with translate_errors(path):
        if not path.exists():
            return []
        with locked(path, fcntl.LOCK_SH):
            files = (*segments(path), path, path.with_suffix(".head"))
            return [Path(shutil.copy2(file, folder / file.name)) for file in files if file.exists()]


def tail(path: Path, count: int) -> tuple[AuditRecord, ...]:
    """The last records, oldest first, read from the end. Verifies nothing: lines that are not records are left out."""
    with translate_errors(path), path.open("rb") as log:
        lines = islice(lines_backwards(log.fileno()), 1, max(count, 0) + 1)
        records = [record for line in lines if (record := parse_line(line)) is not None]
    return tuple(reversed(records))


def _repair_tail(log: int, head_file: int) -> Checkpoint:
    """The end of the log, after repairing and recording what a crash left. Raises AuditUnavailable."""
    head = read_head(head_file)
    lines = lines_backwards(log)
    torn, line = next(lines), next(lines, None)
    last = None if line is None else parse_line(line)
    if line is not None and last is None:
        raise distrusted("its last line is not a record")
    at = last.checkpoint if last else EMPTY
    if at != head.at:
        _accept_behind(log, last, head.at)
    torn_line = head.torn
    if torn:
        torn_line = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
        # Written first, because a crash before the record is written must not lose it.
        write_head(head_file, Head(head.at, torn_line))
        os.ftruncate(log, os.fstat(log).st_size - len(torn))
    if torn_line is None and at == head.at:
        return at
    damage = {"torn_line": torn_line, "head_behind": at.seq - head.at.seq}
    event = {"type": RECOVERED, "source": "audit", "outcome": "repaired", **damage}
    return _write(log, head_file, at, event, Head(head.at, torn_line)).checkpoint


def _accept_behind(log: int, last: AuditRecord | None, head: Checkpoint) -> None:
    """Accepts a head that is one record behind the log, as after a crash. Refuses any other head that differs."""
    seq = last.seq if last else 0
    if last is None or seq <= head.seq:
        raise distrusted(f"it ends at record {seq}, but its head says record {head.seq}")
    if (last.seq, last.previous) == (head.seq + 1, head.hash):
        return
    if head.seq == 0:
        # The head is on disk from the first record on. So it was removed, and with it the proof of where the log ended.
        raise distrusted("its head is missing or unreadable")
    end, _, missing = walk(log, os.fstat(log).st_size, head, last=base_of(log))
    if missing or end != last.checkpoint:
        raise distrusted(f"it does not contain record {head.seq}, which its head names")


def _write(log: int, head: int, at: Checkpoint, event: Mapping[str, Any], before: Head) -> AuditRecord:
    """Appends one record and moves the head. On failure both are unchanged."""
    line = write_line(at, time_text(time.time()), event)
    record = parse_line(line)
    assert record is not None
    size = os.fstat(log).st_size
    try:
        rest = line + b"\n"
        while rest:
            rest = rest[os.write(log, rest) :]
        sync_contents(log)
        write_head(head, Head(record.checkpoint))
    except OSError:
        # If this fails too, the next append finds a torn line or a head that is behind.
        with suppress(OSError):
            os.ftruncate(log, size)
            write_head(head, before)
        raise
    return record
