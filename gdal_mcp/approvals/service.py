"""Decisions of people, recorded before they take effect: approvals, grants and their use. Blocking; call it in
threads.

Invariants:
* a decision is in the audit log before it is in the registry: a decision that cannot be recorded is not made;
* an approval is used once, by the call that reserved it: the one that asked, or the same call sent again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from gdal_mcp.approvals.model import Approval, Authorization, Decision, Grant
from gdal_mcp.approvals.states import OPEN, counts
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.schema import RegistryUnavailable

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ApprovalService:
    """`audit` appends an event to the audit log; `server` is the process that recorded the decision.

    Methods raise AuditUnavailable and RegistryUnavailable unless they raise an error of a call.
    """

    approvals: Approvals
    audit: Callable[[dict[str, Any]], object]
    server: str

    def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Records a decision. Returns the question as it is now; None if there is no such question.

        A question that is already decided does not change and nothing is recorded, except that an approval that was
        not used yet can still be denied. A no that does not count leaves the question open. Raises ToolError for an
        approval in a way that the policy does not accept.
        """
        row = self.approvals.approval(approval_id)
        if row is None or row.state not in (("asked",) if decision.approved else OPEN):
            return row
        counted = counts(decision.way, row.ways, approved=decision.approved)
        outcome = ("approved" if decision.approved else "denied") if counted else "not counted"
        self.audit(
            {
                "type": "approval.answered",
                "outcome": outcome,
                "approval": row.id,
                "plan": row.plan_digest,
                "call": row.call_id,
                "tool": row.tool,
                "subject": {"principal": row.principal},
                "source": {"server": self.server},
                "approved": decision.approved,
                "by": decision.by,
                "how": decision.how,
                "way": decision.way,
            }
        )
        if counted or not decision.approved:
            return self.approvals.decide(row.id, decision) or row
        raise ToolError(
            Code.DENIED,
            Stage.APPROVAL,
            f"approval by {decision.way} does not count for this call.",
            f"The policy asks for approval by: {', '.join(row.ways)}.",
        )

    def grant(self, grant: Grant, seconds: float) -> Grant:
        """Records an approval given in advance. Raises ValueError if `seconds` is longer than a grant may last."""
        self.audit(
            {
                "type": "grant.made",
                "outcome": "OK",
                "tool": grant.tool,
                "workspace": grant.workspace,
                "remote": list(grant.remote),
                "seconds": seconds,
                "subject": {"principal": grant.principal},
                "source": {"server": self.server},
                "by": grant.granted_by,
                "how": grant.granted_how,
            }
        )
        return self.approvals.grant(grant, seconds)

    def revoke(self, grant_id: str, by: str) -> Grant | None:
        """Ends a grant at once. Returns it as it is now; None if there is no such grant."""
        source = {"server": self.server}
        self.audit({"type": "grant.revoked", "outcome": "OK", "grant": grant_id, "by": by, "source": source})
        return self.approvals.revoke(grant_id, by)

    def granted(
        self, principal: str, tool: str, workspaces: tuple[str, ...], remote: tuple[str, ...]
    ) -> Grant | None:
        """The grant that covers such a call. A call that writes to several workspaces needs a grant for each."""
        grants = [self.approvals.granted(principal, tool, root, remote) for root in workspaces]
        return grants[0] if grants and all(grants) else None

    def require(self, authorization: Authorization) -> None:
        """Raises ToolError unless the call can still consume the approval that it reserved."""
        if authorization.approval_id:
            try:
                row = self.approvals.approval(authorization.approval_id)
            except RegistryUnavailable as error:
                raise unavailable_error(error) from error
            if row is None or (row.state, row.holder) != ("reserved", authorization.holder):
                raise _over_error(row)

    def consume(self, authorization: Authorization) -> None:
        """Consumes the approval that a call reserved, just before it starts. Raises ToolError if it was revoked."""
        if not authorization.approval_id:
            return
        try:
            if self.approvals.consume(authorization.approval_id, authorization.holder) is not None:
                return
            row = self.approvals.get(authorization.approval_id)
        except RegistryUnavailable as error:
            raise unavailable_error(error) from error
        raise _over_error(row)

    def end(self, authorization: Authorization) -> None:
        """Ends a call: an approval that it did not use can be used by the same call sent again."""
        if not authorization.approval_id:
            return
        try:
            self.approvals.end(authorization.approval_id, authorization.holder)
        except RegistryUnavailable:
            _log.exception("approval_not_released", approval=authorization.approval_id)


def _over_error(row: Approval | None) -> ToolError:
    if row is not None and row.state == "denied":
        return denied_error(row)
    return expired_error("the approval is over, or was used already.")


def denied_error(row: Approval) -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.APPROVAL,
        f"denied by {row.decided_by}.",
        "Do not repeat the call unless the person asks for it.",
    )


def expired_error(message: str) -> ToolError:
    suggestion = "Call again: what would run now is put to a person again."
    return ToolError(Code.APPROVAL_EXPIRED, Stage.APPROVAL, message, suggestion)


def unavailable_error(error: RegistryUnavailable | AuditUnavailable) -> ToolError:
    suggestion = "Approvals cannot be recorded, so nothing that needs one runs."
    return ToolError(Code.INTERNAL, Stage.APPROVAL, str(error), suggestion)
