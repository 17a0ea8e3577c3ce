"""The call that corrects another one, where a check knows what makes it right. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.gdal.catalogue.model import Algorithm, Argument, Catalogue
from gdal_mcp.gdal.preflight.checks.finding import Finding
from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import label

Change = Mapping[str, Sequence[str]]
_SHAPES: Final = ("bbox", "bbox-crs", "geometry", "geometry-crs", "like")


def with_mend(finding: Finding, draft: Draft, path: str, catalogue: Catalogue) -> Finding:
    """With the whole call: of the algorithm `path` with other arguments, or of a pipeline with the finding's steps."""
    algorithm = catalogue.algorithms.get(finding.instead or path)
    if finding.change is not None and algorithm is not None:
        return replace(finding, mend=_changed(draft, algorithm, finding.change))
    return replace(finding, mend=_piped(draft, finding.steps)) if finding.steps else finding


def mend_of_output(
    catalogue: Catalogue, draft: Draft, check: Mapping[str, Any], output: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """What corrects an output, by a check of it and its row in the result."""
    if check["code"] == "statistics_stale":
        arguments = {"dataset": output["path"], "stats": True}
        return {"tool": "gdal_write", "arguments": {"algorithm": "raster edit", "arguments": arguments}}
    if check["code"] == "overviews_stale":
        arguments = {"input": output["path"]}
        return {
            "tool": "gdal_write",
            "arguments": {"algorithm": "raster overview refresh", "arguments": arguments},
        }
    if (
        check["code"] == "geometry_type_undeclared"
        and draft.algorithm == "vector sql"
        and "geometry" in check
    ):
        asked = {name: draft.arguments[name][0] for name in ("sql", "dialect") if name in draft.arguments}
        declared = {"geometry-type": check["geometry"]}
        return _piped(draft, [{"step": "sql", "arguments": asked}, {"step": "edit", "arguments": declared}])
    if check["code"] == "collar_without_nodata" and draft.algorithm == "raster clip":
        return _clipped(draft, catalogue.algorithms[draft.algorithm], output["description"].get("bands"))
    if check["code"] == "collar_without_nodata" and draft.algorithm in ("raster reproject", "raster mosaic"):
        algorithm = catalogue.algorithms[draft.algorithm]
        return _changed(draft, algorithm, _hidden(output["description"].get("bands") or ()))
    return None


def _clipped(draft: Draft, algorithm: Algorithm, bands: Any) -> Mapping[str, Any] | None:
    """The same clip of pixels of which one value counts as none."""
    nodata = _hidden(bands or ()).get("output-nodata")
    inputs = [label(located) for name, located in draft.named or () if name == "input"]
    if draft.chain or nodata is None or len(inputs) != 1 or draft.output is None:
        return None
    clip = {
        one.name: _value(one, draft.arguments[one.name])
        for one in algorithm.arguments
        if one.name in _SHAPES and one.name in draft.arguments
    }
    made = [
        ("read", {"input": inputs[0]}),
        ("edit", {"nodata": nodata[0]}),
        ("clip", clip),
        ("write", {"output": str(draft.output.target), "overwrite": True}),
    ]
    return {
        "tool": "pipeline",
        "arguments": {"steps": [{"step": name, "arguments": given} for name, given in made]},
    }


def _hidden(bands: Sequence[Mapping[str, Any]]) -> Change:
    """A nodata value that no pixel has, else a band of transparency."""
    lows = [band.get("min") for band in bands]
    known = [low for low in lows if isinstance(low, int | float)]
    signed = all(band.get("type") in ("Int16", "Int32", "Float32", "Float64") for band in bands)
    if signed and known and len(known) == len(bands) and min(known) > -9999:
        return {"output-nodata": ("-9999",)}
    return {"add-alpha": ("true",)}


def _piped(draft: Draft, steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if draft.chain or len(draft.inputs) != 1 or len(draft.outputs) != 1:
        return None
    written: dict[str, Any] = {"output": str(draft.outputs[0].target), "overwrite": True}
    if named := draft.arguments.get("output-format"):
        written["output-format"] = named[0]
    if options := draft.arguments.get("creation-option"):
        written["creation-option"] = list(options)
    read = {"step": "read", "arguments": {"input": label(draft.inputs[0])}}
    return {
        "tool": "pipeline",
        "arguments": {"steps": [read, *steps, {"step": "write", "arguments": written}]},
    }


def _changed(draft: Draft, algorithm: Algorithm, change: Change) -> Mapping[str, Any] | None:
    known = {one.name: one for one in algorithm.arguments}
    inputs = [label(located) for name, located in draft.named or () if name == "input"]
    given = {name: values for name, values in draft.arguments.items() if name in known}
    if draft.chain or not set(change) <= set(known) or len(draft.outputs) > 1:
        return None
    if len(inputs) != 1 and "input" not in given:
        return None
    for name, values in change.items():
        given[name] = (*given.get(name, ()), *values)
    arguments = {name: _value(known[name], values) for name, values in given.items()}
    if "input" not in given:
        arguments["input"] = [inputs[0]] if known["input"].is_list else inputs[0]
    if draft.output is not None:
        arguments["output"] = str(draft.output.target)
        if "overwrite" in known and not draft.output.update:
            arguments["overwrite"] = True  # what the wrong call wrote
    tool = "gdal_write" if draft.writes else "gdal_read"
    return {"tool": tool, "arguments": {"algorithm": algorithm.path, "arguments": arguments}}


def _value(argument: Argument, texts: Sequence[str]) -> Any:
    """As JSON: a list where the argument may be repeated."""
    kind = argument.element_type
    values = [
        text == "true" if kind == "boolean" else float(text) if kind in ("integer", "real") else text
        for text in texts
    ]
    plain = [int(one) if isinstance(one, float) and one.is_integer() else one for one in values]
    return plain if argument.is_list else plain[0]
