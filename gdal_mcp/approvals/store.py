"""Approvals and grants in the registry's file: the only record of what people have decided.

Invariants:
* every change of an approval's state is a transition of `states.TRANSITIONS`, in one transaction, whatever threads
  and servers do at the same time;
* an approval is reserved and consumed by its id and by one call; only the same plan of the same principal can take
  one that another call left;
* only an open question can be approved, and only in a way that its row permits;
* a decision is on disk before a method returns;
* a question expires at `created` plus the time for a decision; a yes expires `valid_seconds` after the decision;
* a grant covers one principal, tool, workspace and folders of remote data, until a stated time or until it is
  revoked, whichever is first;
* a decision with a time in the future, as after the clock was set back, does not count.

Times are seconds since the epoch (UTC). Every method raises RegistryUnavailable when the database cannot be used.
"""

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.states import APPROVED_STATES, TRANSITIONS, Event, counts
from gdal_mcp.records.schema import Rows, insert, stored

LONGEST_GRANT: Final = 24 * 3600.0  # seconds; people forget what they approved yesterday
_SET_BACK: Final = 60.0  # seconds; a time server's corrections are smaller
SUSPENDED: Final = "suspended"  # holder of a question whose answer comes with the repeated call

# open questions of one principal: more than a person reads, and few enough to be listed twice a second
MOST_OPEN: Final = 128

_COUNT: Final = (
    "SELECT count(*) FROM approvals WHERE state = 'asked' AND expires > :now AND principal = :principal"
)
_BY_ID: Final = "SELECT * FROM approvals WHERE id = :id"
# what an earlier call left: approvals first, then questions
_LEFT: Final = """SELECT * FROM approvals WHERE plan_digest = :digest AND principal = :principal
    AND (state = 'released' OR (state = 'asked' AND holder = ''))
    ORDER BY state = 'released' DESC, created DESC, rowid DESC LIMIT 1"""
_LAST: Final = f"""SELECT * FROM approvals WHERE principal = :principal AND tool = :tool
    AND state IN ({", ".join(f"'{state}'" for state in sorted(APPROVED_STATES))}) ORDER BY decided_at DESC LIMIT 1"""  # noqa: S608 - words of ours


class TooManyOpen(Exception):
    """A principal has the maximum number of open questions."""


