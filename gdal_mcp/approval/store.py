"""Approvals and grants in the registry's file: the one truth about what a person has decided.

Invariants:
* one approval lets one call through: `consume` turns an approved row into a used one in one transaction, whatever threads
  and servers ask at the same time;
* only an open question can be approved, and only in a way that its row permits; a no counts in every way, until the
  approval is used;
* a decision is on disk before a method returns;
* a grant stands for one principal, tool, workspace and folders of remote data, until a stated time or until it is revoked, whichever is first;
* what was said later than now, as after a clock was set back, does not count.

Times are seconds since the epoch (UTC). Every method raises RegistryUnavailable when the database cannot be used.
"""

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from gdal_mcp.approval.model import Approval, Decision, Grant
from gdal_mcp.ledger.schema import Rows, insert, stored

LONGEST_GRANT: Final = 24 * 3600.0  # seconds; nobody remembers a yes of yesterday
_SET_BACK: Final = 60.0  # seconds; a time server's corrections are smaller
SUSPENDED: Final = "suspended"  # the holder of a question whose answer comes with the call's repetition

# of one principal: more than a person reads, and few enough to be listed twice a second
MOST_OPEN: Final = 128

_OPEN: Final = (
    "SELECT count(*) FROM approvals WHERE state = 'pending' AND expires > :now AND principal = :principal"
)
_DECIDE: Final = """UPDATE approvals SET state = :state, decided_by = :by, decided_how = :how, decided_at = :now
    WHERE id = :id AND (state = 'pending' OR (state = 'approved' AND :state = 'denied'))
    AND (:state = 'denied' OR EXISTS (SELECT 1 FROM json_each(ways) WHERE value = :way))"""


class TooManyOpen(Exception):
    """A principal has as many open questions as one may have."""


