"""The files of an audit log: the log itself, its head with the last `seq` and hash, and the lock that one at a time holds.

Each is a regular file that this user alone may read, never reached through a link.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdal_mcp.ledger.audit_record import EMPTY, Checkpoint

# Bytes. Within one sector, so that the head is replaced whole or not at all, without free space.
_HEAD_SIZE = 512
_LOCK_SECONDS = 10.0  # an append holds the lock for milliseconds; more means that its holder hangs


class AuditUnavailable(Exception):
    """The record could not be written, or the log is not to be trusted; the call must not run."""


@dataclass(frozen=True, slots=True)
class Files:
    """The log and its head, open and locked."""

    log: int
    head: int


@dataclass(frozen=True, slots=True)
class Head:
    """What the head file says; `torn` is set while an unterminated line is being cut off and recorded."""

    at: Checkpoint = EMPTY
    torn: Mapping[str, Any] | None = None


# An unreadable head names no record, so that it matches no log.
_UNREADABLE = Head(Checkpoint(0, "unreadable"))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditUnavailable(
            f"the audit log {path} cannot be used: {error.strerror or error}. "
            "No call runs without its record. Free disk space, or give this user the folder, and try again."
        ) from error


def distrusted(why: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"the audit log is not to be trusted: {why}. Run `gdal-mcp audit verify`. "
        "To go on, move the log and its head aside together, keep them as evidence, and start again."
    )


def sidecar(path: Path, kind: str) -> Path:
    return path.with_suffix(f".{kind}")


@contextmanager
def opened(path: Path) -> Iterator[Files]:
    # Opened anew each time: an operator may move a log aside while servers run.
    with (
        locked(path, fcntl.LOCK_EX),
        _private(path, os.O_APPEND) as log,
        _private(sidecar(path, "head")) as head,
    ):
        yield Files(log, head)


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Hold the log's lock. A reader does without when there is no lock file, as beside a copy of a log."""
    flags = os.O_RDWR | os.O_CREAT if kind == fcntl.LOCK_EX else os.O_RDONLY
    try:
        lock = os.open(sidecar(path, "lock"), flags | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        if kind == fcntl.LOCK_EX:
            raise
        yield
        return
    try:
        _wait_for(lock, kind)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, kind: int) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process held its lock for {_LOCK_SECONDS:.0f} seconds") from None
            time.sleep(0.0005)  # about what one record takes


@contextmanager
def _private(path: Path, flags: int = 0) -> Iterator[int]:
    """An own regular file, read and write, made when missing."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is not a regular file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(file, 0o600)
        if status.st_size == 0:
            _sync_folder(path.parent)
        yield file
    finally:
        os.close(file)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_head(file: int | Path) -> Head:
    try:
        if isinstance(file, int):
            data = os.pread(file, _HEAD_SIZE, 0)
        else:
            with file.open("rb") as stream:
                data = stream.read(_HEAD_SIZE)
    except FileNotFoundError:
        data = b""
    if not data:
        return Head()
    try:
        fields = json.loads(data)
        return Head(Checkpoint.parse(f"{fields['seq']}:{fields['hash']}"), fields["torn"])
    except (ValueError, TypeError, KeyError):
        return _UNREADABLE


def write_head(file: int, head: Head) -> None:
    text = json.dumps({"hash": head.at.hash, "seq": head.at.seq, "torn": head.torn})
    data = text.ljust(_HEAD_SIZE - 1).encode() + b"\n"
    first = os.fstat(file).st_size == 0
    if os.pwrite(file, data, 0) != len(data):
        raise OSError("its head could not be written whole")
    if first or head.torn is not None:
        # Otherwise left to the kernel: after a power cut the log shows how far the head is behind.
        os.fdatasync(file)
