"""Calls and the artifacts they made, in one SQLite file. Approvals and tasks have stores of their own.

Invariants:
* a URI is listed at most once; an artifact that a newer one replaced keeps its row and can be listed again;
* a query for a principal finds only what belongs to that principal's calls.

Times are seconds since the epoch (UTC), as floats. Evidence is in the audit log, not here. Every method raises
RegistryUnavailable when the database cannot be used.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from gdal_mcp.records.ended import WAITING, EndedCall
from gdal_mcp.records.schema import RegistryUnavailable, Rows, insert, json_text, stored

__all__ = ["WAITING", "Artifact", "Call", "Page", "Registry", "RegistryUnavailable"]

_Row = TypeVar("_Row")
_MAX_ID = (1 << 63) - 1  # the largest integer of SQLite
# Rows that one search reads. The other threads of this server wait meanwhile, about as long as for the records of a
# call.
_SEARCHED_ROWS = 50_000
_TIMED_ROWS = 5_000  # calls whose times are compared: a few milliseconds of reading
_MAX_REFUSED = 64 << 10  # characters of JSON recorded of the arguments of a call that never ran
# columns that are set when a call ends
_OF_END = (
    *("outcome", "message", "tool_version", "durations", "receipt"),
    *("inputs", "outputs", "files", "removed", "printed"),
)
_LISTED = (
    "SELECT * FROM artifacts WHERE state = 'listed'"
    " AND (:principal IS NULL OR call_id IN (SELECT id FROM calls WHERE principal = :principal))"
)
_OVER = "'consumed', 'denied', 'expired'"  # final states of an approval
_SEARCHED = "(id || ' ' || tool || ' ' || principal || ' ' || argv || ' ' || outcome || ' ' || message || ' ' || files || ' ' || removed)"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. Pass the facts of the plan to `begin_call`, and those of the end to `finish_call`."""

    id: str
    principal: str
    tool: str
    arguments: Mapping[str, Any]
    server: str = ""  # server process that runs it; `interrupted` checks whether it is alive
    arguments_digest: str = ""  # SHA-256 of the canonical JSON; computed when empty
    plan_digest: str = ""
    argv: tuple[str, ...] = ()
    image: str = ""  # digest
    tool_version: str = ""
    tier: str = ""
    started: float = 0.0  # 0 is now
    finished: float | None = None
    outcome: str = ""  # an error code or OK; "" while it runs
    message: str = ""
    durations: Mapping[str, float] = field(default_factory=dict)  # seconds by stage
    receipt: Mapping[str, Any] = field(default_factory=dict)
    image_reference: str = ""
    catalogue: str = ""  # version of the rules that checked the arguments
    limits: Mapping[str, Any] = field(default_factory=dict)
    approval: str = ""
    inputs: tuple[Mapping[str, Any], ...] = ()  # `provenance.Material.row`
    outputs: tuple[Mapping[str, Any], ...] = ()  # datasets: path and kind
    files: tuple[Mapping[str, Any], ...] = ()  # published files: path, bytes and sha256
    removed: tuple[str, ...] = ()
    printed: str = ""  # SHA-256 of GDAL's answer
    undone: str = ""  # the user who undid it
    part_of: str = ""  # id of the workflow's call that it is a step of


@dataclass(frozen=True, slots=True)
class Artifact:
    """One published output. The registry sets the fields after `kind`."""

    uri: str
    path: str
    name: str
    size: int  # bytes
    media_type: str
    sha256: str
    kind: str = "output"
    call_id: str = ""
    created: float = 0.0
    state: Literal["listed", "superseded", "retracted"] = "listed"
    superseded_by: int | None = None  # the id of the artifact that took its URI
    id: int = 0


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row]):
    """Some rows and the cursor of the next ones, None at the end."""

    items: tuple[_Row, ...]
    next_cursor: str | None


