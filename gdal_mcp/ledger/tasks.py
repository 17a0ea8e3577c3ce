"""Long calls as tasks: what is known of each in the registry's file, for a stated time and across restarts.

Invariants:
* a task is on disk before `create` returns, so that nobody is told of one that a power cut can take away;
* only its principal finds a task: to anybody else it is as absent as one that never was;
* a task that has ended stays as it ended; one that was working in a server that is gone has failed;
* what was promised is kept: over the bound no further task is made, and none is dropped before its time.

Times are seconds since the epoch (UTC), as floats. Every method raises RegistryUnavailable when the file cannot be used.
"""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from gdal_mcp.ledger.schema import connect, explained

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
MOST: Final = 50  # tasks of one principal; each may keep a picture of a megabyte
_GONE: Final = "server restarted"
_LOST: Final = {"code": -32603, "message": _GONE}  # JSON-RPC's internal error


@dataclass(frozen=True, slots=True)
class Task:
    """One call that goes on after its request was answered. `payload` is what its status has to show, as JSON values:

    the result of a completed one, the JSON-RPC error of a failed one, the open questions of one that needs input.
    """

    id: str
    principal: str
    server: str  # which server process runs it
    tool: str
    created: float
    updated: float
    keep: float  # seconds for which it is kept after its end
    status: Status = "working"
    message: str = ""
    payload: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def kept_until(self, now: float) -> float:
        """Until when it is kept at least: while it works that moves on."""
        return (self.updated if self.ended else now) + self.keep


@dataclass(frozen=True, slots=True)
class Keeping:
    """Who keeps tasks and for how long. `alive` tells whether another server that keeps its tasks here still lives."""

    server: str
    alive: Callable[[str], bool]
    seconds: float = 3600.0
    most: int = MOST
    clock: Callable[[], float] = time.time


class TaskStore:
    """The tasks in the registry's file. Threads may share one instance, servers the file."""

    def __init__(self, path: Path, keeping: Keeping) -> None:
        """Opens nothing yet: most servers never have a task."""
        self.path = path
        self._keeping = keeping
        self._lock = threading.RLock()

    @cached_property
    def _db(self) -> sqlite3.Connection:
        database = connect(self.path)
        database.execute("PRAGMA synchronous = FULL")
        return database

    def close(self) -> None:
        with self._lock:
            if "_db" in self.__dict__:
                self._db.close()
                del self.__dict__["_db"]

    def create(self, principal: str, tool: str) -> Task | None:
        """A new working task, on disk; None when this principal has as many as are kept."""
        with self._writing() as (db, now):
            self._fail_lost(db, now)
            db.execute(
                "DELETE FROM tasks WHERE status NOT IN ('working', 'input_required') AND updated + keep <= ?",
                [now],
            )
            [kept] = db.execute("SELECT count(*) FROM tasks WHERE principal = ?", [principal]).fetchone()
            if kept >= self._keeping.most:
                return None
            made = Task(
                secrets.token_urlsafe(24),
                principal,
                self._keeping.server,
                tool,
                created=now,
                updated=now,
                keep=self._keeping.seconds,
            )
            db.execute(
                "INSERT INTO tasks (id, principal, server, tool, created, updated, keep, status, message)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [made.id, principal, made.server, tool, now, now, made.keep, made.status, made.message],
            )
        return made

    def end(self, task: Task, status: Status, message: str, payload: Mapping[str, Any] | None = None) -> Task:
        """The task as it ended, on disk. The first ending stays."""
        with self._writing() as (db, now):
            ended = replace(task, status=status, message=message, payload=payload, updated=now)
            db.execute(
                "UPDATE tasks SET status = ?, message = ?, payload = ?, updated = ?"
                " WHERE id = ? AND status = 'working'",
                [status, message, json.dumps(payload) if payload is not None else None, now, task.id],
            )
        return ended

    def drop(self, task: Task) -> None:
        """Forgets a task that nobody was told of."""
        with self._writing() as (db, _):
            db.execute("DELETE FROM tasks WHERE id = ?", [task.id])

    def get(self, task_id: str, principal: str) -> Task | None:
        """The task of this id if it is this principal's and still kept."""
        with self._writing() as (db, now):
            self._fail_lost(db, now)
            row = db.execute(
                "SELECT * FROM tasks WHERE id = ? AND principal = ?", [_text(task_id), principal]
            ).fetchone()
        if row is None:
            return None
        values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a row is no mapping
        found = Task(**{**values, "payload": json.loads(values["payload"]) if values["payload"] else None})
        return found if not found.ended or found.kept_until(now) > now else None

    def _fail_lost(self, db: sqlite3.Connection, now: float) -> None:
        """Tasks of servers that are gone end as failed."""
        rows = db.execute("SELECT DISTINCT server FROM tasks WHERE status = 'working'").fetchall()
        gone = [
            row["server"]
            for row in rows
            if row["server"] != self._keeping.server and not self._keeping.alive(row["server"])
        ]
        db.executemany(
            "UPDATE tasks SET status = 'failed', message = ?, payload = ?, updated = ?"
            " WHERE server = ? AND status = 'working'",
            [(_GONE, json.dumps(_LOST), now, server) for server in gone],
        )

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        with self._lock, explained(self.path), self._db as db:
            db.execute("BEGIN IMMEDIATE")
            yield db, self._keeping.clock()


def _text(given: str) -> str:
    """What a client sent as an id, as SQLite can compare it: JSON may hold half a letter."""
    return given.encode("utf-8", "replace").decode()
