"""The outputs that a workflow publishes under the names in its document. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdal_mcp.calls.workflows.references import StepOutput
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, Output, OutputKind
from gdal_mcp.toolboxes.gdal.datasets.paths import POINTING


@dataclass(frozen=True)
class Publishing:
    """A published output: which output of which step, and its target."""

    source: StepOutput
    output: Output


def output_kind(source: StepOutput, draft: Draft | None, *, is_done: bool) -> OutputKind:
    """The kind of a step's output. `is_done` is True if its result exists. Raises ToolError for an output that the
    step does not have.
    """
    if draft is not None and source.number < len(draft.outputs):
        return draft.outputs[source.number].kind
    if not is_done:
        raise _not_publishable(f"step {source.step!r} has no output number {source.number}.")
    return "dataset"


def require_publishable(path: str, target: str) -> None:
    """Raises ToolError if a step's output at a path cannot become the file `target`."""
    name = Path(path)
    if name.suffix.lower() in POINTING:
        raise _not_publishable(
            f"{name.name} names files that exist only while the workflow runs.", "Publish a raster instead."
        )
    if name.suffix.lower() != Path(target).suffix.lower():
        raise _not_publishable(
            f"the step writes {name.name}, which has another extension.",
            f"Use {name.suffix or 'no extension'} here, or let the step write that format.",
        )


def require_together(outputs: Sequence[Output]) -> None:
    """Raises ToolError unless all outputs go to one workspace, under different names."""
    if len({output.target.workspace.root for output in outputs}) > 1:
        raise _not_publishable(
            "the outputs are in several workspaces.", "Publish all of them in one workspace."
        )
    if len({output.target.name for output in outputs}) != len(outputs):
        raise _not_publishable("two outputs have the same name.", "Give each output a name of its own.")


def not_published(error: ToolError, step: str, target: str) -> ToolError:
    """The error with the step and the path of the output that cannot be published."""
    return error.changed(
        message=f"the output of step {step!r} cannot be published as {target[:200]!r}: {error.message}",
        suggestion=f"In `outputs`: {error.suggestion[:1].lower()}{error.suggestion[1:]}",
        check={**(error.check or {}), "step": step, "output": target[:200]},
    )


def _not_publishable(message: str, fix: str = "Correct `outputs`.") -> ToolError:
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, message, fix)
