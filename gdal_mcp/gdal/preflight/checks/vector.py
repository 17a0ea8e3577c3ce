"""Likely mistakes with features: their geometries and fields. Pure."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from gdal_mcp.gdal.preflight.call import Call, Finding, same_crs, worded
from gdal_mcp.gdal.preflight.checks.crs import MERCATOR_SLACK, mercator_factor
from gdal_mcp.gdal.preflight.checks.statement import (
    adds_up,
    compares,
    compares_all_pairs,
    compares_text_of_date,
    measures,
    measures_in,
    moves,
    moves_to_text,
    names,
    points_made,
    relates,
)
from gdal_mcp.gdal.preflight.facts import DatasetFacts

_KILOMETRES: Final = 111.3  # of a degree, from north to south
# arguments that are lengths in units of the CRS, and from which length on nobody can mean degrees
_LENGTHS: Final[Mapping[str, Mapping[str, float]]] = {
    "vector buffer": {"distance": 0.0},
    "vector simplify": {"tolerance": 0.01},
    "vector simplify-coverage": {"tolerance": 0.01},
    "vector segmentize": {"max-length": 0.0},
    "vector clean-coverage": {"snapping-distance": 0.01, "maximum-gap-width": 0.01},
    "vector check-coverage": {"maximum-gap-width": 0.01},
}
_METRIC: Final = (
    "Reproject to a CRS in metres first (find_crs names one for the place), as in a pipeline: "
    "`read ... ! reproject --output-crs=... ! ... ! write ...`."
)
_MANY_PAIRS: Final = 20_000_000
# measured: one million; refused is what a machine of twice the speed cannot do
_PAIRS_A_SECOND: Final = 2_000_000
_WGS84: Final = frozenset({"EPSG:4326", "EPSG:4979", "OGC:CRS84", "OGC:CRS84H"})
_TILES: Final = frozenset({"MVT", "PMTiles", "MBTiles"})
_COUNTRY: Final = 20.0  # degrees: what is as large is seen at the zoom that tiles have by default
_FINEST: Final = 14
_TABLES: Final = frozenset({"CSV", "XLSX", "ODS"})
# names of columns, in lower case, that hold a position; the pairs in degrees come first
_DEGREES: Final = (("lon", "lat"), ("longitude", "latitude"), ("lng", "lat"), ("long", "lat"))
_OTHERS: Final = (
    "x y,easting northing,east north,xcoord ycoord,x_coord y_coord,coord_x coord_y,point_x point_y"
)
_PAIRS: Final = (*_DEGREES, *((x, y) for x, y in map(str.split, _OTHERS.split(","))))
_GEOMETRIES: Final = frozenset({"wkt", "geom", "geometry", "the_geom", "shape", "wkt_geom", "geom_wkt"})


def length_in_degrees(call: Call) -> Finding | None:
    lengths = _LENGTHS.get(call.path, {}) if call.vector and call.vector.degrees else {}
    for name, least in lengths.items():
        for value in map(abs, call.numbers(name)):
            if value > 0 and value >= least:
                return Finding(
                    "units_in_degrees",
                    f"{name} is in degrees, as the data's CRS is: {value:g} are about {value * _KILOMETRES:.3g} km from "
                    "north to south, and fewer from west to east.",
                    _METRIC,
                )
    return None


def measure_in_degrees(call: Call) -> Finding | None:
    layers = [one for one in (*call.inputs, call.flowing) if one and one.kind == "vector"]
    drawn = [one.degrees for one in layers if one.geometry != "None"]
    if not drawn or not all(drawn) or not measures(call.text("sql")):
        return None
    return worded("measured_in_degrees")


def measure_in_mercator(call: Call) -> Finding | None:
    facts, sql = call.input or call.flowing, call.text("sql")
    factor, own = mercator_factor(facts), same_crs(facts.crs if facts else None, "EPSG:3857")
    buffers = call.path == "vector buffer"
    if factor < MERCATOR_SLACK or not (measures_in(sql, "3857") or (own and (buffers or measures(sql)))):
        return None
    return worded("measured_in_mercator", {"factor": factor, "square": factor**2})


def geojson_not_wgs84(call: Call) -> Finding | None:
    if call.driver != "GeoJSON" or call.updates or call.switched_on("RFC7946", "layer-creation-option"):
        return None
    is_table = call.path == "raster zonal-stats" and not call.flag("include-geom")
    if is_table or moves(call.text("sql")) or call.text("crs"):
        return None
    facts, target = call.vector or call.input, call.target_crs
    known = facts is not None and facts.has_crs and facts.degrees is False and not call.text("output-crs")
    if (target is None and not known) or (target or "").strip().upper() in _WGS84:
        return None
    return worded("geojson_not_wgs84", change={"layer-creation-option": ("RFC7946=YES",)})


def rounded(call: Call) -> Finding | None:
    rounds = call.switched_on("RFC7946", "layer-creation-option")
    if call.driver != "GeoJSON" or not rounds or call.option("COORDINATE_PRECISION", "layer-creation-option"):
        return None
    return worded("decimals_rounded")


def coarse_tiles(call: Call) -> Finding | None:
    """Vector tiles of a small area, which only go to a zoom for whole countries unless asked for more."""
    facts = call.vector
    if call.driver not in _TILES or facts is None or facts.extent is None or facts.degrees is None:
        return None
    west, south, east, north = facts.extent
    side = max(east - west, north - south) / (1 if facts.degrees else _KILOMETRES * 1000)
    zoom = min(_FINEST, math.ceil(math.log2(360 / side)) + 2) if side > 0 else _FINEST
    if call.option("MAXZOOM") or call.option("CONF") or side > _COUNTRY:
        return None
    return Finding(
        "coordinates_rounded",
        "vector tiles go to zoom 5 unless asked for more, whose coordinates are rounded to 300 metres: small shapes are lost.",
        f"Add the creation option MAXZOOM={zoom}.",
        change={"creation-option": (f"MAXZOOM={zoom}",)},
    )


def geometry_left_out(call: Call) -> Finding | None:
    facts = call.vector
    if call.driver not in _TABLES or facts is None or facts.geometry in ("", "None") or call.text("sql"):
        return None
    if _without_geometry(call):
        return None
    by_points = facts.geometry in ("Point", "3D Point", "")
    if (kept := call.option("GEOMETRY", "layer-creation-option")) == "AS_XY" and facts.geometry == "3D Point":
        return worded("heights_in_columns", change={"layer-creation-option": ("GEOMETRY=AS_XYZ",)})
    if kept not in ("", "NONE") and (by_points or kept == "AS_WKT"):
        return None
    how = {"Point": "AS_XY", "3D Point": "AS_XYZ"}.get(facts.geometry, "AS_WKT")
    return Finding(
        "geometry_left_out",
        f"{call.driver} holds no geometries{' but points in this way' if kept else ''}, so the output is a table without them.",
        f"Add the layer creation option GEOMETRY={how} to keep them in columns."
        if call.driver == "CSV"
        else "Write GeoPackage or GeoJSON to keep them.",
        change={"layer-creation-option": (f"GEOMETRY={how}",)} if call.driver == "CSV" else None,
    )


def geometry_not_selected(call: Call) -> Finding | None:
    facts = call.vector
    drawn = facts is not None and facts.geometry not in ("", "None") and call.written not in ("", *_TABLES)
    if not (drawn and _without_geometry(call)):
        return None
    return worded("geometry_not_selected", change={"fields": ("_ogr_geometry_",)})


def _without_geometry(call: Call) -> bool:
    named = {one.casefold() for one in call.texts("fields")}
    keeps = call.flag("exclude") or named & (_GEOMETRIES | {"_ogr_geometry_", "wkb_geometry"})
    return call.path == "vector select" and not keeps


def position_in_columns(call: Call) -> Finding | None:
    """Features are made of a table whose columns hold the position, which is not read as such."""
    facts = call.vector
    if not call.driver or call.driver in _TABLES or facts is None or facts.geometry != "None":
        return None
    asked = [text.upper() for text in call.texts("open-option")]
    if call.path in ("vector make-point", "vector sql") or any("_POSSIBLE_NAMES=" in text for text in asked):
        return None
    options, names = _position(facts)
    if not options:
        return None
    by_csv = facts.driver == "CSV"
    change: Mapping[str, tuple[str, ...]] | None = {"open-option": options} if by_csv else None
    as_points = names in _DEGREES and call.path == "vector convert"
    if as_points:  # which also says the CRS
        change = {"x": names[:1], "y": names[1:], "output-crs": ("EPSG:4326",)}
    return Finding(
        "position_in_columns",
        f"the table has its positions in columns ({', '.join(names)}), which are not read as geometries unless asked for: the output has none.",
        (f"Add the open options {' and '.join(options)}, " if by_csv else "")
        + "or make points with `vector make-point`, which also sets their CRS.",
        change=change,
        instead="vector make-point" if as_points else "",
    )


def _position(facts: DatasetFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The open options that make geometries of columns, and the columns, by words of ours."""
    numbers = {name.casefold() for name in (*facts.number_texts, *facts.number_fields)}
    for x, y in _PAIRS:
        if {x, y} <= numbers:
            return (f"X_POSSIBLE_NAMES={x}", f"Y_POSSIBLE_NAMES={y}"), (x, y)
    shapes = sorted(_GEOMETRIES & {name.casefold() for name in facts.geometry_texts})[:1]
    return tuple(f"GEOM_POSSIBLE_NAMES={one}" for one in shapes), tuple(shapes)


