"""Checks of polygons as a set: a dissolve without effect, torn common borders, and long straight edges."""

import itertools

from osgeo import ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip

OF_COMMANDS = {"dissolve": "nothing_dissolved", "simplify": "borders_torn"}
MOST_FEATURES = 2_000
MOST_POINTS = 200_000  # points of all polygons; their union takes a second
SHARED = 0.01  # fraction of all borders that are common, above which polygons count as neighbours
PIECES = 100  # pieces into which the longer side of a polygon's box is divided
STRAIGHT = 0.01  # fraction of the area; a larger change by straight edges is reported
# fraction of common borders that must remain; all remain if polygons are simplified as a coverage
MIN_BORDERS = 0.95


def shape_checks(layer, source, options):
    """Compares the polygons of an output with those of its input."""
    codes = (code for word, code in OF_COMMANDS.items() if word in options)
    after = polygons_of(layer, *codes)
    before = polygons_of(source) if after else []
    if not before or len(before) != len(after) or len(before) < 2:
        return
    if "dissolve" in options and not {"combine", "sql"} & set(options):
        parts = [sum(map(part_count, polygons)) for polygons in (before, after)]
        if parts[0] == parts[1]:
            yield {"code": "nothing_dissolved", "count": len(after)}
    if "simplify" in options:
        common, left = map(common_borders, (before, after))
        if common > SHARED and left < MIN_BORDERS * common:
            yield {"code": "borders_torn", "percent": round(100 * (1 - left / common))}


def edge_checks(layer, source):
    """Reports polygons with long edges, which are curves in the new CRS: GDAL transforms only the corners."""
    here, there = layer.GetSpatialRef(), source.GetSpatialRef()
    after, before = polygons_of(layer, "edges_straight"), polygons_of(source)
    if here is None or there is None or not after or len(after) != len(before):
        return
    change = osr.CreateCoordinateTransformation(traditional(there), traditional(here))
    before, after = zip(*simplest(before, after), strict=True)
    if change is None:
        return
    for polygon in before:
        west, east, south, north = polygon.GetEnvelope()
        polygon.Segmentize(max(east - west, north - south) / PIECES)
    if any(polygon.Transform(change) != 0 for polygon in before):
        return
    bent, straight = (sum(polygon.Area() for polygon in each) for each in (before, after))
    if bent and abs(straight / bent - 1) > STRAIGHT:
        yield {"code": "edges_straight", "percent": round(100 * (straight / bent - 1), 1)}


def simplest(before, after):
    """The pairs of polygons with the fewest points, which have the longest edges, up to a number of points."""
    pairs = sorted(zip(before, after, strict=True), key=lambda pair: point_count(pair[0]))
    totals = itertools.accumulate(point_count(polygon) for polygon, _ in pairs)
    return [
        pair for pair, total in zip(pairs, totals, strict=True) if total <= MOST_POINTS / PIECES
    ] or pairs[:1]


def polygons_of(layer, *codes):
    """Copies of a layer's geometries; empty if there are too many, or if not all are polygons.

    `codes` are the checks that are skipped if there are too many.
    """
    shapes = ((feature, feature.GetGeometryRef()) for feature in itertools.islice(layer, MOST_FEATURES + 1))
    copies = [shape.Clone() for _, shape in shapes if shape is not None]
    layer.ResetReading()
    if any(shape.GetDimension() != 2 for shape in copies):
        return []
    if len(copies) > MOST_FEATURES or sum(map(point_count, copies)) > MOST_POINTS:
        skip(*codes)
        return []
    return copies


def part_count(geometry):
    return (
        geometry.GetGeometryCount()
        if ogr.GT_Flatten(geometry.GetGeometryType()) == ogr.wkbMultiPolygon
        else 1
    )


def point_count(geometry):
    parts = [geometry.GetGeometryRef(i) for i in range(geometry.GetGeometryCount())]
    return sum(map(point_count, parts)) if parts else geometry.GetPointCount()


def common_borders(polygons):
    """The fraction of the total length of borders that lies between two of the polygons."""
    every = ogr.Geometry(ogr.wkbMultiPolygon)
    for polygon in polygons:
        for part in ogr.ForceToMultiPolygon(polygon):
            every.AddGeometry(part)
    merged = every.UnaryUnion()
    total = sum(polygon.Boundary().Length() for polygon in polygons)
    return (total - merged.Boundary().Length()) / total if merged and total else 0.0
