"""Stores the predictions for each step of a workflow in the state folder.

The console shows them beside the results. They are not part of any record.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.longresults import ResultStore
from gdal_mcp.calls.workflows.checked import CheckedWorkflow
from gdal_mcp.calls.workflows.document import dependencies
from gdal_mcp.calls.workflows.run import WorkflowRun
from gdal_mcp.settings import Settings

_MAX_COUNT: Final = 500  # number of forecasts, of about 10 kB each; the oldest are removed
_LONGEST: Final = 16 << 20  # bytes of a forecast; documents of workflows are far shorter


def forecasts_of(settings: Settings) -> ResultStore:
    """The forecasts of one state folder, as JSON."""
    return ResultStore(settings.state_dir / "workflow-forecasts", max_count=_MAX_COUNT, max_age=math.inf)


def find_forecast(settings: Settings, call_id: str) -> Mapping[str, Any] | None:
    """The forecast of a call; None if there is none."""
    forecast: dict[str, Any] | None = None
    if (stored := forecasts_of(settings).read(call_id, 0, _LONGEST)) is not None:
        with suppress(ValueError):  # a power cut may have damaged it
            forecast = json.loads(stored[0])
    return forecast


@dataclass(frozen=True, kw_only=True)
class ForecastingRun(WorkflowRun):
    """A `workflow_run` that stores its predictions."""

    forecasts: ResultStore

    def checked(self, call: Invocation) -> CheckedWorkflow:
        """The checked workflow. If the disk is full, its forecast is lost and the call continues."""
        checked = super().checked(call)
        self.forecasts.keep(call.call_id, json.dumps(_forecast(call, checked)))
        return checked


def _forecast(call: Invocation, checked: CheckedWorkflow) -> dict[str, Any]:
    document = checked.workflow.document
    return {
        "principal": call.request.principal,
        "name": document.name,
        "title": document.title,
        "steps": _steps(checked),
        "publishes": [str(publishing.output.target) for publishing in checked.publishes],
    }


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
