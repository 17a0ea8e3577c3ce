"""The life of one call: parse, plan, authorize, schedule, execute, record. Read it from top to bottom.

Each step is a function from the call as known so far, and the parts of the server, to the call with the step's
results. No step calls an earlier one. A failure at any step is the outcome of the call, and its last record is always
written. While a person decides, no container, lock or staging is held.

Nothing here uses the disk or the registry on the event loop: such work runs in a thread, and work that can hang
(looking up files, waiting for an engine) runs in a bounded number of threads of its own.
"""

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import structlog
from anyio.lowlevel import checkpoint_if_cancelled
from anyio.to_thread import run_sync

from gdal_mcp.approvals.model import Authorization, Suspended
from gdal_mcp.approvals.waiting import ApprovalQueue
from gdal_mcp.calls.activity import Activity, Changes, RunningCall
from gdal_mcp.calls.approval import approval_request, approvals_of, record_question, release_approval
from gdal_mcp.calls.bounded_threads import BoundedThreads, run_cancellable
from gdal_mcp.calls.drafting import Drafting, learn
from gdal_mcp.calls.entitlements import EntitlementResolver
from gdal_mcp.calls.execution import Executor
from gdal_mcp.calls.invocation import Access, Invocation, Outcome, Reply, Request, seconds_since
from gdal_mcp.calls.longresults import ResultStore, shorten_result
from gdal_mcp.calls.missed_replies import MissedReplies
from gdal_mcp.calls.operation import ORDINARY, Operation
from gdal_mcp.calls.planning import ask_servers, describe_inputs, make_draft, prepare, verify_unchanged
from gdal_mcp.calls.records import Records
from gdal_mcp.calls.refusals import denied, ended_by, failed, missing_scope, no_such_tool
from gdal_mcp.calls.results import changed_by, receipt, structured
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Command, Draft, Work
from gdal_mcp.policy.admission import Admission
from gdal_mcp.policy.identity import READ
from gdal_mcp.policy.policy import Allow, Deny, Policy, case, decide
from gdal_mcp.policy.rates import Rates
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import ImmediateResult
from sandbox.waiting import Cancellation