class Approvals:
    """The questions, and their decisions. Threads may share one instance, servers the file."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        alive: Callable[[str], bool] = lambda _server: True,
    ) -> None:
        """`alive` returns True if the server with an id is running: approvals of calls of dead servers are released."""
        self._clock = clock
        self._alive = alive
        self._ended: set[str] = set()  # calls that have ended, but whose end could not be written
        self._rows = Rows(path, durable=True)

    def close(self) -> None:
        self._rows.close()

    def request(self, approval: Approval, ttl: float) -> Approval:
        """Creates a question, open for `ttl` seconds. Raises TooManyOpen.

        Every call that asks has its own question, so each of two identical calls needs its own yes, and a no to one
        does not affect the other.
        """
        with self._writing() as (db, now):
            mine = {"now": now, "principal": approval.principal}
            if db.execute(_COUNT, stored(mine)).fetchone()[0] >= MOST_OPEN:
                raise TooManyOpen
            # Unguessable, because pages and answers are addressed by it. Hex, because it is typed after a command and
            # must not begin with a dash.
            new = replace(approval, id=secrets.token_hex(16), created=now, expires=now + ttl)
            insert(db, "approvals", new)
        return new

    def reclaim(self, digest: str, principal: str, holder: str) -> Approval | None:
        """Finds what an earlier call with this plan left: an approval, which the call `holder` reserves, or an open
        question.
        """
        with self._writing() as (db, _):
            self._release_dead(db)
            row = self._rows.one(Approval, _LEFT, digest=digest, principal=principal)
            return self._reserve_or_wait(db, row.id, holder) if row is not None else None

    def resume(self, approval_id: str, holder: str) -> Approval | None:
        """Like `reclaim`, by id, for a call that returns to its suspended question. None if another call has it."""
        with self._writing() as (db, _):
            row = self._rows.one(Approval, _BY_ID, id=approval_id)
            if row is not None and row.state == "asked" and row.holder not in ("", SUSPENDED, holder):
                return None
            return self._reserve_or_wait(db, approval_id, holder)

    def claim(self, approval_id: str, holder: str) -> Approval | None:
        """Ends the wait of the call `holder`: reserves an approval, or leaves a question open for the same call sent
        again.

        Returns the row after that, in one transaction, so that no answer can come in between.
        """
        with self._writing() as (db, _):
            self._move(db, "reserve", "id = :id AND holder = :holder", id=approval_id, holder=holder)
            self._clear_holder(db, approval_id, holder, "")
            return self._rows.one(Approval, _BY_ID, id=approval_id)

    def suspend(self, approval_id: str, holder: str) -> None:
        """Suspends the question: the call ended with it and comes again with the answer."""
        with self._ending(holder) as db:
            self._release(db, "id = :id AND holder = :holder", id=approval_id, holder=holder)
            self._clear_holder(db, approval_id, holder, SUSPENDED)

    def end(self, approval_id: str, holder: str) -> None:
        """Ends the call `holder`. Releases an approval that it did not consume, and withdraws its question if nobody
        answered.

        Does nothing to an approval that the call consumed or left.
        """
        mine = "id = :id AND holder = :holder"
        with self._ending(holder) as db:
            self._move(db, "withdraw", mine, id=approval_id, holder=holder)
            self._release(db, mine, id=approval_id, holder=holder)

    def consume(self, approval_id: str, holder: str) -> Approval | None:
        """Consumes the approval that the call `holder` reserved; None if a no came first. At most once per approval."""
        with self._writing() as (db, _):
            mine = "id = :id AND holder = :holder"
            if not self._move(db, "consume", mine, id=approval_id, holder=holder):
                return None
            return self._rows.one(Approval, _BY_ID, id=approval_id)

    def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Records a decision. Returns the approval as it is now; None if there is none with that id.

        An open question can be approved or denied; an approval can be denied until it is consumed. Any other answer,
        and one in a way that does not count, leaves it unchanged: check the returned row.
        """
        with self._writing() as (db, now):
            row = self._rows.one(Approval, _BY_ID, id=approval_id)
            if row is None or not counts(decision.way, row.ways, approved=decision.approved):
                return row
            changes: dict[str, Any] = {"decided_by": decision.by, "decided_how": decision.how}
            changes |= {"decided_way": decision.way, "decided_at": now}
            if decision.approved:
                late = {"expires": now + row.valid_seconds}
                self._move(db, "approve", "id = :id", {**changes, **late}, id=approval_id)
                nobody = "id = :id AND holder IN ('', :suspended)"
                self._release(db, nobody, id=approval_id, suspended=SUSPENDED)
            else:
                self._move(db, "deny", "id = :id", changes, id=approval_id)
            return self._rows.one(Approval, _BY_ID, id=approval_id)

    def release_dead(self) -> None:
        """Releases approvals and questions of calls that ended without a record, such as those of dead servers, so that
        the same calls can take them again.
        """
        with self._writing() as (db, _):
            self._release_dead(db)

    def approval(self, approval_id: str) -> Approval | None:
        with self._writing():
            return self._rows.one(Approval, _BY_ID, id=approval_id)

    def last_approved(self, principal: str, tool: str) -> Approval | None:
        """The newest approved call of a tool for a principal."""
        return self._rows.one(Approval, _LAST, principal=principal, tool=tool)

    def get(self, approval_id: str) -> Approval | None:
        """The row as it is, without a transaction, so that it can be polled several times a second."""
        return self._rows.one(Approval, _BY_ID, id=approval_id)

    def pending(self) -> tuple[Approval, ...]:
        """The questions that a person can answer."""
        query = "SELECT * FROM approvals WHERE state = 'asked' AND expires > :now ORDER BY created"
        return self._rows.all(Approval, query, now=self._clock())

    def decided(self, limit: int = 50) -> tuple[Approval, ...]:
        with self._writing():  # marks expired rows first
            query = "SELECT * FROM approvals WHERE state <> 'asked' ORDER BY created DESC LIMIT :n"
            return self._rows.all(Approval, query, n=limit)

    def grant(self, grant: Grant, seconds: float) -> Grant:
        """Approves every call of a tool that writes to a workspace, for some time. Raises ValueError if the time is
        too long.
        """
        if not 0 < seconds <= LONGEST_GRANT:
            raise ValueError(f"a grant lasts from one second to {LONGEST_GRANT / 3600:g} hours")
        with self._writing() as (db, now):
            new = replace(grant, id=secrets.token_hex(8), created=now, expires=now + seconds)
            insert(db, "grants", new)
        return new

    def granted(self, principal: str, tool: str, workspace: str, remote: Sequence[str] = ()) -> Grant | None:
        """The valid grant for such a call that lasts longest, or None. `remote` are the folders that it would read."""
        query = (
            "SELECT * FROM grants WHERE principal = :principal AND tool = :tool AND workspace = :workspace"
            " AND revoked IS NULL AND expires > :now AND created <= :latest ORDER BY expires DESC"
        )
        about = {"principal": principal, "tool": tool, "workspace": workspace}
        now = self._clock()
        grants = self._rows.all(Grant, query, **about, now=now, latest=now + _SET_BACK)
        return next((grant for grant in grants if grant.covers(remote)), None)

    def grants(self, limit: int = 200) -> tuple[Grant, ...]:
        """Valid grants first, then the newest that have ended."""
        query = (
            "SELECT * FROM grants ORDER BY (revoked IS NULL AND expires > :now) DESC, created DESC LIMIT :n"
        )
        return self._rows.all(Grant, query, now=self._clock(), n=limit)

    def revoke(self, grant_id: str, by: str) -> Grant | None:
        """Ends a grant at once. Returns it as it is now; None if there is none with that id."""
        with self._writing() as (db, now):
            db.execute(
                "UPDATE grants SET revoked = ?, revoked_by = ? WHERE id = ? AND revoked IS NULL AND expires > ?",
                [now, by, grant_id, now],
            )
            return self._rows.one(Grant, "SELECT * FROM grants WHERE id = :id", id=grant_id)

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        """A transaction that first marks what has expired."""
        with self._rows.writing() as db:
            now = self._clock()
            late = "(expires <= :now OR created > :latest OR decided_at > :latest)"
            self._move(db, "expire", late, now=now, latest=now + _SET_BACK)
            yield db, now

    @contextmanager
    def _ending(self, holder: str) -> Iterator[sqlite3.Connection]:
        """The transaction that ends a call. If it fails, the next call releases what this one holds."""
        self._ended.add(holder)
        with self._writing() as (db, _):
            yield db
        self._ended.discard(holder)

    @staticmethod
    def _move(
        db: sqlite3.Connection, event: Event, which: str, changes: Mapping[str, Any] = {}, **values: Any
    ) -> bool:
        """Makes the transition for the rows that are in one of its source states. True if there were any."""
        transition = TRANSITIONS[event]
        sources = ", ".join(f"'{state}'" for state in sorted(transition.sources))
        sets = ", ".join((f"state = '{transition.target}'", *(f"{name} = :new_{name}" for name in changes)))
        query = f"UPDATE approvals SET {sets} WHERE state IN ({sources}) AND {which}"  # noqa: S608 - words of ours
        new = {f"new_{name}": value for name, value in changes.items()}
        return db.execute(query, stored({**new, **values})).rowcount > 0

    def _release(self, db: sqlite3.Connection, which: str, **values: Any) -> None:
        self._move(db, "release", which, {"holder": ""}, **values)

    def _reserve_or_wait(self, db: sqlite3.Connection, approval_id: str, holder: str) -> Approval | None:
        """Reserves the row for the call if it is an approval that no other call has; else makes the call wait for it."""
        mine = {"id": approval_id, "holder": holder}
        self._move(db, "reserve", "id = :id AND state = 'released'", {"holder": holder}, id=approval_id)
        db.execute("UPDATE approvals SET holder = :holder WHERE id = :id AND state = 'asked'", stored(mine))
        return self._rows.one(Approval, _BY_ID, id=approval_id)

    @staticmethod
    def _clear_holder(db: sqlite3.Connection, approval_id: str, holder: str, to: str) -> None:
        """Removes the call that no longer waits from a question."""
        query = "UPDATE approvals SET holder = ? WHERE id = ? AND holder = ? AND state = 'asked'"
        db.execute(query, [to, approval_id, holder])

    def _release_dead(self, db: sqlite3.Connection) -> None:
        query = "SELECT DISTINCT holder FROM approvals WHERE holder LIKE '%:%' AND state IN ('asked', 'approved', 'reserved')"
        for row in db.execute(query).fetchall():
            holder = row["holder"]
            if holder in self._ended or not self._alive(holder.partition(":")[0]):
                self._release(db, "holder = :holder", holder=holder)
                db.execute("UPDATE approvals SET holder = '' WHERE holder = ? AND state = 'asked'", [holder])
