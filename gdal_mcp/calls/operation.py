"""The behaviour of an ordinary call: its draft, and the files that go into and out of staging.

Special operations, such as uploads, override its methods.
"""

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
from gdal_mcp.toolboxes.untrusted import clean_text
from sandbox.outputs.staging import Staging
from sandbox.outputs.store import Publication, Published
from sandbox.waiting import Cancellation
from sandbox.workspace import WorkspacePath, Workspaces

if TYPE_CHECKING:
    from gdal_mcp.calls.drafting import Drafted, Drafting
    from gdal_mcp.calls.entitlements import Entitlements
    from gdal_mcp.calls.invocation import Invocation, Request


@dataclass(frozen=True)
class Operation:
    """An ordinary call. Uploads, replays and workflows override the parts that differ."""

    tool: Tool | None = None  # the tool to use instead of the caller's tool of that name
    as_new: str = ""  # id of a call to draft again, ignoring existing outputs
    # False for calls that are only in the audit log, such as thumbnails of the console
    in_history: bool = True
    approval_wait: float | None = None  # seconds to wait for approval; None uses the server's setting
    # for a step of a workflow: the workflow's authorization, so that nobody is asked again
    authorization: Authorization | None = None
    part_of: str = ""  # id of the call that it is a step of
    nested: bool = False  # True if it uses the slot and rates of the call that it is part of
    joins: bool = False  # True if an identical call, sent while this one runs, waits for this one's reply
    runs_steps: bool = False  # True if `before` makes other calls
    reads_remote: bool = True  # False if other calls read the remote data of its draft

    def entitled(self, entitlements: "Entitlements") -> "Entitlements":
        """The entitlements of the call."""
        return entitlements

    def draft(self, call: "Invocation", drafting: "Drafting") -> "Drafted | ImmediateResult":
        """The draft of the call, or the answer of a tool that runs nothing. Blocking. Raises ToolError."""
        return drafting.draft(call)

    def look(self, call: "Invocation", preflight: Preflight) -> Draft | None:
        """A job that describes inputs that are not known well enough; None if there are none."""
        return preflight.description(call.plan.draft)

    def visible(self, _draft: Draft, workspaces: Workspaces) -> Workspaces:
        """The workspaces that the call's container may see."""
        return workspaces

    def places(self, _draft: Draft, _workspaces: Workspaces) -> tuple[WorkspacePath, ...] | None:
        """The parts of the workspaces that the container sees; None for all workspaces as a whole."""
        return None

    def job(self, draft: Draft) -> Draft:
        """The draft as the container runs it."""
        return draft

    def before(self, call: "Invocation", cancel: Cancellation) -> None:
        """Runs after the start is recorded and before a container is claimed. Blocking. Raises ToolError."""

    def ended(self, call: "Invocation") -> None:
        """Releases the call's resources, also after a failure."""

    def accept(self, draft: Draft) -> None:
        """Raises ToolError for a draft that this operation does not allow."""

    def copies(self, draft: Draft) -> bool:
        """True if anything is copied into staging before the job."""
        return bool(draft.files.copies) or any(output.update for output in draft.outputs)

    def copy_in(
        self,
        call: "Invocation",
        staging: Staging,
        mount_source: Callable[[Path], Path],
        check_cancelled: Callable[[], object],
    ) -> None:
        """Copies the files that the command changes, and those that the host copies for it.

        `mount_source` is `Templates.mount_source`, `check_cancelled` is as in `Staging.copy_in`.
        """
        draft, limits = call.plan.draft, call.plan.limits
        updated = (output for output in draft.outputs if output.update)
        worked_on = [
            (located, located.name) for output in updated for located in (*output.replaces, *output.shared)
        ]
        for located, name in (*worked_on, *((copy.source, copy.target.name) for copy in draft.files.copies)):
            staging.copy_in(located, name, limits, mount_source(located.workspace.root), check_cancelled)

    def publish(self, call: "Invocation", staging: Staging, _cancel: Cancellation) -> Published:
        """Publishes the files in staging. Raises ToolError for a file that belongs to no output, and SandboxError."""
        plan, draft, belongs = call.plan, call.plan.draft, call.toolbox.answering.belongs
        publications = tuple(
            _publication(staged.name, draft, belongs) for staged in staging.collect(plan.limits)
        )
        gone = (*(old for output in draft.outputs for old in output.replaces), *draft.files.removes)
        return staging.publish(
            plan.call_id,
            publications,
            removes=gone,
            transfers=draft.files.transfers,
            listings=draft.files.listings,
        )

    def next_request(self, _call: "Invocation") -> "Request | None":
        """The request to make after a call has ended, in place of its reply; None if the reply is final."""
        return None

    def explain(self, error: ToolError) -> ToolError:
        return error


ORDINARY = Operation(joins=True)


def _publication(name: str, draft: Draft, belongs: Callable[[str, str], int]) -> Publication:
    """The target of a staged file.

    Raises ToolError if the file belongs to no output, or would replace a file of another dataset.
    """
    closeness = [belongs(name, output.target.name) for output in draft.outputs]
    best = max(closeness, default=0)
    closest = [
        output for output, close in zip(draft.outputs, closeness, strict=True) if best and close == best
    ]
    # the file belongs to no output, or to outputs in several folders
    if len({output.target.path.parent for output in closest}) != 1:
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
