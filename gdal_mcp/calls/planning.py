"""Makes the plan of a call, and makes it again after its inputs are described or a person has decided.

Looking up files and waiting for an engine can hang, so each is done in threads of its own, of which there is a bounded
number.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio.to_thread import run_sync

from gdal_mcp.approvals.service import expired_error
from gdal_mcp.calls.bounded_threads import BoundedThreads, run_cancellable
from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Allow, case, decide
from gdal_mcp.toolboxes.base import ImmediateResult

if TYPE_CHECKING:
    from gdal_mcp.calls.pipeline import Pipeline

T = TypeVar("T")


async def make_draft(call: Invocation, deps: "Pipeline") -> Drafted | ImmediateResult:
    return await _in_thread(
        deps.drafts, call, deps, lambda drafting: call.request.operation.draft(call, drafting)
    )


async def prepare(call: Invocation, deps: "Pipeline", draft: Draft, tool: str) -> Invocation:
    prepared = await _in_thread(deps.plans, call, deps, lambda drafting: drafting.prepare(call, draft, tool))
    return replace(call, prepared=prepared)


async def ask_servers(call: Invocation, answer: ImmediateResult, deps: "Pipeline") -> Invocation:
    """The call with the answers of other servers."""
    return await _in_thread(deps.drafts, call, deps, lambda drafting: drafting.ask(call, answer))


async def describe_inputs(call: Invocation, deps: "Pipeline") -> Invocation:
    """Has the inputs described in a container before a person is asked, if the policy allows that without asking.

    An internal job: it is not a call, spends no quota and is in the audit log as a part of this call. Raises
    ToolError if the job fails, and if the call is certain to break a limit, is wrong, or cannot be judged.
    """
    planned, toolbox = call.plan, call.toolbox
    preflight = call.entitlements.preflights[toolbox.name]
    look = call.request.operation.look(call, preflight) if toolbox.analysis.validates else None
    if look is None or not isinstance(
        decide(case(look, toolbox.analysis.validates, planned.principal), deps.policy), Allow
    ):
        return call
    look = replace(look, addresses=planned.draft.addresses)
    job = await prepare(call, deps, look, toolbox.analysis.validates)
    async with deps.admission.permit(planned.principal, lambda: None):
        await run_sync(deps.records.record_event, job, "inputs.described")
        outcome = await run_cancellable(partial(deps.execution.run, job), deps.threads)
    if outcome.error is not None:  # the call would describe its inputs, too, and fail
        raise outcome.error
    preflight.described(look.looked_at, outcome.done.parsed if outcome.done is not None else None)
    again = await make_draft(replace(call, described=True), deps)
    return call if isinstance(again, ImmediateResult) else _with_second_draft(call, again)


def _with_second_draft(call: Invocation, again: Drafted) -> Invocation:
    """The call with the results of a second draft. The approval still covers the plan."""
    draft = replace(call.plan.draft, review=again.draft.review)
    prepared = replace(call.prepared, plan=replace(call.plan, draft=draft)) if call.prepared else None
    return replace(call, preflight=again.preflight, prepared=prepared)


async def verify_unchanged(call: Invocation, deps: "Pipeline") -> Invocation:
    """Plans the call again. Raises ToolError if the plan differs from the approved one, because files may have changed."""
    draft = await make_draft(call, deps)
    if not isinstance(draft, ImmediateResult):
        now = await prepare(call, deps, draft.draft, call.tool.name)
        if now.plan.digest == call.plan.digest:
            return now  # on the engine as it is now
    raise expired_error("what would run changed while the question was open.")


async def _in_thread(
    threads: BoundedThreads, call: Invocation, deps: "Pipeline", work: Callable[[Drafting], T]
) -> T:
    """Does a part of planning in one of these threads. After a cancellation it ends at its next file or request."""
    ended = threading.Event()
    try:
        return await threads.run(call.request.principal, partial(work, replace(deps.drafting, ended=ended)))
    except BaseException:  # cancelled, or out of time; a draft that was made may look up more files later
        ended.set()
        raise