__all__ = ["Invocation", "Pipeline", "Reply", "Request"]

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs calls. Its fields are the parts of a server that the steps need, made by the composition root."""

    settings: Settings
    policy: Policy
    entitlements: EntitlementResolver
    execution: Executor
    approvals: ApprovalQueue
    records: Records
    results: ResultStore
    missed_replies: MissedReplies
    rates: Rates
    drafting: Drafting
    drafts: BoundedThreads  # threads that look up the files of calls
    plans: BoundedThreads  # threads that wait for the engine
    admission: Admission
    threads: anyio.CapacityLimiter  # threads for running calls, as many as are admitted
    active: set[str] = field(default_factory=set)  # calls whose last record has not been written yet
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)
    operations: dict[str, Operation] = field(default_factory=dict)  # operations of tools that have their own

    async def call(self, request: Request) -> Reply:
        """The reply of one call, also of a failed one, or of the call that follows it. Raises Suspended when the
        client must repeat the call with an answer.
        """
        if request.operation is ORDINARY:
            request = replace(request, operation=self.operations.get(request.tool, ORDINARY))
        reply = await self._call(request)
        while reply.next_request is not None:
            reply = await self._call(reply.next_request)
        return reply

    async def _call(self, request: Request) -> Reply:
        call, replies = Invocation(request), list[Reply]()
        self.active.add(call.call_id)
        try:
            sender = request.tool, request.principal, request.client, request.sender
            with self.activity.of(call.call_id, *sender) as view:
                try:
                    await self._run_steps(replace(call, view=view), view, replies)
                finally:  # the request may already be cancelled
                    if replies:
                        view.reply = replies[0]
                        if self.missed_replies.may_be_missed(view):
                            with anyio.CancelScope(shield=True):
                                await run_sync(self.missed_replies.keep, view)
        finally:
            self.active.discard(call.call_id)
        await checkpoint_if_cancelled()  # nobody receives the reply of a cancelled request
        return replies[0]

    async def _run_steps(self, call: Invocation, view: RunningCall, replies: list[Reply]) -> None:
        """Runs the steps. They end with the request, unless its client only stopped waiting or others wait for the
        reply.
        """
        suspended: list[Suspended] = []  # a task group would wrap it
        async with anyio.create_task_group() as group:
            group.start_soon(view.end_with_request)
            with view.scope:  # a call that is cancelled on the console still has a reply
                try:
                    await self._steps(call, replies)
                except Suspended as question:
                    suspended.append(question)
            view.over = True
            group.cancel_scope.cancel()
        if suspended:
            raise suspended[0]

    async def _steps(self, call: Invocation, replies: list[Reply]) -> None:
        try:
            async with AsyncExitStack() as resources:  # resources that are released when the call ends
                call = parse(call, self)
                call = await plan(call, self, resources)
                first = _find_running(call, self)
                if first is not None and (reply := await join(call, first, self)) is not None:
                    replies.append(replace(reply, next_request=None))
                    return
                _make_joinable(call)
                if call.prepared is not None:
                    call = await authorize(call, self, resources)
                    call = await schedule(call, self, resources)
                    call = await execute(call, self)
                    await checkpoint_if_cancelled()
        except ToolError as error:
            call = call.failed(error)
        except Suspended:
            with anyio.CancelScope(shield=True):
                await run_sync(record_question, call, self)
            raise
        except anyio.get_cancelled_exc_class():
            # outputs that were published before the cancellation stay published, and are recorded
            call = call if call.done else call.failed(ended_by(call.view.ended_by if call.view else ""))
            replies.append(await record(call, self))
            raise
        except Exception:  # noqa: BLE001 - the outermost handler: an internal error is reported without its text, which may hold data
            _log.exception("call_failed", call=call.call_id, tool=call.request.tool)
            call = call.failed(failed(call.call_id, published=call.published is not None))
        replies.append(await record(call, self))


def parse(call: Invocation, deps: Pipeline) -> Invocation:
    """Finds the tool. Raises ToolError if the caller lacks read access or does not have the tool."""
    request = call.request
    if not request.who.holds(READ):
        raise missing_scope(READ)
    entitlements = request.operation.entitled(deps.entitlements.of(request.principal))
    surface = entitlements.surface
    tool = request.operation.tool or surface.callable.get(request.tool)
    if tool is None:
        raise no_such_tool(request.tool, surface)
    return replace(call, access=Access(entitlements, tool, surface.toolboxes[tool.name]))


async def plan(call: Invocation, deps: Pipeline, resources: AsyncExitStack) -> Invocation:
    """What the call would run, or the answer of a tool that runs nothing.

    The same for the same state, so that a call that is sent again has the same digest.
    """
    started = time.monotonic()
    draft = await make_draft(call, deps)
    if isinstance(draft, ImmediateResult):
        call = replace(call, addresses=draft.addresses)
        await _admit_immediate(call, deps, resources, asks=draft.ask is not None)
        if draft.ask is None:
            call = replace(call, answer=draft.result)
        else:
            call = await ask_servers(call, draft, deps)
        return call.timed("plan", started)
    call = replace(call, preflight=draft.preflight)
    call = await prepare(call, deps, draft.draft, call.tool.name)
    if call.view is not None:
        call.view.outputs = tuple(str(output.target) for output in draft.draft.outputs)
    return call.timed("plan", started)


async def join(call: Invocation, first: RunningCall, deps: Pipeline) -> Reply | None:
    """The reply of an identical call that is already running, so that nothing runs twice. Raises ToolError.

    None if that call ended without one, such as with a question to a client that no longer waits.
    """
    with first.joined():  # counted before it is recorded, so that the other call does not end meanwhile
        await run_sync(deps.records.record_event, call, "call.joined", f"joined {first.call_id}")
        call.enter(f"waiting for call {first.call_id}")
        await first.ended.wait()
    return first.reply


async def authorize(call: Invocation, deps: Pipeline, resources: AsyncExitStack) -> Invocation:
    """Checks the policy, and waits for a person's approval if needed. Raises ToolError, Suspended.

    An approval is reserved for this call until it starts. If the call ends before that, the same call sent again can
    use it.
    """
    started, planned = time.monotonic(), call.plan
    verdict = decide(case(planned.draft, planned.tool, planned.principal), deps.policy)
    if isinstance(verdict, Deny):
        raise denied(verdict.reason)
    if (authorization := call.request.operation.authorization) is not None:
        return replace(call, authorization=authorization)
    if isinstance(verdict, Allow):
        return replace(call, authorization=Authorization(f"allowed: {verdict.reason}")).timed(
            "approval", started
        )
    await _require_allowance(
        call, deps, writes=call.plan.draft.writes
    )  # otherwise a person would approve what cannot run
    call = await describe_inputs(call, deps)
    call.enter("waiting for approval")
    question = await run_sync(approval_request, call, deps, verdict)
    authorization = await approvals_of(call, deps).obtain(question)
    resources.push_async_callback(release_approval, authorization, deps)
    call = await verify_unchanged(call, deps)
    return replace(call, authorization=authorization).timed("approval", started)


async def schedule(call: Invocation, deps: Pipeline, resources: AsyncExitStack) -> Invocation:
    """Waits for a free slot, within the rates and quotas of the principal. Raises ToolError."""
    started, principal = time.monotonic(), call.request.principal
    if call.request.operation.nested:
        return call
    deps.admission.resize(call.host.concurrent)
    call.enter("waiting for a free slot")
    await _require_allowance(call, deps, writes=call.plan.draft.writes)
    resources.enter_context(deps.rates.admit(principal, call.entitlements.entry))
    waiting = partial(call.report_progress, 0.0, "waiting for a free slot")
    await resources.enter_async_context(deps.admission.permit(principal, waiting))
    call.enter("running")
    return call.timed("queue", started)


async def execute(call: Invocation, deps: Pipeline) -> Invocation:
    """Runs the plan. A cancellation stops the container; the outcome is returned after the container is gone."""
    if call.view is not None:
        call.view.started = True
    outcome = await run_cancellable(partial(_run, call, deps), deps.threads)
    durations = {**call.durations, **outcome.durations}
    return replace(call, outcome=outcome, preflight=outcome.preflight or call.preflight, durations=durations)


async def record(call: Invocation, deps: Pipeline) -> Reply:
    """Writes the last record of a call, even of a cancelled one, and makes its reply."""
    with anyio.CancelScope(shield=True):
        reply = await run_sync(_record_end, call, deps)
        reply = replace(reply, next_request=call.request.operation.next_request(call))
    deps.changes.announce(changed_by(call.request.principal, call.call_id, call.done))
    return reply


async def _admit_immediate(
    call: Invocation, deps: Pipeline, resources: AsyncExitStack, *, asks: bool
) -> None:
    """Checks policy and quotas and records a call without a container, before it acts or answers. Raises ToolError."""
    tool, principal, entry = call.tool, call.request.principal, call.entitlements.entry
    acts = Draft(Command(tool.name, ()), (), work=Work(tool.like))
    verdict = decide(case(acts, tool.name, principal), deps.policy)
    if isinstance(verdict, Deny):
        raise denied(verdict.reason)
    if asks and not isinstance(verdict, Allow):
        raise denied(f"{tool.name} makes its requests at once, and nobody is asked before; {verdict.reason}")
    await _require_allowance(call, deps, writes=False)
    resources.enter_context(deps.rates.admit(principal, entry))
    await run_sync(deps.records.record_answer, call)


async def _require_allowance(call: Invocation, deps: Pipeline, *, writes: bool) -> None:
    """Raises ToolError if today's quota, which is stored on disk, is used up."""
    entry = call.entitlements.entry
    if entry is not None and entry.by_day:
        principal = call.request.principal
        await run_sync(partial(deps.rates.require_allowance, principal, entry, writes=writes))


