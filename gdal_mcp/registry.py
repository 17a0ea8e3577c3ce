"""The server's memory in one SQLite file: calls, the artifacts they made, and approvals.

Invariants:
* a URI is listed at most once; what a newer artifact replaced keeps its row and can be listed again;
* one approval lets one call through: `consume` turns an approved row into a used one in one transaction,
  whatever threads and servers ask at the same time;
* approvals are on disk before a method returns; the rest may lose its last moments in a power cut.

Times are seconds since the epoch (UTC), as floats. Evidence is in the audit log, not here.
Every method raises RegistryUnavailable when the database cannot be used.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from gdal_mcp.registry_schema import RegistryUnavailable, connect, explained

__all__ = ["Approval", "Artifact", "Call", "Finish", "Page", "Registry", "RegistryUnavailable"]

ApprovalState = Literal["pending", "approved", "denied", "used", "expired"]
ArtifactState = Literal["listed", "superseded", "retracted"]
_LISTS = frozenset({"argv", "inputs", "outputs", "files", "removed"})
_JSON = _LISTS | {"arguments", "limits", "durations", "receipt"}
_MAX_ID = (1 << 63) - 1  # SQLite's integers
_MAX_REFUSED = 64 << 10  # characters of JSON that are kept of the arguments of a call that never ran
_NO_ROWS: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. Give `begin_call` what the plan knows; the rest is filled when it is finished."""

    id: str
    principal: str
    tool: str
    arguments: Mapping[str, Any]
    server: str = ""  # which server process runs it: `interrupted` asks whether that one still lives
    arguments_digest: str = ""  # SHA-256 of the canonical JSON; computed when empty
    plan_digest: str = ""
    argv: tuple[str, ...] = ()
    image: str = ""  # digest
    gdal_version: str = ""
    tier: str = ""
    started: float = 0.0  # 0 is now
    finished: float | None = None
    outcome: str = ""  # a code; empty while it runs
    message: str = ""
    durations: Mapping[str, float] = field(default_factory=dict)  # seconds by stage
    receipt: Mapping[str, Any] = field(default_factory=dict)
    image_reference: str = ""
    catalogue: str = ""  # which rules the arguments were checked with
    limits: Mapping[str, Any] = field(default_factory=dict)
    approval: str = ""
    inputs: tuple[Mapping[str, Any], ...] = ()  # `provenance.Material.row`
    outputs: tuple[Mapping[str, Any], ...] = ()  # datasets: path and kind
    files: tuple[Mapping[str, Any], ...] = ()  # what was published: path, bytes and sha256
    removed: tuple[str, ...] = ()
    printed: str = ""  # SHA-256 of what GDAL answered


