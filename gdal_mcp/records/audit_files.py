"""The files of the audit log: private, never reached through a link, and locked while they are used."""

import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gdal_mcp.records.audit_record import EMPTY, Checkpoint
from sandbox.portable import sync_contents, try_lock

# bytes; fits in one sector, so the head is replaced as a whole or not at all, and needs no free space
_HEAD_SIZE: Final = 512
# an append holds the lock for milliseconds, so a longer time means that its holder hangs
_LOCK_SECONDS: Final = 10.0


class AuditUnavailable(Exception):
    """The record could not be written, or the log cannot be trusted; the call must not run."""


@dataclass(frozen=True, slots=True)
class Head:
    """The content of the head file. `torn` is set while an unterminated line is being cut off and recorded."""

    at: Checkpoint = EMPTY
    torn: Mapping[str, Any] | None = None


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditUnavailable(
            f"the audit log {path} cannot be used: {error.strerror or error}. "
            "No call runs without its record. Free disk space, or give this user the folder, and try again."
        ) from error


def distrusted(why: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"the audit log cannot be trusted: {why}. Run `gdal-mcp audit verify`. "
        "To continue, move the log and its head to another folder, keep them as evidence, and start again."
    )


@contextmanager
def open_log(path: Path) -> Iterator[tuple[int, int]]:
    # Opened each time, because an operator may move a log while servers run.
    with (
        locked(path, fcntl.LOCK_EX),
        private_file(path, os.O_APPEND) as log,
        private_file(path.with_suffix(".head")) as head,
    ):
        yield log, head


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Holds the log's lock. A reader needs no lock if there is no lock file, as for a copy of a log."""
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
            time.sleep(0.0005)  # about the time that one record takes
        yield
    finally:
        os.close(lock)


@contextmanager
def private_file(path: Path, flags: int = 0) -> Iterator[int]:
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


def read_head(file: int | Path) -> Head:
    """The head in a file.

    An empty or absent file is the head of an empty log. An unreadable head names no record, so it matches no log.
    """
    try:
        with open(file, "rb", closefd=isinstance(file, Path)) as stream:
            stream.seek(0)
            fields = json.loads(stream.read(_HEAD_SIZE) or "null")
        if fields is None:
            return Head()
        return Head(Checkpoint.parse(f"{fields['seq']}:{fields['hash']}"), fields["torn"])
    except FileNotFoundError:
        return Head()
    except (ValueError, TypeError, KeyError):
        return Head(Checkpoint(0, "unreadable"))


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file atomically; contents and name are on disk when this returns."""
    partial = path.with_name(f".{secrets.token_hex(8)}")
    with private_file(partial, os.O_EXCL) as file:
        os.write(file, data)
        sync_contents(file)
    partial.replace(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_head(file: int, head: Head) -> None:
    text = json.dumps({"hash": head.at.hash, "seq": head.at.seq, "torn": head.torn})
    data = text.ljust(_HEAD_SIZE - 1).encode() + b"\n"
    first = os.fstat(file).st_size == 0
    if os.pwrite(file, data, 0) != len(data):
        raise OSError("its head could not be written whole")
    if first or head.torn is not None:
        # Otherwise the kernel writes it: after a power failure, the log shows how far the head is behind.
        sync_contents(file)
