"""Stores the predictions for each step of a workflow in the state folder.

The console shows them beside the results. They are not part of any record.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.workflows.checked import CheckedWorkflow
from gdal_mcp.calls.workflows.document import dependencies
from gdal_mcp.calls.workflows.run import WorkflowRun
from gdal_mcp.settings.state import put_private

FOLDER: Final = "workflow-forecasts"  # name in the state folder
MAX_FILES: Final = 500  # number of forecasts, of about 10 kB each; the oldest are removed
_CALL: Final = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecasts of one state folder, by call id. Safe for several threads and servers."""

    folder: Path

    def put(self, call: Invocation, checked: CheckedWorkflow) -> None:
        """Stores the forecast of a call, replacing an earlier one.

        If the disk is full, it is lost and the call continues.
        """
        document = checked.workflow.document
        forecast = {
            "principal": call.request.principal,
            "name": document.name,
            "title": document.title,
            "steps": _steps(checked),
            "publishes": [str(publishing.output.target) for publishing in checked.publishes],
        }
        with suppress(OSError):
            put_private(self.folder / f"{call.call_id}.json", json.dumps(forecast).encode())
            self._prune()

    def get(self, call_id: str) -> Mapping[str, Any] | None:
        """The forecast of a call; None if there is none."""
        if not _CALL.fullmatch(call_id):
            return None
        try:
            forecast: dict[str, Any] = json.loads(
                (self.folder / f"{call_id}.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError):
            return None
        return forecast

    def _prune(self) -> None:
        """Removes the oldest forecasts. Raises OSError."""
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in paths[MAX_FILES:]:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class ForecastingRun(WorkflowRun):
    """A `workflow_run` that stores its predictions."""

    forecasts: Forecasts

    def checked(self, call: Invocation) -> CheckedWorkflow:
        checked = super().checked(call)
        self.forecasts.put(call, checked)
        return checked


def _steps(checked: CheckedWorkflow) -> list[dict[str, Any]]:
    before = dependencies(checked.workflow.document)
    return [
        {
            **step.as_dict(),
            "command": step.command,
            "crs": step.crs,
            "after": sorted(before[step.id]),
            "reused": step.result.call if step.result else None,
        }
        for step in checked.steps
    ]
