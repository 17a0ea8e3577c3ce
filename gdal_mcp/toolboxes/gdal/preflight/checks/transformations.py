"""The changes of CRS that a draft makes according to its arguments, and findings about them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.plan import AlgorithmStep, Draft
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, is_on, make_finding, options_of
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import transformed_to

BALLPARK: Final = "ballpark_transformation"
# source and target CRS as spelled in the call, "" for the CRS of the data; the area of interest for PROJ
Change = tuple[str, str, str]

_LABELS: Final = ("raster edit", "vector edit")  # algorithms that set the CRS without changing coordinates
_MOVES: Final = frozenset(
    {
        *("raster reproject", "raster footprint", "raster index"),
        *("vector reproject", "vector concat", "vector index"),
    }
)
# formats with a fixed CRS
_WRITES_IN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("KML", "LIBKML", "KMLSUPEROVERLAY", "GPX", "GeoJSONSeq"), "EPSG:4326"),
    "MapML": "EPSG:4326",  # unless EXTENT_UNITS is set or the data is in one of `_MAPML`
    # the CRS of the member `geometry`, which GeoJSON readers use; `place` is in the CRS of the data
    "JSONFG": "EPSG:4326",
    **dict.fromkeys(("MVT", "PMTiles", "MBTiles"), "EPSG:3857"),
}
# CRS by upper-case name: of GDAL's tiling schemes, and (in `_MAPML`) of the units of a MapML extent
_SCHEMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("GOOGLEMAPSCOMPATIBLE", "PSEUDOTMS_GLOBALMERCATOR", "WEBMERCATORQUAD"), "EPSG:3857"),
    **dict.fromkeys(
        ("GOOGLECRS84QUAD", "PSEUDOTMS_GLOBALGEODETIC", "WORLDCRS84QUAD", "INSPIRECRS84QUAD"), "EPSG:4326"
    ),
    "WORLDMERCATORWGS84QUAD": "EPSG:3395",
    "LINZANTARTICAMAPTILEGRID": "EPSG:5482",
    "NZTM2000": "EPSG:2193",
    "MAPML_APSTILE": "EPSG:5936",
    "MAPML_CBMTILE": "EPSG:3978",
}
_MAPML: Final[Mapping[str, str]] = {
    "WGS84": "EPSG:4326",
    "OSMTILE": "EPSG:3857",
    "CBMTILE": "EPSG:3978",
    "APSTILE": "EPSG:5936",
}
_PLACES: Final = ("bbox-crs", "geometry-crs", "position-crs")  # CRSs of coordinates in arguments
_FILE: Final = "file:"  # prefix of a path: the CRS of that dataset
_POINTS: Final = "points"  # replaces the area of interest if single points are transformed, not a raster
_MOST: Final = 8
_MAX_TEXT: Final = 16384  # characters of one CRS, which may be PROJJSON


def crs_changes(draft: Draft, catalogue: Catalogue) -> tuple[Change, ...]:
    """The changes of CRS in order: those of the steps, then those of branches and nested pipelines."""
    return tuple(dict.fromkeys(change for _, change in crs_changes_by_input(draft, catalogue)))


def crs_changes_by_input(draft: Draft, catalogue: Catalogue) -> tuple[tuple[str, Change], ...]:
    """Each change of CRS with the input it applies to, as spelled in the call; "" for all inputs."""
    changes = _all_changes(draft, catalogue)
    return tuple(pair for pair in changes if max(map(len, pair[1])) <= _MAX_TEXT)[:_MOST]


def _all_changes(draft: Draft, catalogue: Catalogue) -> Sequence[tuple[str, Change]]:
    parts = (draft.work.steps, *draft.work.branches)
    return list(dict.fromkeys(pair for steps in parts for pair in _named(steps, draft, catalogue)))


def key(change: Change) -> str:
    """The key of a change in a container's description."""
    return "\n".join(change)


