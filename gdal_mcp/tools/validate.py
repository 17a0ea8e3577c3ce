"""`validate_call`: what a call would do, without doing it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import Field

from gdal_mcp.access.policy import Allow, Deny
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.answers.described import facts
from gdal_mcp.gdal.datasets.operations import FILE_OPERATIONS
from gdal_mcp.gdal.datasets.scope import places
from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.service import Foreseen
from gdal_mcp.plan import Command, Draft, Effect, effect_of
from gdal_mcp.toolbox import Answer, Arguments, ImmediateResult, Tool, schema_of, typed
from gdal_mcp.tools.model import DraftContext
from sandbox.workspace import Located


class ValidateArguments(Arguments):
    tool: str = Field(description="Any tool of this server", max_length=100)
    arguments: Mapping[str, Any]


def _draft(arguments: ValidateArguments, context: DraftContext) -> Draft | ImmediateResult:
    tool = context.surface.callable.get(arguments.tool)
    if tool is None or tool.name == VALIDATE_CALL.name:
        raise ToolError(
            Code.NOT_FOUND, Stage.LOOKUP, "there is no such tool to validate.", "Name a tool of tools/list."
        )
    draft = tool.draft(arguments.arguments, context)
    if isinstance(draft, ImmediateResult):
        return ImmediateResult({"valid": True, "effect": "read", "container": False})
    unknown = [
        one for one in draft.inputs if context.foresight.headers.get(one) is None and not one.is_folder
    ]
    if not unknown or draft.algorithm in FILE_OPERATIONS:
        return ImmediateResult(_told(tool.name, draft, context))

    def present(answer: Answer) -> Mapping[str, Any]:
        """The formats that the host does not read itself were looked at in the container; what it said is kept."""
        rows = answer.parsed if isinstance(answer.parsed, list) else []
        for located, row in zip(unknown, rows, strict=False):
            if isinstance(row, dict):
                context.foresight.learn(located, facts(row.get("facts")))
        return _told(tool.name, draft, context)

    command = Command("headers", (), tuple(map(str, unknown)), layout="inputs-output")
    seen = tuple(unknown)
    return Draft(command, (), looked_at=seen, wants_json=True, present=present, algorithm="dataset identify")


def _told(tool: str, draft: Draft, context: DraftContext) -> dict[str, Any]:
    seen = context.foresight.look(draft)
    effect = effect_of(draft)
    verdict = context.verdict(tool, draft)
    told: dict[str, Any] = {
        "valid": seen.excess is None,
        "argv": list(draft.command.argv),
        "effect": str(effect),
        "needs_approval": not isinstance(verdict, Allow | Deny),
        **({"denied": verdict.reason} if isinstance(verdict, Deny) else {}),
        "inputs": [_input(located, context) for located in draft.inputs],
        "container": True,
    }
    if context.settings.mount_scope == "inputs":
        told["mounts"] = [f"{one}:ro" for one in places(draft)]
    if effect is not Effect.READ:
        told |= _written(draft)
    return told | _foreseen(seen)


def _written(draft: Draft) -> dict[str, Any]:
    """Everything in the workspace that the call would make, replace, move or take away."""
    replaced = [str(old) for output in draft.outputs for old in (*output.replaces, *output.shared)]
    told: dict[str, Any] = {
        "outputs": [str(output.target) for output in draft.outputs],
        "replaces": replaced,
    }
    if draft.transfers:
        told["moves"] = [{"from": str(one.source), "to": str(one.target)} for one in draft.transfers]
    if draft.removes:
        told["removes"] = [str(one) for one in draft.removes]
    return told


def _foreseen(seen: Foreseen) -> dict[str, Any]:
    told: dict[str, Any] = {"warnings": [asdict(one) for one in seen.advice]}
    if seen.estimate is not None:
        told["estimate"] = {**seen.estimate.figures, "basis": seen.estimate.basis}
    if seen.excess is not None:
        told["exceeds"] = {
            "message": seen.excess.message,
            "suggestion": seen.excess.suggestion,
            "number": seen.excess.number,
            "limit": seen.excess.limit,
            "setting": seen.excess.setting,
        }
    return told


def _input(located: Located, context: DraftContext) -> dict[str, Any]:
    told: dict[str, Any] = {"path": str(located)}
    if located.is_folder:
        return {**told, "folder": True}
    if located.identity is not None:
        told["bytes"] = located.identity.size
    header = context.foresight.headers.get(located)
    return told | (_header(header) if header is not None else {})


def _header(header: Header) -> dict[str, Any]:
    """Facts alone: what is not known is left out."""
    raster = {
        "size": [header.width, header.height],
        "bands": header.bands,
        "type": header.data_type,
        "nodata": None if header.nodata is None else str(header.nodata),
        "compression": header.compression,
    }
    vector = {"geometry": header.geometry, "features": header.features}
    told = {"driver": header.driver, "kind": header.kind, **(raster if header.kind == "raster" else vector)}
    told |= {"crs": header.crs, "degrees": header.degrees, "extent": header.extent}
    return {name: value for name, value in told.items() if value not in (None, "")}


VALIDATE_CALL = Tool(
    name="validate_call",
    title="Tell what a call would do",
    description="Checks a call without making it: command, inputs, outputs, what it would replace, warnings, cost, approval.",
    schema=schema_of(ValidateArguments),
    draft=typed(ValidateArguments, _draft),
    writes=False,
    runs=False,
)
