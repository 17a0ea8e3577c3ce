"""The result of a check as the answer of `workflow_check`, as findings of a call, and as errors that name their step.
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from gdal_mcp.calls.workflows.checked import CheckedStep, CheckedWorkflow, StepState
from gdal_mcp.calls.workflows.document import WorkflowInvalid
from gdal_mcp.calls.workflows.schedule import StepFailed
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.preflight import Report

NOT_AS_PREDICTED: Final = "not_as_predicted"  # the code of the check


def check_answer(checked: CheckedWorkflow) -> dict[str, Any]:
    """The answer of `workflow_check`."""
    states = {step.state for step in checked.steps}
    worst = next(state for state in (StepState.WRONG, StepState.UNKNOWN, StepState.FINE) if state in states)
    return {
        "state": str(worst),
        "steps": [step.as_dict() for step in checked.steps],
        "publishes": [str(publishing.output.target) for publishing in checked.publishes],
        "replaces": [str(old) for publishing in checked.publishes for old in publishing.output.replaces],
    }


def _sum(rows: Sequence[Mapping[str, int | None]], name: str) -> int | None:
    values = [row[name] for row in rows]
    return None if None in values else sum(value for value in values if value is not None)


@dataclass(frozen=True)
class StepFinding:
    row: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.row)


def workflow_report(checked: CheckedWorkflow) -> Report:
    """The report on a workflow before it runs, with the same parts as the report on any call."""
    return Report(_figures(checked), _findings(checked))


def _figures(checked: CheckedWorkflow) -> Mapping[str, int | None] | None:
    """The bytes and number of files that are published. None if the step that makes one of them has no estimate."""
    steps = [checked.step(name) for name in {publishing.source.step for publishing in checked.publishes}]
    rows = [step.figures for step in steps if step.figures]
    if not rows or len(rows) < len(steps):
        return None
    return {name: _sum(rows, name) for name in ("output_bytes", "output_files")}


def _findings(checked: CheckedWorkflow) -> tuple[StepFinding, ...]:
    rows = []
    for step in checked.steps:
        if step.differences:
            rows.append(StepFinding(_difference_row(step)))
        rows += [StepFinding({**check, "step": step.id}) for check in step.checks]
        rows += [
            StepFinding(
                {
                    "code": "not_checked",
                    "step": step.id,
                    "message": f"it was not checked completely; unknown: {text}.",
                    "suggestion": "It is checked again when it runs.",
                }
            )
            for text in step.unknown
        ]
    return tuple(rows)


def _difference_row(step: CheckedStep) -> dict[str, str]:
    return {
        "code": NOT_AS_PREDICTED,
        "step": step.id,
        "message": f"its result differs from the prediction: {differences_text(step.differences)}.",
        "suggestion": "The later steps are checked with the result.",
    }


def wrong_step(step: CheckedStep) -> ToolError:
    assert step.error is not None
    check = {**(step.error.check or {}), "step": step.id}
    return step.error.changed(message=f"step {step.id!r}: {step.error.message}", check=check)


def differences_text(differences: Mapping[str, tuple[str, str]]) -> str:
    """The facts of a result that differ from the prediction, each with the predicted and the actual value."""
    return "; ".join(
        f"{name}: {before} was predicted, {after} was made" for name, (before, after) in differences.items()
    )


def prediction_error(differences: Mapping[str, tuple[str, str]], suggestion: str) -> ToolError:
    """The error of a step whose result differs from the prediction."""
    pairs = {name: {"predicted": before, "made": after} for name, (before, after) in differences.items()}
    return ToolError(
        Code.APPROVAL_EXPIRED,
        Stage.APPROVAL,
        f"its result differs from the prediction: {differences_text(differences)}.",
        suggestion,
        check={"code": NOT_AS_PREDICTED, "differences": pairs},
    )


def failed_step(failure: StepFailed, cached: int) -> ToolError:
    """The error of a workflow whose step failed. `cached` is the number of finished steps that the next run reuses."""
    cause = failure.cause
    if isinstance(cause, WorkflowInvalid):
        cause = ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, str(cause), "Correct the workflow.")
    if not isinstance(cause, ToolError):
        raise cause
    again = f" Finished steps whose results are cached: {cached}. The next run uses them." if cached else ""
    check = {**(cause.check or {}), "step": failure.step}
    suggestion = f"{cause.suggestion}{again}".strip()
    message = f"step {failure.step!r}: {cause.message}"
    return cause.changed(message=message, suggestion=suggestion, check=check)


def invalid_workflow(error: WorkflowInvalid) -> ToolError:
    rows = [{name: text for name, text in asdict(problem).items() if text} for problem in error.problems]
    return ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        "the workflow is not valid.",
        "Correct what `check` lists.",
        check={"code": "workflow_invalid", "problems": rows},
    )
