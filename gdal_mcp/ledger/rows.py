"""Frozen values as rows of the registry's file: what its stores have in common.

Values are bound, names are those of our own dataclasses and tables. Every function raises RegistryUnavailable when the
database cannot be used.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gdal_mcp.ledger.schema import connect, explained

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_LISTS: Final = frozenset({"argv", "inputs", "outputs", "files", "removed", "workspaces", "ways", "remote"})
_JSON: Final = _LISTS | {"arguments", "limits", "durations", "receipt", "details", "payload"}

_Row = TypeVar("_Row", bound="DataclassInstance")


class Rows:
    """One connection to the file at a path, made or migrated as needed, with mode 0600. Threads may share it."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        """If `durable`, a transaction is on disk when `writing` ends; else a power cut may lose the last ones."""
        self.path = path
        self._lock = threading.RLock()
        with explained(path):
            self._db = connect(path)
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. Nobody else writes between its reads and its writes."""
        with self._lock, explained(self.path), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db

    def all(self, kind: type[_Row], query: str, **values: Any) -> tuple[_Row, ...]:
        """The rows that the query finds, as values of `kind`."""
        found: list[_Row] = []
        with self._lock, explained(self.path):
            for row in self._db.execute(query, stored(values)):
                columns = {
                    name: json.loads(row[name]) if name in _JSON and row[name] is not None else row[name]
                    for name in row.keys()  # noqa: SIM118 - a row is no mapping
                }
                lists = {name: tuple(columns[name]) for name in _LISTS & columns.keys()}
                found.append(kind(**{**columns, **lists}))
        return tuple(found)

    def number(self, table: str, row_id: str) -> int:
        """SQLite's own number of a row, which grows with every new one."""
        query = f"SELECT rowid FROM {table} WHERE id = ?"  # noqa: S608 - see above
        with self._lock, explained(self.path):
            number: int = self._db.execute(query, [row_id]).fetchone()[0]
        return number

    def one(self, kind: type[_Row], query: str, **values: Any) -> _Row | None:
        return next(iter(self.all(kind, query, **values)), None)


def insert(db: sqlite3.Connection, table: str, row: "DataclassInstance") -> int:
    """Insert a row whose columns are the fields; an `id` of 0 is left to SQLite. Returns the row's number."""
    values = {column.name: getattr(row, column.name) for column in fields(row)}
    values["id"] = values["id"] or None
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    query = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - see above
    return db.execute(query, stored(values)).lastrowid or 0


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: json_text(value) if isinstance(value, Mapping | tuple) else value
        for name, value in values.items()
    }
    # SQLite's text is UTF-8, which has no lone surrogates; JSON from a client may.
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in kept.items()
    }


def json_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
