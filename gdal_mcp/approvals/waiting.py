"""The ways in which a call gets its approval: from a grant, its client, the console or a terminal, whichever is
first.

Invariants:
* only a decision in the registry, bound to the plan's digest and its principal, approves anything;
* a call runs on the approval that it reserved, and on no other;
* a call that ends without an answer leaves its question open, for the same call to be sent again, until it expires; a
  cancelled call withdraws its question; an approval outlives both.
"""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.to_thread import run_sync

from gdal_mcp.approvals.model import (
    Approval,
    ApprovalQuestion,
    Approver,
    Authorization,
    Decision,
    Grant,
    Suspended,
)
from gdal_mcp.approvals.question import Forecast, parts, question_text, unanswered_error, workspaces_written
from gdal_mcp.approvals.service import ApprovalService, denied_error, expired_error, unavailable_error
from gdal_mcp.approvals.store import MOST_OPEN, TooManyOpen
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Plan
from gdal_mcp.policy.policy import RequireApproval
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.schema import RegistryUnavailable
from gdal_mcp.runtime.nested import program

LOOK_SECONDS: Final = 0.25  # seconds between two checks of a row that another process may change

# The console's address, if there is one. With True, it first opens the console if needed.
ConsoleUrl = Callable[[bool], Awaitable[str | None]]


