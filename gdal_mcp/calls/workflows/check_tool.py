"""`workflow_check`, and what it shares with `workflow_run`: the workflow of a call and its check."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import ValidationError

from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.refusals import invalid
from gdal_mcp.calls.translation import explain
from gdal_mcp.calls.workflows.arguments import CheckArguments
from gdal_mcp.calls.workflows.check import Checker
from gdal_mcp.calls.workflows.checked import CheckedWorkflow, find_external_inputs
from gdal_mcp.calls.workflows.document import MAX_BYTES, WorkflowInvalid, bind, load, parse
from gdal_mcp.calls.workflows.report import check_answer, invalid_workflow
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import ImmediateResult, named
from gdal_mcp.toolboxes.preflight import Preflight
from sandbox.errors import PathRefused, SandboxError
from sandbox.workspace import open_file


@dataclass(frozen=True, kw_only=True)
class WorkflowOperation(Operation):
    """Shared by `workflow_check` and `workflow_run`: the workflow, checked with what is known now."""

    model: ClassVar[type[CheckArguments]] = CheckArguments
    checker: Checker
    joins: bool = True
    reads_remote: bool = False

    def arguments(self, call: Invocation) -> CheckArguments:
        """The arguments of a call. Raises ToolError for arguments that the tool does not have or accept."""
        try:
            return self.model.model_validate(named(self.model, call.request.arguments))
        except ValidationError as error:
            raise invalid(error) from error

    def fresh(self, call: Invocation) -> bool:
        """True if no result of an earlier run is used."""
        return bool(getattr(self.arguments(call), "fresh", False))

    def checked(self, call: Invocation) -> CheckedWorkflow:
        """The checked workflow of a call.

        Raises ToolError for a document that is not valid, or outputs that cannot be published.
        """
        arguments = self.arguments(call)
        # the caller's own types, because pydantic turns 5 into 5.0
        parameters = call.request.arguments.get("parameters") or {}
        try:
            workflow = bind(_document(arguments.workflow, call), parameters)
            checked = self.checker.check(call, workflow, fresh=self.fresh(call))
        except WorkflowInvalid as error:
            raise invalid_workflow(error) from error
        except SandboxError as error:
            raise explain(error, Stage.RUN) from error
        if checked.wrong is None and not checked.publishes:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the workflow publishes nothing.",
                "Name its results under `outputs`. For a step that only answers, call the tool alone.",
            )
        return checked

    def look_of(self, checked: CheckedWorkflow, call: Invocation, preflight: Preflight) -> Draft | None:
        """One job that describes all inputs of the workflow that are not known well enough."""
        inputs, addresses = find_external_inputs(checked, call.entitlements)
        if addresses:  # each step has its own name for an input
            return None
        return preflight.describing(checked.drafts, inputs)


@dataclass(frozen=True, kw_only=True)
class WorkflowCheck(WorkflowOperation):
    """`workflow_check`: what a workflow would do, step by step, without doing it."""

    def draft(self, call: Invocation, drafting: Drafting) -> Drafted | ImmediateResult:
        del drafting
        checked = self.checked(call)
        preflight = call.entitlements.preflights[call.toolbox.name]
        look = self.look_of(checked, call, preflight)
        if look is None:
            return ImmediateResult(check_answer(checked))

        def present(answer: Any) -> Mapping[str, Any]:
            preflight.described(look.looked_at, answer.parsed)
            return check_answer(self.checked(call))

        return Drafted(replace(look, printed=replace(look.printed, present=present)), preflight.check(look))

    def look(self, _call: Invocation, _preflight: Preflight) -> Draft | None:
        return None


def _document(value: Any, call: Invocation) -> Any:
    """The document of a call: an object, its text, or the path of a file in a workspace. Raises WorkflowInvalid, ToolError."""
    if not isinstance(value, str):
        return parse(value)
    if "\n" in value or value.lstrip().startswith("{"):
        return load(value)
    try:
        located = call.entitlements.workspaces.input(value)
        with open_file(located) as file:
            return load(os.pread(file, MAX_BYTES + 1, 0))
    except (PathRefused, OSError) as error:
        fix = "Name a JSON or YAML file in a workspace, or give the document itself."
        raise ToolError(
            Code.NOT_FOUND, Stage.RESOLVE, f"the workflow cannot be read: {error}", fix
        ) from error
