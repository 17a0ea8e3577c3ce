"""`validate_call`: the effects of a call, without running it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, Effect, effect_of
from gdal_mcp.policy.policy import Allow, Deny
from gdal_mcp.remote.places import by_host, label
from gdal_mcp.toolboxes.base import (
    Arguments,
    CallAnswer,
    ImmediateResult,
    Tool,
    nearest_tool,
    schema_and_draft,
    spelling,
)
from gdal_mcp.toolboxes.gdal.datasets.operations import FILE_OPERATIONS
from gdal_mcp.toolboxes.gdal.datasets.scope import places
from gdal_mcp.tools.common import DraftContext
from sandbox.workspace import WorkspacePath


class ValidateArguments(Arguments):
    tool: str = Field(description="Any tool of this server", max_length=100)
    arguments: Mapping[str, Any]


def _draft(arguments: ValidateArguments, context: DraftContext) -> Draft | ImmediateResult:
    tool = context.surface.callable.get(arguments.tool)
    if tool is None or tool.name == VALIDATE_CALL.name:
        near = nearest_tool(arguments.tool, {spelling(name): name for name in context.surface.callable})
        meant = f"Did you mean `{near}`? " if near else ""
        fix = f"{meant}Name a tool of tools/list."
        raise ToolError(Code.NOT_FOUND, Stage.LOOKUP, "there is no such tool to validate.", fix)
    draft = tool.draft(arguments.arguments, context)
    if isinstance(draft, ImmediateResult):
        return ImmediateResult({"valid": True, "effect": "read", "container": False})
    draft = draft.like(tool.like)
    look = context.preflight.description(draft)
    if look is None or draft.work.algorithm in FILE_OPERATIONS:
        return ImmediateResult(_answer(tool.name, draft, context))
    # nobody is asked to approve a validation, so without permission it uses only known facts
    if not isinstance(context.verdict(VALIDATE_CALL.name, look), Allow):
        unknown = [f"the content of {label(located)}" for located in look.looked_at]
        return ImmediateResult({**_answer(tool.name, draft, context), "unknown": unknown})

    def present(answer: CallAnswer) -> Mapping[str, Any]:
        context.preflight.described(look.looked_at, answer.parsed)
        return _answer(tool.name, draft, context, described=True)

    return replace(look, printed=replace(look.printed, present=present))


def _answer(tool: str, draft: Draft, context: DraftContext, *, described: bool = False) -> dict[str, Any]:
    report = context.preflight.look(draft, described=described)
    effect = effect_of(draft)
    verdict = context.verdict(tool, draft)
    answer: dict[str, Any] = {
        "valid": report.violation is None and not report.refusals,
        "argv": list(draft.command.argv),
        "effect": str(effect),
        "needs_approval": not isinstance(verdict, Allow | Deny),
        **({"denied": verdict.reason} if isinstance(verdict, Deny) else {}),
        "inputs": [_input(located, context) for located in draft.inputs],
        "container": True,
        "network": "none",
        **({"remote": remote} if (remote := by_host(draft.inputs, context.preflight.size_of)) else {}),
    }
    if context.settings.mount_scope == "inputs":
        answer["mounts"] = [f"{place}:ro" for place in places(draft)]
    if effect is not Effect.READ:
        answer |= _written(draft)
        before = [kind for output in draft.outputs[:1] if (kind := context.preflight.kind_of(output.target))]
        after = context.preflight.becomes(draft)
        answer |= {"before": before[0]} if before else {}
        answer |= {"after": after} if after else {}
    answer |= report.facts
    answer["checks"] = [finding.as_dict() for finding in report.findings]
    if report.estimate is not None:
        answer["estimate"] = {**report.estimate.figures, "basis": report.estimate.basis}
    if report.violation is not None:
        parts = ("message", "suggestion", "number", "limit", "setting")
        answer["exceeds"] = {name: getattr(report.violation, name) for name in parts}
    return answer


def _written(draft: Draft) -> dict[str, Any]:
    """Everything in the workspace that the call would make, replace, move or remove."""
    answer: dict[str, Any] = {
        "outputs": [str(output.target) for output in draft.outputs],
        "replaces": [str(old) for output in draft.outputs for old in (*output.replaces, *output.shared)],
    }
    if draft.files.transfers:
        answer["moves"] = [
            {"from": str(transfer.source), "to": str(transfer.target)} for transfer in draft.files.transfers
        ]
    if draft.files.removes:
        answer["removes"] = [str(removed) for removed in draft.files.removes]
    return answer


def _input(located: WorkspacePath, context: DraftContext) -> dict[str, Any]:
    """An input with the facts that are known about it. Unknown facts are left out."""
    row: dict[str, Any] = {"path": label(located)}
    if located.is_folder:
        return {**row, "folder": True}
    if located.identity is not None:
        row["bytes"] = located.identity.size
    facts = context.preflight.known.get(located)
    if facts is None:
        return row
    row |= {"driver": facts.driver, "kind": facts.kind}
    if facts.kind == "raster":
        row |= {"size": [facts.width, facts.height], "bands": facts.bands, "type": facts.data_type}
        row |= {
            "nodata": None if facts.nodata is None else str(facts.nodata),
            "compression": facts.compression,
        }
    else:
        row |= {"geometry": facts.geometry, "features": facts.features}
    row |= {"crs": facts.crs, "degrees": facts.degrees, "extent": facts.extent}
    return {name: value for name, value in row.items() if value not in (None, "")}


VALIDATE_CALL = Tool(
    name="validate_call",
    title="Dry run of a call",
    description="Checks a call without making it: command, inputs, outputs, what it would replace, checks, cost, approval.",
    **schema_and_draft(ValidateArguments, _draft),
    writes=False,
    runs=False,
)
