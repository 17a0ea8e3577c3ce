"""What a command must keep of its input, and what it may make, for the container to compare. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from gdal_mcp.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.plan import Draft

# algorithms that give each feature of the input, with the same fields and values
_VALUES: Final = frozenset(
    {
        f"vector {name}"
        for name in ("read", "write", "convert", "edit", "reproject", "make-valid", "buffer", "simplify")
    }
    | {
        f"vector {name}"
        for name in ("segmentize", "simplify-coverage", "swap-xy", "convex-hull", "concave-hull")
    }
)
_COORDINATES: Final = frozenset({"vector read", "vector write", "vector convert", "vector edit"})
# of those, arguments that leave something out or change it
_OTHERWISE: Final = frozenset(
    {
        "input-layer",
        "open-option",
        "limit",
        "where",
        "sql",
        "active-layer",
        "skip-errors",
        "upsert",
        "output-open-option",
    }
)


# what an algorithm may make without being wrong: features without a geometry (a table of numbers, or faults without a place),
# an empty layer, other places than those of the input
_MAY: Final = {
    **dict.fromkeys(("raster zonal-stats", "vector check-geometry", "vector check-coverage"), "gaps"),
    "vector create": "nothing",
    "vector swap-xy": "elsewhere",
}
_COMPUTES: Final = frozenset(
    {"raster calc", "raster neighbors", "raster scale", "raster unscale", "vector rasterize"}
)
# whose pixels have the values of their inputs' pixels, or lie between them
_PIXELS: Final = frozenset(
    f"raster {name}"
    for name in "read write convert set-type clip reproject resize mosaic stack select update".split()
)
_STATES: Final = ("vector sql", "vector info")
_LABELS: Final = frozenset({"raster edit", "vector edit"})  # whose `crs` says where the same coordinates are


def expected(draft: Draft) -> Sequence[str]:
    """What must be kept (`features`, `fields`, `values`, `coordinates`, `pixels`; `added` to what was there), as far as nothing in the call changes it, and what may be
    made (`gaps`, `nothing`, `elsewhere`, `rounded`).
    """
    may = [_MAY[path] for path in (draft.algorithm, *(path for path, _ in draft.chain)) if path in _MAY]
    steps = draft.chain or ((draft.algorithm, draft.arguments),)
    labelled = any(path in _LABELS and "crs" in given for path, given in steps)
    rounds = ["rounded"] if _transforms(steps) else []
    pixels = ["pixels"] if all(path in _PIXELS for path, _ in steps) else []
    return (*_kept(draft), *may, *rounds, *pixels, *(["elsewhere"] if labelled else []))


def type_range(draft: Draft) -> Sequence[int] | None:
    """The lowest and the highest value of the whole numbers that a formula's results, or an attribute's, are made into."""
    kind = draft.arguments.get("output-data-type", ("",))[0]
    return TYPE_RANGE.get(kind) if draft.algorithm in _COMPUTES else None


def compared(draft: Draft) -> Sequence[int]:
    """Numbers of the inputs that an output may be the same as without a change: not of what only says where or how."""
    mains = {located for name, located in draft.named or () if name in ("input", "dataset")}
    return [number for number, located in enumerate(draft.inputs) if located in mains or not draft.named]


def statement(draft: Draft) -> Mapping[str, object] | None:
    """The one statement that GDAL itself runs, whose joins and types are looked at afterwards."""
    steps = draft.chain or ((draft.algorithm, draft.arguments),)
    found = [given for path, given in steps if path in _STATES and len(given.get("sql", ())) == 1]
    if draft.command.program != "gdal" or len(found) != 1 or draft.steps.count("vector sql") > 1:
        return None
    return {
        "sql": found[0]["sql"][0],
        "dialect": found[0].get("dialect", ("",))[0],
        "open_options": found[0].get("open-option", ()),
    }


def _kept(draft: Draft) -> Sequence[str]:
    steps = draft.chain or ((_as_vector(draft), draft.arguments),)
    named = [name for name, _ in draft.named or ()]
    if not draft.outputs or len(draft.outputs) != 1 or named.count("input") != 1 or len(draft.inputs) != 1:
        return ()
    if any(path not in _VALUES or _OTHERWISE & set(arguments) for path, arguments in steps):
        return ()
    unchanged = all(path in _COORDINATES and not arguments.get("crs") for path, arguments in steps)
    if draft.outputs[0].update:
        return ("fields", "added") if unchanged else ("fields",)
    kept = ["features", "fields", "values"]
    return (*kept, "coordinates") if unchanged else kept


def _as_vector(draft: Draft) -> str:
    """The shortcut `convert` is of rasters in the catalogue's words; the container compares layers only."""
    return "vector convert" if draft.algorithm in ("convert", "raster convert") else draft.algorithm


def _transforms(steps: Sequence[tuple[str, Mapping[str, Sequence[str]]]]) -> bool:
    """GeoJSON of RFC 7946 is in WGS 84, to seven digits; a precision that is asked for is no surprise."""
    options = [text.upper() for _, given in steps for text in given.get("layer-creation-option", ())]
    return any(text.startswith(("RFC7946=", "COORDINATE_PRECISION", "XY_COORD")) for text in options)
