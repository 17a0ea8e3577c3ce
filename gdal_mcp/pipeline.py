"""The life of one call, top to bottom: look up, draft, plan, policy, approval, queue, record, run, publish, record.

Each step takes the value that the one before it made, and none goes back. A failure at any step is the outcome of the call,
and its last record is written whatever the outcome. While a person decides, no container, lock or staging is held.
"""

import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.access.admission import Admission
from gdal_mcp.access.identity import READ
from gdal_mcp.access.policy import Allow, Deny, Policy, case, decide
from gdal_mcp.access.rates import Rates
from gdal_mcp.approval.model import Nobody, Suspended
from gdal_mcp.approval.question import Forecast
from gdal_mcp.approval.service import expired_error
from gdal_mcp.approval.waiting import ApprovalQueue, Call
from gdal_mcp.calls.activity import Activity, Changes
from gdal_mcp.calls.context import Admitted, CallContext, Done, Planned, Ran, Reply, Request
from gdal_mcp.calls.drafting import Drafting, Drafts
from gdal_mcp.calls.execution import Execution
from gdal_mcp.calls.longresults import ResultStore, presented
from gdal_mcp.calls.records import Records
from gdal_mcp.calls.refusals import denied, ended_by, failed, missing_scope, no_such_tool
from gdal_mcp.calls.results import changed_by, receipt, structured
from gdal_mcp.calls.translation import explain
from gdal_mcp.entitlements import EntitlementResolver
from gdal_mcp.errors import Stage, ToolError
from gdal_mcp.host.hosting import Hosting, SandboxScope
from gdal_mcp.plan import Command, Draft, Plan
from gdal_mcp.settings import Settings
from gdal_mcp.toolbox import ImmediateResult
from sandbox.errors import SandboxError
from sandbox.waiting import Cancellation

__all__ = ["CallContext", "Pipeline", "Reply", "Request"]

