"""The data and the actions of a viewer: the console without HTTP.

Invariants:
* a viewer who may not see a principal's records gets the same answer as if they did not exist;
* decisions, undos and revocations are in the audit log before they happen; a cancellation is in the record of the
  call's end.

Methods are for threads, except `cancel`, which is for the event loop. They raise Refused if something does not exist
or is not allowed.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.states import APPROVED_STATES, OPEN
from gdal_mcp.calls.activity import ChangedCall
from gdal_mcp.records.audit import tail
from gdal_mcp.records.registry import Artifact, Call
from gdal_mcp.records.statement import record, statement
from gdal_mcp.server.app import App
from gdal_mcp.server.console import serializers
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.operations.undoing import can_undo, undo

ROWS: Final = 50  # calls in one page of the history
TILES: Final = 24  # outputs in one page
GRANT_MINUTES: Final = (15, 30, 60)
_AUDIT_LOOK: Final = 2000  # records at the end of the log that are searched for those of one call
_WORDS: Final = 8  # words of a search; each is searched in every row


@dataclass(frozen=True, slots=True)
class ConsoleService:
    app: App

    def decide(self, viewer: Viewer, approval_id: str, approved: object) -> dict[str, Any]:
        """Decides a question. `yours` is False if the question was already decided or has expired.

        Raises ToolError if the policy does not accept approval by the console, AuditUnavailable.
        """
        if not isinstance(approved, bool):
            raise Refused(400, "`approved` must be true or false.")
        row, started, yours = self._question(viewer, approval_id), time.time(), False
        if not viewer.decides:
            raise Refused(403, "Deciding needs the scope gdal:approve.")
        if row.state == "asked" or (row.state in OPEN and not approved):
            decided = self.app.approvals.decide(
                row.id, Decision(approved, viewer.name, viewer.how, "console")
            )
            row = decided or row
            as_asked = row.state in APPROVED_STATES if approved else row.state == "denied"
            yours = as_asked and row.decided_how == viewer.how and (row.decided_at or 0.0) >= started
        return {**serializers.decision(row), "yours": yours}

    def allow(self, viewer: Viewer, approval_id: str, minutes: object) -> dict[str, Any]:
        """Approves this question, and further calls of its tool in its workspaces for some minutes."""
        if not isinstance(minutes, int) or isinstance(minutes, bool) or minutes not in GRANT_MINUTES:
            raise Refused(400, f"Approval in advance must be for one of {GRANT_MINUTES} minutes.")
        row = self._question(viewer, approval_id)
        if not serializers.can_be_granted(row):
            raise Refused(409, "Such calls have to be approved one by one.")
        answer = self.decide(viewer, approval_id, approved=True)
        remote = tuple(folder for host in row.details.get("remote") or () for folder in host["folders"])
        for workspace in row.workspaces if answer["yours"] else ():
            grant = Grant(row.principal, row.tool, workspace, viewer.name, viewer.how, remote=remote)
            self.app.approvals.grant(grant, minutes * 60.0)
        return answer

    def question(self, viewer: Viewer, approval_id: str) -> dict[str, Any]:
        row = self._question(viewer, approval_id)
        return {"question": serializers.question(row, viewer), **serializers.decision(row)}

    def _question(self, viewer: Viewer, approval_id: str) -> Approval:
        row = self.app.approvals.approvals.approval(approval_id)
        if row is None or not viewer.sees_question(row.principal):
            raise Refused(404, "That question does not exist.")
        return row

    def replaced(self, viewer: Viewer, approval_id: str, number: int) -> Artifact:
        """The output that a question's call would replace or delete, by its number: replaced ones first, then deleted
        ones.
        """
        details = self._question(viewer, approval_id).details
        writes = (details.get("writes") or {}).get("shown") or ()
        rows = [row for write in writes for row in write["replaces"]["shown"]]
        rows += (details.get("removes") or {}).get("shown") or ()
        uri = Path(rows[number]["path"]).as_uri() if 0 <= number < len(rows) else ""
        artifact = self.app.registry.artifact(uri, viewer.of)
        if artifact is None:
            raise Refused(404, "No preview is available.")
        return artifact

    async def cancel(self, viewer: Viewer, call_id: str) -> dict[str, Any]:
        activity = self.app.pipeline.activity
        running = next((call for call in activity.all() if call.call_id == call_id), None)
        if running is None or not viewer.can_manage(running.principal):
            raise Refused(404, "That call is not running here, or has ended.")
        return {"cancelled": activity.cancel(call_id, viewer.name)}

    def history(
        self,
        viewer: Viewer,
        text: str | None,
        outcome: str | None,
        cursor: str | None,
        checks: str | None = None,
    ) -> dict[str, Any]:
        """The calls that contain all words of the text, newest first.

        Calls that only check another call are included if `checks` is set.
        """
        words = tuple((text or "")[:400].split())
        if len(words) > _WORDS:
            raise Refused(400, f"Search for at most {_WORDS} words.")
        try:
            hidden = (
                ()
                if checks
                else tuple(
                    box.analysis.validates for box in self.app.toolboxes.items if box.analysis.validates
                )
            )
            page = self.app.registry.search(words, outcome or None, viewer.of, cursor, ROWS, without=hidden)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return {"calls": [serializers.listed(call) for call in page.items], "next": page.next_cursor}

    def call(self, viewer: Viewer, call_id: str) -> dict[str, Any]:
        call = self._call(viewer, call_id)
        datasets = {str(row["path"]): row for row in call.outputs}
        artifacts = self.app.registry.artifacts_of(call.id)
        audited = [
            {"seq": entry.seq, "time": entry.time, "type": entry.event.get("type"), "hash": entry.hash}
            for entry in tail(self.app.audit.path, _AUDIT_LOOK)
            if entry.event.get("call") == call.id
        ]
        return {
            "principal": call.principal,
            "record": record(call, self.app.registry.steps_of(call.id)),
            "statement": statement(call),
            "artifacts": [
                serializers.artifact(artifact, datasets.get(artifact.path)) for artifact in artifacts
            ],
            "audit": audited,
            "undone": bool(call.undone),
            "undoable": viewer.may_undo(call.principal) and can_undo(self.app, call.id),
        }

    def _call(self, viewer: Viewer, call_id: str) -> Call:
        call = self.app.registry.call(call_id, viewer.of)
        if call is None:
            raise Refused(404, "That call does not exist.")
        return call

    def undo(self, viewer: Viewer, call_id: str) -> tuple[dict[str, Any], ChangedCall]:
        """Undoes a call. Returns the result, and the change to announce. Raises SandboxError if an undo is not
        possible.
        """
        call = self._call(viewer, call_id)
        if not viewer.may_undo(call.principal):
            raise Refused(403, "An undo needs the scope gdal:approve, or gdal:admin for the calls of others.")
        undone = undo(self.app, call.id, viewer.name)
        uris = (Path(path).as_uri() for path in dict.fromkeys((*undone["restored"], *undone["taken_away"])))
        return undone, ChangedCall(call.principal, call.id, tuple(uris))

    def outputs(self, viewer: Viewer, cursor: str | None) -> dict[str, Any]:
        try:
            page = self.app.registry.artifacts(cursor, TILES, principal=viewer.of)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        datasets: dict[tuple[str, str], Any] = {}
        tools: dict[str, str] = {}
        for call_id in {artifact.call_id for artifact in page.items}:
            call = self.app.registry.call(call_id)
            tools[call_id] = call.tool if call else ""
            datasets |= {(call_id, str(row["path"])): row for row in (call.outputs if call else ())}
        rows = [
            {
                **serializers.artifact(artifact, datasets.get((artifact.call_id, artifact.path))),
                "tool": tools[artifact.call_id],
            }
            for artifact in page.items
            if not Path(artifact.path).is_relative_to(self.app.settings.state.workflows)
            if (artifact.call_id, artifact.path) in datasets
            or not any(
                call == artifact.call_id and _is_sidecar(artifact.path, path) for call, path in datasets
            )
        ]
        return {"outputs": rows, "next": page.next_cursor}

    def artifact(self, viewer: Viewer, number: int) -> Artifact:
        artifact = self.app.registry.artifact_numbered(number, viewer.of)
        if artifact is None:
            raise Refused(404, "That output does not exist, or was undone.")
        return artifact

    def grants(self, viewer: Viewer) -> dict[str, Any]:
        now = time.time()
        visible = (
            grant for grant in self.app.approvals.approvals.grants() if viewer.sees_question(grant.principal)
        )
        return {"grants": [serializers.grant(grant, now, viewer) for grant in visible]}

    def revoke(self, viewer: Viewer, grant_id: str) -> dict[str, Any]:
        grant = next((grant for grant in self.app.approvals.approvals.grants() if grant.id == grant_id), None)
        if grant is None or not viewer.sees_question(grant.principal):
            raise Refused(404, "That grant does not exist.")
        now = time.time()
        if grant.holds(now) and not serializers.grant(grant, now, viewer)["revocable"]:
            raise Refused(403, "Revoking it needs the scope gdal:admin.")
        after = self.app.approvals.revoke(grant_id, viewer.name)
        return serializers.grant(after or grant, now, viewer)


def _is_sidecar(path: str, dataset: str) -> bool:
    """True if a file is a sidecar of a dataset, as `dem.tif.aux.xml` is of `dem.tif`, and `roads.dbf` of `roads.shp`."""
    stem = dataset.rpartition(".")[0] or dataset
    return path != dataset and (path.startswith(f"{dataset}.") or path.rpartition(".")[0] == stem)
