"""The call that corrects what a check found, as this server takes it.

A check says in its own words what would help: `set` arguments of the same call, `steps` between reading its input and writing its
output, or another `call`. Here that becomes a tool and complete arguments; where it cannot, nothing is told.
"""

from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.discovery.entries import tool_name
from gdal_mcp.plan import Draft
from gdal_mcp.toolbox import Call, Permits
from gdal_mcp.tools.algorithm import may_write

_EXTRA: Final = frozenset({"convert", "reproject"})  # tools that take further switches as texts


def served(
    catalogue: Catalogue, surface: Permits, algorithm: str, arguments: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]] | None:
    """A call of an algorithm by its own tool, else by the one that runs any algorithm; None where neither is served."""
    if tool_name(algorithm) in surface.callable:
        return tool_name(algorithm), arguments
    tool = "gdal_write" if may_write(catalogue.algorithms[algorithm]) else "gdal_read"
    given = {"algorithm": algorithm, "arguments": arguments}
    return (tool, given) if tool in surface.callable and surface.permits(algorithm) else None


def mended(
    catalogue: Catalogue, call: Call, row: Mapping[str, Any], output: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The row with its mend as a call; `output` is the row of the output that it is about, once the call has run."""
    wish = row.get("mend") or (_of_output(call.draft, row, output) if output else None)
    made = _made(catalogue, call, wish, ran=call.ran) if wish else None
    rest = {key: value for key, value in row.items() if key != "mend"}
    return {**rest, "mend": {"tool": made[0], "arguments": dict(made[1])}} if made else rest


def _made(
    catalogue: Catalogue, call: Call, wish: Mapping[str, Any], *, ran: bool
) -> tuple[str, Mapping[str, Any]] | None:
    if "call" in wish:
        return served(catalogue, call.surface, wish["call"]["algorithm"], wish["call"]["arguments"])
    replaces = ran or any(one.replaces for one in call.draft.outputs)
    if "steps" in wish:
        return _piped(call, wish["steps"], replaces=replaces)
    return _amended(call, wish["set"], replaces=replaces)


def _piped(
    call: Call, steps: list[Mapping[str, Any]], *, replaces: bool
) -> tuple[str, Mapping[str, Any]] | None:
    draft = call.draft
    if (
        "pipeline" not in call.surface.callable
        or len(draft.inputs) != 1
        or len(draft.outputs) != 1
        or draft.chain
    ):
        return None
    written: dict[str, Any] = {"output": str(draft.outputs[0].target)}
    if replaces:
        written["overwrite"] = True
    for name in ("output-format", "creation-option"):
        if values := draft.arguments.get(name):
            written[name] = values[0] if name == "output-format" else list(values)
    read = {"step": "read", "arguments": {"input": str(draft.inputs[0])}}
    return "pipeline", {"steps": [read, *steps, {"step": "write", "arguments": written}]}


def _amended(
    call: Call, changes: Mapping[str, Any], *, replaces: bool
) -> tuple[str, Mapping[str, Any]] | None:
    """The same call with more arguments; a list is added to the one that was given."""
    draft, given = call.draft, dict(call.arguments)
    if call.tool in _EXTRA:
        texts = [
            f"--{name}" if one is True else f"--{name}={one}"
            for name, value in changes.items()
            for one in (value if isinstance(value, list) else [value])
        ]
        return call.tool, {**given, "extra_args": [*given.get("extra_args", ()), *texts]}
    if replaces:
        changes = {**changes, "overwrite": True}
    if call.tool == "gdal_write":
        return call.tool, {**given, "arguments": _joined(given.get("arguments", {}), changes)}
    return (call.tool, _joined(given, changes)) if call.tool == tool_name(draft.algorithm) else None


def _joined(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    lists = {
        name: [*given.get(name, ()), *value] for name, value in changes.items() if isinstance(value, list)
    }
    return {**given, **changes, **lists}


def _of_output(draft: Draft, row: Mapping[str, Any], output: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What would help against a check of what was written."""
    if row["code"] == "statistics_stale":
        return {"call": {"algorithm": "raster edit", "arguments": {"dataset": output["path"], "stats": True}}}
    if row["code"] == "collar_without_nodata" and draft.algorithm in ("raster reproject", "raster mosaic"):
        bands = output["description"].get("bands") or [{}]
        return {"set": _hidden(bands)}
    return None


def _hidden(bands: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A nodata value that no pixel has, else a band of transparency."""
    lows = [band.get("min") for band in bands]
    wide = all(band.get("type") in ("Int16", "Int32", "Float32", "Float64") for band in bands)
    known = [low for low in lows if isinstance(low, int | float)]
    if wide and len(known) == len(bands) and min(known) > -9999:
        return {"output-nodata": ["-9999"]}
    return {"add-alpha": True}
