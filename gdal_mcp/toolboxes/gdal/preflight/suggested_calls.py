"""Suggests the corrected call, if a check knows one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import label
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Argument, Catalogue
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, options_of
from sandbox.workspace import WorkspacePath

Change: TypeAlias = Mapping[str, Sequence[str] | None]
# arguments of the read and write steps of a pipeline
_READ_AND_WRITTEN: Final = frozenset({"input", "output", "overwrite", "output-format", "creation-option"})
_ONE_VALUE: Final = frozenset({"bbox", "resolution"})  # list arguments that are replaced as a whole
_SHAPES: Final = ("bbox", "bbox-crs", "geometry", "geometry-crs", "like")


def with_suggested_call(finding: Finding, draft: Draft, path: str, catalogue: Catalogue) -> Finding:
    """Adds the corrected call to a finding.

    It is the algorithm `path` with other arguments, or a pipeline with the steps of the finding.
    """
    algorithm = catalogue.algorithms.get(finding.instead or path)
    if finding.change is not None and algorithm is not None:
        return replace(finding, suggested_call=_changed(draft, algorithm, finding.change))
    return replace(finding, suggested_call=_piped(draft, finding.steps)) if finding.steps else finding


def suggested_call_for_output(
    catalogue: Catalogue, draft: Draft, check: Mapping[str, Any], output: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The call that corrects an output, from a check and its row in the result; None if there is none."""
    code, path = check["code"], output["path"]
    if code == "statistics_stale":
        return _call("gdal_write", algorithm="raster edit", arguments={"dataset": path, "stats": True})
    if code == "overviews_stale":
        return _call("gdal_write", algorithm="raster overview refresh", arguments={"input": path})
    if code == "geometry_type_undeclared" and draft.work.algorithm == "vector sql" and "geometry" in check:
        arguments = {
            name: draft.work.arguments[name][0] for name in ("sql", "dialect") if name in draft.work.arguments
        }
        return _piped(draft, [("sql", arguments), ("edit", {"geometry-type": check["geometry"]})])
    if code == "holes_left":
        change = {"max-distance": (str(max(output["description"]["size"])),)}
        return _changed(draft, catalogue.algorithms[draft.work.algorithm], change)
    corrected = {"raster clip": _clipped, "raster reproject": _changed, "raster mosaic": _changed}
    if code == "mask_lost":
        corrected = {"raster reproject": _changed}
    if code not in ("collar_without_nodata", "mask_lost"):
        return None
    # an unused nodata value, else an alpha band
    bands = output["description"].get("bands") or ()
    known = [band["min"] for band in bands if isinstance(band.get("min"), int | float)]
    signed = all(band.get("type") in ("Int16", "Int32", "Float32", "Float64") for band in bands)
    free = signed and known and len(known) == len(bands) and min(known) > -9999
    hidden: Mapping[str, Sequence[str]] = {"output-nodata": ("-9999",)} if free else {"add-alpha": ("true",)}
    if draft.work.chain:
        return _step_changed(draft, catalogue, hidden)
    make = corrected.get(draft.work.algorithm)
    return make(draft, catalogue.algorithms[draft.work.algorithm], hidden) if make else None


def _clipped(
    draft: Draft, algorithm: Algorithm, hidden: Mapping[str, Sequence[str]]
) -> Mapping[str, Any] | None:
    """The clip of a draft after a step that sets a nodata value, as a pipeline."""
    if "output-nodata" not in hidden:
        return None
    shapes = {
        argument.name: _value(argument, draft.work.arguments[argument.name])
        for argument in algorithm.arguments
        if argument.name in _SHAPES and argument.name in draft.work.arguments
    }
    steps = (("edit", {"nodata": hidden["output-nodata"][0]}), ("clip", shapes))
    return _piped(draft, steps, [located for name, located in draft.work.named or () if name == "input"])


