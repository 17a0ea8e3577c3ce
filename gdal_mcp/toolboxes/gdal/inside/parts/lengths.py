"""Examines lines with heights, for a call that measures them without heights."""

import itertools
import math

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

MAX_FEATURES = 20_000  # features of a layer
SAME_LENGTH = 1e-9  # fraction of a length, for the rounding error of a sum


def lines_with_heights(dataset):
    """The number of examined lines, and the number of those that are longer with heights than on the map."""
    lines = [
        geometry.Clone()
        for layer in layers_of(dataset)
        if ogr.GT_HasZ(layer.GetGeomType())
        for feature in itertools.islice(layer, MAX_FEATURES)
        if (geometry := feature.GetGeometryRef()) is not None and geometry.GetDimension() == 1
    ]
    longer = sum(length_with_heights(line) > line.Length() * (1 + SAME_LENGTH) for line in lines)
    return {"longer": longer, "of": len(lines)}


def length_with_heights(geometry):
    parts = [geometry.GetGeometryRef(i) for i in range(geometry.GetGeometryCount())]
    if parts:
        return sum(map(length_with_heights, parts))
    return sum(math.dist(*pair) for pair in itertools.pairwise(geometry.GetPoints() or ()))
