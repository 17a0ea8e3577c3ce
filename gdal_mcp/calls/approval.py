"""The approval of a call: the request with all that a person is shown, its record, and its release."""

from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio.to_thread import run_sync

from gdal_mcp.approvals.model import Authorization
from gdal_mcp.approvals.question import Forecast
from gdal_mcp.approvals.waiting import ApprovalQueue, ApprovalRequest
from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.errors import ToolError
from gdal_mcp.policy.policy import RequireApproval

if TYPE_CHECKING:
    from gdal_mcp.calls.pipeline import Pipeline

_log = structlog.get_logger()


def approval_request(call: Invocation, deps: "Pipeline", verdict: RequireApproval) -> ApprovalRequest:
    image, known = call.host.image, call.preflight
    where = {
        "image": image.reference,
        "digest": image.digest,
        "tier": call.host.tier(deps.settings),
        "stand_in": image.standin,
    }
    preflight = call.entitlements.preflights[call.toolbox.name]
    checks = [finding.as_dict() for finding in known.findings]
    becomes = preflight.becomes(call.plan.draft)
    sizes = preflight.size_of, preflight.kind_of
    forecast = Forecast(known.figures, checks, *sizes, becomes, call.request.client)
    return ApprovalRequest(call.plan, verdict, call.request.approver, forecast, where, call.report_progress)


def approvals_of(call: Invocation, deps: "Pipeline") -> ApprovalQueue:
    """The server's queue, with the waiting time of the call's operation."""
    seconds = call.request.operation.approval_wait
    return deps.approvals if seconds is None else replace(deps.approvals, wait_seconds=seconds)


async def release_approval(authorization: Authorization, deps: "Pipeline") -> None:
    with anyio.CancelScope(shield=True):
        await run_sync(deps.approvals.service.end, authorization)


def record_question(call: Invocation, deps: "Pipeline") -> None:
    """Records that the client was asked for approval and will call again."""
    try:
        deps.records.record_event(call, "approval.requested", "asked")
    except ToolError:
        _log.exception("audit_failed", call=call.call_id)