def _find_running(call: Invocation, deps: Pipeline) -> RunningCall | None:
    if call.prepared is None or not call.request.operation.joins:
        return None
    return deps.activity.same(call.request.principal, call.plan.digest, call.plan.arguments)


def _make_joinable(call: Invocation) -> None:
    if call.view is not None and call.prepared is not None and call.request.operation.joins:
        call.view.plan, call.view.writes = call.plan.digest, call.plan.draft.writes
        call.view.arguments = call.plan.arguments


def _run(call: Invocation, deps: Pipeline, cancel: Cancellation) -> Outcome:
    """Runs the plan. No record, no run.

    The approval is consumed when there is a container, so that a call that gets none can be sent again.
    """
    started = time.monotonic()
    if cancel.is_set:
        return Outcome()

    def begin() -> None:
        deps.approvals.service.consume(call.authorization)

    # its steps, and requests for its remote data, come before its own container
    acts_first = call.request.operation.runs_steps or bool(call.plan.draft.addresses)
    try:
        if acts_first:
            begin()
        else:
            deps.approvals.service.require(call.authorization)
        deps.records.record_start(call)
        call.request.operation.before(call, cancel)
    except ToolError as error:
        return Outcome(error=error)
    audited = {"audit": seconds_since(started)}
    outcome = deps.execution.run(call, cancel) if acts_first else deps.execution.run(call, cancel, begin)
    ended = replace(call, outcome=outcome)
    entry = call.entitlements.entry
    if entry is not None and entry.by_day:
        written = sum(file.size for file in ended.published.files) if ended.published else 0
        deps.rates.record_use(call.request.principal, ended.cpu_seconds, written)
    return replace(outcome, durations={**audited, **outcome.durations})


def _record_end(call: Invocation, deps: Pipeline) -> Reply:
    call.request.operation.ended(call)
    result = dict(call.answer or {})
    if (done := call.done) is not None and call.error is None:
        try:
            learn(call)
            call = replace(call, receipt=receipt(call, done, deps.settings))
            result = structured(call, done)
        except ToolError as error:
            call = call.failed(error)
        except Exception:  # noqa: BLE001 - as above: logged, and reported without its text
            _log.exception("call_failed", call=call.call_id, tool=call.request.tool)
            call = call.failed(failed(call.call_id, published=call.published is not None))
    unrecorded = deps.records.record_end(call)
    failure = call.error or unrecorded
    reply = Reply.failed(call, failure) if failure else Reply(call.call_id, result, call.done)
    uncut = call.tool.uncut if call.access is not None else ()
    complete = {key: value for key, value in reply.result.items() if key in uncut}
    rest = {key: value for key, value in reply.result.items() if key not in uncut}
    shown = shorten_result(rest, reply.call_id, deps.settings, deps.results, call.request.principal)
    return replace(reply, result=complete | shown)
