"""Opening the registry's SQLite file: its tables, their migrations, and what its failures mean."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdal_mcp.state import make_private

_BUSY_SECONDS = 10.0  # a write takes milliseconds; longer means that its holder hangs

# Each entry takes a database from the version of its index to the next. Entries are never edited, only added.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE calls (
            id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
            server TEXT NOT NULL, arguments_digest TEXT NOT NULL, plan_digest TEXT NOT NULL,
            argv TEXT NOT NULL, image TEXT NOT NULL, gdal_version TEXT NOT NULL, tier TEXT NOT NULL,
            started REAL NOT NULL, finished REAL, outcome TEXT NOT NULL, message TEXT NOT NULL,
            durations TEXT NOT NULL, receipt TEXT NOT NULL)""",
        "CREATE INDEX calls_started ON calls (started)",
        "CREATE INDEX calls_unfinished ON calls (server) WHERE finished IS NULL",
        # AUTOINCREMENT: a number is never given twice, so a cursor never shows something new as old.
        """CREATE TABLE artifacts (
            id INTEGER PRIMARY KEY AUTOINCREMENT, uri TEXT NOT NULL,
            call_id TEXT NOT NULL REFERENCES calls (id), path TEXT NOT NULL, name TEXT NOT NULL,
            size INTEGER NOT NULL, media_type TEXT NOT NULL, sha256 TEXT NOT NULL, kind TEXT NOT NULL,
            created REAL NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('listed', 'superseded', 'retracted')),
            superseded_by INTEGER REFERENCES artifacts (id))""",
        "CREATE UNIQUE INDEX artifacts_listed ON artifacts (uri) WHERE state = 'listed'",
        "CREATE INDEX artifacts_call ON artifacts (call_id)",
        "CREATE INDEX artifacts_superseded ON artifacts (superseded_by)",
        """CREATE TABLE approvals (
            id TEXT PRIMARY KEY, plan_digest TEXT NOT NULL, principal TEXT NOT NULL, tool TEXT NOT NULL,
            summary TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used', 'expired')),
            decided_by TEXT NOT NULL, decided_how TEXT NOT NULL, decided_at REAL)""",
        "CREATE INDEX approvals_plan ON approvals (plan_digest, principal)",
        "CREATE INDEX approvals_live ON approvals (expires) WHERE state IN ('pending', 'approved')",
    ),
    (  # what a call was made of and what became of it
        "ALTER TABLE calls ADD COLUMN image_reference TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE calls ADD COLUMN catalogue TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE calls ADD COLUMN limits TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE calls ADD COLUMN approval TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE calls ADD COLUMN inputs TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE calls ADD COLUMN outputs TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE calls ADD COLUMN files TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE calls ADD COLUMN removed TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE calls ADD COLUMN printed TEXT NOT NULL DEFAULT ''",
    ),
    (  # calls that go on after their request was answered
        """CREATE TABLE tasks (
            id TEXT PRIMARY KEY, principal TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, keep REAL NOT NULL,
            status TEXT NOT NULL
                CHECK (status IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
            message TEXT NOT NULL, payload TEXT)""",
        "CREATE INDEX tasks_principal ON tasks (principal)",
        "CREATE INDEX tasks_working ON tasks (server) WHERE status = 'working'",
    ),
    (  # who may decide what, and what was decided beforehand; calls by principal
        "ALTER TABLE approvals ADD COLUMN call_id TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE approvals ADD COLUMN effect TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE approvals ADD COLUMN workspaces TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE approvals ADD COLUMN ways TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE approvals ADD COLUMN details TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE approvals ADD COLUMN holder TEXT NOT NULL DEFAULT ''",
        """CREATE TABLE grants (
            id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, workspace TEXT NOT NULL,
            created REAL NOT NULL, expires REAL NOT NULL, granted_by TEXT NOT NULL, granted_how TEXT NOT NULL,
            revoked REAL, revoked_by TEXT NOT NULL DEFAULT '')""",
        "CREATE INDEX grants_live ON grants (principal, tool, expires) WHERE revoked IS NULL",
        "CREATE INDEX calls_principal ON calls (principal)",
    ),
    ("ALTER TABLE calls RENAME COLUMN gdal_version TO tool_version",),
    ("ALTER TABLE calls ADD COLUMN undone TEXT NOT NULL DEFAULT ''",),
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
