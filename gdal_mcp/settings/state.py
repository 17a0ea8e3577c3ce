"""The state folder: its paths, and how files in it are created.

Only its user can access it: folders have mode 0700, files 0600.
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
    """The paths that several parts of the program use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.audit = root / "audit.jsonl"  # its head is in the same folder
        self.registry = root / "registry.sqlite"
        self.tokens = root / "tokens.sqlite"
        self.usage = root / "usage.sqlite"  # used quotas of principals
        self.seal = root / "seal.key"  # key of the hidden parts of approvals
        self.remote = root / "remote"  # the cache of remote data
        self.workflows = root / "workflows"  # results of steps of workflows
        self.servers = root / "servers"  # one lock per server, which shows whether it is alive


def make_private(path: Path) -> None:
    """Creates a private file for a database, unless it exists. Raises OSError.

    It is not opened under its name, because closing any descriptor of a database drops the locks that SQLite has on
    it in this process.
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
    """Turns on write-ahead logging, so that readers and one writer can work at the same time. Raises sqlite3.Error.

    It tries again, because SQLite ignores its timeout while another process opens a new database at the same moment.
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
    """Opens a database with write-ahead logging that waits `seconds` for another writer. Threads may share it.

    Make it private first. `options` are those of `sqlite3.connect`. Raises sqlite3.Error, and leaves nothing open
    then.
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
    """Replaces a file atomically, and creates its folder if needed. Raises OSError, and leaves nothing half-written.

    A power cut may lose the file, so it is not for data that must survive one.
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
