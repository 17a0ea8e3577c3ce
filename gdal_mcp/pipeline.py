"""The life of one call, top to bottom: look up, validate, resolve, plan, policy, approval, audit, run, publish, audit.

No step calls an earlier one; a failure at any step goes to the closing audit record. While a person decides, no container,
lock or staging is held.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.access.admission import Admission
from gdal_mcp.access.identity import READ
from gdal_mcp.access.policy import Allow, Deny, Policy, case, decide
from gdal_mcp.access.rates import Rates
from gdal_mcp.approval.model import Suspended
from gdal_mcp.approval.question import Where
from gdal_mcp.approval.service import expired_error
from gdal_mcp.approval.waiting import ApprovalQueue, Call
from gdal_mcp.calls.activity import Activity, Running
from gdal_mcp.calls.changes import Changes, changed_by
from gdal_mcp.calls.drafting import Drafting, Drafts
from gdal_mcp.calls.execution import Done, Execution, Run
from gdal_mcp.calls.longresults import ResultStore, presented
from gdal_mcp.calls.records import Records
from gdal_mcp.calls.refusals import denied, ended_by, failed, missing_scope
from gdal_mcp.calls.results import Ran, structured
from gdal_mcp.calls.ticket import Reply, Request, Ticket
from gdal_mcp.calls.translation import explain
from gdal_mcp.entitlements import EntitlementResolver, Entitlements, bounds_of
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.datasets.scope import places
from gdal_mcp.gdal.preflight.service import Preflight
from gdal_mcp.host.hosting import Host, Hosting, SandboxScope
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.settings import Settings
from gdal_mcp.surface import Surface
from gdal_mcp.tools.model import ImmediateResult, Tool
from sandbox.errors import SandboxError
from sandbox.outcome import Usage
from sandbox.template import Limits
from sandbox.waiting import Cancellation

__all__ = ["Pipeline", "Reply", "Request", "Ticket"]

_log = structlog.get_logger()
_VALIDATE = "validate_call"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs calls; every part is made by the composition root."""

    settings: Settings
    policy: Policy
    reaches: EntitlementResolver
    hosting: Hosting
    execution: Execution
    approvals: ApprovalQueue
    records: Records
    results: ResultStore
    rates: Rates
    drafting: Drafting
    drafts: Drafts
    admission: Admission
    threads: anyio.CapacityLimiter  # for calls that run, as many as are admitted
    active: set[str] = field(default_factory=set)  # calls whose last record is not written yet
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)

    async def call(self, request: Request) -> Reply:
        """The outcome of one call, whatever it is. Raises Suspended when the client must repeat it with an answer."""
        ticket = Ticket(request)
        self.active.add(ticket.call_id)
        try:
            with self.activity.of(ticket.call_id, request.tool, request.principal, request.client) as running:
                ticket.running = running
                reply = await self._endable(ticket, running)
            return replace(reply, result=await self._presented(reply, request.principal))
        finally:
            self.active.discard(ticket.call_id)

    async def _endable(self, ticket: Ticket, running: Running) -> Reply:
        """A call that a person ends elsewhere is answered; one that its own client ends is not."""
        with running.scope:
            return await self._recorded(ticket)
        if isinstance(ticket.ended, Done):  # it was published before it could be ended
            return self._reply(ticket, ticket.ended)
        error = ended_by(running.ended_by)
        return Reply(ticket.call_id, error.as_dict(ticket.call_id), error=error)

    async def _presented(self, reply: Reply, owner: str) -> Mapping[str, Any]:
        """What of a result a client gets: no text of files in lockdown, and a long one cut with a link to the whole."""
        work = partial(presented, reply.result, reply.call_id, self.settings, self.results, owner)
        return await anyio.to_thread.run_sync(work)

    async def _recorded(self, ticket: Ticket) -> Reply:
        try:
            reply = await self._call(ticket)
        except ToolError as error:
            reply = Reply(ticket.call_id, error.as_dict(ticket.call_id), error=error)
        except anyio.get_cancelled_exc_class():
            await self._close_cancelled(ticket)
            raise
        except Suspended:
            self.records.suspended(ticket)
            raise
        except Exception:  # noqa: BLE001 - the outermost handler: a fault of ours is told without its text, which may hold data
            _log.exception("call_failed", call=ticket.call_id, tool=ticket.request.tool)
            reply = _failed(ticket)
        return await self._close(ticket, reply.done, reply.error) or reply

    async def _call(self, ticket: Ticket) -> Reply:
        reach = ticket.reach = self._reach(ticket.request)
        tool = _look_up(reach.surface, ticket.request.tool)
        begun = time.monotonic()
        draft = await self._drafted(ticket, tool)
        if isinstance(draft, ImmediateResult):
            await anyio.to_thread.run_sync(partial(self.records.answered, ticket))
            return Reply(ticket.call_id, draft.result)
        plan, host = await anyio.to_thread.run_sync(partial(self._plan, ticket, tool, draft))
        ticket.plan, ticket.host = plan, host
        ticket.lap("plan", begun)
        begun = time.monotonic()
        plan, host = await self._permitted(ticket, tool, plan, host)
        ticket.lap("approval", begun)
        done = await self._placed(ticket, plan, host)
        self._learn(reach.preflight, plan.draft, done)
        return self._reply(ticket, done)

    async def _drafted(self, ticket: Ticket, tool: Tool) -> Draft | ImmediateResult:
        """What the tool makes of the arguments, before there is a place for the call."""
        work = partial(self.drafting.draft, ticket, tool)
        return await self.drafts.run(ticket.request.principal, work)

    def _reply(self, ticket: Ticket, done: Done) -> Reply:
        plan, reach = ticket.plan, ticket.reach
        assert plan is not None
        assert reach is not None
        tool, receipt = _look_up(reach.surface, plan.tool), self.records.receipt(ticket, done)
        findings = ticket.preflight.findings if ticket.preflight else ()
        ran = Ran(tool, plan, done, receipt, findings, reach.surface.algorithms, reach.surface.callable)
        return Reply(ticket.call_id, structured(ran), done)

    def _reach(self, request: Request) -> Entitlements:
        """What this caller has. Raises ToolError for one that may not even read."""
        if not request.who.holds(READ):
            raise missing_scope(READ)
        return self.reaches.of(request.principal)

    async def _permitted(self, ticket: Ticket, tool: Tool, plan: Plan, host: Host) -> tuple[Plan, Host]:
        """The plan as it may run: as it was, or made anew after a person said yes to it. Raises ToolError, Suspended."""
        verdict = decide(case(plan.draft, plan.tool, plan.principal), self.policy)
        if isinstance(verdict, Deny):
            raise denied(verdict.reason)
        if isinstance(verdict, Allow):
            ticket.approval = f"allowed: {verdict.reason}"
            return plan, host
        await self._described(ticket, plan)
        ticket.enter("waiting for approval")
        estimate = ticket.preflight.estimate if ticket.preflight else None
        question = Call(plan, verdict, ticket.request.approver, estimate, self._where(host), ticket.tell)
        grant = await self.approvals.settle(question)
        if grant is not None:
            ticket.approval = f"granted by {grant.granted_by} ({grant.granted_how}, grant {grant.id})"
        return await self._unchanged(ticket, tool, plan)

    async def _described(self, ticket: Ticket, plan: Plan) -> None:
        """Has the inputs described before a person is asked: a call of its own, where the policy allows that unasked.

        Raises ToolError when the call is certain to break a limit.
        """
        assert ticket.reach is not None
        preflight = ticket.reach.preflight
        look = preflight.description(plan.draft)
        if look is None or not isinstance(decide(case(look, _VALIDATE, plan.principal), self.policy), Allow):
            return
        arguments = {"tool": plan.tool, "arguments": plan.arguments}
        await self.call(replace(ticket.request, tool=_VALIDATE, arguments=arguments, on_progress=_unheard))
        ticket.preflight = preflight.check(plan.draft)

    def _where(self, host: Host) -> Where:
        image = host.image
        return Where(image.reference, image.digest, host.tier(self.settings), image.standin)

    async def _placed(self, ticket: Ticket, plan: Plan, host: Host) -> Done:
        """What became of the plan once there was a place for it."""
        self.admission.resize(host.concurrent)
        begun = time.monotonic()
        principal = ticket.request.principal
        ticket.enter("waiting for a place")
        with self.rates.admit(principal, bounds_of(ticket.reach)):
            async with self.admission.permit(principal, partial(_tell_waiting, ticket)):
                ticket.lap("queue", begun)
                if not ticket.approval:  # used up only now: a call that found no place may be sent again
                    ticket.approval = self.approvals.service.consume(plan)
                ticket.enter("running")
                return await self._run(ticket, plan, host)

    @staticmethod
    def _learn(preflight: Preflight, draft: Draft, done: Done) -> None:
        """What was written is known from its description, so that the next call on it can be judged before it runs."""
        located = {file.located.path: file.located for file in done.published.files} if done.published else {}
        for output, described in zip(draft.outputs, done.outputs, strict=False):
            if output.target.path in located:
                preflight.learn(located[output.target.path], described.facts)

    def _plan(self, ticket: Ticket, tool: Tool, draft: Draft) -> tuple[Plan, Host]:
        """Deterministic for a given state, so that a call that is sent again reaches the same digest."""
        reach = ticket.reach
        assert reach is not None
        only = places(draft) if self.settings.mount_scope == "inputs" else None
        confines = SandboxScope(reach.workspaces, reach.limits, only)
        try:
            host = self.hosting.ready()
            template = self.hosting.template(host.image, None, confines)
        except SandboxError as error:
            raise explain(error, Stage.RUN) from error
        plan = Plan(
            call_id=ticket.call_id,
            tool=tool.name,
            principal=ticket.request.principal,
            draft=draft,
            limits=template.limits,
            image_id=template.image,
            runtime=template.runtime,
            mounts=tuple(f"{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in template.mounts),
            arguments=ticket.request.arguments,
            confines=confines,
        )
        return plan, host

    async def _unchanged(self, ticket: Ticket, tool: Tool, asked: Plan) -> tuple[Plan, Host]:
        """The plan made anew: files may have changed while a person was reading. Raises ToolError if it differs."""
        draft = await self._drafted(ticket, tool)
        assert isinstance(draft, Draft)
        plan, host = await anyio.to_thread.run_sync(partial(self._plan, ticket, tool, draft))
        if plan.digest != asked.digest:
            raise expired_error("what would run changed while the question was open.")
        ticket.plan, ticket.host = plan, host
        return plan, host

    async def _run(self, ticket: Ticket, plan: Plan, host: Host) -> Done:
        """Runs in a thread; a cancellation of this task stops the container and waits until it is gone."""
        cancel = Cancellation()

        async def pass_on_cancellation() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                cancel.set()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pass_on_cancellation)
                with anyio.CancelScope(shield=True):
                    work = partial(self._recorded_run, ticket, plan, host, cancel)
                    ticket.ended = await anyio.to_thread.run_sync(work, limiter=self.threads)
                group.cancel_scope.cancel()
        finally:
            cancel.close()
        if isinstance(ticket.ended, Done):
            return ticket.ended
        assert ticket.ended is not None
        raise ticket.ended

    def _recorded_run(self, ticket: Ticket, plan: Plan, host: Host, cancel: Cancellation) -> Done | ToolError:
        """No record, no run."""
        begun = time.monotonic()
        try:
            self.records.started(ticket)
        except ToolError as error:
            return error
        ticket.lap("audit", begun)
        done = self.execution.run(Run(plan, host, ticket.tell, ticket, cancel, partial(_heard, ticket)))
        if bounds_of(ticket.reach).by_day:
            self.rates.spent(ticket.request.principal, *_cost(ticket, done))
        return done

    async def _close_cancelled(self, ticket: Ticket) -> None:
        """What was published before the cancellation came is published, and recorded so."""
        if isinstance(ticket.ended, Done):
            await self._close(ticket, ticket.ended, None)
        else:
            assert ticket.running is not None
            await self._close(ticket, None, ended_by(ticket.running.ended_by))

    async def _close(self, ticket: Ticket, done: Done | None, error: ToolError | None) -> Reply | None:
        """The last record of a call, written even if it is cancelled; a reply only when it could not be written."""
        with anyio.CancelScope(shield=True):
            failure = await anyio.to_thread.run_sync(partial(self.records.finished, ticket, done, error))
        self.changes.tell(changed_by(ticket.request.principal, ticket.call_id, done))
        if failure is None or error is not None:
            return None
        return Reply(ticket.call_id, failure.as_dict(ticket.call_id), error=failure)