def xy_exchanged(call: Call) -> Finding | None:
    """Points whose x is taken from a column of latitudes, and y from one of longitudes."""
    makes = call.path == "vector make-point"
    pairs = [(call.text("x"), call.text("y"))] if makes else points_made(call.text("sql"))
    pairs.append(
        (call.option("X_POSSIBLE_NAMES", "open-option"), call.option("Y_POSSIBLE_NAMES", "open-option"))
    )
    x, y = next(((x, y) for x, y in pairs if (y.casefold(), x.casefold()) in _PAIRS), ("", ""))
    if not x:
        return None
    return Finding(
        "xy_exchanged",
        f"x is taken from {x} and y from {y}: latitude and longitude are exchanged, and the points lie elsewhere.",
        f"Longitude, or east, comes first: x is {y}, and y is {x}.",
        change={"x": (y,), "y": (x,)} if makes else None,
    )


def crs_as_text(call: Call) -> Finding | None:
    if not moves_to_text(call.text("sql")):
        return None
    return Finding(
        "crs_as_text",
        "ST_Transform and SetSRID take a CRS by its number; of a text they make NULL, for which ST_Intersects and its like hold.",
        "Write the number of the EPSG code: ST_Transform(geom, 4326).",
        refuses=True,
    )


def number_as_text(call: Call) -> Finding | None:
    statements = [call.text(name) for name in ("sql", "where")]
    if any(map(compares_text_of_date, statements)):
        return worded("date_compared")
    mixed = _columns(call, lambda facts: facts.mixed_texts)
    if mixed and any(compares(one, mixed) or adds_up(one, mixed) for one in statements):
        return worded("mixed_compared")
    columns = _columns(call, lambda facts: () if _detects_types(call, facts) else facts.number_texts)
    if not columns or not any(compares(one, columns) for one in statements):
        return None
    return worded(
        "text_compared",
        change={"open-option": ("AUTODETECT_TYPE=YES",)}
        if call.vector and call.vector.driver == "CSV"
        else None,
    )


