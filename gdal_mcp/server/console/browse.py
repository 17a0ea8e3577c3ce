"""Lists the files in the workspaces of a viewer, and creates folders.

Invariants:
* a viewer sees what a call of `list_workspace` by the same principal shows, without approval;
* only a viewer who could approve a call that writes can create a folder, and only where the policy does not deny it;
  the audit log records it first;
* if the server runs as root, a new folder gets the owner of its parent folder, as the outputs of calls do.
"""

from dataclasses import dataclass
from typing import Any, Final

from gdal_mcp.calls.execution import make_folder
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.policy.identity import WRITE
from gdal_mcp.policy.policy import Deny, case, decide
from gdal_mcp.server.app import App
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.operations.allowed_calls import call_if_allowed
from sandbox.errors import SandboxError
from sandbox.workspace import WorkspacePath, Workspaces

ROWS: Final = 60  # entries in one page of a folder
TOOL: Final = "console.make_folder"  # name of this action in the audit log and the policy


@dataclass(frozen=True, slots=True)
class Browse:
    app: App

    async def rows(self, viewer: Viewer, path: str | None, cursor: str | None) -> dict[str, Any]:
        """A page of the entries of a folder. Raises Refused."""
        arguments = {"path": path or ".", "limit": ROWS, **({"cursor": cursor} if cursor else {})}
        reply = await call_if_allowed(self.app, viewer.principal, "list_workspace", arguments)
        if reply is None:
            raise Refused(403, "The policy asks a person before files are listed.")
        if reply.error is not None:
            raise Refused(409, f"{reply.error.message} {reply.error.suggestion}")
        return {"entries": reply.result["entries"], "next": reply.result.get("next_cursor")}

    def make_folder(self, viewer: Viewer, workspaces: Workspaces, path: object) -> dict[str, str]:
        """Creates one folder in an existing folder. Raises Refused, AuditUnavailable."""
        if not (viewer.decides and viewer.principal.holds(WRITE)):
            raise Refused(403, "Making a folder needs the scopes gdal:approve and gdal:write.")
        target = self._target(viewer, workspaces, path)
        event = {
            "type": "folder.started",
            "outcome": "started",
            "call": "",
            "subject": {"principal": viewer.name, "client": viewer.how},
            "source": {"server": self.app.owner.id},
            "tool": TOOL,
            "object": {"outputs": [str(target)]},
        }
        self.app.audit.append(event)
        try:
            make_folder(target.workspace, target.relative)
        except (OSError, SandboxError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.app.audit.append(
                {**event, "type": "folder.finished", "outcome": "failed", "message": reason or ""}
            )
            raise Refused(409, f"The folder cannot be made: {reason}.") from error
        self.app.audit.append({**event, "type": "folder.finished", "outcome": "OK"})
        return {"path": str(target)}

    def _target(self, viewer: Viewer, workspaces: Workspaces, path: object) -> WorkspacePath:
        if not isinstance(path, str):
            raise Refused(400, "`path` is a text.")
        try:
            target = workspaces.output(path)
        except SandboxError as error:
            raise Refused(409, str(error)) from error
        if target.identity is not None:
            raise Refused(409, "Something with that name already exists.")
        draft = Draft(Command("mkdir", (), ()), (), (Output(target, kind="folder"),))
        if isinstance(verdict := decide(case(draft, TOOL, viewer.name), self.app.pipeline.policy), Deny):
            raise Refused(403, f"The policy denies it: {verdict.reason}.")
        return target
