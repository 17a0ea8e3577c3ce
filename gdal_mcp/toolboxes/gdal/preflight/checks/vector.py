"""Likely mistakes with features: their geometries and fields. Pure."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding, same_crs
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.layers import LINE, POLYGON, family
from gdal_mcp.toolboxes.gdal.preflight.sql import reading
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import is_unread

_KILOMETRES: Final = 111.3  # per degree, from north to south
# arguments that are lengths in CRS units, with the value from which degrees are certainly not intended
_LENGTHS: Final[Mapping[str, Mapping[str, float]]] = {
    "vector buffer": {"distance": 0.0},
    "vector simplify": {"tolerance": 0.01},
    "vector simplify-coverage": {"tolerance": 0.01},
    "vector segmentize": {"max-length": 1.0},
    "vector clean-coverage": {"snapping-distance": 0.01, "maximum-gap-width": 0.01},
    "vector check-coverage": {"maximum-gap-width": 0.01},
}
_HULLS: Final = frozenset({"vector convex-hull", "vector concave-hull"})
_POINTS: Final = frozenset({"Point", "3D Point"})
_WGS84: Final = frozenset({"EPSG:4326", "EPSG:4979", "OGC:CRS84", "OGC:CRS84H"})
_TILES: Final = frozenset({"MVT", "PMTiles", "MBTiles"})
_COUNTRY: Final = 20.0  # degrees; larger data is still visible at the default zoom of tiles
_FINEST: Final = 14
_TABLES: Final = frozenset({"CSV", "XLSX", "ODS"})
# pairs of lower-case column names that contain a position; those in degrees come first
_DEGREES: Final = (("lon", "lat"), ("longitude", "latitude"), ("lng", "lat"), ("long", "lat"))
_PAIRS: Final = (
    *(*_DEGREES, ("x", "y"), ("easting", "northing"), ("east", "north"), ("xcoord", "ycoord")),
    *(("x_coord", "y_coord"), ("coord_x", "coord_y"), ("point_x", "point_y")),
)
_GEOMETRIES: Final = frozenset({"wkt", "geom", "geometry", "the_geom", "shape", "wkt_geom", "geom_wkt"})


def length_in_degrees(call: AlgorithmCall) -> Iterator[Finding]:
    lengths = _LENGTHS.get(call.path, {}) if call.vector and call.vector.degrees else {}
    for name, least in lengths.items():
        for value in map(abs, call.numbers(name)):
            if value > 0 and value >= least:
                words = {"name": name, "value": value, "kilometres": value * _KILOMETRES}
                yield make_finding("length_in_degrees", words)
                return


def length_in_feet(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds distances in the units of a CRS that is not in metres.

    Only algorithms whose result depends on the distance are checked.
    """
    unit = call.vector.unit_metres if call.vector else None
    if not unit or call.path not in ("vector buffer", "vector segmentize"):
        return
    for name in ("distance", "max-length"):
        for value in call.numbers(name)[:1]:
            words = {"name": name, "value": value, "unit": unit, "metres": value * unit}
            yield make_finding("length_in_feet", words)