def decimal_comma(call: Call) -> Finding | None:
    columns = _columns(call, lambda facts: facts.comma_texts)
    if "replace" in call.text("sql").lower() or not _works_with(call, columns):
        return None
    return worded("decimal_comma")


def local_dates(call: Call) -> Finding | None:
    columns = _columns(call, lambda facts: facts.date_texts)
    if "substr" in call.text("sql").lower() or not _works_with(call, columns):
        return None
    return worded("local_dates")


def long_values(call: Call) -> Finding | None:
    """Whole numbers that no type of GDAL holds, and times that it rounds, where a CSV's types are detected."""
    columns = _columns(call, lambda facts: facts.long_texts if _detects_types(call, facts) else ())
    if not _works_with(call, columns):
        return None
    return worded("long_values")


def _columns(call: Call, such: Callable[[DatasetFacts], tuple[str, ...]]) -> tuple[str, ...]:
    """Such columns of the table that it works on, and of the others that its statement may name."""
    others = call.inputs[1:] if call.text("sql") else ()
    return tuple(name for one in (call.vector, *others) if one and one.kind == "vector" for name in such(one))


def _works_with(call: Call, columns: tuple[str, ...]) -> bool:
    """Whether the call writes such a column, or its statement names one."""
    statement = call.text("sql")
    return bool(columns) and (names(statement, columns) if statement else bool(call.driver))