_log = structlog.get_logger()


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
        context = CallContext(request)
        reply: Reply | None = None
        sender = request.tool, request.principal, request.client
        self.active.add(context.call_id)
        try:
            with self.activity.of(context.call_id, *sender) as running:
                context.running = running
                with running.scope:
                    reply = await self._recorded(context)
                if reply is None:  # cancelled elsewhere, as on the console
                    failure = ended_by(running.ended_by)
                    reply = self._replied(context.ran) if context.ran else Reply.failed(context, failure)
                uncut = context.admitted.tool.uncut if context.admitted else ()
                whole = {key: value for key, value in reply.result.items() if key in uncut}
                rest = {key: value for key, value in reply.result.items() if key not in uncut}
                work = partial(presented, rest, reply.call_id, self.settings, self.results, request.principal)
                return replace(reply, result=whole | await anyio.to_thread.run_sync(work))
        finally:
            self.active.discard(context.call_id)

    async def _recorded(self, context: CallContext) -> Reply:
        """Runs the call and writes its last record, however it ends."""
        try:
            reply = await self._steps(context)
        except ToolError as error:
            reply = Reply.failed(context, error)
        except anyio.get_cancelled_exc_class():
            ended = context.running.ended_by if context.running else ""
            # what was published before the cancellation came is published, and recorded so
            await self._close(context, None if context.done else ended_by(ended))
            raise
        except Suspended:
            self.records.suspended(context)
            raise
        except Exception:  # noqa: BLE001 - the outermost handler: a fault of ours is told without its text, which may hold data
            _log.exception("call_failed", call=context.call_id, tool=context.request.tool)
            published = context.done is not None and context.done.published is not None
            reply = Reply.failed(context, failed(context.call_id, published=published))
        unrecorded = await self._close(context, reply.error)
        return reply if unrecorded is None or reply.error else Reply.failed(context, unrecorded)

    async def _steps(self, context: CallContext) -> Reply:
        """The call itself. Raises ToolError, Suspended."""
        admitted = self._admit(context)
        begun = time.monotonic()
        planned = await self._planned(admitted)
        if isinstance(planned, ImmediateResult):
            return await self._answered(admitted, planned)
        context.record_duration("plan", begun)

        begun = time.monotonic()
        planned = await self._permitted(planned)
        context.record_duration("approval", begun)

        begun = time.monotonic()
        request, plan = context.request, planned.plan
        self.admission.resize(planned.host.concurrent)
        context.enter("waiting for a free slot")
        waiting = partial(context.report_progress, 0.0, "waiting for a free slot")
        with self.rates.admit(request.principal, admitted.entitlements.entry):
            async with self.admission.permit(request.principal, waiting):
                context.record_duration("queue", begun)
                if not planned.approval:  # used up only now: a call that found no slot may be sent again
                    planned = replace(planned, approval=self.approvals.service.consume(plan))
                context.planned = planned
                context.enter("running")
                done = await self._run(planned)
        self.drafting.learn(admitted, plan.draft, done)
        return self._replied(Ran(planned, done))

    async def _answered(self, admitted: Admitted, answer: ImmediateResult) -> Reply:
        """The reply of a call without a container. Policy, quota and record come before it, and before any request for it."""
        context, tool, principal = admitted.context, admitted.tool.name, admitted.context.request.principal
        verdict = decide(case(Draft(Command(tool, ()), ()), tool, principal), self.policy)
        if isinstance(verdict, Deny):
            raise denied(verdict.reason)
        if answer.ask is not None and not isinstance(verdict, Allow):
            raise denied(f"{tool} makes its requests at once, and nobody is asked before; {verdict.reason}")
        context.asked = answer.addresses
        with self.rates.admit(principal, admitted.entitlements.entry):
            await anyio.to_thread.run_sync(self.records.answered, context)
            if answer.ask is None:
                return Reply(context.call_id, answer.result)
            ended = threading.Event()
            try:
                work = partial(self.drafting.ask, admitted, answer, ended)
                return Reply(context.call_id, await self.drafts.run(principal, work))
            finally:
                ended.set()

    def _admit(self, context: CallContext) -> Admitted:
        """Raises ToolError for a sender who may not even read, or a tool that this one does not have."""
        request = context.request
        if not request.who.holds(READ):
            raise missing_scope(READ)
        entitlements = self.reaches.of(request.principal)
        surface = entitlements.surface
        tool = request.operation.tool or surface.callable.get(request.tool)
        if tool is None:
            raise no_such_tool(request.tool, surface)
        context.admitted = admitted = Admitted(context, entitlements, tool, surface.toolboxes[tool.name])
        return admitted

    async def _planned(self, admitted: Admitted) -> Planned | ImmediateResult:
        """What the call would run. The same for the same state, so that a call that is sent again reaches the same digest."""
        work = partial(self.drafting.draft, admitted)
        draft = await self.drafts.run(admitted.context.request.principal, work)
        if isinstance(draft, ImmediateResult):
            return draft
        planned = await anyio.to_thread.run_sync(self._plan, admitted, draft)
        admitted.context.planned = planned
        if admitted.context.running is not None:
            admitted.context.running.outputs = tuple(str(one.target) for one in draft.outputs)
        return planned

    def _plan(self, admitted: Admitted, draft: Draft) -> Planned:
        request, reach, toolbox = admitted.context.request, admitted.entitlements, admitted.toolbox
        narrow = toolbox.only_inputs or self.settings.mount_scope == "inputs"
        only = toolbox.mounts(draft) if narrow else None
        scope = SandboxScope(reach.workspaces, reach.limits, only)
        try:
            host = self.hosting.ready(toolbox)
            template = self.hosting.template(host, None, scope)
        except SandboxError as error:
            raise explain(error, Stage.RUN) from error
        plan = Plan(
            call_id=admitted.context.call_id,
            tool=admitted.tool.name,
            principal=request.principal,
            draft=draft,
            limits=template.limits,
            image_id=template.image,
            runtime=template.runtime,
            mounts=tuple(f"{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in template.mounts),
            arguments=request.arguments,
            confines=scope,
        )
        return Planned(admitted, plan, host)

    async def _permitted(self, planned: Planned) -> Planned:
        """The plan as it may run: as it was, or made anew after a person approved it. Raises ToolError, Suspended."""
        plan, context = planned.plan, planned.context
        verdict = decide(case(plan.draft, plan.tool, plan.principal), self.policy)
        if isinstance(verdict, Deny):
            raise denied(verdict.reason)
        if isinstance(verdict, Allow):
            return replace(planned, approval=f"allowed: {verdict.reason}")
        await self._look_at_inputs(planned)
        context.enter("waiting for approval")
        image, request = planned.host.image, context.request
        where = {
            "image": image.reference,
            "digest": image.digest,
            "tier": planned.host.tier(self.settings),
            "stand_in": image.standin,
        }
        known = context.preflight
        checks = [one.as_dict() for one in known.findings]
        preflight = planned.admitted.entitlements.preflights[planned.admitted.toolbox.name]
        question = Call(
            plan,
            verdict,
            request.approver,
            Forecast(
                known.figures,
                checks,
                preflight.size_of,
                preflight.kind_of,
                preflight.becomes(plan.draft),
                request.client,
            ),
            where,
            context.report_progress,
        )
        approvals = self.approvals
        if request.operation.approval_wait is not None:
            approvals = replace(approvals, wait_seconds=request.operation.approval_wait)
        grant = await approvals.settle(question)
        again = await self._planned(planned.admitted)  # files may have changed while a person was reading
        if isinstance(again, ImmediateResult) or again.plan.digest != plan.digest:
            raise expired_error("what would run changed while the question was open.")
        if grant is None:
            return replace(again, reads=tuple(f"{one.origin}/" for one in again.plan.draft.addresses))
        approval = f"granted by {grant.granted_by} ({grant.granted_how}, grant {grant.id})"
        return replace(again, approval=approval, reads=grant.remote)

    async def _look_at_inputs(self, planned: Planned) -> None:
        """Has the inputs described before a person is asked: a call of its own, where the policy allows that unasked.

        Raises ToolError when the call is certain to break a limit.
        """
        admitted, plan, context = planned.admitted, planned.plan, planned.context
        preflight = admitted.entitlements.preflights[admitted.toolbox.name]
        validates = admitted.toolbox.validates
        look = preflight.description(plan.draft) if validates else None
        if look is None or not isinstance(decide(case(look, validates, plan.principal), self.policy), Allow):
            return
        arguments = {"tool": plan.tool, "arguments": plan.arguments}
        await self.call(Request(validates, arguments, context.request.who, context.request.client, Nobody()))
        context.preflight = preflight.check(plan.draft)

    async def _run(self, planned: Planned) -> Done:
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
                    work = partial(self._run_recorded, planned, cancel)
                    ended = await anyio.to_thread.run_sync(work, limiter=self.threads)
                    if isinstance(ended, Done):
                        planned.context.ran = Ran(planned, ended)
                group.cancel_scope.cancel()
        finally:
            cancel.close()
        if isinstance(ended, ToolError):
            raise ended
        return ended

    def _run_recorded(self, planned: Planned, cancel: Cancellation) -> Done | ToolError:
        """No record, no run."""
        context, begun = planned.context, time.monotonic()
        try:
            self.records.started(planned)
        except ToolError as error:
            return error
        context.record_duration("audit", begun)
        ended = self.execution.run(planned, cancel)
        entry = planned.admitted.entitlements.entry
        if entry is not None and entry.by_day:
            published = ended.published if isinstance(ended, Done) else None
            written = sum(file.size for file in published.files) if published else 0
            self.rates.spent(context.request.principal, context.cpu_seconds(), written)
        return ended

    async def _close(self, context: CallContext, error: ToolError | None) -> ToolError | None:
        """Writes the last record of a call, even of a cancelled one. Returns the failure when it could not be written."""
        done = context.done
        with anyio.CancelScope(shield=True):
            failure = await anyio.to_thread.run_sync(partial(self.records.finished, context, done, error))
        self.changes.tell(changed_by(context.request.principal, context.call_id, done))
        return failure

    def _replied(self, ran: Ran) -> Reply:
        whole = receipt(ran, self.settings)
        return Reply(ran.planned.context.call_id, structured(ran, whole), ran.done)