def _look_up(surface: Surface, name: str) -> Tool:
    tool = surface.callable.get(name)
    if tool is None:
        raise ToolError(
            Code.NOT_FOUND,
            Stage.LOOKUP,
            "there is no such tool.",
            f"The tools are: {', '.join(one.name for one in surface.listed[:40])}.",
        )
    return tool


def _heard(ticket: Ticket, value: Mapping[str, Any]) -> None:
    """What the container says of the inputs before it works. Raises ToolError to end it."""
    assert ticket.reach is not None
    assert ticket.plan is not None
    ticket.preflight = ticket.reach.preflight.heard(ticket.plan.draft, value)


def _unheard(_fraction: float, _message: str) -> None:
    pass


def _tell_waiting(ticket: Ticket) -> None:
    ticket.tell(0.0, "waiting for a free place")


def _failed(ticket: Ticket) -> Reply:
    """The reply to a call that a fault of ours ended, after it was published or before."""
    done = ticket.ended if isinstance(ticket.ended, Done) else None
    error = failed(ticket.call_id, published=done is not None and done.published is not None)
    return Reply(ticket.call_id, error.as_dict(ticket.call_id), done, error)


def _cost(ticket: Ticket, done: Done | ToolError) -> tuple[float, int]:
    """CPU seconds and output bytes of a call that ran, however it ended."""
    seconds = _computed(ticket.usage, ticket.plan.limits) if ticket.usage and ticket.plan else 0.0
    published = done.published if isinstance(done, Done) else None
    return seconds, sum(file.size for file in published.files) if published else 0


def _computed(usage: Usage, limits: Limits) -> float:
    """CPU seconds as the container says, up to what it can have had; all of that for one that was cut before it could."""
    most = min(usage.run_seconds, limits.wall_seconds) * limits.cpus
    return min(usage.cpu_seconds, most) if usage.cpu_seconds is not None else most