async def no_console(_needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
    """The ConsoleUrl of a process without a console."""
    return None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The plan of a call that needs approval, the reason, and the facts about it."""

    plan: Plan
    verdict: RequireApproval
    approver: Approver
    forecast: Forecast
    where: Mapping[str, object]
    tell: Callable[[float, str], None]


@dataclass(frozen=True)
class ApprovalQueue:
    """Asks people about calls and waits for their answers.

    `console_url` returns the console's address. The address alone gives no access, so a model that reads it can
    approve nothing. `options` are what `gdal-mcp approve` needs to find these records; they are shown to callers who
    may know them.
    """

    service: ApprovalService
    open_seconds: float  # seconds in which a question can be answered
    valid_seconds: float  # seconds from the decision for which a yes can be used
    wait_seconds: float  # seconds that a call waits if its client cannot ask
    console_url: ConsoleUrl = no_console
    options: tuple[str, ...] = ()

    async def obtain(self, call: ApprovalRequest) -> Authorization:
        """Waits for approval and reserves it for this call, which must end with `ApprovalService.end`; or uses a
        grant.

        Raises ToolError if it was not approved, Suspended if the answer comes with a repetition of the call.
        """
        try:
            if (grant := await run_sync(self._granted, call)) is not None:
                text = f"granted by {grant.granted_by} ({grant.granted_how}, grant {grant.id})"
                return Authorization(text, reads=grant.remote)
            row = await self._reserved(call)
        except (RegistryUnavailable, AuditUnavailable) as error:
            raise unavailable_error(error) from error
        text = f"approved by {row.decided_by} ({row.decided_how})"
        reads = tuple(f"{address.origin}/" for address in call.plan.draft.addresses)
        return Authorization(text, row.id, row.holder, reads)

    def _granted(self, call: ApprovalRequest) -> Grant | None:
        plan = call.plan
        if not call.verdict.grantable:
            return None
        folders = tuple(address.folder for address in plan.draft.addresses)
        return self.service.granted(plan.principal, plan.tool, workspaces_written(plan.draft), folders)

    async def _reserved(self, call: ApprovalRequest) -> Approval:
        """The reserved approval of this plan. Afterwards, no question is held by a call that no longer waits."""
        store, holder = self.service.approvals, self._holder(call)
        answer = call.approver.answered()
        row = await run_sync(self._answered, call, *answer) if answer else await run_sync(self._row, call)
        try:
            if row.state == "asked":
                row = await self._wait(call, row, asks=answer is None)
        except BaseException as ended:  # re-raised: a cancelled call must not keep its question either
            give_up = store.suspend if isinstance(ended, Suspended) else store.end
            with anyio.CancelScope(shield=True):
                await run_sync(give_up, row.id, holder)
            raise
        if row.state == "denied":
            raise denied_error(row)
        if row.state != "reserved" or row.holder != holder:
            raise expired_error("nobody answered in time, or the approval was used already.")
        return row

    def _holder(self, call: ApprovalRequest) -> str:
        return f"{self.service.server}:{call.plan.call_id}"

    def _row(self, call: ApprovalRequest) -> Approval:
        """The approval or open question that an earlier call with this plan left, in this order; else a new question."""
        plan, store = call.plan, self.service.approvals
        holder = self._holder(call)
        if (row := store.reclaim(plan.digest, plan.principal, holder)) is not None:
            return row
        before = store.last_approved(plan.principal, plan.tool)
        details = parts(
            plan, call.verdict.reason, call.where, call.forecast, before.details if before else {}
        )
        question = Approval(
            plan_digest=plan.digest,
            principal=plan.principal,
            tool=plan.tool,
            summary=question_text(details),
            call_id=plan.call_id,
            effect=str(plan.effect),
            workspaces=workspaces_written(plan.draft),
            ways=tuple(sorted(call.verdict.ways)),
            details=details,
            holder=holder,
            valid_seconds=self.valid_seconds,
        )
        try:
            return store.request(question, self.open_seconds)
        except TooManyOpen as error:
            raise ToolError(
                Code.RATE_LIMITED,
                Stage.APPROVAL,
                f"{MOST_OPEN} of your questions are open already.",
                "Have some of them answered, or wait until they expire.",
            ) from error

    def _answered(self, call: ApprovalRequest, approval_id: str, decision: Decision | None) -> Approval:
        """Continues a call that was sent again with the answer, or after its user saw the console."""
        plan, store, holder = call.plan, self.service.approvals, self._holder(call)
        row = store.approval(approval_id)
        if row is None or (row.plan_digest, row.principal) != (plan.digest, plan.principal):
            raise expired_error("the answer is to another question than this call asks now.")
        row = store.resume(row.id, holder)
        if row is None:
            raise expired_error("another call waits for this answer.")
        if decision is None:
            return row
        try:
            row = self.service.decide(row.id, decision) or row
        except Exception:  # re-raised: whatever failed, the question stays open for other ways to decide it
            store.claim(row.id, holder)
            raise
        return (store.claim(row.id, holder) if row.state == "approved" else None) or row

    async def _wait(self, call: ApprovalRequest, row: Approval, *, asks: bool = True) -> Approval:
        """Waits for the first decision in any way. Returns the row after that, reserved if it was approved."""
        address = await self.console_url(not call.approver.asks(call.verdict.ways))
        url = f"{address}#approval={row.id}" if address else None
        command = shlex.join((*program(), "approve", row.id, *self.options))
        question = ApprovalQuestion(row, call.verdict.ways, url)
        ways = [f"open {url}"] if url else []
        ways += [f"run `{command}`"] if "terminal" in question.ways else []
        call.tell(0.0, f"waiting for approval: {', or '.join(ways)}" if ways else "waiting for approval")
        with anyio.move_on_after(self.open_seconds):
            await self._first(call.approver if asks else None, question)
        now = await run_sync(self.service.approvals.claim, row.id, self._holder(call)) or row
        if now.state == "asked":
            raise unanswered_error(call.plan, now, url, command)
        return now

    async def _first(self, approver: Approver | None, question: ApprovalQuestion) -> None:
        """Returns after the first decision in any way, or when the time is over."""
        raised: list[Exception] = []  # kept as values, because a task group would wrap them

        async def race(runner: Callable[[], Awaitable[None]]) -> None:
            try:
                await runner()
            except Exception as error:  # noqa: BLE001 - any error is raised below
                raised.append(error)
            group.cancel_scope.cancel()

        async def answer_of_client() -> None:
            """Asks the client's user. If the client cannot ask, or its answer does not count, other ways decide."""
            decision = await approver.ask(question) if approver is not None else None
            if decision is not None:
                row = await run_sync(self.service.decide, question.row.id, decision)
                if row is None or row.state != "asked":
                    return
            await anyio.sleep(self.wait_seconds)  # the row is watched at the same time

        async def wait_for_decision() -> None:
            """Returns when the row is no longer open."""
            while (row := await run_sync(self.service.approvals.get, question.row.id)) is not None:
                if row.state != "asked":
                    return
                await anyio.sleep(LOOK_SECONDS)

        async with anyio.create_task_group() as group:
            group.start_soon(race, wait_for_decision)
            group.start_soon(race, answer_of_client)
        if raised:
            raise raised[0]
