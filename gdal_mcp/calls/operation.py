"""How a call's files get into staging and out of it: for ordinary calls, and what other operations may override."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gdal_mcp.approvals.model import Authorization
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import ImmediateResult, Tool
from gdal_mcp.toolboxes.preflight import Preflight
from gdal_mcp.untrusted import clean_text
from sandbox.outputs.staging import Staging
from sandbox.outputs.store import Publication, Published
from sandbox.waiting import Cancellation
from sandbox.workspace import WorkspacePath, Workspaces

if TYPE_CHECKING:
    from gdal_mcp.calls.drafting import Drafted, Drafting
    from gdal_mcp.calls.entitlements import Entitlements
    from gdal_mcp.calls.invocation import Invocation


@dataclass(frozen=True)
class Operation:
    """An ordinary call. Uploads, replays and workflows override what they do differently."""

    tool: Tool | None = None  # instead of the one that the caller has by that name
    as_new: str = ""  # drafted as the call of this id was, as if nothing stood where its outputs go
    in_history: bool = True  # else it is in the audit log alone, as a thumbnail of the console is
    approval_wait: float | None = None  # seconds that it waits for approval; None is the server's setting
    # of a step of a workflow: the authorization of the workflow, so that the step is not asked for
    authorization: Authorization | None = None
    part_of: str = ""  # the id of the call that it is a step of
    nested: bool = False  # runs in the slot, and within the rates, of the call that it is a part of
    joins: bool = False  # the same call, sent again while this one runs, waits for this one's reply
    reads_remote: bool = True  # False when the remote data of its draft is read by other calls

    def entitled(self, entitlements: "Entitlements") -> "Entitlements":
        """What the call may use of the server."""
        return entitlements

    def draft(self, call: "Invocation", drafting: "Drafting") -> "Drafted | ImmediateResult":
        """What the call would do. Blocking. Raises ToolError."""
        return drafting.draft(call)

    def look(self, call: "Invocation", preflight: Preflight) -> Draft | None:
        """A job that describes inputs of which too little is known; None where there are none."""
        return preflight.description(call.plan.draft)

    def visible(self, _draft: Draft, workspaces: Workspaces) -> Workspaces:
        """The workspaces that its container may see."""
        return workspaces

    def places(self, _draft: Draft, _workspaces: Workspaces) -> tuple[WorkspacePath, ...] | None:
        """What its container sees of the workspaces; None is the whole of each."""
        return None

    def job(self, draft: Draft) -> Draft:
        """What its container is asked to do."""
        return draft

    def before(self, call: "Invocation", cancel: Cancellation) -> None:
        """What is done once the start is recorded and before a container is claimed. Blocking. Raises ToolError."""

    def ended(self, call: "Invocation") -> None:
        """Releases what the call held, also after a failure."""

    def accept(self, draft: Draft) -> None:
        """Raises ToolError for a draft that this operation does not allow."""

    def copies(self, draft: Draft) -> bool:
        """True if anything is copied into staging before the job."""
        return bool(draft.copies) or any(output.update for output in draft.outputs)

    def copy_in(
        self, call: "Invocation", staging: Staging, seen: Callable[[Path], Path], go_on: Callable[[], object]
    ) -> None:
        """Copies what the command changes, and what the host copies for it. `seen` as `Hosting.seen`, `go_on` as `Staging.copy_in`."""
        draft, limits = call.plan.draft, call.plan.limits
        updated = (output for output in draft.outputs if output.update)
        worked_on = [(one, one.name) for output in updated for one in (*output.replaces, *output.shared)]
        for located, name in (*worked_on, *((one.source, one.target.name) for one in draft.copies)):
            staging.copy_in(located, name, limits, seen(located.workspace.root), go_on)

    def publish(self, call: "Invocation", staging: Staging, _cancel: Cancellation) -> Published:
        """Publishes what the command left in staging. Raises ToolError for a file that belongs to no output, SandboxError."""
        plan, draft, belongs = call.plan, call.plan.draft, call.toolbox.answering.belongs
        publications = tuple(_publication(one.name, draft, belongs) for one in staging.collect(plan.limits))
        gone = (*(old for output in draft.outputs for old in output.replaces), *draft.removes)
        return staging.publish(
            plan.call_id, publications, removes=gone, transfers=draft.transfers, listings=draft.listings
        )

    def explain(self, error: ToolError) -> ToolError:
        return error


ORDINARY = Operation(joins=True)


def _publication(name: str, draft: Draft, belongs: Callable[[str, str], int]) -> Publication:
    """Where a staged name goes. Raises ToolError for one that belongs to no output, or would replace a stranger."""
    closeness = [belongs(name, output.target.name) for output in draft.outputs]
    best = max(closeness, default=0)
    closest = [one for one, close in zip(draft.outputs, closeness, strict=True) if best and close == best]
    if len({output.target.path.parent for output in closest}) != 1:  # none, or in several folders
        raise _rejected(name, "the command wrote a file that does not belong to the output")
    output = closest[0]
    known = {located.name: located for located in (*output.replaces, *output.shared)}
    if name in known:
        return Publication(name, known[name])
    if os.path.lexists(output.target.path.parent / name):
        raise _rejected(
            name, "a file of the output would replace a file that does not belong to the old output"
        )
    return Publication(name, WorkspacePath(output.target.workspace, output.target.relative.parent / name))


def _rejected(name: str, why: str) -> ToolError:
    return ToolError(
        Code.OUTPUT_REJECTED,
        Stage.PUBLISH,
        f"{why}, so nothing was published.",
        "Choose another name for the output; that of the file is under `untrusted`.",
        {"name": clean_text(name, 255)},
    )
