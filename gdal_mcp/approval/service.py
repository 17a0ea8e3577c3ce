"""Decisions of people, recorded before they count: approvals, grants and their use. Synchronous, for threads.

Invariants:
* a decision is in the audit log before it is in the registry: what cannot be recorded is not decided;
* an approval is used once, for the plan and the principal that it was given for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gdal_mcp.approval.model import Approval, Decision, Grant
from gdal_mcp.approval.store import Approvals
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.schema import RegistryUnavailable
from gdal_mcp.plan import Plan


@dataclass(frozen=True, slots=True)
class ApprovalService:
    """`audit` appends an event to the audit log; `server` names in it the process that recorded the decision.

    Methods raise AuditUnavailable and RegistryUnavailable where no error of a call is named.
    """

    approvals: Approvals
    audit: Callable[[dict[str, Any]], object]
    server: str

    def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Records a decision. Returns the question as it is now; None if there is no such question.

        Of a question that is already decided nothing is changed or recorded, except that an approval that was not used
        yet can still be denied. Raises ToolError for an approval given in a way that the policy does not accept.
        """
        row = self.approvals.approval(approval_id)
        if row is None or row.state not in (("pending",) if decision.approved else ("pending", "approved")):
            return row
        self.audit(
            {
                "type": "approval.answered",
                "outcome": "approved" if decision.approved else "denied",
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
        after = self.approvals.decide(row.id, decision) or row
        if after.state == "pending":
            raise ToolError(
                Code.DENIED,
                Stage.APPROVAL,
                f"approval by {decision.way} does not count for this call.",
                f"The policy asks for approval by: {', '.join(after.ways)}.",
            )
        return after

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

    def consume(self, plan: Plan) -> str:
        """Uses up the approval of this plan and tells who gave it. Raises ToolError if there is none."""
        try:
            row = self.approvals.consume(plan.digest, plan.principal)
        except RegistryUnavailable as error:
            raise unavailable_error(error) from error
        if row is None:
            raise expired_error("the approval was for something else, was used already, or came too late.")
        return f"approved by {row.decided_by} ({row.decided_how})"


def expired_error(message: str) -> ToolError:
    suggestion = "Call again: what would run now is put to a person again."
    return ToolError(Code.APPROVAL_EXPIRED, Stage.APPROVAL, message, suggestion)


def unavailable_error(error: RegistryUnavailable | AuditUnavailable) -> ToolError:
    suggestion = "Approvals cannot be recorded, so nothing that needs one runs."
    return ToolError(Code.INTERNAL, Stage.APPROVAL, str(error), suggestion)
