"""Questions, answers, and approvers."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from gdal_mcp.approvals.states import State
from gdal_mcp.policy.policy import WAYS, Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question to a person, bound to one plan and one principal. The registry sets `id` and times."""

    id: str = ""
    plan_digest: str
    principal: str
    tool: str
    summary: str
    created: float = 0.0
    expires: float = 0.0
    state: State = "asked"
    decided_by: str = ""
    decided_how: str = ""
    decided_way: str = ""
    decided_at: float | None = None
    call_id: str = ""
    effect: str = ""
    workspaces: tuple[str, ...] = ()  # workspaces that the call writes to
    ways: tuple[str, ...] = tuple(sorted(WAYS))  # ways in which an approval counts
    details: Mapping[str, Any] = field(default_factory=dict)  # `question.parts`
    holder: str = (
        ""  # `SERVER:CALL` of the call that waits for the answer or reserved it; "" if there is none
    )
    valid_seconds: float = 3600.0  # seconds from the decision for which a yes can be used


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer: who gave it, how in words, and in which way."""

    approved: bool
    by: str
    how: str
    way: Channel


@dataclass(frozen=True, slots=True)
class Grant:
    """Approval for every call of one tool that writes to one workspace, until it expires or is revoked.

    Such a call may read remote data in the folders of `remote`, each a host with the beginning of a path.
    """

    principal: str
    tool: str
    workspace: str
    granted_by: str
    granted_how: str
    id: str = ""
    created: float = 0.0
    expires: float = 0.0
    revoked: float | None = None
    revoked_by: str = ""
    remote: tuple[str, ...] = ()

    def covers(self, folders: Iterable[str]) -> bool:
        """True if remote data of these folders may be read."""
        return all(folder.startswith(self.remote) for folder in folders)

    def holds(self, now: float) -> bool:
        return self.revoked is None and now < self.expires

    def state(self, now: float) -> str:
        return "active" if self.holds(now) else "revoked" if self.revoked is not None else "ended"


@dataclass(frozen=True, slots=True)
class Authorization:
    """The permission of a call to run. With an `approval_id`, the call `holder` has reserved that approval and must
    consume it.

    `reads` are the remote hosts and folders that the approver saw; None if nobody was asked.
    """

    text: str
    approval_id: str = ""
    holder: str = ""
    reads: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """A question as shown to a person: the ways in which a yes counts now, and its page if there is a console."""

    row: Approval
    ways: frozenset[Channel] = WAYS
    url: str | None = None


class Suspended(Exception):
    """The question was sent with the reply; the client repeats the call with the answer."""

    def __init__(self, reply: object) -> None:
        super().__init__("waiting for an answer")
        self.reply = reply


class Approver(Protocol):
    """Asks a person. The methods of this class ask nobody, so nothing is approved."""

    def asks(self, ways: frozenset[Channel]) -> bool:  # noqa: ARG002 - for those that ask
        """True if somebody can be asked in one of these ways, and their approval counts."""
        return False

    def answered(self) -> "tuple[str, Decision | None] | None":
        """The approval id and answer of a repeated call, if any; no answer if its user was only sent to a page."""
        return None

    def again(self) -> "Approver | None":
        """The approver for another question within the same request; None if nobody would see that question."""
        return self

    async def ask(self, question: ApprovalQuestion) -> Decision | None:  # noqa: ARG002 - for those that ask
        """The answer, or None if nobody can be asked this way. May raise Suspended."""
        return None


class NullApprover(Approver):
    """The approver if no person can be reached."""


@dataclass(frozen=True, slots=True)
class Terminal(Approver):
    """The person at the terminal. Prints the question on stderr and reads the answer.

    With `assume_yes` the command itself is the approval, recorded as `how`.
    """

    user: str
    assume_yes: bool = False
    how: str = "--yes"

    def asks(self, ways: frozenset[Channel]) -> bool:
        return "terminal" in ways and (self.assume_yes or sys.stdin.isatty())

    def again(self) -> Approver | None:
        return None if self.assume_yes else self

    async def ask(self, question: ApprovalQuestion) -> Decision | None:
        if not self.asks(question.ways):
            return None
        if self.assume_yes:
            return Decision(approved=True, by=self.user, how=self.how, way="terminal")
        sys.stderr.write(f"{question.row.summary}\n\nRun it? [y/N] ")
        sys.stderr.flush()
        await anyio.wait_readable(sys.stdin)  # a terminal returns whole lines; Ctrl-C ends the wait
        yes = sys.stdin.readline().strip().lower() in ("y", "yes")
        return Decision(approved=yes, by=self.user, how="terminal", way="terminal")
