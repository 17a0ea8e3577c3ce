"""The result of checking a workflow: the facts about each step, before the first one runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.workflows.document import Workflow
from gdal_mcp.calls.workflows.publishing import Publishing
from gdal_mcp.calls.workflows.store import StepResult
from gdal_mcp.calls.workflows.used import UsedFile
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.remote.address import Address
from gdal_mcp.remote.places import local
from sandbox.workspace import WorkspacePath


class StepState(StrEnum):
    FINE = "fine"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CheckedStep:
    """The facts about one step before the workflow runs. `key` is empty if its result cannot be used again."""

    id: str
    tool: str
    state: StepState
    draft: Draft | None = None
    toolbox: str = ""
    command: str = ""  # the command as shown to a person
    checks: tuple[Mapping[str, Any], ...] = ()
    unknown: tuple[str, ...] = ()  # facts that could not be determined, as phrases
    predicts: str = ""  # what the step would write, as a phrase
    facts: Any = None  # predicted facts of its first output, as the toolbox describes them
    figures: Mapping[str, int | None] | None = None  # expected bytes and files
    key: str = ""
    used: tuple[UsedFile, ...] = ()  # files of workspaces that the step reads
    result: StepResult | None = None  # result of an earlier run
    error: ToolError | None = None
    # facts of that result that differ from the prediction: the predicted and the actual value, by name
    differences: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def crs(self) -> str | None:
        """The predicted CRS of the step's first output."""
        return getattr(self.facts, "crs", None)

    def as_dict(self) -> dict[str, Any]:
        """The step in the answer of `workflow_check`, without keys that do not apply."""
        row: dict[str, Any] = {"id": self.id, "tool": self.tool, "state": str(self.state)}
        if self.error is not None:
            row["error"] = {
                "code": str(self.error.code),
                "message": self.error.message,
                "suggestion": self.error.suggestion,
            }
            row["error"] |= {"check": dict(self.error.check)} if self.error.check else {}
            row["error"] |= {"untrusted": dict(self.error.untrusted)} if self.error.untrusted else {}
        optional = {
            "checks": [dict(check) for check in self.checks],
            "unknown": list(self.unknown),
            "predicts": self.predicts,
            "done": self.result is not None,
            "differences": {name: list(pair) for name, pair in self.differences.items()},
        }
        return row | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True)
class CheckedWorkflow:
    """A checked workflow: its steps and the files that it would publish."""

    workflow: Workflow
    steps: tuple[CheckedStep, ...]
    publishes: tuple[Publishing, ...] = ()

    @property
    def wrong(self) -> CheckedStep | None:
        return next((step for step in self.steps if step.state is StepState.WRONG), None)

    @property
    def drafts(self) -> tuple[Draft, ...]:
        return tuple(step.draft for step in self.steps if step.draft is not None)

    def step(self, name: str) -> CheckedStep:
        return next(step for step in self.steps if step.id == name)


def question_parts(checked: CheckedWorkflow) -> tuple[tuple[str, str], ...]:
    """The id of each step, with its command as shown to a person and what it writes."""
    rows = []
    for step in checked.steps:
        done = " (done before; its result is used)" if step.result else ""
        makes = f" -> {step.predicts}" if step.predicts else ""
        rows.append((f"{step.id}{done}", f"{step.command or step.tool}{makes}"))
    return tuple(rows)


def find_external_inputs(
    checked: CheckedWorkflow, entitlements: Entitlements
) -> tuple[tuple[WorkspacePath, ...], tuple[Address, ...]]:
    """The inputs that no step writes, and the remote addresses among the inputs."""
    roots = {workspace.root for workspace in entitlements.workspaces.items}
    inputs = (located for draft in checked.drafts for located in draft.inputs)
    external = dict.fromkeys(
        located
        for located in inputs
        if located.workspace.root in roots or located not in tuple(local((located,)))
    )
    return tuple(external), tuple(
        dict.fromkeys(address for draft in checked.drafts for address in draft.addresses)
    )
