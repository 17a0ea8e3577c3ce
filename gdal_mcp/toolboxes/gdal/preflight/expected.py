"""Determines what a command must preserve of its input and what it may produce, for comparison in the container.
Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gdal_mcp.plan import AlgorithmStep, Draft
from gdal_mcp.toolboxes.gdal.preflight.algorithms import HIDES, KEEPS_FEATURES, KEEPS_FIELDS, PIXELS_OF_INPUT
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.toolboxes.gdal.preflight.sql.outline import outline_of
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import texts_equalled

_COORDINATES: Final = frozenset({"vector read", "vector write", "vector convert", "vector edit"})
# arguments of these algorithms that leave something out or change it
_OTHERWISE: Final = frozenset(
    "input-layer open-option limit where sql active-layer skip-errors upsert output-open-option".split()
)
# results that are valid for an algorithm, although they would be findings for others: features without a geometry (a
# table of numbers, or errors without a position), an empty layer (no errors), coordinates outside the input
_MAY: Final = {
    "raster zonal-stats": "gaps",
    **dict.fromkeys(("vector check-geometry", "vector check-coverage"), "gaps nothing"),
    "vector create": "nothing",
    "vector swap-xy": "elsewhere",
}
_STATES: Final = frozenset({"vector sql", "vector info", "vector filter"})
_COMPUTES: Final = frozenset(
    {"raster calc", "raster neighbors", "raster scale", "raster unscale", "vector rasterize"}
)
# algorithms whose pixels or fields have the same meaning as those of their inputs
_LABELLED: Final = (
    PIXELS_OF_INPUT
    | KEEPS_FIELDS
    | {
        "convert",
        "raster sieve",
        "raster fill-nodata",
        "gdal_merge",
        "gdalwarp",
    }
)
_METADATA: Final = frozenset({"raster read", "raster edit", "raster write"})
# algorithms whose arguments may define a result for nodata pixels
_GIVES_VALUE: Final = frozenset({"raster calc", "raster reclassify", "raster scale"})
# pixel functions that leave the inputs' range
_SUMS: Final = frozenset({"sum", "mul", "diff", "scale", "exp", "pow"})
_FEET: Final = re.compile(r"\.304|3\.28")  # numbers in a formula that converts feet to metres, or back
_LEAVES_HOLES: Final = frozenset({"max-distance", "mask"})  # arguments with which nodata pixels may remain


def expected(draft: Draft) -> Sequence[str]:
    """The properties that the output must keep and those that it may have, as words for the container.

    * `features`, `fields`, `values`, `coordinates`, `pixels`: the output must keep them; `added`: features are added
      to a layer.
    * `labels`: the output must keep what belongs to the values, such as names of classes, units and foreign members.
    * `gaps`, `nothing`, `elsewhere`, `rounded`, `constant`, `summed`: properties that are valid in this output.
    * `combined`: the values of all bands must have one unit of length.
    * `filled`: no pixel may remain without data; `holes`: no hidden pixel may become visible.
    """
    steps = draft.work.steps
    paths = [draft.work.algorithm, *(path for path, _ in draft.work.chain)]
    words = [*_unchanged_parts(draft), *(word for path in paths for word in _MAY.get(path, "").split())]
    # RFC 7946 requires WGS 84, with seven decimals; a precision that the call sets is expected
    options = [text.upper() for _, arguments in steps for text in arguments.get("layer-creation-option", ())]
    if any(text.startswith(("RFC7946=", "COORDINATE_PRECISION", "XY_COORD")) for text in options):
        words.append("rounded")
    # bands that are not selected may have values that the output cannot store
    if all(path in PIXELS_OF_INPUT and path != "raster select" for path, _ in steps):
        words.append("pixels")
    if all(path in _LABELLED for path, _ in steps):
        words.append("labels")
    words += _hidden(steps)
    formulas = [
        text for path, arguments in steps if path == "raster calc" for text in arguments.get("calc", ())
    ]
    if formulas and not any(map(_FEET.search, formulas)):
        words.append("combined")
    functions = {text for _, arguments in steps for text in arguments.get("pixel-function", ())}
    kinds = [
        kind
        for path, arguments in steps
        if path == "raster proximity"
        for kind in arguments.get("output-data-type", ())
    ]
    words += ["summed"] if functions & _SUMS or set(kinds) & set(TYPE_RANGE) else []
    if any(path == "vector rasterize" and "burn" in arguments for path, arguments in steps):
        words.append("constant")  # a mask has one value
    if all(path in _METADATA for path, _ in steps):
        words.append("constant")  # the pixels are the same as in the input
    fills = [
        path
        for path, arguments in steps
        if path == "raster fill-nodata" and not _LEAVES_HOLES & set(arguments)
    ]
    if fills and all(path in (*fills, "raster read", "raster write") for path, _ in steps):
        words.append("filled")
    if any(path in ("raster edit", "vector edit") and "crs" in arguments for path, arguments in steps):
        words.append("elsewhere")  # `crs` changes the location of the same coordinates
    return words


def _hidden(steps: Sequence[AlgorithmStep]) -> Sequence[str]:
    """`holes` if hidden pixels must stay hidden; `by_value` if pixels that a nodata value hides may become visible."""
    paths = {"raster convert" if path == "convert" else path for path, _ in steps}
    shown = any(
        "none" in arguments.get(name, ()) for _, arguments in steps for name in ("nodata", "output-nodata")
    )
    if not paths <= HIDES or shown:
        return ()
    return ("holes", *(["by_value"] if paths & _GIVES_VALUE else []))


def type_range(draft: Draft) -> Sequence[int] | None:
    """The range of the integer type that results of a formula, or values of an attribute, are converted to.

    None for other types and algorithms.
    """
    kind = draft.work.arguments.get("output-data-type", ("",))[0]
    return TYPE_RANGE.get(kind) if draft.work.algorithm in _COMPUTES else None


def compared(draft: Draft) -> Sequence[int]:
    """Numbers of the inputs to which an identical output would mean that the call changed nothing.

    These are the main inputs, not those that only define a place or a method. Empty if the call copies files.
    """
    if draft.files.copies:
        return ()
    mains = {located for name, located in draft.work.named or () if name in ("input", "dataset")}
    return [number for number, located in enumerate(draft.inputs) if located in mains or not draft.work.named]


def statement(draft: Draft) -> Mapping[str, object] | None:
    """The only statement or condition that GDAL runs, with its outline; None if there is none to check.

    Its joins, types and comparisons are checked after the call.
    """
    states = [step for step in draft.work.steps if step.algorithm in _STATES]
    statements = [arguments for _, arguments in states if len(arguments.get("sql", ())) == 1]
    if draft.command.program != "gdal" or draft.work.algorithms.count("vector sql") > 1:
        return None
    if len(statements) != 1:
        conditions = [step for step in states if step.arguments.get("where")]
        return _condition(conditions[0], in_pipeline=bool(draft.work.chain)) if len(conditions) == 1 else None
    arguments = statements[0]
    dialect, options = arguments.get("dialect", ("",))[0], arguments.get("open-option", ())
    sql = arguments["sql"][0]
    about = {"dialect": dialect, "open_options": options, "equalled": texts_equalled(sql)}
    return {"sql": sql, "outline": outline_of(sql), **about}


def _condition(step: AlgorithmStep, *, in_pipeline: bool) -> Mapping[str, object] | None:
    """A condition without a statement, with the step, layers and box that it is for; None if nothing is tested."""
    path, arguments = step
    # in a pipeline, GDAL may let the format of the input evaluate the condition, so its treatment of case is not known
    equalled = [] if in_pipeline else texts_equalled(arguments["where"][0])
    outline = outline_of(arguments["where"][0])
    [select, *_] = outline["selects"] if outline is not None else [{"probes": (), "unprobed": ()}]
    nulls = [probe["condition"] for probe in select["probes"] if probe["code"] == "nulls_excluded"]
    unprobed = "nulls_excluded" in select["unprobed"]
    if not (equalled or nulls or unprobed):
        return None
    return {
        "sql": "",
        "step": path.rpartition(" ")[2],
        "open_options": arguments.get("open-option", ()),
        "layers": arguments.get("active-layer") or arguments.get("input-layer", ()),
        "box": [float(number) for number in ",".join(arguments.get("bbox", ())).split(",") if number],
        "equalled": equalled,
        "nulls": nulls,
        "unprobed": unprobed,
    }


def _unchanged_parts(draft: Draft) -> Sequence[str]:
    # the catalogue treats the shortcut `convert` as a raster command; the container compares only layers
    shortcut = draft.work.algorithm in ("convert", "raster convert")
    steps = (AlgorithmStep("vector convert", draft.work.arguments),) if shortcut else draft.work.steps
    inputs = [name for name, _ in draft.work.named or () if name == "input"]
    if len(draft.outputs) != 1 or len(inputs) != 1 or len(draft.inputs) != 1:
        return ()
    if any(path not in KEEPS_FEATURES or _OTHERWISE & set(arguments) for path, arguments in steps):
        return ()
    unchanged = all(path in _COORDINATES and not arguments.get("crs") for path, arguments in steps)
    if draft.outputs[0].update:
        return ("fields", "added") if unchanged else ("fields",)
    return ("features", "fields", "values", *(["coordinates"] if unchanged else []))
