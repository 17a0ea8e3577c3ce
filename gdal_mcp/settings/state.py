"""The state folder: what lies where in it, and how a file comes into it.

Everything in it is this user's alone: folders are made with mode 0700, files with 0600.
"""

import os
import secrets
import sqlite3
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StateFolder:
    """The places that more than one part of the program knows. A part's own folder has its name there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.audit = root / "audit.jsonl"  # its head lies beside it
        self.registry = root / "registry.sqlite"
        self.tokens = root / "tokens.sqlite"
        self.usage = root / "usage.sqlite"  # what principals used of their quotas
        self.seal = root / "seal.key"  # of what is hidden in approvals
        self.remote = root / "remote"  # what was read over the network, in files without names
        self.workflows = root / "workflows"  # results of steps, for calls of workflows alone
        self.servers = root / "servers"  # a lock of each server, by which the others see whether it lives


def make_private(path: Path) -> None:
    """Makes a file of this user's alone, for a database, unless something is there. Raises OSError.

    It is not opened under its name: closing any descriptor of a database drops the locks that SQLite has on it in this process.
    """
    hidden = path.with_name(f".{secrets.token_hex(8)}")
    try:
        os.close(os.open(hidden, _NEW, 0o600))
        with suppress(FileExistsError):
            os.link(hidden, path)
    finally:
        with suppress(FileNotFoundError):
            hidden.unlink()


def write_ahead(database: sqlite3.Connection, seconds: float) -> None:
    """Has a database write ahead, so that readers and one writer work at once. Raises sqlite3.Error.

    Where somebody else opens a new one at the same moment, SQLite does not wait for its lock, whatever its timeout.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def open_database(path: Path, seconds: float, **options: Any) -> sqlite3.Connection:
    """A database that writes ahead and waits `seconds` for another writer; threads may share it. Make it private first.

    `options` are those of `sqlite3.connect`. Raises sqlite3.Error, and leaves nothing open then.
    """
    with ExitStack() as failed:
        database: sqlite3.Connection = sqlite3.connect(
            path, timeout=seconds, check_same_thread=False, **options
        )
        failed.callback(database.close)
        write_ahead(database, seconds)
        database.execute("PRAGMA synchronous = NORMAL")
        failed.pop_all()
    return database


def put_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Puts a file in its place at once, in a folder that is made if needed; until then what was there stays.

    A power cut may lose it: what must outlive one is written elsewhere. Raises OSError, and leaves nothing half-written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(partial, _NEW, 0o600), "wb") as file:
            file.write(data)
        partial.chmod(mode)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
