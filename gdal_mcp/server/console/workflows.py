"""A workflow on the console: the prediction, the result and the state of each step, and a retry from a step.

Invariants:
* a picture of a step is only for a viewer who has the workspaces of all files that the steps read, and of all
  outputs;
* a workflow is run again only by its own caller, and is checked and approved like any call.

Methods are for threads, except `retry`, which is for the event loop. They raise Refused if something does not exist
or is not allowed.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from anyio.to_thread import run_sync

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.calls.workflows.steps import WorkflowStep, step_folders
from gdal_mcp.calls.workflows.store import StepStore
from gdal_mcp.records.registry import Artifact, Call
from gdal_mcp.server.app import App
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.operations.forecasts import find_forecast
from sandbox.workspace import Workspaces

TOOL: Final = "workflow_run"


@dataclass(frozen=True, slots=True)
class Workflows:
    """The workflows of one server."""

    app: App

    @property
    def store(self) -> StepStore:
        return StepStore(self.app.settings.state.workflows)

    def show(self, viewer: Viewer, call_id: str) -> dict[str, Any]:
        """The workflow of a call: its steps in order, each with its prediction and its result."""
        forecast, call = self._find(viewer, call_id)
        calls = self._step_calls(call)
        return {
            "id": call_id,
            **{name: forecast[name] for name in ("principal", "name", "title", "publishes")},
            "outcome": call.outcome if call else "",
            "ended": call is not None and call.finished is not None,
            "message": call.message if call else "",
            "question": self._open_question(call_id),
            "undone": bool(call and call.undone),
            "retryable": call is not None and self._why_not(viewer, call) is None,
            "steps": [self._step(row, call, calls.get(row["id"])) for row in forecast["steps"]],
        }

    def artifact(self, viewer: Viewer, workspaces: Workspaces, call_id: str, step: str) -> Artifact:
        """The first output of a step, which is stored outside every workspace."""
        forecast, call = self._find(viewer, call_id)
        calls = self._step_calls(call)
        reused = {row["id"]: row["reused"] for row in forecast["steps"]}
        if step not in reused:
            raise Refused(404, "That step does not exist.")
        self._require_sources(workspaces, forecast, calls.values())
        source = calls.get(step) or self.app.registry.call(reused[step] or "")
        first = str(source.outputs[0]["path"]) if source and source.outputs else ""
        artifacts = [
            artifact
            for artifact in self.app.registry.artifacts_of(source.id if source else "")
            if artifact.path == first
        ]
        if not artifacts:
            raise Refused(404, "This step wrote no file that can be shown.")
        return artifacts[0]

    async def retry(self, viewer: Viewer, call_id: str, step: object) -> dict[str, Any]:
        """Runs the workflow again as a new call, from a step on.

        The results of this step and of all steps that depend on it are made again. Returns when the call ends, which
        may take hours.
        """
        request = await run_sync(self._again, viewer, call_id, step)
        reply: Reply = await self.app.pipeline.call(request)
        error = reply.error
        return {"call": reply.call_id, "error": f"{error.message} {error.suggestion}" if error else None}

    def _again(self, viewer: Viewer, call_id: str, step: object) -> Request:
        forecast, call = self._find(viewer, call_id)
        if call is None:
            raise Refused(404, "That workflow has no record yet.")
        if (why := self._why_not(viewer, call)) is not None:
            raise why
        after = {row["id"]: row["after"] for row in forecast["steps"]}
        if step not in after:
            raise Refused(404, "That step does not exist.")
        calls, again = self._step_calls(call), _dependent(str(step), after)
        reused = {row["id"]: row["reused"] for row in forecast["steps"]}
        forget(
            self.store,
            {calls[step_id].id if step_id in calls else reused[step_id] or "" for step_id in again},
        )
        operation = self.app.pipeline.operations[TOOL]
        return Request(
            TOOL,
            {name: value for name, value in call.arguments.items() if name != "fresh"},
            viewer.principal,
            "console",
            NullApprover(),
            operation=replace(operation, approval_wait=self.app.settings.approval_seconds),
        )

    @staticmethod
    def _why_not(viewer: Viewer, call: Call) -> Refused | None:
        """The reason why a viewer cannot run a workflow again; None if nothing prevents it."""
        if call.principal != viewer.name:
            return Refused(403, "Only the caller of a workflow can run it again.")
        if call.finished is None:
            return Refused(409, "The workflow is still running. Cancel it first.")
        if "workflow" not in call.arguments:
            return Refused(409, "The workflow was not recorded. Ask the assistant to send it again.")
        return None

    def _find(self, viewer: Viewer, call_id: str) -> tuple[Mapping[str, Any], Call | None]:
        """The forecast of a workflow, and the record of its call; None if the call has not started."""
        forecast = find_forecast(self.app.settings, call_id)
        if forecast is None:
            raise Refused(404, "That workflow does not exist.")
        decides = viewer.decides and self._open_question(call_id) is not None
        if not (viewer.can_manage(forecast["principal"]) or decides):
            raise Refused(404, "That workflow does not exist.")
        return forecast, self.app.registry.call(call_id)

    def _open_question(self, call_id: str) -> str | None:
        pending = self.app.approvals.approvals.pending()
        return next((row.id for row in pending if row.call_id == call_id), None)

    def _step_calls(self, call: Call | None) -> dict[str, Call]:
        """The calls of the steps that started, by step; the last call of a step that had several."""
        if call is None:
            return {}
        calls = self.app.registry.steps_of(call.id)
        # the authorization of a step's call: `step ID of call CALL`
        return {step.approval.removeprefix("step ").partition(" of call ")[0]: step for step in calls}

    def _step(self, row: Mapping[str, Any], call: Call | None, step_call: Call | None) -> dict[str, Any]:
        source = step_call or (self.app.registry.call(row["reused"]) if row["reused"] else None)
        running = {active.call_id: active for active in self.app.pipeline.activity.all()}
        progress = running.get(step_call.id) if step_call else None
        return {
            **{name: row[name] for name in ("id", "tool", "command", "after", "state", "crs")},
            "predicts": row.get("predicts", ""),
            "checks": row.get("checks", []),
            "unknown": row.get("unknown", []),
            "error": (row.get("error") or {}).get("message"),
            "stands": _step_state(row, call, step_call),
            "message": step_call.message if step_call else "",
            "fraction": progress.fraction if progress else None,
            "seconds": step_call.finished - step_call.started
            if step_call and step_call.finished is not None
            else None,
            "call": source.id if source else None,
            "came": _result(source) if source and source.outputs else None,
            "reports": list(step_call.receipt.get("checks", ())) if step_call else [],
        }

    def _require_sources(
        self, workspaces: Workspaces, forecast: Mapping[str, Any], calls: Iterable[Call]
    ) -> None:
        read = (row["path"] for step_call in calls for row in step_call.inputs if "remote" not in row)
        paths = [Path(path) for path in (*read, *forecast["publishes"])]
        own = [path for path in paths if not path.is_relative_to(self.store.folder)]
        if not all(any(path.is_relative_to(place.root) for place in workspaces.items) for path in own):
            raise Refused(404, "No preview is available.")


def picture_operation(store: StepStore, path: str) -> WorkflowStep:
    """The operation that draws the output of a step.

    It may read the folder of this step, and is not in the history.
    """
    place = store.workspace
    folders = step_folders(place, Path(path).parent, ())
    return WorkflowStep(store=place, folders=folders, in_history=False)


def forget(store: StepStore, calls: set[str]) -> None:
    """Removes the stored results of these calls, so that they are made again.

    Their files are removed when no run uses them any more.
    """
    for path in store.folder.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(path.read_text(encoding="utf-8"))["call"] in calls:
                path.unlink()


def _dependent(step: str, after: Mapping[str, Iterable[str]]) -> set[str]:
    """A step and all steps that use its result, directly or indirectly."""
    steps = {step}
    while more := {name for name, before in after.items() if name not in steps and steps & set(before)}:
        steps |= more
    return steps


def _step_state(row: Mapping[str, Any], call: Call | None, step_call: Call | None) -> str:
    """The state of a step: waiting, running, done, reused, failed or not run."""
    ended = call is not None and call.finished is not None
    if step_call is not None:
        return {"OK": "done", "": "not run" if ended else "running"}.get(step_call.outcome, "failed")
    if call is not None and call.message.startswith(f"step {row['id']!r}: "):
        return "failed"
    if row["reused"] and call is not None:
        return "reused"
    return "not run" if ended else "waiting"


def _result(call: Call) -> dict[str, Any]:
    """The facts of the first output of a step's call."""
    output = call.outputs[0]
    size = sum(file["bytes"] for file in call.files if file["path"] == output["path"])
    return {**{name: output.get(name) for name in ("driver", "size", "features", "crs")}, "bytes": size}
