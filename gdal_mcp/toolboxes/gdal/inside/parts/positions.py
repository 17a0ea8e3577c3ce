"""Finds points at wrong places: at 0, 0 far from all others, with x and y exchanged, or with two ranges of longitudes."""

import itertools
import math

from osgeo import ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import in_degrees, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.measured_fields import kind_of
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.tables import MOST_FIELDS, fields, is_number

CODES = ("null_island", "xy_mixed", "longitudes_mixed")
MAX_FEATURES = 20_000
METRES = 111_320  # per degree
FAR = 5.0  # degrees; no land is nearer to 0, 0, where one weather buoy is
EXACT = 1e-6  # degrees; a tenth of a metre, for rounded coordinates
FEWEST = 3  # other points, which show where the layer lies
APART = 15.0  # degrees between the middle of a layer and its exchanged points
HALF = 180.0
PAIRS = (("lon", "lat"), ("x", "y"))


def checks(layer, columns):
    """Checks the points of a layer, or of a table with two columns for x and y."""
    points = points_of(layer, columns)
    if len(points) < FEWEST:
        return
    if layer.GetFeatureCount() > MAX_FEATURES:
        skip(*CODES)
    crs = layer.GetSpatialRef()
    at_zero = null_island(points, crs)
    others = [point for point in points if point not in at_zero]
    if at_zero:
        yield {"code": "null_island", "count": len(points) - len(others), "of": len(points)}
    if in_degrees(crs) if crs is not None else columns and kind_of(columns[0]) == "lon":
        yield from degree_checks(others)


def degree_checks(points):
    if count := exchanged(points):
        yield {"code": "xy_mixed", "count": count, "of": len(points)}
    if count := of_other_range(points):
        yield {"code": "longitudes_mixed", "count": count, "of": len(points)}


def position_columns(layer):
    """The names of the columns of a table without geometries that have x and y; empty if it has none."""
    if layer.GetGeomType() != ogr.wkbNone:
        return ()
    names = [field.GetName() for field in fields(layer.GetLayerDefn(), MOST_FIELDS)]
    kinds = {kind_of(name): name for name in reversed(names)}
    return next(((kinds[x], kinds[y]) for x, y in PAIRS if x in kinds and y in kinds), ())


def points_of(layer, columns):
    """The x and y of the first points."""
    layer.ResetReading()
    some = itertools.islice(layer, MAX_FEATURES)
    if columns:
        texts = ([feature.GetFieldAsString(name).strip() for name in columns] for feature in some)
        points = [tuple(map(float, pair)) for pair in texts if all(map(is_number, pair))]
    elif ogr.GT_Flatten(layer.GetGeomType()) in (ogr.wkbPoint, ogr.wkbUnknown):
        shapes = ((feature, feature.GetGeometryRef()) for feature in some)
        points = [(shape.GetX(), shape.GetY()) for _, shape in shapes if is_point(shape)]
    else:
        points = []
    layer.ResetReading()
    return points


def is_point(shape):
    return (
        shape is not None and ogr.GT_Flatten(shape.GetGeometryType()) == ogr.wkbPoint and not shape.IsEmpty()
    )


def null_island(points, crs):
    """The places at 0, 0 in degrees or at a false origin, if all other points are far away; else empty.

    If 0, 0 is among the others, they must have fractions, unlike the nodes of a grid.
    """
    degree = 1.0 if lies_in_degrees(points, crs) else METRES / (crs.GetLinearUnits() if crs else 1.0)
    for place in missing_places(crs):
        at = {point for point in points if math.dist(point, place) <= EXACT * degree}
        others = {point for point in points if point not in at}
        if not at or len(others) < FEWEST - 1:
            continue
        is_far = min(math.dist(point, place) for point in others) > FAR * degree
        fractions = sum(x % 1 != 0 or y % 1 != 0 for x, y in others)
        if is_far and (is_outside(place, others) or 2 * fractions > len(others)):
            return at
    return frozenset()


def lies_in_degrees(points, crs):
    if crs is not None:
        return in_degrees(crs)
    return all(abs(x) <= 2 * HALF and abs(y) <= HALF / 2 for x, y in points)


def missing_places(crs):
    """The places that stand for missing positions: longitude and latitude 0, and the origin if it is a false one."""
    if crs is None or in_degrees(crs):
        return [(0.0, 0.0)]
    shifted = crs.GetNormProjParm("false_easting") or crs.GetNormProjParm("false_northing")
    places = [(0.0, 0.0)] if shifted else []
    with quiet():
        change = osr.CreateCoordinateTransformation(
            traditional(osr.SpatialReference(epsg=4326)), traditional(crs)
        )
        x, y, _ = change.TransformPoint(0.0, 0.0) if change is not None else (math.inf, math.inf, 0)
    return [*places, (x, y)] if math.isfinite(x) and math.isfinite(y) else places


def is_outside(place, others):
    return any(
        not min(values) <= at <= max(values)
        for at, values in zip(place, zip(*others, strict=True), strict=True)
    )


def exchanged(points):
    """The number of points, fewer than half, that are far from the others and among them if x and y are exchanged."""
    if len(points) < FEWEST:
        return 0
    middle = [sorted(values)[len(points) // 2] for values in zip(*points, strict=True)]
    near, far = [], []
    for x, y in points:
        (near if max(abs(x - middle[0]), abs(y - middle[1])) < APART else far).append((x, y))
    if not far or 2 * len(near) <= len(points) or any(is_outside((y, x), near) for x, y in far):
        return 0
    return len(far)


def of_other_range(points):
    """The number of points beyond longitude 180 in a layer that also has negative longitudes near them, written so."""
    beyond = sum(x > HALF for x, _ in points)
    if not beyond or not any(x < 0 for x, _ in points):
        return 0
    spans = [max(values) - min(values) for values in ([x for x, _ in points], [x % 360 for x, _ in points])]
    return beyond if spans[0] > 2 * HALF or 2 * spans[1] < spans[0] else 0
