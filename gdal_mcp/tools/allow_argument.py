"""The argument `allow` of tools whose calls a check may refuse."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import ImmediateResult, Tool
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.preflight.checks.transformations import BALLPARK

ALLOW: Final = "allow"
CODES: Final = (BALLPARK,)
_SCHEMA: Final = {"type": "array", "items": {"enum": list(CODES)}}
_WRITERS: Final = frozenset({"gdal_write", "pipeline"})  # tools that run any algorithm
_REFUSED: Final = frozenset(  # algorithms that change a CRS, by an argument or because a format requires it
    {
        *("raster reproject", "raster clip", "raster tile", "raster footprint", "raster index"),
        *("vector reproject", "vector clip", "vector convert", "vector concat", "vector index"),
        *("pipeline", "raster pipeline", "vector pipeline"),
    }
)


def add_allow_argument(tool: Tool) -> Tool:
    """Adds `allow` to a tool whose calls a check may refuse: to its arguments, or to those of the algorithm that it
    names.
    """
    if not tool.like and tool.name not in _WRITERS | {"gdal_read"}:
        return tool

    def schema() -> dict[str, Any]:
        own = dict(tool.schema())
        return {**own, "properties": {**own.get("properties", {}), ALLOW: _SCHEMA}}

    def draft(arguments: Mapping[str, Any], context: Any) -> Draft | ImmediateResult:
        rest, allowed = _taken(arguments)
        if isinstance(rest.get("arguments"), Mapping):
            rest["arguments"], more = _taken(rest["arguments"])
            allowed |= more
        drafted = tool.draft(rest, context)
        return replace(drafted, allows=allowed) if allowed and isinstance(drafted, Draft) else drafted

    # other tools rarely need it, for example for a creation option that changes the CRS: the refusal names it
    shown = tool.like in _REFUSED or tool.name in _WRITERS
    return replace(tool, schema=schema if shown else tool.schema, draft=draft)


def _taken(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    rest = dict(arguments)
    codes = rest.pop(ALLOW, [])
    if not isinstance(codes, list) or any(code not in CODES for code in codes):
        raise ArgumentRefused("`allow` is a list of codes of checks.", f"There are: {', '.join(CODES)}.")
    return rest, frozenset(codes)
