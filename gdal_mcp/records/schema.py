"""The registry's SQLite file: its tables and errors, and frozen values as its rows.

Values are bound; names are those of our own dataclasses and tables.
"""

import json
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gdal_mcp.settings.state import make_private, open_database

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_BUSY_SECONDS = 10.0  # a write takes milliseconds; longer means that its holder hangs

FORMAT: Final = 11  # SQLite's `user_version` of a database with the tables of `schema.sql`

_ADVICE = {
    "SQLITE_BUSY": "Another process holds it; end the one that hangs.",
    "SQLITE_CORRUPT": "It is damaged. Stop the server, move it, its -wal and its -shm file aside, and start.",
    "SQLITE_FULL": "Free disk space and try again.",
    "SQLITE_NOTADB": "It is not a database: move that file aside and start again.",
    "SQLITE_READONLY": "Give this user the right to write the file and its folder.",
}


class RegistryUnavailable(Exception):
    """The database cannot be read or written; the message says what to do."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Converts SQLite's failures to RegistryUnavailable, and a row that contradicts existing rows to ValueError."""
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
        raise RegistryUnavailable(
            f"the registry {path} cannot be made: {error.strerror or error}. Give this user its folder."
        ) from error


def connect(path: Path) -> sqlite3.Connection:
    """The open database, created if needed. Use it inside `translate_errors`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(path)
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise RegistryUnavailable(f"{path} is not a regular file. Move it aside and start again.")
    if mode & 0o077:
        path.chmod(0o600)
    with ExitStack() as failed:
        database = open_database(path, _BUSY_SECONDS, isolation_level=None)
        failed.callback(database.close)
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        with database:
            # taken even if there is nothing to do, so that a database that cannot be written is noticed now
            database.execute("BEGIN IMMEDIATE")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise RegistryUnavailable(
                    f"the registry {path} was written by another version of this program "
                    f"(its format is {version}, not {FORMAT}). Install that version, or name another state folder."
                )
            if version == 0:
                for statement in _statements():
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {FORMAT}")
        failed.pop_all()
    return database


def _statements() -> list[str]:
    """The statements of `schema.sql`: `executescript` would end the transaction."""
    return files("gdal_mcp.records").joinpath("schema.sql").read_text(encoding="utf-8").split(";")


_LISTS: Final = frozenset({"argv", "inputs", "outputs", "files", "removed", "workspaces", "ways", "remote"})
_JSON: Final = _LISTS | {"arguments", "limits", "durations", "receipt", "details", "payload"}

_Row = TypeVar("_Row", bound="DataclassInstance")


class Rows:
    """One connection to a database file with mode 0600, created if needed. Threads may share it.

    Methods raise RegistryUnavailable when the database cannot be used.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        """If `durable`, a transaction is on disk when `writing` ends; otherwise a power cut may lose the last ones."""
        self.path = path
        self._lock = threading.RLock()
        with translate_errors(path):
            self._db = connect(path)
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. No other connection writes between its reads and its writes."""
        with self._lock, translate_errors(self.path), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db

    def all(self, kind: type[_Row], query: str, **values: Any) -> tuple[_Row, ...]:
        """The rows of the query, as values of `kind`."""
        rows: list[_Row] = []
        with self._lock, translate_errors(self.path):
            for row in self._db.execute(query, stored(values)):
                columns = {
                    name: json.loads(row[name]) if name in _JSON and row[name] is not None else row[name]
                    for name in row.keys()  # noqa: SIM118 - a row is not a mapping
                }
                lists = {name: tuple(columns[name]) for name in _LISTS & columns.keys()}
                rows.append(kind(**{**columns, **lists}))
        return tuple(rows)

    def plain(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """The rows of the query, as dictionaries."""
        with self._lock, translate_errors(self.path):
            return [dict(row) for row in self._db.execute(query, stored(values))]

    def number(self, table: str, row_id: str) -> int:
        """SQLite's own number of a row, which grows with every new one."""
        query = f"SELECT rowid FROM {table} WHERE id = ?"  # noqa: S608 - see above
        with self._lock, translate_errors(self.path):
            number: int = self._db.execute(query, [row_id]).fetchone()[0]
        return number

    def one(self, kind: type[_Row], query: str, **values: Any) -> _Row | None:
        return next(iter(self.all(kind, query, **values)), None)


def insert(db: sqlite3.Connection, table: str, row: "DataclassInstance") -> int:
    """Inserts a row whose columns are the fields. SQLite assigns an `id` of 0. Returns the row's number."""
    values = {column.name: getattr(row, column.name) for column in fields(row)}
    values["id"] = values["id"] or None
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    query = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - see above
    return db.execute(query, stored(values)).lastrowid or 0


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    columns = {
        name: json_text(value) if isinstance(value, Mapping | tuple) else value
        for name, value in values.items()
    }
    # SQLite's text is UTF-8, which cannot represent lone surrogates; JSON from a client may contain them
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in columns.items()
    }


def json_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