def _named(
    steps: Sequence[AlgorithmStep], draft: Draft, catalogue: Catalogue
) -> Iterator[tuple[str, Change]]:
    read = steps[0][1].get("input", ()) if draft.work.chain else ()
    source = read[0] if len(read) == 1 else ""
    like = [f"{_FILE}{located}" for name, located in draft.work.named or () if name == "like"]
    current = ""  # the CRS of the data at each step
    if demanded := _demanded(draft, steps[-1], catalogue):
        steps = (*steps, AlgorithmStep("vector reproject", {"output-crs": (demanded,)}))
    for path, arguments in steps:
        texts = {name: values[0] for name, values in arguments.items() if values}
        target = texts.get("output-crs")  # the CRS of the argument, else of the dataset `like`
        if target is None:
            references = like if "like" in texts else []
            if path == "vector concat" and texts.get("mode") == "single":
                references = [f"{_FILE}{located}" for located in draft.inputs[:1]]
            target = references[0] if len(references) == 1 else ""
        if path in _LABELS and "crs" in texts:
            current = texts["crs"]
        elif target and (path in _MOVES or ("output-crs" in texts and is_new(path, catalogue))):
            warp = options_of(arguments.get("transform-option", ()))
            if "COORDINATE_OPERATION" not in warp:  # otherwise the call itself selects the operation
                yield source, (texts.get("input-crs") or current, target, warp.get("AREA_OF_INTEREST", ""))
            current = target
        elif path == "vector sql":
            changes = _of_statement(texts.get("sql", ""), source, draft)
            yield from ((of, (before or current, after, "")) for of, before, after in changes)
        elif "like" in texts and like:
            yield source, (like[0], current, _POINTS)
        places = (texts[name] for name in _PLACES if name in texts)
        yield from ((source, (place, current, _POINTS)) for place in places)


def is_new(path: str, catalogue: Catalogue) -> bool:
    """True for an algorithm of the running GDAL that the packaged catalogue, and so the checks, do not know."""
    return path in catalogue.algorithms and path not in packaged().algorithms


def _of_statement(statement: str, source: str, draft: Draft) -> Iterator[tuple[str, str, str]]:
    """The source and target CRS of each ST_Transform with its input; the source is "" for the CRS of the table."""
    stems = [[str(located).rpartition("/")[2].partition(".")[0], str(located)] for located in draft.inputs]
    files = {alias.lower(): path for alias, path in draft.command.extra.get("tables") or stems}
    for table, before, after in transformed_to(statement):
        # without a table, it may be any of several inputs
        yield source if source or len(draft.inputs) == 1 else files.get(table, ""), before, after


def _demanded(draft: Draft, last: AlgorithmStep, catalogue: Catalogue) -> str | None:
    """The CRS that the format of the output requires; None if it requires none."""
    path, arguments = last
    if path == "raster tile":
        return _SCHEMES.get(arguments.get("tiling-scheme", ("WebMercatorQuad",))[0].upper())
    own = draft.output.target.name if draft.output and not draft.work.chain else ""
    output = arguments.get("output", (own,))[0]
    if not output:
        return None
    options = options_of((*arguments.get("creation-option", ()), *arguments.get("layer-creation-option", ())))
    if demanded := _of_options(options):
        return demanded
    algorithm = catalogue.algorithms.get(path)
    kind = (algorithm.makes or algorithm.kind) if algorithm else None
    named = arguments.get("output-format", ())
    driver = named[0] if named else driver_for(catalogue, output, kind)
    if driver == "JSONFG" and not is_on(options.get("WRITE_GEOMETRY", "YES")):
        return None
    return _WRITES_IN.get(driver or "")


def _of_options(options: Mapping[str, str]) -> str | None:
    """The CRS that creation options reproject to; None if they do not reproject."""
    if target := options.get("TARGET_SRS"):  # option of COG
        return target
    scheme = options.get("TILING_SCHEME", "CUSTOM")
    if scheme != "CUSTOM":
        # for MVT the value is the CRS, the origin and the tile size; for rasters it is a name
        return _SCHEMES.get(scheme) or scheme.partition(",")[0]
    if is_on(options.get("RFC7946", "")):
        return "EPSG:4326"
    return _MAPML.get(options.get("EXTENT_UNITS", ""))