def geojson(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds GeoJSON in another CRS than readers assume, or with fewer decimals than the data."""
    if call.driver != "GeoJSON":
        return
    if call.switched_on("RFC7946", "layer-creation-option"):
        if not call.option("COORDINATE_PRECISION", "layer-creation-option"):
            yield make_finding("decimals_rounded")
        return
    is_table = call.path == "raster zonal-stats" and not call.flag("include-geom")
    may_move = reading.changes_crs(call.text("sql")) or is_unread(call.text("sql"))
    if call.updates or is_table or may_move or call.text("crs"):
        return
    facts, target = call.vector or call.input, call.target_crs
    known = facts is not None and facts.has_crs and facts.degrees is False and not call.text("output-crs")
    if (target is not None or known) and (target or "").strip().upper() not in _WGS84:
        yield make_finding("geojson_not_wgs84", change={"layer-creation-option": ("RFC7946=YES",)})


def coarse_tiles(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds vector tiles of a small area, whose default maximum zoom is suitable only for whole countries."""
    facts = call.vector
    if call.driver not in _TILES or facts is None or facts.extent is None or facts.degrees is None:
        return
    west, south, east, north = facts.extent
    side = max(east - west, north - south) / (1 if facts.degrees else _KILOMETRES * 1000)
    zoom = min(_FINEST, math.ceil(math.log2(360 / side)) + 2) if side > 0 else _FINEST
    if not (call.option("MAXZOOM") or call.option("CONF") or side > _COUNTRY):
        yield make_finding("tiles_rounded", {"zoom": zoom}, change={"creation-option": (f"MAXZOOM={zoom}",)})


def geometry_left_out(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds outputs without the geometry, due to the format or to the selection of fields."""
    facts, named = call.vector, {name.casefold() for name in call.texts("fields")}
    if facts is None or facts.geometry in ("", "None"):
        return
    keeps = call.flag("exclude") or named & (_GEOMETRIES | {"_ogr_geometry_", "wkb_geometry"})
    if call.path == "vector select" and not keeps:
        if call.written not in ("", *_TABLES):
            yield make_finding("geometry_not_selected", change={"fields": ("_ogr_geometry_",)})
        return
    if call.driver not in _TABLES or call.text("sql"):
        return
    setting = call.option("GEOMETRY", "layer-creation-option")
    how = {"Point": "AS_XY", "3D Point": "AS_XYZ"}.get(facts.geometry, "AS_WKT")
    if setting == "AS_XY" and how == "AS_XYZ":
        yield make_finding("heights_in_columns", change={"layer-creation-option": ("GEOMETRY=AS_XYZ",)})
    elif setting in ("", "NONE") or (how == "AS_WKT" and setting != "AS_WKT"):
        words = {"driver": call.driver, "but": " but points in this way" if setting else "", "how": how}
        if call.driver == "CSV":
            change = {"layer-creation-option": (f"GEOMETRY={how}",)}
            yield make_finding("left_out_of_csv", words, change=change)
        else:
            yield make_finding("left_out_of_table", words)


def position_in_columns(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds tables whose columns contain positions that are not read as geometries."""
    facts = call.vector
    if not call.driver or call.driver in _TABLES or facts is None or facts.geometry != "None":
        return
    open_options = [text.upper() for text in call.texts("open-option")]
    if call.path in ("vector make-point", "vector sql") or any(
        "_POSSIBLE_NAMES=" in text for text in open_options
    ):
        return
    options, names = _position(facts)
    if not options:
        return
    by_csv = facts.driver == "CSV"
    change: Mapping[str, tuple[str, ...]] | None = {"open-option": options} if by_csv else None
    as_points = names in _DEGREES and call.path == "vector convert"
    if as_points:  # this also sets the CRS
        change = {"x": names[:1], "y": names[1:], "output-crs": ("EPSG:4326",)}
    words = {"names": ", ".join(names), "options": " and ".join(options)}
    instead = "vector make-point" if as_points else ""
    name = "position_in_csv" if by_csv else "position_in_columns"
    yield make_finding(name, words, change=change, instead=instead)


def _position(facts: DatasetFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The open options that read geometries from columns, and these columns.

    The names are ours, not text from the file.
    """
    kinds = (facts.columns.get(kind, ()) for kind in ("number_texts", "number_fields", "geometry_texts"))
    texts, fields, drawn = ({name.casefold() for name in names} for names in kinds)
    for x, y in _PAIRS:
        if {x, y} <= texts | fields:
            return (f"X_POSSIBLE_NAMES={x}", f"Y_POSSIBLE_NAMES={y}"), (x, y)
    shapes = sorted(_GEOMETRIES & drawn)[:1]
    return tuple(f"GEOM_POSSIBLE_NAMES={name}" for name in shapes), tuple(shapes)


def xy_exchanged(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds points whose x is read from a column of latitudes, and y from one of longitudes."""
    makes = call.path == "vector make-point"
    pairs = [(call.text("x"), call.text("y"))] if makes else reading.point_columns(call.text("sql"))
    east, north = (call.option(f"{axis}_POSSIBLE_NAMES", "open-option") for axis in "XY")
    pairs.append((east, north))
    for x, y in [(x, y) for x, y in pairs if (y.casefold(), x.casefold()) in _PAIRS][:1]:
        yield make_finding("xy_exchanged", {"x": x, "y": y}, change={"x": (y,), "y": (x,)} if makes else None)


def crs_mismatch(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds a second dataset in another CRS, for an algorithm or statement that does not reproject."""
    facts, method = call.vector, None
    if facts is None or facts.geometry == "None":
        return
    if call.path == "vector layer-algebra":
        method = call.others.get("method")
    elif call.path == "vector update":  # its output is the last of its inputs
        method = call.inputs[-1]
    elif call.path == "vector sql" and reading.relates(call.text("sql")):
        others = (dataset for dataset in call.inputs[1:] if dataset and dataset.geometry not in ("", "None"))
        method = next((dataset for dataset in others if not same_crs(facts.crs, dataset.crs)), None)
    if not (method and facts.has_crs and method.has_crs) or same_crs(facts.crs, method.crs):
        return
    unlike = None not in (facts.degrees, method.degrees) and facts.degrees != method.degrees
    if unlike or None not in (facts.crs, method.crs):
        yield make_finding("layers_mismatch", refuses=unlike)


def hull_of_each_point(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds hulls of single points: the algorithms make one hull for each feature."""
    facts = call.vector
    if call.path in _HULLS and facts is not None and facts.geometry in _POINTS:
        yield make_finding("hull_of_each_point", steps=(("combine", {}),))


def sampled_at_centroid(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds lines and polygons whose pixels are requested: only the pixel at the centroid is read."""
    places = call.others.get("position-dataset")
    if call.path == "raster pixel-info" and places and family(places.geometry) in (LINE, POLYGON):
        yield make_finding("sampled_at_centroid")


def order_lost(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rows that a statement sorts, and a spatial index sorts again."""
    indexed = (call.driver or call.written) == "FlatGeobuf" and call.option(
        "SPATIAL_INDEX", "layer-creation-option"
    ) != "NO"
    if indexed and call.path == "vector sql" and reading.sorts(call.text("sql")):
        yield make_finding("order_lost", change={"layer-creation-option": ("SPATIAL_INDEX=NO",)})


def zeros_are_nodata(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds counts in which cells without points become nodata."""
    if call.path == "vector grid count" and not call.text("nodata"):
        yield make_finding("zeros_are_nodata", change={"nodata": ("-1",)})


CHECKS: Final = (
    hull_of_each_point,
    sampled_at_centroid,
    zeros_are_nodata,
    order_lost,
    length_in_degrees,
    length_in_feet,
    geojson,
    coarse_tiles,
    geometry_left_out,
    position_in_columns,
    xy_exchanged,
    crs_mismatch,
)
