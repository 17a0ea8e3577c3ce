"""What a command must keep of its input, and what it may make, for the container to compare. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.preflight.call import Step, steps_of
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.toolboxes.gdal.preflight.sql.outline import outline_of
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import texts_equalled

# algorithms that give each feature of the input, with the same fields and values
_VALUES: Final = frozenset(
    f"vector {name}"
    for name in (
        "read write convert edit reproject make-valid buffer simplify segmentize simplify-coverage swap-xy convex-hull concave-hull"
    ).split()
)
_COORDINATES: Final = frozenset({"vector read", "vector write", "vector convert", "vector edit"})
# of those, arguments that leave something out or change it
_OTHERWISE: Final = frozenset(
    "input-layer open-option limit where sql active-layer skip-errors upsert output-open-option".split()
)
# what an algorithm may make without being wrong: features without a geometry (a table of numbers, or faults without a place),
# an empty layer (no faults), other places than those of the input
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
# whose pixels have the values of their inputs' pixels, or lie between them
_PIXELS: Final = frozenset(
    f"raster {name}"
    for name in "read write convert set-type clip reproject resize mosaic stack select update".split()
)
# whose outputs have to hide what their inputs hide
_HIDES: Final = frozenset(
    f"raster {name}"
    for name in (
        "read write convert set-type clip reproject resize mosaic stack select calc reclassify scale unscale neighbors hillshade slope aspect roughness tri tpi sieve color-map blend pansharpen rgb-to-palette"
    ).split()
)
# of these, those whose arguments may say what becomes of the nodata value
_GIVES_VALUE: Final = frozenset({"raster calc", "raster reclassify", "raster scale"})
_SUMS: Final = frozenset(
    {"sum", "mul", "diff", "scale", "exp", "pow"}
)  # pixel functions that leave the inputs' range
_LEAVES_HOLES: Final = frozenset({"max-distance", "mask"})  # arguments of a filling that is not whole


def expected(draft: Draft) -> Sequence[str]:
    """What must be kept (`features`, `fields`, `values`, `coordinates`, `pixels`; `added` to what was there), as far as nothing in the call changes it, and what may be
    made (`gaps`, `nothing`, `elsewhere`, `rounded`, `constant`); `filled` leaves no pixel without data, `holes` none that was hidden to be seen.
    """
    steps = steps_of(draft)
    paths = [draft.algorithm, *(path for path, _ in draft.chain)]
    found = [*_kept(draft), *(word for path in paths for word in _MAY.get(path, "").split())]
    # GeoJSON of RFC 7946 is in WGS 84, to seven digits; a precision that is asked for is no surprise
    options = [text.upper() for _, given in steps for text in given.get("layer-creation-option", ())]
    if any(text.startswith(("RFC7946=", "COORDINATE_PRECISION", "XY_COORD")) for text in options):
        found.append("rounded")
    # bands of the input that are not selected may have values that the output cannot store
    if all(path in _PIXELS and path != "raster select" for path, _ in steps):
        found.append("pixels")
    found += _hidden(steps)
    functions = {text for _, given in steps for text in given.get("pixel-function", ())}
    found += ["summed"] if functions & _SUMS else []
    if any(path == "vector rasterize" and "burn" in given for path, given in steps):
        found.append("constant")  # a mask
    fills = [path for path, given in steps if path == "raster fill-nodata" and not _LEAVES_HOLES & set(given)]
    if fills and all(path in (*fills, "raster read", "raster write") for path, _ in steps):
        found.append("filled")
    if any(path in ("raster edit", "vector edit") and "crs" in given for path, given in steps):
        found.append("elsewhere")  # the `crs` says where the same coordinates are
    return found


def _hidden(steps: Sequence[Step]) -> Sequence[str]:
    """`holes` where what is hidden has to stay so; `by_value` unless a nodata value alone hides it."""
    paths = {"raster convert" if path == "convert" else path for path, _ in steps}
    shown = any("none" in given.get(name, ()) for _, given in steps for name in ("nodata", "output-nodata"))
    if not paths <= _HIDES or shown:
        return ()
    return ("holes", *(["by_value"] if paths & _GIVES_VALUE else []))


def type_range(draft: Draft) -> Sequence[int] | None:
    """The lowest and the highest value of the whole numbers that a formula's results, or an attribute's, are made into."""
    kind = draft.arguments.get("output-data-type", ("",))[0]
    return TYPE_RANGE.get(kind) if draft.algorithm in _COMPUTES else None


def compared(draft: Draft) -> Sequence[int]:
    """Numbers of the inputs that an output may be the same as without a change: not of what only says where or how, or is copied."""
    if draft.copies:
        return ()
    mains = {located for name, located in draft.named or () if name in ("input", "dataset")}
    return [number for number, located in enumerate(draft.inputs) if located in mains or not draft.named]


def statement(draft: Draft) -> Mapping[str, object] | None:
    """The one statement or condition that GDAL itself runs, whose joins, types and comparisons are looked at afterwards."""
    states = [given for path, given in steps_of(draft) if path in _STATES]
    found = [given for given in states if len(given.get("sql", ())) == 1]
    if draft.command.program != "gdal" or draft.steps.count("vector sql") > 1:
        return None
    if len(found) != 1:
        conditions = [given for given in states if given.get("where")]
        return _condition(conditions[0]) if len(conditions) == 1 and not draft.chain else None
    given = found[0]
    dialect, options = given.get("dialect", ("",))[0], given.get("open-option", ())
    sql = given["sql"][0]
    about = {"dialect": dialect, "open_options": options, "equalled": texts_equalled(sql)}
    return {"sql": sql, "outline": outline_of(sql), **about}


def _condition(given: Mapping[str, Sequence[str]]) -> Mapping[str, object] | None:
    equalled = texts_equalled(given["where"][0])
    return (
        {"sql": "", "open_options": given.get("open-option", ()), "equalled": equalled} if equalled else None
    )


def _kept(draft: Draft) -> Sequence[str]:
    # the shortcut `convert` is of rasters in the catalogue's words; the container compares layers only
    shortcut = draft.algorithm in ("convert", "raster convert")
    steps = draft.chain or (("vector convert" if shortcut else draft.algorithm, draft.arguments),)
    inputs = [name for name, _ in draft.named or () if name == "input"]
    if len(draft.outputs) != 1 or len(inputs) != 1 or len(draft.inputs) != 1:
        return ()
    if any(path not in _VALUES or _OTHERWISE & set(arguments) for path, arguments in steps):
        return ()
    unchanged = all(path in _COORDINATES and not arguments.get("crs") for path, arguments in steps)
    if draft.outputs[0].update:
        return ("fields", "added") if unchanged else ("fields",)
    return ("features", "fields", "values", *(["coordinates"] if unchanged else []))