@dataclass(frozen=True, slots=True)
class Finish:
    """How a call ended; the fields are those of `Call`."""

    outcome: str
    message: str = ""
    gdal_version: str = ""  # empty keeps what is known
    durations: Mapping[str, float] = field(default_factory=dict)
    receipt: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = _NO_ROWS
    outputs: tuple[Mapping[str, Any], ...] = _NO_ROWS
    files: tuple[Mapping[str, Any], ...] = _NO_ROWS
    removed: tuple[str, ...] = ()
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One published output. What follows `kind` is set by the registry."""

    uri: str
    path: str
    name: str
    size: int  # bytes
    media_type: str
    sha256: str
    kind: str = "output"
    call_id: str = ""
    created: float = 0.0
    state: ArtifactState = "listed"
    superseded_by: int | None = None  # the id of the artifact that took its URI
    id: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some artifacts and the cursor of those that follow, None at the end."""

    items: tuple[Artifact, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Approval:
    """A question put to a person, bound to one plan and one principal."""

    id: str
    plan_digest: str
    principal: str
    tool: str
    summary: str
    created: float
    expires: float
    state: ApprovalState = "pending"
    decided_by: str = ""
    decided_how: str = ""
    decided_at: float | None = None


_Row = TypeVar("_Row", Call, Artifact, Approval)


class Registry:
    """The database at a path. Threads may share one instance, servers the file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Opens the file, made or migrated as needed, with mode 0600."""
        self.path = path
        self._clock = clock
        self._lock = threading.RLock()
        with explained(path):
            self._db = connect(path)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def begin_call(self, call: Call) -> Call:
        """Record that a call starts; returns it as recorded. Raises ValueError for an id that is there."""
        digest = call.arguments_digest or hashlib.sha256(_json(call.arguments).encode()).hexdigest()
        begun = replace(call, arguments_digest=digest, started=call.started or self._clock())
        with self._writing() as db:
            _insert(db, "calls", begun)
        return begun

    def finish_call(self, call_id: str, finish: Finish) -> None:
        """Record how a call ended. The first ending stays."""
        values = {column.name: getattr(finish, column.name) for column in fields(finish)}
        if not finish.gdal_version:
            del values["gdal_version"]
        columns = ", ".join(f"{name} = :{name}" for name in values)
        # Names are those of our own dataclass; every value is bound.
        query = f"UPDATE calls SET {columns}, finished = :now WHERE id = :id AND finished IS NULL"  # noqa: S608
        with self._writing() as db:
            db.execute(query, _stored(values | {"id": call_id, "now": self._clock()}))

    def add_refused(self, call: Call) -> None:
        """Record a call that ended before it ran, with its outcome. Very long arguments are left out, their digest stays.

        Does nothing for a call that is there.
        """
        text = _json(call.arguments)
        kept = call.arguments if len(text) <= _MAX_REFUSED else {}
        digest, now = call.arguments_digest or hashlib.sha256(text.encode()).hexdigest(), self._clock()
        ended = replace(
            call, arguments=kept, arguments_digest=digest, started=call.started or now, finished=now
        )
        with self._writing() as db:
            if self.call(call.id) is None:
                _insert(db, "calls", ended)

    def call(self, call_id: str) -> Call | None:
        return self._one(Call, "SELECT * FROM calls WHERE id = :id", id=call_id)

    def calls(self, limit: int = 50) -> tuple[Call, ...]:
        """The latest calls, newest first."""
        return self._all(
            Call, "SELECT * FROM calls ORDER BY started DESC, rowid DESC LIMIT :n", n=max(limit, 0)
        )

    def interrupted(self, alive: Callable[[str], bool]) -> tuple[Call, ...]:
        """End as INTERNAL the unfinished calls of servers that are not alive any more; returns them."""
        unfinished = self._all(Call, "SELECT * FROM calls WHERE finished IS NULL ORDER BY rowid")
        dead = {server for server in {call.server for call in unfinished} if not alive(server)}
        lost = [call.id for call in unfinished if call.server in dead]
        for call_id in lost:
            self.finish_call(call_id, Finish("INTERNAL", "server restarted"))
        return tuple(call for call_id in lost if (call := self.call(call_id)))

    def add_artifacts(self, call_id: str, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """List what a call published, each in place of what had its URI. All or none; returns the rows.

        Raises ValueError for a call that is not there.
        """
        with self._writing() as db:
            return tuple(self._add(db, replace(artifact, call_id=call_id)) for artifact in artifacts)

    def _add(self, db: sqlite3.Connection, artifact: Artifact) -> Artifact:
        older = self.artifact(artifact.uri)
        if older:
            db.execute("UPDATE artifacts SET state = 'superseded' WHERE id = ?", [older.id])
        added = replace(artifact, created=self._clock(), state="listed", superseded_by=None)
        added = replace(added, id=_insert(db, "artifacts", added))
        if older:
            db.execute("UPDATE artifacts SET superseded_by = ? WHERE id = ?", [added.id, older.id])
        return added

    def retract_artifacts(
        self, call_id: str, still_there: Callable[[Artifact], bool] | None = None
    ) -> tuple[Artifact, ...]:
        """Take an undone call's artifacts off the list; returns them as they were.

        What they had superseded is listed again when `still_there`, by default when its path exists: put the
        files back first.
        """
        # Oldest first: of two that took one place in turn, the later one lists again what was there before both.
        query = "SELECT * FROM artifacts WHERE call_id = :id AND state <> 'retracted' ORDER BY id"
        with self._writing() as db:
            gone = self._all(Artifact, query, id=call_id)
            for artifact in gone:
                self._retract(db, artifact, still_there or _on_disk)
        return gone

    def _retract(
        self, db: sqlite3.Connection, gone: Artifact, still_there: Callable[[Artifact], bool]
    ) -> None:
        db.execute("UPDATE artifacts SET state = 'retracted' WHERE id = ?", [gone.id])
        query = "SELECT * FROM artifacts WHERE superseded_by = :id AND state = 'superseded'"
        older = self._one(Artifact, query, id=gone.id)
        if older is None:
            return
        if gone.state == "superseded":  # something newer has the URI; it is now what superseded the older
            db.execute("UPDATE artifacts SET superseded_by = ? WHERE id = ?", [gone.superseded_by, older.id])
        elif still_there(older):
            db.execute("UPDATE artifacts SET state = 'listed', superseded_by = NULL WHERE id = ?", [older.id])

    def artifacts(self, cursor: str | None = None, limit: int = 100) -> Page:
        """Listed artifacts, newest first. Raises ValueError for a cursor that was not given out."""
        before = _parse_cursor(cursor)
        query = "SELECT * FROM artifacts WHERE state = 'listed' AND id < :before ORDER BY id DESC LIMIT :n"
        size = max(limit, 1)
        found = self._all(Artifact, query, before=before, n=size + 1)
        items = found[:size]
        return Page(items, str(items[-1].id) if len(found) > size else None)

    def artifact(self, uri: str) -> Artifact | None:
        """The artifact listed under a URI."""
        return self._one(Artifact, "SELECT * FROM artifacts WHERE uri = :uri AND state = 'listed'", uri=uri)

    def request(self, digest: str, principal: str, tool: str, summary: str, ttl: float) -> Approval:
        """A new question about this plan by this principal, open for `ttl` seconds.

        Every call that asks has a question of its own, so that of two equal ones each needs its yes, and a no to one is
        none to the other. `latest_approval` finds the question of a call that is sent again.
        """
        with self._approving() as (db, now):
            # Unguessable: the console's pages are addressed by it.
            new = Approval(secrets.token_urlsafe(16), digest, principal, tool, summary, now, now + ttl)
            _insert(db, "approvals", new)
        return new

    def decide(self, approval_id: str, *, approved: bool, by: str, how: str) -> Approval | None:
        """Record a decision; returns the approval as it now is, None when there is none of that id.

        An open question can be approved or denied; an approval can still be denied until it is used. Anything
        else leaves it as it is: look at the state that is returned.
        """
        values = {"state": "approved" if approved else "denied", "by": by, "how": how, "id": approval_id}
        with self._approving() as (db, now):
            db.execute(
                "UPDATE approvals SET state = :state, decided_by = :by, decided_how = :how, decided_at = :now"
                " WHERE id = :id AND (state = 'pending' OR (state = 'approved' AND :state = 'denied'))",
                _stored(values | {"now": now}),
            )
            return self._one(Approval, "SELECT * FROM approvals WHERE id = :id", id=approval_id)

    def consume(self, digest: str, principal: str) -> Approval | None:
        """Use up the oldest approval of this plan for this principal; None without one. Each is given out once."""
        query = (
            "SELECT * FROM approvals WHERE plan_digest = :digest AND principal = :principal"
            " AND state = 'approved' ORDER BY created LIMIT 1"
        )
        with self._approving() as (db, _):
            found = self._one(Approval, query, digest=digest, principal=principal)
            if found is None:
                return None
            db.execute("UPDATE approvals SET state = 'used' WHERE id = ?", [found.id])
        return replace(found, state="used")

    def approval(self, approval_id: str) -> Approval | None:
        with self._approving():
            return self._one(Approval, "SELECT * FROM approvals WHERE id = :id", id=approval_id)

    def latest_approval(self, digest: str, principal: str) -> Approval | None:
        """The newest question about a plan by a principal, whatever became of it."""
        query = (
            "SELECT * FROM approvals WHERE plan_digest = :digest AND principal = :principal"
            " ORDER BY created DESC, rowid DESC LIMIT 1"
        )
        with self._approving():
            return self._one(Approval, query, digest=digest, principal=principal)

    def pending(self) -> tuple[Approval, ...]:
        """The open questions, oldest first."""
        with self._approving():
            return self._all(Approval, "SELECT * FROM approvals WHERE state = 'pending' ORDER BY created")

    @contextmanager
    def _approving(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        """A transaction that is on disk at its end and sees as expired what is by now."""
        with self._writing(durable=True) as db:
            now = self._clock()
            db.execute(
                "UPDATE approvals SET state = 'expired'"
                " WHERE state IN ('pending', 'approved') AND expires <= ?",
                [now],
            )
            yield db, now

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock, explained(self.path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with self._db:
                # IMMEDIATE: what is read in it is what is there when it writes.
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db

    def _all(self, kind: type[_Row], query: str, **values: Any) -> tuple[_Row, ...]:
        with self._lock, explained(self.path):
            return tuple(_loaded(kind, row) for row in self._db.execute(query, _stored(values)))

    def _one(self, kind: type[_Row], query: str, **values: Any) -> _Row | None:
        return next(iter(self._all(kind, query, **values)), None)


def _insert(db: sqlite3.Connection, table: str, row: Call | Artifact | Approval) -> int:
    """Insert a row whose columns are the fields; an `id` of 0 is left to SQLite. Returns the row's number."""
    values = {column.name: getattr(row, column.name) for column in fields(row)}
    values["id"] = values["id"] or None
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    # Names are those of our own dataclasses and tables; every value is bound.
    query = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
    return db.execute(query, _stored(values)).lastrowid or 0


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _storable(value) for name, value in values.items()}


def _storable(value: Any) -> Any:
    if isinstance(value, Mapping | tuple):
        return _json(value)
    # SQLite's text is UTF-8, which has no lone surrogates; JSON from a client may.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _loaded(kind: type[_Row], row: sqlite3.Row) -> _Row:
    values = {name: json.loads(row[name]) if name in _JSON else row[name] for name in row.keys()}  # noqa: SIM118
    lists = {name: tuple(values[name]) for name in _LISTS & values.keys()}
    return kind(**{**values, **lists})


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return _MAX_ID
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) <= _MAX_ID):
        raise ValueError(f"{cursor[:40]!r} is not a cursor this server gave out. Start again without one.")
    return int(cursor)


def _on_disk(artifact: Artifact) -> bool:
    return os.path.lexists(artifact.path)
