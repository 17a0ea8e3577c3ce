"""How a call gets its approval: from a grant, from its client, from the console or from a terminal, whichever is first.

Invariants:
* nothing is approved but by a decision in the registry, bound to the plan's digest and its principal;
* a call that ends without an answer leaves its question open, for the same call to be sent again, until it expires.
"""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.to_thread import run_sync

from gdal_mcp.access.policy import RequireApproval
from gdal_mcp.approval.model import Approval, Approver, Decision, Grant, Question, Suspended
from gdal_mcp.approval.question import Forecast, parts, question_text, touched, unanswered_error
from gdal_mcp.approval.service import ApprovalService, expired_error, unavailable_error
from gdal_mcp.approval.store import MOST_OPEN, SUSPENDED, TooManyOpen
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.host.nested import program
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.schema import RegistryUnavailable
from gdal_mcp.plan import Plan

LOOK_SECONDS: Final = 0.25  # between two looks at a row that another process may fill in

# The console's address, if there is one. Called with True, it opens the console first if need be.
ConsoleUrl = Callable[[bool], Awaitable[str | None]]


async def no_console(_needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
    """The ConsoleUrl of a process without a console."""
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """The plan of a call that needs approval, why it does, and what is known of it."""

    plan: Plan
    verdict: RequireApproval
    approver: Approver
    forecast: Forecast
    where: Mapping[str, object]
    tell: Callable[[float, str], None]


@dataclass(frozen=True)
class ApprovalQueue:
    """Puts calls to people and waits for their answers.

    `console_url` tells where the console is. That address lets nobody in, so a model that reads it can approve nothing.
    `options` are what `gdal-mcp approve` needs to find these records, told where whoever calls may know them.
    """

    service: ApprovalService
    open_seconds: float  # how long a question can be answered
    wait_seconds: float  # how long a call waits whose client asks nobody
    console_url: ConsoleUrl = no_console
    options: tuple[str, ...] = ()

    async def settle(self, call: Call) -> Grant | None:
        """Waits for approval. Returns the grant, or None if this plan itself was approved (and not consumed yet).

        Raises ToolError if it was not approved, Suspended if the answer comes with a repetition of the call.
        """
        try:
            given = call.approver.answered()
            if given is not None:
                await self._answered(call, *given)
                return None
            plan = call.plan
            if call.verdict.grantable:
                folders = tuple(one.folder for one in plan.draft.addresses)
                about = (plan.principal, plan.tool, touched(plan.draft), folders)
                if (grant := await run_sync(self.service.granted, *about)) is not None:
                    return grant
            row = await run_sync(self._row, call)
            if row.state != "approved":
                await self._wait(call, row)
        except (RegistryUnavailable, AuditUnavailable) as error:
            raise unavailable_error(error) from error
        return None

    def _row(self, call: Call) -> Approval:
        """The open question of this very plan if nobody waits for it any more, else a new one."""
        plan, store = call.plan, self.service.approvals
        holder = f"{self.service.server}:{plan.call_id}"
        if (adopted := store.adopt(plan.digest, plan.principal, holder)) is not None:
            return adopted
        before = store.approved_code(plan.principal, plan.tool) if plan.draft.code else None
        details = parts(plan, call.verdict.reason, call.where, call.forecast, before)
        asked = Approval(
            plan_digest=plan.digest,
            principal=plan.principal,
            tool=plan.tool,
            summary=question_text(details),
            call_id=plan.call_id,
            effect=str(plan.effect),
            workspaces=touched(plan.draft),
            ways=tuple(sorted(call.verdict.ways)),
            details=details,
            holder=holder,
        )
        try:
            return store.request(asked, self.open_seconds)
        except TooManyOpen as error:
            raise ToolError(
                Code.RATE_LIMITED,
                Stage.APPROVAL,
                f"{MOST_OPEN} of your questions are open already.",
                "Have some of them answered, or wait until they expire.",
            ) from error

    async def _answered(self, call: Call, approval_id: str, decision: Decision | None) -> None:
        """The call was sent again, with the answer, or after its user was shown the console."""
        plan, store = call.plan, self.service.approvals
        row: Approval | None = await run_sync(store.approval, approval_id)
        if row is None or (row.plan_digest, row.principal) != (plan.digest, plan.principal):
            raise expired_error("the answer is to another question than this call asks now.")
        await run_sync(store.hold, row.id, f"{self.service.server}:{plan.call_id}")
        if decision is not None:
            row = await run_sync(self.service.decide, row.id, decision) or row
        if row.state == "pending":
            await self._wait(call, row, asks=False)
        else:
            _require_approved(row)

    async def _wait(self, call: Call, row: Approval, *, asks: bool = True) -> None:
        """Waits until somebody has decided, whichever way answers first."""
        store = self.service.approvals
        address = await self.console_url(not call.approver.asks(call.verdict.ways))
        url = f"{address}#approval={row.id}" if address else None
        command = shlex.join((*program(), "approve", row.id, *self.options))
        question = Question(row, call.verdict.ways, url)
        ways = [f"open {url}"] if url else []
        ways += [f"run `{command}`"] if "terminal" in question.ways else []
        call.tell(0.0, f"waiting for approval: {', or '.join(ways)}" if ways else "waiting for approval")
        try:
            with anyio.move_on_after(self.open_seconds):
                decided = await self._first(call.approver if asks else None, question)
                if decided is not None:
                    _require_approved(decided)
                    return
        except Suspended:
            await run_sync(store.hold, row.id, SUSPENDED)
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await run_sync(store.drop, row.id)
            raise
        await run_sync(store.hold, row.id)
        now = await run_sync(store.look, row.id) or row
        if now.state == "expired":
            raise expired_error("nobody answered in time.")
        raise unanswered_error(call.plan, now, url, command)

    async def _first(self, approver: Approver | None, question: Question) -> Approval | None:
        """The row once it is decided, by the client's user or elsewhere; None if nobody decided in time."""
        found: list[Approval | None] = []
        raised: list[Exception] = []  # kept as values: a task group would wrap them

        async def race(runner: Callable[[], Awaitable[Approval | None]]) -> None:
            try:
                found.append(await runner())
            except (Suspended, ToolError, RegistryUnavailable, AuditUnavailable) as error:
                raised.append(error)
            group.cancel_scope.cancel()

        async def asked() -> Approval | None:
            """The row as the client's user decided it; None if the client asks nobody, after the call's patience."""
            decision = await approver.ask(question) if approver is not None else None
            if decision is not None:
                return await run_sync(self.service.decide, question.row.id, decision)
            await anyio.sleep(self.wait_seconds)  # meanwhile the row is watched
            return None

        async def watched() -> Approval | None:
            """The row once it is no longer open, whoever decided."""
            while True:
                row = await run_sync(self.service.approvals.look, question.row.id)
                if row is None or row.state != "pending":
                    return row
                await anyio.sleep(LOOK_SECONDS)

        async with anyio.create_task_group() as group:
            group.start_soon(race, watched)
            group.start_soon(race, asked)
        if raised:
            raise raised[0]
        return next((row for row in found if row is not None), None)


def _require_approved(row: Approval) -> None:
    if row.state == "denied":
        raise ToolError(
            Code.DENIED,
            Stage.APPROVAL,
            f"{row.decided_by} said no.",
            "Do not repeat the call unless the person asks for it.",
        )
    if row.state != "approved":
        raise expired_error("nobody answered in time, or the approval was used already.")
