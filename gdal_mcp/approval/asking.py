"""How a call gets its yes: from a grant, from its client, from the console, from a terminal. One row, whoever fills it in.

Invariants:
* nothing is approved but by a decision in the row, and the row is bound to the plan's digest and its principal;
* a call that ends without an answer leaves its question open for the same call to be sent again, until it expires;
* every decision is in the audit log before the call goes on.
"""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from gdal_mcp.access.policy import RequireApproval
from gdal_mcp.approval.model import Approval, Approver, Asked, Decision, Grant, Question, Suspended
from gdal_mcp.approval.question import Where, parts, question_text, touched
from gdal_mcp.approval.store import MOST_OPEN, SUSPENDED, Approvals, TooManyOpen
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.preflight.estimate import Estimate
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.schema import RegistryUnavailable
from gdal_mcp.plan import Plan

_T = TypeVar("_T")
LOOK_SECONDS: Final = 0.25  # between two looks at a row that another process may fill in

Event = Callable[[dict[str, Any]], object]
Door = Callable[[bool], Awaitable[str | None]]


async def closed(_needed: bool) -> str | None:  # noqa: FBT001 - as every door
    """The door of a server without a console."""
    return None


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long, in seconds: a question can be answered, and a call that cannot ask waits."""

    open_seconds: float
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Call:
    """What there is to ask about: the plan of one call, why it needs a yes, and what is expected of it."""

    plan: Plan
    verdict: RequireApproval
    approver: Approver
    estimate: Estimate | None
    where: Where
    tell: Callable[[float, str], None]


@dataclass
class ApprovalService:
    """Puts calls to people. `door` is set by the process that serves: it tells the console's address, and opens it if needed.

    That address lets nobody in by itself, so that a model that reads it cannot approve anything. `options` are those by which
    a command at a terminal finds these rows, set where whoever calls may know of them.
    """

    approvals: Approvals
    audit: Event
    patience: Patience
    server: str
    door: Door = field(default=closed)
    options: tuple[str, ...] = ()

    async def settle(self, call: Call) -> Grant | None:
        """Returns when a person said yes: the grant, or None for a yes to this very plan, which is not used up yet.

        Raises ToolError when not, Suspended when the answer comes with a repetition of the call.
        """
        try:
            return await self._settle(call)
        except (RegistryUnavailable, AuditUnavailable) as error:
            raise unapprovable(error) from error

    async def _settle(self, call: Call) -> Grant | None:
        given = call.approver.answered()
        if given is not None:
            await self._answered(call, *given)
            return None
        if call.verdict.grantable and (grant := await _thread(self._granted, call.plan)) is not None:
            return grant
        row = await _thread(self._row, call)
        if row.state != "approved":
            await self._wait(call, row)
        return None

    def _granted(self, plan: Plan) -> Grant | None:
        """A call that writes to several workspaces needs a grant for each."""
        grants = [self.approvals.granted(plan.principal, plan.tool, root) for root in touched(plan.draft)]
        return grants[0] if grants and all(grants) else None

    def _row(self, call: Call) -> Approval:
        plan = call.plan
        holder = f"{self.server}:{plan.call_id}"
        adopted = self.approvals.adopt(plan.digest, plan.principal, holder)
        try:
            return adopted or self.approvals.request(_asked(call), self.patience.open_seconds, holder)
        except TooManyOpen as error:
            raise ToolError(
                Code.RATE_LIMITED,
                Stage.APPROVAL,
                f"{MOST_OPEN} questions of yours are open already.",
                "Have some of them answered, or wait until they expire.",
            ) from error

    async def _answered(self, call: Call, approval_id: str, decision: Decision | None) -> None:
        """The call came again, with an answer or from a page that was to give one."""
        plan = call.plan
        row: Approval | None = await _thread(self.approvals.approval, approval_id)
        if row is None or (row.plan_digest, row.principal) != (plan.digest, plan.principal):
            raise expired("the answer is to another question than this call asks now.")
        await _thread(self.approvals.hold, row.id, f"{self.server}:{plan.call_id}")
        after = row if decision is None else await _thread(self._decide, row, decision)
        if after.state == "pending":
            await self._wait(call, after, asks=False)
        else:
            _require_yes(after)

    async def _wait(self, call: Call, row: Approval, *, asks: bool = True) -> None:
        """Until somebody has decided, by whichever way comes first."""
        url = await self._url(row.id, needed=not call.approver.asks(call.verdict.ways))
        question = Question(row.id, row.plan_digest, row.summary, call.verdict.ways, url)
        try:
            with anyio.move_on_after(self.patience.open_seconds):
                decided = await self._first(call, question, asks=asks)
                if decided is not None:
                    _require_yes(decided)
                    return
        except Suspended:
            await _thread(self.approvals.hold, row.id, SUSPENDED)
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await _thread(self.approvals.drop, row.id)
            raise
        await _thread(self.approvals.hold, row.id)
        now: Approval | None = await _thread(self.approvals.look, row.id)
        raise unanswered(call.plan, now or row, url, self._command(row.id))

    async def _first(self, call: Call, question: Question, *, asks: bool) -> Approval | None:
        """The row as it was decided: by the client's user, or elsewhere meanwhile; None when nobody did in time."""
        found: list[Approval | None] = []
        raised: list[Exception] = []  # as values: a task group would wrap them

        async def race(ending: Callable[[], Awaitable[Approval | None]]) -> None:
            try:
                found.append(await ending())
            except (Suspended, ToolError, RegistryUnavailable, AuditUnavailable) as ended:
                raised.append(ended)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(race, partial(self._decided, question))
            group.start_soon(race, partial(self._put_to_client, call, question, asks=asks))
            call.tell(0.0, _waiting_words(question, self._command(question.approval_id)))
        if raised:
            raise raised[0]
        return next((row for row in found if row is not None), None)

    async def _put_to_client(self, call: Call, question: Question, *, asks: bool) -> Approval | None:
        """The row as the client's user decided; None after the patience for a call whose client asks nobody."""
        decision = await call.approver.ask(question) if asks else None
        if decision is not None:
            return await self._entered(question, decision)
        await anyio.sleep(self.patience.wait_seconds)  # the row alone is watched
        return None

    async def _entered(self, question: Question, decision: Decision) -> Approval | None:
        row = await _thread(self.approvals.look, question.approval_id)
        return await _thread(self._decide, row, decision) if row is not None else None

    async def _decided(self, question: Question) -> Approval | None:
        """The row once it is no open question any more, whoever filled it in."""
        while True:
            row: Approval | None = await _thread(self.approvals.look, question.approval_id)
            if row is None or row.state != "pending":
                return row
            await anyio.sleep(LOOK_SECONDS)

    def _command(self, approval_id: str) -> str:
        """What decides the question at a terminal."""
        return shlex.join(("gdal-mcp", "approve", approval_id, *self.options))

    async def _url(self, approval_id: str, *, needed: bool) -> str | None:
        address = await self.door(needed)
        return f"{address}#approval={approval_id}" if address else None

    def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Records a decision from a page or a terminal, in the audit log too. None when there is no such question.

        Raises AuditUnavailable before anything is decided: what cannot be recorded is not decided.
        """
        row = self.approvals.approval(approval_id)
        return None if row is None else self._decide(row, decision)

    def _decide(self, row: Approval, decision: Decision) -> Approval:
        open_to = ("pending",) if decision.approved else ("pending", "approved")
        if row.state not in open_to:  # somebody was first: there is nothing to record
            return row
        told = {"approval": row.id, "plan": row.plan_digest, "call": row.call_id, "tool": row.tool}
        who = {"subject": {"principal": row.principal}, "source": {"server": self.server}}
        answer = {"approved": decision.approved, "by": decision.by, "how": decision.how, "way": decision.way}
        outcome = "approved" if decision.approved else "denied"
        self.audit({"type": "approval.answered", "outcome": outcome, **told, **who, **answer})
        after = self.approvals.decide(row.id, decision) or row
        if after.state == "pending":  # a yes in a way that does not count
            raise ToolError(
                Code.DENIED,
                Stage.APPROVAL,
                f"a yes by {decision.way} does not count for this call.",
                f"The policy asks for a yes by: {', '.join(after.ways)}.",
            )
        return after

    def grant(self, grant: Grant, seconds: float) -> Grant:
        """A yes beforehand, recorded. Raises ValueError for too long a time, AuditUnavailable when it cannot be recorded."""
        told = {"tool": grant.tool, "workspace": grant.workspace, "seconds": seconds}
        who = {"subject": {"principal": grant.principal}, "source": {"server": self.server}}
        self.audit(
            {
                "type": "grant.made",
                "outcome": "OK",
                **told,
                **who,
                "by": grant.granted_by,
                "how": grant.granted_how,
            }
        )
        return self.approvals.grant(grant, seconds)

    def revoke(self, grant_id: str, by: str) -> Grant | None:
        self.audit(
            {
                "type": "grant.revoked",
                "outcome": "OK",
                "grant": grant_id,
                "by": by,
                "source": {"server": self.server},
            }
        )
        return self.approvals.revoke(grant_id, by)

    def used(self, plan: Plan) -> str:
        """Uses the one yes for this plan up, and says whose it was. Raises ToolError when there is none."""
        try:
            row = self.approvals.consume(plan.digest, plan.principal)
        except RegistryUnavailable as error:
            raise unapprovable(error) from error
        if row is None:
            raise expired("the yes was for something else, was used already, or came too late.")
        return f"approved by {row.decided_by} ({row.decided_how})"


async def _thread(work: Callable[..., _T], *given: Any) -> _T:
    return await anyio.to_thread.run_sync(lambda: work(*given))


def _asked(call: Call) -> Asked:
    told = parts(call.plan, call.verdict.reason, call.estimate, call.where)
    plan = call.plan
    return Asked(
        plan_digest=plan.digest,
        principal=plan.principal,
        tool=plan.tool,
        text=question_text(told),
        call_id=plan.call_id,
        effect=str(plan.effect),
        workspaces=touched(plan.draft),
        ways=call.verdict.ways,
        details=told,
    )


def _waiting_words(question: Question, command: str) -> str:
    ways = [f"open {question.url}"] if question.url else []
    ways += [f"run `{command}`"] if "terminal" in question.ways else []
    return f"waiting for approval: {', or '.join(ways)}" if ways else "waiting for approval"


def _require_yes(row: Approval) -> None:
    """Raises ToolError unless the row says yes."""
    if row.state == "denied":
        raise ToolError(
            Code.DENIED,
            Stage.APPROVAL,
            f"{row.decided_by} said no.",
            "Do not repeat the call unless the person asks for it.",
        )
    if row.state != "approved":
        raise expired("nobody answered in time, or the yes was used already.")


def unanswered(plan: Plan, row: Approval, url: str | None, command: str) -> ToolError:
    """What a call is told that waited in vain: what to show a person, and that it can be sent again."""
    suggestion = (
        "Show the person `requiresConfirmation`. Once they have approved it, send the very same call again."
    )
    if row.state == "expired":
        return expired("nobody answered in time.")
    told = {
        "call_id": plan.call_id,
        "approval": row.id,
        "digest": plan.digest,
        "summary": row.summary,
        "ways": list(row.ways),
        "console": url,
        "command": command,
        "expires": row.expires,
    }
    return ToolError(
        Code.DENIED,
        Stage.APPROVAL,
        "the call needs a person's yes, and nobody has decided yet.",
        suggestion,
        confirmation=told,
    )


def expired(message: str) -> ToolError:
    suggestion = "Call again: what would run now is put to a person again."
    return ToolError(Code.APPROVAL_EXPIRED, Stage.APPROVAL, message, suggestion)


def unapprovable(error: RegistryUnavailable | AuditUnavailable) -> ToolError:
    return ToolError(
        Code.INTERNAL,
        Stage.APPROVAL,
        str(error),
        "Approvals cannot be kept, so nothing that needs one runs.",
    )
