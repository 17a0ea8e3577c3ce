"""Long calls as tasks: the state of each in the registry's file, for a stated time and across restarts.

Invariants:
* a task is on disk before `create` returns, so that no client knows of one that a power cut can remove;
* only its principal finds a task: for anybody else it does not exist;
* the end of a task does not change; a working task of a server that is gone has failed;
* tasks are kept as promised: at the limit no further task is made, and none is removed before its time.

Times are seconds since the epoch (UTC), as floats. Every method raises RegistryUnavailable when the file cannot be
used.
"""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from gdal_mcp.records.schema import Rows, insert, stored

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_GONE: Final = "server restarted"
_LOST: Final = {"code": -32603, "message": _GONE}  # JSON-RPC's internal error


@dataclass(frozen=True, slots=True)
class Task:
    """One call that continues after its request was answered.

    `payload` is shown with its status, as JSON values: the result of a completed one, the JSON-RPC error of a failed
    one, the open questions of one that needs input.
    """

    id: str
    principal: str
    server: str  # server process that runs it
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

    def expires_at(self, now: float) -> float:
        """The time until which the task is kept at least; it moves on while the task is working."""
        return (self.updated if self.ended else now) + self.keep


@dataclass(eq=False)
class TaskStore:
    """The tasks in the registry's file. Threads may share one instance, servers the file.

    The file is opened with the first task, because most servers never have one. `alive` returns True if another
    server with tasks in this file is running; `seconds` is how long a task is kept after its end, `most` how many one
    principal may have.
    """

    path: Path
    server: str
    alive: Callable[[str], bool]
    seconds: float = 3600.0
    most: int = 50  # each may keep a picture of a megabyte
    clock: Callable[[], float] = time.time
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _opened: Rows | None = None

    def close(self) -> None:
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def create(self, principal: str, tool: str) -> Task | None:
        """Creates a working task, on disk. None if this principal has the maximum number."""
        with self._rows.writing() as db:
            now = self.clock()
            self._fail_lost(db, now)
            open_states = "('working', 'input_required')"
            db.execute(f"DELETE FROM tasks WHERE status NOT IN {open_states} AND updated + keep <= ?", [now])  # noqa: S608
            [count] = db.execute("SELECT count(*) FROM tasks WHERE principal = ?", [principal]).fetchone()
            if count >= self.most:
                return None
            name = secrets.token_urlsafe(24)
            task = Task(name, principal, self.server, tool, created=now, updated=now, keep=self.seconds)
            insert(db, "tasks", task)
        return task

    def end(self, task: Task, status: Status, message: str, payload: Mapping[str, Any] | None = None) -> Task:
        """Records the end of a task, on disk. Only the first end counts."""
        with self._rows.writing() as db:
            ended = replace(task, status=status, message=message, payload=payload, updated=self.clock())
            db.execute(
                "UPDATE tasks SET status = :status, message = :message, payload = :payload, updated = :updated"
                " WHERE id = :id AND status = 'working'",
                stored(asdict(ended)),
            )
        return ended

    def drop(self, task: Task) -> None:
        """Deletes a task that no client knows of."""
        with self._rows.writing() as db:
            db.execute("DELETE FROM tasks WHERE id = ?", [task.id])

    def get(self, task_id: str, principal: str) -> Task | None:
        """The task of this id if it is this principal's and still kept."""
        with self._rows.writing() as db:
            now = self.clock()
            self._fail_lost(db, now)
            query = "SELECT * FROM tasks WHERE id = :id AND principal = :principal"
            # JSON may contain half of a surrogate pair, which SQLite cannot compare
            name = task_id.encode("utf-8", "replace").decode()
            task = self._rows.one(Task, query, id=name, principal=principal)
        return task if task and (not task.ended or task.expires_at(now) > now) else None

    @property
    def _rows(self) -> Rows:
        with self._opening:
            if self._opened is None:
                self._opened = Rows(self.path, durable=True)
            return self._opened

    def _fail_lost(self, db: sqlite3.Connection, now: float) -> None:
        """Records that the working tasks of dead servers have failed."""
        rows = db.execute("SELECT DISTINCT server FROM tasks WHERE status = 'working'").fetchall()
        others = {row["server"] for row in rows} - {self.server}
        db.executemany(
            "UPDATE tasks SET status = 'failed', message = ?, payload = ?, updated = ?"
            " WHERE server = ? AND status = 'working'",
            [(_GONE, json.dumps(_LOST), now, server) for server in others if not self.alive(server)],
        )
