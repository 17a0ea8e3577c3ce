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
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from gdal_mcp.records.audit_record import (
    EMPTY,
    MAX_LINE,
    AuditRecord,
    Checkpoint,
    parse_line,
    time_text,
    write_line,
)
from sandbox.portable import sync_contents, try_lock

RECOVERED: Final = "audit.recovered"
ROTATED: Final = "audit.rotated"  # the first record of each file except the first
# bytes; within one sector, so that the head is replaced whole or not at all, without free space
_HEAD_SIZE: Final = 512
_LOCK_SECONDS: Final = 10.0  # an append holds the lock for milliseconds; more means that its holder hangs
_BLOCK: Final = 16 << 10  # bytes read at a time from the end: most records are shorter


class AuditUnavailable(Exception):
    """The record could not be written, or the log cannot be trusted; the call must not run."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying the whole log. `first_bad` is a line number from 1, None if all records are valid."""

    ok: bool
    records: int  # valid records, up to the first bad line
    reason: str = ""
    first_bad: int | None = None
    head_matches: bool = False
    last: Checkpoint = EMPTY
    first: int = 1  # number of the first record in these files; earlier ones are in an archive


class AuditLog:
    """Appends to one log. Instances, threads and servers may share it."""

    def __init__(self, path: Path) -> None:
        """Creates missing files with mode 0600. Raises AuditUnavailable."""
        self.path = path
        with _explained(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.checkpoint()

    def append(self, event: Mapping[str, Any]) -> AuditRecord:
        """Writes one record and waits until it is on disk. Raises AuditUnavailable.

        Values that JSON does not have are written as text. A field that would make the record longer than MAX_LINE is
        written as its start, length and hash.
        """
        with _explained(self.path), _opened(self.path) as (log, head):
            at = _repair_tail(log, head)
            return _write(log, head, at, event, _Head(at))

    def size(self) -> int:
        """Bytes of the file that records are appended to."""
        with _explained(self.path):
            return self.path.stat().st_size if self.path.exists() else 0

    def rotate(self, source: Mapping[str, Any]) -> Path:
        """Closes the file under a name with its first and last record, and continues in a new one. Raises
        AuditUnavailable.

        The new file takes the old one's place at once, with its first record in it: a crash leaves one or the other,
        and at most a head that is one record behind.
        """
        with _explained(self.path), _opened(self.path) as (log, head):
            at = _repair_tail(log, head)
            first = _first(log)
            if first is None or first.seq > at.seq:
                raise AuditUnavailable("the audit log is empty, so that there is nothing to close.")
            closed = segment_name(self.path, first.seq, at.seq)
            event = {"type": ROTATED, "source": source, "outcome": "OK", "segment": closed.name}
            line = write_line(at, time_text(time.time()), event)
            record = parse_line(line)
            assert record is not None
            for one in _segment_names(self.path):
                if one.samefile(self.path):  # left by a crash before the new file took this one's place
                    one.unlink()
            os.link(self.path, closed)
            _replace(self.path, line + b"\n")
            _write_head(head, _Head(record.checkpoint))
        return closed

    def checkpoint(self) -> Checkpoint:
        """A checkpoint of the end of the log, to be stored in another place. Raises AuditUnavailable."""
        with _explained(self.path), _opened(self.path) as files:
            return _repair_tail(*files)


def segment_name(path: Path, first: int, last: int) -> Path:
    """The name of a closed file, `audit-000000000001-000000004211.jsonl`; names sort like their records."""
    return path.with_name(f"{path.stem}-{first:012d}-{last:012d}{path.suffix}")


def segments(path: Path) -> tuple[Path, ...]:
    """The closed files beside a log, oldest first."""
    there = path.exists()
    return tuple(one for one in _segment_names(path) if not (there and one.samefile(path)))


def _segment_names(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}-{'[0-9]' * 12}-{'[0-9]' * 12}{path.suffix}"))


def verify(path: Path, kept: Checkpoint | None = None) -> Verification:
    """Verifies every record of all files, the head and, if given, that the log contains a checkpoint stored
    elsewhere.

    Reads line by line; servers may append at the same time. Raises AuditUnavailable when the log cannot be read.
    """
    with _explained(path), ExitStack() as stack:
        with _locked(path, fcntl.LOCK_SH):
            try:
                opened = [stack.enter_context(one.open("rb")) for one in (*segments(path), path)]
            except FileNotFoundError:
                return Verification(ok=False, records=0, reason=f"there is no log at {path}")
            sizes = [os.fstat(one.fileno()).st_size for one in opened]
            head = _read_head(path.with_suffix(".head")).at
        base = _base(opened[0].fileno())
        last, reason, missing = base, "", {head, kept or EMPTY} - {base, EMPTY}
        for file, size in zip(opened, sizes, strict=True):
            last, reason, absent = _walk(file.fileno(), size, head, kept or EMPTY, last=last)
            missing &= absent
            if reason:
                reason = f"{Path(file.name).name}: {reason}" if len(opened) > 1 else reason
                break
    matches = head == last and not reason
    first_bad = last.seq + 1 if reason else None
    if not reason and kept in missing:
        archived = kept.seq < base.seq
        reason = (
            f"record {kept.seq} is in a file that is not here: put the archived files beside the log, and verify again"
            if archived
            else f"the log does not hold record {kept.seq} as the checkpoint has it"
        )
    elif not reason and head in missing:
        reason = f"the log ends at {last.seq} and does not hold record {head.seq} as its head has it"
    elif not reason and not matches:
        reason = f"the head names {head.seq}, not the last: removed, a crash, or records no server wrote"
    return Verification(not reason, last.seq - base.seq, reason, first_bad, matches, last, base.seq + 1)


def copied(path: Path, folder: Path) -> list[Path]:
    """Copies the log, its head and the closed files into a folder; no record is written in between. Raises
    AuditUnavailable, OSError.
    """
    with _explained(path):
        if not path.exists():
            return []
        with _locked(path, fcntl.LOCK_SH):
            files = (*segments(path), path, path.with_suffix(".head"))
            return [Path(shutil.copy2(one, folder / one.name)) for one in files if one.exists()]


def tail(path: Path, count: int) -> tuple[AuditRecord, ...]:
    """The last records, oldest first, read from the end. Verifies nothing: lines that are not records are left out."""
    with _explained(path), path.open("rb") as log:
        lines = islice(_backwards(log.fileno()), 1, max(count, 0) + 1)
        found = [record for line in lines if (record := parse_line(line)) is not None]
    return tuple(reversed(found))


# Appending


@dataclass(frozen=True, slots=True)
class _Head:
    """The content of the head file. `torn` is set while an unterminated line is being cut off and recorded."""

    at: Checkpoint = EMPTY
    torn: Mapping[str, Any] | None = None


def _repair_tail(log: int, head_file: int) -> Checkpoint:
    """The end of the log, after repairing and recording what a crash left. Raises AuditUnavailable."""
    head = _read_head(head_file)
    lines = _backwards(log)
    torn, line = next(lines), next(lines, None)
    last = None if line is None else parse_line(line)
    if line is not None and last is None:
        raise _distrusted("its last line is not a record")
    at = last.checkpoint if last else EMPTY
    if at != head.at:
        _accept_behind(log, last, head.at)
    noted = head.torn
    if torn:
        noted = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
        # Noted before anything else: a crash before the record is written must not lose it.
        _write_head(head_file, _Head(head.at, noted))
        os.ftruncate(log, os.fstat(log).st_size - len(torn))
    if noted is None and at == head.at:
        return at
    found = {"torn_line": noted, "head_behind": at.seq - head.at.seq}
    event = {"type": RECOVERED, "source": "audit", "outcome": "repaired", **found}
    return _write(log, head_file, at, event, _Head(head.at, noted)).checkpoint


def _accept_behind(log: int, last: AuditRecord | None, head: Checkpoint) -> None:
    """Accepts a head behind the log, as a crash leaves it; refuses any other that differs."""
    seq = last.seq if last else 0
    if last is None or seq <= head.seq:
        raise _distrusted(f"it ends at record {seq}, not as its head says at record {head.seq}")
    if (last.seq, last.previous) == (head.seq + 1, head.hash):
        return
    if head.seq == 0:
        # It is on disk from the first record on, so it was removed, and with it the proof of where the log ended.
        raise _distrusted("its head is missing or unreadable")
    end, _, missing = _walk(log, os.fstat(log).st_size, head, last=_base(log))
    if missing or end != last.checkpoint:
        raise _distrusted(f"it does not hold the record {head.seq} that its head names")


def _write(log: int, head: int, at: Checkpoint, event: Mapping[str, Any], before: _Head) -> AuditRecord:
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
        _write_head(head, _Head(record.checkpoint))
    except OSError:
        # If this fails too, the next append finds a torn line or a head that is behind.
        with suppress(OSError):
            os.ftruncate(log, size)
            _write_head(head, before)
        raise
    return record


# Reading


def _first(log: int) -> AuditRecord | None:
    """The first record of a file."""
    with os.fdopen(log, "rb", closefd=False) as stream:
        stream.seek(0)
        return parse_line(stream.readline(MAX_LINE))


def _base(log: int) -> Checkpoint:
    """The record before the first one of a file: none, or the end of the file that was closed before it."""
    first = _first(log)
    if first is None or first.event.get("type") != ROTATED:
        return EMPTY
    return Checkpoint(first.seq - 1, first.previous)


def _walk(
    log: int, size: int, *wanted: Checkpoint, last: Checkpoint = EMPTY
) -> tuple[Checkpoint, str, set[Checkpoint]]:
    """Follows the chain from `last` through the first `size` bytes of a file, one line in memory at a time.

    Returns how far it is valid, why it ends if too early, and the checkpoints that it does not contain.
    """
    problem, left = "", size
    missing = set(wanted) - {last, EMPTY}
    with os.fdopen(log, "rb", closefd=False) as stream:
        stream.seek(0)
        while left and not problem:
            line = stream.readline(min(MAX_LINE, left))
            left -= len(line)
            record = parse_line(line)
            if not line.endswith(b"\n"):
                problem = (
                    "the line has no end: a crash while writing, something cut off, or longer than any record"
                )
            elif record is None:
                problem = "the line is not a record"
            elif record.seq != last.seq + 1:
                problem = f"the record is number {record.seq} where {last.seq + 1} is expected"
            elif record.previous != last.hash:
                problem = "one of this record and the one before was changed"
            else:
                last = record.checkpoint
                missing.discard(last)
    return last, problem, missing


def _backwards(log: int) -> Iterator[bytes]:
    """The text after the last newline, often empty, then each line without its newline, last first."""
    at, rest = os.fstat(log).st_size, b""
    while at:
        step = min(_BLOCK, at)
        at -= step
        rest, *lines = (os.pread(log, step, at) + rest).split(b"\n")
        yield from reversed(lines)
        if len(rest) > MAX_LINE:
            raise _distrusted(f"it holds a line longer than {MAX_LINE} bytes")
    yield rest


# Files


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditUnavailable(
            f"the audit log {path} cannot be used: {error.strerror or error}. "
            "No call runs without its record. Free disk space, or give this user the folder, and try again."
        ) from error


def _distrusted(why: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"the audit log is not to be trusted: {why}. Run `gdal-mcp audit verify`. "
        "To go on, move the log and its head aside together, keep them as evidence, and start again."
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    # Opened each time, because an operator may move a log while servers run.
    with (
        _locked(path, fcntl.LOCK_EX),
        _private(path, os.O_APPEND) as log,
        _private(path.with_suffix(".head")) as head,
    ):
        yield log, head


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    """Hold the log's lock. A reader does without when there is no lock file, as beside a copy of a log."""
    flags = os.O_RDWR | os.O_CREAT if kind == fcntl.LOCK_EX else os.O_RDONLY
    try:
        lock = os.open(path.with_suffix(".lock"), flags | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        if kind == fcntl.LOCK_EX:
            raise
        yield
        return
    deadline = time.monotonic() + _LOCK_SECONDS
    try:
        while not try_lock(lock, kind):
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process held its lock for {_LOCK_SECONDS:.0f} seconds")
            time.sleep(0.0005)  # about what one record takes
        yield
    finally:
        os.close(lock)


@contextmanager
def _private(path: Path, flags: int = 0) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is not a regular file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(file, 0o600)
        if status.st_size == 0:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        yield file
    finally:
        os.close(file)


def _read_head(file: int | Path) -> _Head:
    """An empty or absent head is that of an empty log; an unreadable one names no record, so that it matches no log."""
    try:
        with open(file, "rb", closefd=isinstance(file, Path)) as stream:
            stream.seek(0)
            fields = json.loads(stream.read(_HEAD_SIZE) or "null")
        if fields is None:
            return _Head()
        return _Head(Checkpoint.parse(f"{fields['seq']}:{fields['hash']}"), fields["torn"])
    except FileNotFoundError:
        return _Head()
    except (ValueError, TypeError, KeyError):
        return _Head(Checkpoint(0, "unreadable"))


def _replace(path: Path, data: bytes) -> None:
    """Puts a new file in a file's place at once, on disk when this returns, names and all."""
    partial = path.with_name(f".{secrets.token_hex(8)}")
    with _private(partial, os.O_EXCL) as file:
        os.write(file, data)
        sync_contents(file)
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_head(file: int, head: _Head) -> None:
    text = json.dumps({"hash": head.at.hash, "seq": head.at.seq, "torn": head.torn})
    data = text.ljust(_HEAD_SIZE - 1).encode() + b"\n"
    first = os.fstat(file).st_size == 0
    if os.pwrite(file, data, 0) != len(data):
        raise OSError("its head could not be written whole")
    if first or head.torn is not None:
        # Otherwise left to the kernel: after a power cut the log shows how far the head is behind.
        sync_contents(file)
