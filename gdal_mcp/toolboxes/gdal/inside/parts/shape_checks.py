"""Checks of polygons as a set: whether a command merged any, and whether neighbours still have common borders."""

import itertools

from osgeo import ogr

MOST_FEATURES = 2_000
MOST_POINTS = 200_000  # of all polygons: their union takes a second
SHARED = 0.01  # fraction of all borders that are common, from which polygons are taken for neighbours
KEPT = 0.95  # fraction of common borders; simplified together, as a coverage, they all stay common


def shape_checks(layer, source, options):
    """Compares the polygons of an output with those of its input."""
    after = polygons_of(layer)
    before = polygons_of(source) if after else []
    if not before or len(before) != len(after) or len(before) < 2:
        return
    if "dissolve" in options and not {"combine", "sql"} & set(options):
        parts = [sum(map(part_count, one)) for one in (before, after)]
        if parts[0] == parts[1]:
            yield {"code": "nothing_dissolved", "count": len(after)}
    if "simplify" in options:
        common, left = map(common_borders, (before, after))
        if common > SHARED and left < KEPT * common:
            yield {"code": "borders_torn", "percent": round(100 * (1 - left / common))}


def polygons_of(layer):
    """Its geometries; none if they are too many, or not all polygons."""
    shapes = ((one, one.GetGeometryRef()) for one in itertools.islice(layer, MOST_FEATURES + 1))
    found = [shape.Clone() for _, shape in shapes if shape is not None]
    layer.ResetReading()
    many = len(found) > MOST_FEATURES or sum(map(point_count, found)) > MOST_POINTS
    return [] if many or any(one.GetDimension() != 2 for one in found) else found


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
    """The fraction of the length of all borders that lies between two of the polygons."""
    every = ogr.Geometry(ogr.wkbMultiPolygon)
    for one in polygons:
        for part in ogr.ForceToMultiPolygon(one):
            every.AddGeometry(part)
    merged = every.UnaryUnion()
    whole = sum(one.Boundary().Length() for one in polygons)
    return (whole - merged.Boundary().Length()) / whole if merged and whole else 0.0