def findings(changes: Sequence[tuple[Mapping[str, Any], tuple[int, ...]]], draft: Draft) -> Iterator[Finding]:
    """Finds ballpark transformations, except between datums with the same coordinates, and changed heights."""
    for change, inputs in changes:
        if change.get("ballpark") and not change.get("alike"):
            yield replace(_ballpark(change, draft), inputs=inputs)
        if change.get("heights") and change.get("vertical"):
            yield replace(_moved_heights(change, draft), inputs=inputs)
        yield from _epochs(change, inputs)


def _epochs(change: Mapping[str, Any], inputs: tuple[int, ...]) -> Iterator[Finding]:
    """Finds coordinates whose epoch matters and is unknown, or whose epoch would change without a transformation."""
    if drift := change.get("drift"):
        yield make_finding("epoch_unknown", {"drift": 100 * drift}, inputs=inputs)
    if years := change.get("years"):
        yield make_finding("epoch_unmoved", {"years": abs(years)}, inputs=inputs)


def _moved_heights(change: Mapping[str, Any], draft: Draft) -> Finding:
    """The finding for heights in a vertical CRS that become heights above the ellipsoid."""
    flat = change.get("to") or next(iter(draft.work.arguments.get("output-crs", ())), "the CRS")
    compound = f"{flat}+{change['vertical'].rpartition(':')[2]}"
    corrected = draft.work.algorithm == "raster reproject" and change.get("to")
    return make_finding(
        "heights_moved",
        {"metres": change["heights"], "kept": compound},
        change={"output-crs": (compound,)} if corrected else None,
    )


def unexamined_changes(draft: Draft, catalogue: Catalogue) -> Iterator[Finding]:
    """Finds calls with more or longer changes of CRS than a container examines."""
    count = len(_all_changes(draft, catalogue)) - len(crs_changes_by_input(draft, catalogue))
    if count:
        numbers, refuses = {"count": count}, BALLPARK not in draft.allows
        yield make_finding("changes_unexamined", refuses=refuses, numbers=numbers)


def _ballpark(change: Mapping[str, Any], draft: Draft) -> Finding:
    source, target = change.get("from") or "the CRS of the data", change.get("to") or "the CRS asked for"
    message = (
        f"PROJ would take coordinates from {source} to {target} as they are, without changing the datum (a ballpark transformation): "
        "places come out tens to hundreds of metres off, heights up to a hundred."
    )
    # outside the CRS's area of use PROJ has no operation, and the mistake is the choice of CRS
    refuses = change.get("in_use") is not False and BALLPARK not in draft.allows
    better = change.get("better") or {}
    through = next(filter(None, reversed(better.get("through") or ())), None)
    advice = f"A true operation of {better.get('accuracy')} m exists"
    if not better:
        advice = "PROJ knows no true operation. Check both CRSs."
    elif better.get("grid_missing"):
        advice, through = f"{advice}, and needs a grid that this image lacks: use an image with it.", None
    else:
        way = f" PROJ finds it by way of {through}: reproject to {through} first, and from there."
        advice = f"{advice}.{way if through else ''}"
    if refuses:
        advice += f' To have it all the same, call again with "allow": ["{BALLPARK}"].'
    finding = Finding(BALLPARK, message, advice, refuses)
    # PROJ selects the better operation if it has an area of interest, which only warping supports, or in two steps
    if draft.work.algorithm == "raster reproject" and (area := better.get("area")):
        text = f"AREA_OF_INTEREST={','.join(f'{number:.9g}' for number in area)}"
        return replace(finding, change={"transform-option": (text,)})
    if draft.work.algorithm == "vector reproject" and through:
        targets = (through, *draft.work.arguments["output-crs"])
        return replace(finding, steps=[("reproject", {"output-crs": crs}) for crs in targets])
    return finding