class Registry:
    """The database at a path. Threads may share one instance, servers the file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Opens the file with mode 0600, and creates it if needed."""
        self.path = path
        self._clock = clock
        self._rows = Rows(path, durable=False)

    def close(self) -> None:
        self._rows.close()

    def begin_call(self, call: Call) -> Call:
        """Records that a call starts, and returns the row. Raises ValueError for an id that exists."""
        digest = call.arguments_digest or hashlib.sha256(json_text(call.arguments).encode()).hexdigest()
        started = replace(call, arguments_digest=digest, started=call.started or self._clock())
        with self._rows.writing() as db:
            insert(db, "calls", started)
        return started

    def finish_call(self, ended: Call) -> None:
        """Records how a call ended. Only the first end counts."""
        columns = ", ".join(f"{name} = :{name}" for name in _OF_END)
        # Names are those of our own dataclass; every value is bound.
        query = f"UPDATE calls SET {columns}, finished = :now WHERE id = :id AND finished IS NULL"  # noqa: S608
        values = {name: getattr(ended, name) for name in ("id", *_OF_END)}
        with self._rows.writing() as db:
            if db.execute(query, stored(values | {"now": self._clock()})).rowcount:
                self._count(db, self.call(ended.id))

    def add_refused(self, call: Call) -> None:
        """Records a call that ended before it ran. Does nothing for a call that exists.

        Very long arguments are left out, except for their digest.
        """
        text = json_text(call.arguments)
        arguments = call.arguments if len(text) <= _MAX_REFUSED else {}
        digest, now = call.arguments_digest or hashlib.sha256(text.encode()).hexdigest(), self._clock()
        ended = replace(
            call, arguments=arguments, arguments_digest=digest, started=call.started or now, finished=now
        )
        with self._rows.writing() as db:
            if self.call(call.id) is None:
                insert(db, "calls", ended)
                self._count(db, ended)

    @staticmethod
    def _count(db: sqlite3.Connection, call: Call | None) -> None:
        """Adds the figures of a call that ended. A call is counted once."""
        if call is not None:
            row = EndedCall.of(call).row(call.id)
            marks = ", ".join(f":{name}" for name in row)
            query = f"INSERT OR IGNORE INTO ended ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - names of ours
            db.execute(query, stored(row))

    def figures(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """The rows of an aggregate over `ended`, or a count of calls."""
        return self._rows.plain(query, **values)

    def call(self, call_id: str, principal: str | None = None) -> Call | None:
        """A call by its id, or None. `principal` limits it to that principal's calls."""
        query = "SELECT * FROM calls WHERE id = :id AND (:principal IS NULL OR principal = :principal)"
        return self._rows.one(Call, query, id=call_id, principal=principal)

    def seconds_of(
        self, principal: str, commands: Sequence[tuple[str, ...]]
    ) -> Mapping[tuple[str, ...], Sequence[float]]:
        """The seconds of a principal's newest successful calls whose command lines begin with these words, by command.

        Waiting for approval and for a free slot is not included. One query reads a bounded number of records.
        """
        # the start of a list in JSON, so that no word is only a part of the recorded one
        begins = {f"{json_text(words)[:-1]},": words for words in commands}
        rows = self._rows.plain(
            "SELECT command.value AS begins, ended.total AS seconds FROM json_each(:begins) AS command JOIN calls"
            " ON calls.rowid > (SELECT max(rowid) FROM calls) - :most AND principal = :principal AND calls.outcome = 'OK'"
            " AND substr(argv, 1, length(command.value)) = command.value"
            " JOIN ended ON ended.id = calls.id WHERE ended.total IS NOT NULL",
            begins=tuple(begins),
            principal=principal,
            most=_TIMED_ROWS,
        )
        return {
            words: [row["seconds"] for row in rows if row["begins"] == text] for text, words in begins.items()
        }

    def steps_of(self, call_id: str) -> tuple[Call, ...]:
        """The calls of a workflow's steps, in the order in which they began."""
        return self._rows.all(Call, "SELECT * FROM calls WHERE part_of = :id ORDER BY rowid", id=call_id)

    def search(  # noqa: PLR0913 - each narrows what is found
        self,
        words: Sequence[str] = (),
        outcome: str | None = None,
        principal: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        *,
        without: Sequence[str] = (),
    ) -> Page[Call]:
        """The calls with all `words` somewhere in tool, principal, command, outcome, message, files or id; newest
        first.

        Calls of the tools `without` are left out, and steps of workflows, which `steps_of` finds. One search reads a
        bounded number of records, so a page can be short or empty although its cursor leads to further calls. Raises
        ValueError for an invalid cursor.
        """
        clauses = [
            "rowid < :before",
            "rowid >= :oldest",
            "part_of = ''",
            "(:principal IS NULL OR principal = :principal)",
            "(:outcome IS NULL OR outcome = :outcome)",
            "tool NOT IN (SELECT value FROM json_each(:without))",
            *(f"({_SEARCHED} LIKE :word{number} ESCAPE '!')" for number in range(len(words))),
        ]
        # characters with a meaning for LIKE
        escapes = str.maketrans({letter: f"!{letter}" for letter in "!%_"})
        values = {f"word{number}": f"%{word.translate(escapes)}%" for number, word in enumerate(words)}
        [newest] = self._rows.plain("SELECT max(rowid) AS number FROM calls")
        before = min(_parse_cursor(cursor), (newest["number"] or 0) + 1)
        oldest = before - _SEARCHED_ROWS
        # every clause is a literal of this module; every value is bound
        query = f"SELECT * FROM calls WHERE {' AND '.join(clauses)} ORDER BY rowid DESC LIMIT :n"  # noqa: S608
        rows = self._rows.all(
            Call,
            query,
            **values,
            principal=principal,
            outcome=outcome,
            before=before,
            oldest=oldest,
            n=limit + 1,
            without=tuple(without),
        )
        calls = rows[:limit]
        if len(rows) > limit:
            return Page(calls, str(self._rows.number("calls", calls[-1].id)))
        older = self._rows.plain("SELECT 1 FROM calls WHERE rowid < :oldest LIMIT 1", oldest=oldest)
        return Page(calls, str(oldest) if older else None)

    def prune(self, before: float, most: int = 500) -> int:
        """Removes up to `most` records of calls that ended before a time, and returns their number.

        Calls with a listed output stay, and so do those that wait to be sent again. Figures of a call stay too.
        Questions from before that time in a final state are also removed.
        """
        old = (
            "SELECT id FROM calls WHERE finished < :before AND outcome <> :waiting"
            " AND id NOT IN (SELECT call_id FROM artifacts WHERE state = 'listed')"
            " ORDER BY finished LIMIT :most"
        )
        with self._rows.writing() as db:
            ids = [row["id"] for row in self._rows.plain(old, before=before, waiting=WAITING, most=most)]
            gone = {"ids": json_text(tuple(ids))}
            of_them = "call_id IN (SELECT value FROM json_each(:ids))"
            # an older output that one of these replaced is removed too: nothing lists it again
            db.execute(
                f"UPDATE artifacts SET superseded_by = NULL WHERE superseded_by IN (SELECT id FROM artifacts WHERE {of_them})",  # noqa: S608 - words of ours
                gone,
            )
            db.execute(f"DELETE FROM artifacts WHERE {of_them}", gone)  # noqa: S608 - words of ours
            db.execute("DELETE FROM calls WHERE id IN (SELECT value FROM json_each(:ids))", gone)
            db.execute(f"DELETE FROM approvals WHERE created < ? AND state IN ({_OVER})", [before])  # noqa: S608 - words of ours
        return len(ids)

    def interrupted(self, alive: Callable[[str], bool], ending: Callable[[Call], Call]) -> tuple[Call, ...]:
        """Ends the unfinished calls of dead servers, each as `ending` returns, and returns them."""
        unfinished = self._rows.all(Call, "SELECT * FROM calls WHERE finished IS NULL ORDER BY rowid")
        dead = {server for server in {call.server for call in unfinished} if not alive(server)}
        lost = [call for call in unfinished if call.server in dead]
        for lost_call in lost:
            self.finish_call(ending(lost_call))
        return tuple(call for lost_call in lost if (call := self.call(lost_call.id)))

    def add_artifacts(self, call_id: str, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Lists the files that a call published, each in place of the artifact with its URI: all of them or none.
        Returns the rows.

        Raises ValueError for a call that does not exist.
        """
        rows: list[Artifact] = []
        with self._rows.writing() as db:
            for artifact in artifacts:
                older = self.artifact(artifact.uri)
                if older:
                    db.execute("UPDATE artifacts SET state = 'superseded' WHERE id = ?", [older.id])
                now = self._clock()
                added = replace(artifact, call_id=call_id, created=now, state="listed", superseded_by=None)
                added = replace(added, id=insert(db, "artifacts", added))
                if older:
                    db.execute("UPDATE artifacts SET superseded_by = ? WHERE id = ?", [added.id, older.id])
                rows.append(added)
        return tuple(rows)

    def retract_artifacts(self, call_id: str, by: str = "") -> tuple[Artifact, ...]:
        """Removes an undone call's artifacts from the list, and returns them as they were. `by` is the user who undid
        the call.

        The artifacts that they had replaced are listed again if their path exists, so restore the files first.
        """
        # oldest first: if two replaced the same artifact in turn, the later one lists the one from before both
        query = "SELECT * FROM artifacts WHERE call_id = :id AND state <> 'retracted' ORDER BY id"
        with self._rows.writing() as db:
            gone = self._rows.all(Artifact, query, id=call_id)
            db.execute("UPDATE calls SET undone = ? WHERE id = ?", [by, call_id])
            for artifact in gone:
                db.execute("UPDATE artifacts SET state = 'retracted' WHERE id = ?", [artifact.id])
                replaced = "SELECT * FROM artifacts WHERE superseded_by = :id AND state = 'superseded'"
                older = self._rows.one(Artifact, replaced, id=artifact.id)
                # the newer artifact at this URI now replaces the older
                if older and artifact.state == "superseded":
                    update = "UPDATE artifacts SET superseded_by = ? WHERE id = ?"
                    db.execute(update, [artifact.superseded_by, older.id])
                elif older and os.path.lexists(older.path):
                    update = "UPDATE artifacts SET state = 'listed', superseded_by = NULL WHERE id = ?"
                    db.execute(update, [older.id])
        return gone

    def artifacts(
        self, cursor: str | None = None, limit: int = 100, *, principal: str | None = None
    ) -> Page[Artifact]:
        """Listed artifacts, newest first. `principal` limits them to that principal's. Raises ValueError for an
        invalid cursor.
        """
        query = f"{_LISTED} AND id < :before ORDER BY id DESC LIMIT :n"
        before = _parse_cursor(cursor)
        rows = self._rows.all(Artifact, query, before=before, n=limit + 1, principal=principal)
        items = rows[:limit]
        return Page(items, str(items[-1].id) if len(rows) > limit else None)

    def artifact(self, uri: str, principal: str | None = None) -> Artifact | None:
        """The artifact listed under a URI, or None. `principal` limits it to that principal's."""
        return self._rows.one(Artifact, f"{_LISTED} AND uri = :uri", uri=uri, principal=principal)

    def artifact_numbered(self, number: int, principal: str | None = None) -> Artifact | None:
        """The listed artifact of this id, or None. `principal` limits it to that principal's."""
        query = f"{_LISTED} AND id = :number"
        return self._rows.one(Artifact, query, number=min(number, _MAX_ID), principal=principal)

    def artifacts_of(self, call_id: str) -> tuple[Artifact, ...]:
        """The files that a call published, including those that were replaced or undone since."""
        return self._rows.all(Artifact, "SELECT * FROM artifacts WHERE call_id = :id ORDER BY id", id=call_id)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return _MAX_ID
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) <= _MAX_ID):
        raise ValueError(f"{cursor[:40]!r} is not a cursor this server gave out. Start again without one.")
    return int(cursor)