def _piped(
    draft: Draft,
    steps: Sequence[tuple[str, Mapping[str, Any]]],
    inputs: Sequence[WorkspacePath] | None = None,
) -> Mapping[str, Any] | None:
    """A pipeline from the only input (or the only one of `inputs`) to the only output; None if there are several."""
    inputs = draft.inputs if inputs is None else inputs
    accepted = _READ_AND_WRITTEN.union(*(arguments for _, arguments in steps))
    if not accepted.issuperset(draft.work.arguments):  # an argument that no step accepts would be lost
        return None
    if draft.work.chain or len(inputs) != 1 or len(draft.outputs) != 1:
        return None
    written: dict[str, Any] = {"output": str(draft.outputs[0].target), "overwrite": True}
    if named := draft.work.arguments.get("output-format"):
        written["output-format"] = named[0]
    if options := draft.work.arguments.get("creation-option"):
        written["creation-option"] = list(options)
    pipeline = (("read", {"input": label(inputs[0])}), *steps, ("write", written))
    return _call("pipeline", steps=[{"step": name, "arguments": arguments} for name, arguments in pipeline])


def _call(tool: str, **arguments: Any) -> Mapping[str, Any]:
    return {"tool": tool, "arguments": arguments}


def _changed(draft: Draft, algorithm: Algorithm, change: Change) -> Mapping[str, Any] | None:
    known = {argument.name: argument for argument in algorithm.arguments}
    inputs = [label(located) for name, located in draft.named_inputs if name in ("input", "dataset")]
    changed = {name: values for name, values in draft.work.arguments.items() if name in known}
    if (
        draft.work.chain
        or not {name for name, values in change.items() if values is not None} <= set(known)
        or len(draft.outputs) > 1
    ):
        return None
    if len(inputs) != 1 and "input" not in changed:
        return None
    for name, values in change.items():
        if values is None:
            changed.pop(name, None)
            continue
        extends = known[name].is_list and name not in _ONE_VALUE
        changed[name] = (*(_others(changed.get(name, ()), values) if extends else ()), *values)
    arguments = {name: _value(known[name], values) for name, values in changed.items()}
    if "input" not in changed:
        arguments["input"] = [inputs[0]] if known["input"].is_list else inputs[0]
    if draft.output is not None:
        arguments["output"] = str(draft.output.target)
        if "overwrite" in known and not draft.output.update:
            arguments["overwrite"] = True  # replaces the output of the faulty call
    tool = "gdal_write" if draft.writes else "gdal_read"
    return _call(tool, algorithm=algorithm.path, arguments=arguments)


def _step_changed(
    draft: Draft, catalogue: Catalogue, change: Mapping[str, Sequence[str]]
) -> Mapping[str, Any] | None:
    """The pipeline of a draft with these arguments in its reprojection; None unless it has exactly one."""
    numbers = [number for number, (path, _) in enumerate(draft.work.chain) if path == "raster reproject"]
    if len(numbers) != 1 or draft.work.branches or len(draft.outputs) != 1:
        return None
    changed: list[dict[str, Sequence[str]]] = [dict(arguments) for _, arguments in draft.work.chain]
    changed[numbers[0]] |= change
    changed[-1] |= {"output": (str(draft.outputs[0].target),), "overwrite": ("true",)}
    steps = []
    for (path, _), arguments in zip(draft.work.chain, changed, strict=True):
        step = next(step for step in catalogue.steps.values() if step.algorithm.path == path)
        known = {argument.name: argument for argument in step.algorithm.arguments}
        values = {name: _value(known[name], texts) for name, texts in arguments.items()}
        steps.append({"step": step.name, "arguments": values})
    return _call("pipeline", steps=steps)


def _others(texts: Sequence[str], changed: Sequence[str]) -> Sequence[str]:
    """The values of a list without the options NAME=VALUE that are changed.

    GDAL uses the first of two options with the same name.
    """
    names = options_of(text for text in changed if "=" in text)
    return [text for text in texts if not ("=" in text and options_of((text,)).keys() & names.keys())]


def _value(argument: Argument, texts: Sequence[str]) -> Any:
    """The value of an argument for JSON; a list if the argument can be repeated."""
    kind = argument.element_type
    values = [
        text == "true" if kind == "boolean" else float(text) if kind in ("integer", "real") else text
        for text in texts
    ]
    plain = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    return plain if argument.is_list else plain[0]
