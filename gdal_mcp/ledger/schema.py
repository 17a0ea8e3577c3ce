"""Opening the registry's SQLite file: its tables, their migrations, and what its failures mean."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from gdal_mcp.state import make_private

_BUSY_SECONDS = 10.0  # a write takes milliseconds; longer means that its holder hangs

_STEPS = 7  # files in `migrations/`; none is ever edited, only added
# each entry has the statements that take a database from the version of its index to the next
MIGRATIONS: tuple[tuple[str, ...], ...] = tuple(
    tuple(one.strip() for one in text.split(";") if one.strip())
    for number in range(1, _STEPS + 1)
    for text in (
        files("gdal_mcp.ledger").joinpath("migrations", f"{number}.sql").read_text(encoding="utf-8"),
    )
)

_ADVICE = {
    "SQLITE_BUSY": "Another process holds it; end the one that hangs.",
    "SQLITE_CORRUPT": "It is damaged. Stop the server, move it, its -wal and its -shm file aside, and start.",
    "SQLITE_FULL": "Free disk space and try again.",
    "SQLITE_NOTADB": "It is no database: move that file aside and start again.",
    "SQLITE_READONLY": "Give this user the right to write the file and its folder.",
}


class RegistryUnavailable(Exception):
    """The database cannot be read or written; the message says what to do."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """SQLite's failures as RegistryUnavailable; a row that contradicts the rows there are as ValueError."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise ValueError(f"the registry does not take this row: {error}.") from error
    except sqlite3.Error as error:
        # Extended codes begin with the code they refine: SQLITE_READONLY_DIRECTORY.
        code = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        advice = _ADVICE.get(code, "See that the disk works and that this user may write the folder.")
        raise RegistryUnavailable(f"the registry {path} cannot be used: {error}. {advice}") from error
    except OSError as error:
        why = error.strerror or error
        raise RegistryUnavailable(
            f"the registry {path} cannot be made: {why}. Give this user its folder."
        ) from error


def connect(path: Path) -> sqlite3.Connection:
    """The open database, made or migrated as needed. To be used inside `explained`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(path)
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise RegistryUnavailable(f"{path} is not a regular file. Move it aside and start again.")
    if mode & 0o077:
        path.chmod(0o600)
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA foreign_keys = ON")
        _migrate(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    with database:
        # Taken even when there is nothing to do: a database that cannot be written is found out now.
        database.execute("BEGIN IMMEDIATE")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise RegistryUnavailable(
                f"the registry {path} was written by a newer version of this program "
                f"(its format is {version}, not {len(MIGRATIONS)}). Upgrade, or name another state folder."
            )
        for statement in (statement for step in MIGRATIONS[version:] for statement in step):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