class Approvals:
    """The questions put to people and what they said. Threads may share one instance, servers the file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rows = Rows(path, durable=True)

    def close(self) -> None:
        self._rows.close()

    def request(self, asked: Approval, ttl: float) -> Approval:
        """A new question, open for `ttl` seconds.

        Every call that asks has a question of its own, so that of two equal ones each needs its yes, and a no to one is
        none to the other. Raises TooManyOpen.
        """
        with self._writing() as (db, now):
            mine = {"now": now, "principal": asked.principal}
            if db.execute(_OPEN, stored(mine)).fetchone()[0] >= MOST_OPEN:
                raise TooManyOpen
            # Unguessable: pages and answers are addressed by it. Hex, as it is typed after a command and may not begin with a dash.
            new = replace(asked, id=secrets.token_hex(16), created=now, expires=now + ttl)
            insert(db, "approvals", new)
        return new

    def adopt(self, digest: str, principal: str, holder: str) -> Approval | None:
        """The newest question of this plan that nobody waits for any more, open or approved: the call was sent again."""
        query = (
            "SELECT * FROM approvals WHERE plan_digest = :digest AND principal = :principal"
            " AND ((holder = '' AND state = 'pending') OR (holder IN ('', :suspended) AND state = 'approved'))"
            " ORDER BY created DESC, rowid DESC LIMIT 1"
        )
        with self._writing() as (db, _):
            found = self._rows.one(Approval, query, digest=digest, principal=principal, suspended=SUSPENDED)
            if found is None:
                return None
            db.execute("UPDATE approvals SET holder = ? WHERE id = ?", [holder, found.id])
        return replace(found, holder=holder)

    def hold(self, approval_id: str, holder: str = "") -> None:
        """Says who waits for the answer: a call, SUSPENDED, or nobody, so that the same call sent again takes it up."""
        with self._writing() as (db, _):
            db.execute("UPDATE approvals SET holder = ? WHERE id = ?", [holder, approval_id])

    def release_dead(self, alive: Callable[[str], bool]) -> None:
        """Frees the questions of calls whose server is gone, for the same call to take them up again."""
        with self._writing() as (db, _):
            rows = db.execute("SELECT DISTINCT holder FROM approvals WHERE holder LIKE '%:%'").fetchall()
            dead = [row["holder"] for row in rows if not alive(row["holder"].partition(":")[0])]
            db.executemany("UPDATE approvals SET holder = '' WHERE holder = ?", [(one,) for one in dead])

    def drop(self, approval_id: str) -> None:
        """The call that asked is gone for good: its question ends unless it was answered."""
        with self._writing() as (db, _):
            db.execute(
                "UPDATE approvals SET state = 'expired' WHERE id = ? AND state IN ('pending', 'approved')",
                [approval_id],
            )

    def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Record a decision; returns the approval as it now is, None when there is none of that id.

        An open question can be approved or denied; an approval can still be denied until it is used. Anything else, and a
        yes in a way that the row does not permit, leaves it as it is: look at what is returned.
        """
        values = {"state": "approved" if decision.approved else "denied", "id": approval_id}
        values |= {"by": decision.by, "how": decision.how, "way": decision.way}
        with self._writing() as (db, now):
            db.execute(_DECIDE, stored(values | {"now": now}))
            return self._rows.one(Approval, "SELECT * FROM approvals WHERE id = :id", id=approval_id)

    def consume(self, digest: str, principal: str) -> Approval | None:
        """Uses up the oldest approval of this plan for this principal, or returns None. Each is given out once."""
        query = (
            "SELECT * FROM approvals WHERE plan_digest = :digest AND principal = :principal"
            " AND state = 'approved' ORDER BY created LIMIT 1"
        )
        with self._writing() as (db, _):
            found = self._rows.one(Approval, query, digest=digest, principal=principal)
            if found is None:
                return None
            db.execute("UPDATE approvals SET state = 'used' WHERE id = ?", [found.id])
        return replace(found, state="used")

    def approval(self, approval_id: str) -> Approval | None:
        with self._writing():
            return self._rows.one(Approval, "SELECT * FROM approvals WHERE id = :id", id=approval_id)

    def approved_code(self, principal: str, tool: str) -> str | None:
        """The code of the newest call of a tool that was approved for a principal; None where there is none."""
        query = (
            "SELECT * FROM approvals WHERE principal = :principal AND tool = :tool"
            " AND state IN ('approved', 'used') ORDER BY decided_at DESC LIMIT 1"
        )
        found = self._rows.one(Approval, query, principal=principal, tool=tool)
        code = found.details.get("code") if found else None
        return code["text"] if code else None

    def look(self, approval_id: str) -> Approval | None:
        """The row as it is, without a transaction: cheap enough to be asked several times a second."""
        return self._rows.one(Approval, "SELECT * FROM approvals WHERE id = :id", id=approval_id)

    def pending(self) -> tuple[Approval, ...]:
        query = "SELECT * FROM approvals WHERE state = 'pending' AND expires > :now ORDER BY created"
        return self._rows.all(Approval, query, now=self._clock())

    def decided(self, limit: int = 50) -> tuple[Approval, ...]:
        with self._writing():  # what has expired is over
            query = "SELECT * FROM approvals WHERE state <> 'pending' ORDER BY created DESC LIMIT :n"
            return self._rows.all(Approval, query, n=limit)

    def grant(self, grant: Grant, seconds: float) -> Grant:
        """A yes to every call of a tool that writes to a workspace, for some time. Raises ValueError for too long a time."""
        if not 0 < seconds <= LONGEST_GRANT:
            raise ValueError(f"a grant lasts a second at least, and {LONGEST_GRANT / 3600:g} hours at most")
        with self._writing() as (db, now):
            made = replace(grant, id=secrets.token_hex(8), created=now, expires=now + seconds)
            insert(db, "grants", made)
        return made

    def granted(self, principal: str, tool: str, workspace: str, remote: Sequence[str] = ()) -> Grant | None:
        """The valid grant for such a call that lasts longest, or None. `remote` are the folders that it would read from."""
        query = (
            "SELECT * FROM grants WHERE principal = :principal AND tool = :tool AND workspace = :workspace"
            " AND revoked IS NULL AND expires > :now AND created <= :latest ORDER BY expires DESC"
        )
        about = {"principal": principal, "tool": tool, "workspace": workspace}
        now = self._clock()
        found = self._rows.all(Grant, query, **about, now=now, latest=now + _SET_BACK)
        return next((one for one in found if one.covers(remote)), None)

    def grants(self, limit: int = 200) -> tuple[Grant, ...]:
        """The valid ones first, then the newest that have ended."""
        query = (
            "SELECT * FROM grants ORDER BY (revoked IS NULL AND expires > :now) DESC, created DESC LIMIT :n"
        )
        return self._rows.all(Grant, query, now=self._clock(), n=limit)

    def revoke(self, grant_id: str, by: str) -> Grant | None:
        """Ends a grant at once; returns it as it now is, None when there is none of that id."""
        with self._writing() as (db, now):
            db.execute(
                "UPDATE grants SET revoked = ?, revoked_by = ? WHERE id = ? AND revoked IS NULL AND expires > ?",
                [now, by, grant_id, now],
            )
            return self._rows.one(Grant, "SELECT * FROM grants WHERE id = :id", id=grant_id)

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        """A transaction; what has expired by now is marked so first."""
        with self._rows.writing() as db:
            now = self._clock()
            db.execute(
                "UPDATE approvals SET state = 'expired'"
                " WHERE state IN ('pending', 'approved') AND (expires <= ? OR created > ?)",
                [now, now + _SET_BACK],
            )
            yield db, now