def _detects_types(call: Call, facts: DatasetFacts) -> bool:
    return facts.driver == "CSV" and any(
        "AUTODETECT_TYPE" in one.upper() for one in call.texts("open-option")
    )


def crs_mismatch(call: Call) -> Finding | None:
    """A second dataset in another CRS, for an algorithm or a statement that takes coordinates as they are."""
    facts, method = call.vector, None
    if facts is None or facts.geometry == "None":
        return None
    if call.path == "vector layer-algebra":
        method = call.others.get("method")
    elif call.path == "vector update":  # whose output is the last of what it works on
        method = call.inputs[-1]
    elif call.path == "vector sql" and relates(call.text("sql")):
        others = (one for one in call.inputs[1:] if one and one.geometry not in ("", "None"))
        method = next((one for one in others if not same_crs(facts.crs, one.crs)), None)
    if not (method and facts.has_crs and method.has_crs) or same_crs(facts.crs, method.crs):
        return None
    unlike = None not in (facts.degrees, method.degrees) and facts.degrees != method.degrees
    if not unlike and None in (facts.crs, method.crs):
        return None
    return worded("layers_mismatch", refuses=unlike)


def compares_all(call: Call) -> Finding | None:
    counts = sorted(one.features or 0 for one in call.inputs if one and one.kind == "vector")
    pairs = math.prod(counts[-2:]) if len(counts) > 1 else 0
    if pairs < _MANY_PAIRS or not compares_all_pairs(call.text("sql")):
        return None
    return Finding(
        "all_pairs",
        f"the statement measures the distance of about {pairs / 1e6:,.0f} million pairs one by one, about a million in a second.",
        "Compare within a grid: give both tables columns CAST(ST_X(geom) / SIDE AS INTEGER) AS x, and y, in WITH ... AS MATERIALIZED; then "
        "FROM a, n i, n j JOIN b ON b.x = a.x + i.d AND b.y = a.y + j.d GROUP BY a.id with min(ST_Distance(...)), where n(d) has -1, 0 and 1.",
        refuses=pairs / _PAIRS_A_SECOND > call.limits.wall_seconds / 2,
    )


CHECKS: Final[tuple[Callable[[Call], Finding | None], ...]] = (
    length_in_degrees,
    measure_in_degrees,
    measure_in_mercator,
    geojson_not_wgs84,
    rounded,
    coarse_tiles,
    geometry_left_out,
    geometry_not_selected,
    position_in_columns,
    xy_exchanged,
    crs_as_text,
    number_as_text,
    decimal_comma,
    local_dates,
    long_values,
    crs_mismatch,
    compares_all,
)
