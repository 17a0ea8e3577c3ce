"""`workflow_check` and `workflow_run`: several calls as one document. The server itself drafts them (`calls/workflows`)."""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from gdal_mcp.calls.workflows.arguments import CheckArguments, RunWorkflowArguments
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.base import Tool, schema_of


def _refuse_draft(_arguments: Mapping[str, Any], _context: Any) -> NoReturn:
    raise ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        "a workflow cannot be checked by validate_call.",
        "Use workflow_check.",
    )


WORKFLOW_CHECK: Final = Tool(
    name="workflow_check",
    title="Check a workflow",
    description="Checks steps {id, tool, arguments} as a whole before the first runs; ${steps.ID} is a step's output. "
    "{workflow: 1, name, parameters: {name: {type, default}}, steps, outputs: {name: {from, to}}}",
    schema=schema_of(CheckArguments),
    draft=_refuse_draft,
    writes=False,
)
WORKFLOW_RUN: Final = Tool(
    name="workflow_run",
    title="Run a workflow",
    description="One approval; results published together; finished steps not repeated.",
    schema=schema_of(RunWorkflowArguments),
    draft=_refuse_draft,
    writes=True,
    replaces=True,
)
