"""Checks of a grid that was interpolated from points."""

import itertools
import math
import struct

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

MAX_POINTS = 1000  # points of a layer whose cells are read
# arguments that leave points out, or cells without a value although they have points
SELECTS = ("--bbox=", "--sql=", "--input-layer=", "--open-option=", "--min-points")
NODATA = "--nodata="
# `count` is checked before the call; `average-distance-points` has no result for a single point
OTHERS = (("count",), ("average-distance-points",))


def grid_checks(dataset, sources, options):
    """Reports cells with points that have the default nodata value 0: their 0 is a result."""
    if options[2:3] in OTHERS or any(word.startswith((*SELECTS, NODATA)) for word in options):
        return
    band, transform = dataset.GetRasterBand(1), dataset.GetGeoTransform(can_return_null=True)
    if band.GetNoDataValue() != 0 or transform is None:
        return
    radius = min(radii(options), default=0) or math.inf
    with quiet():
        cells = [cell_of(band, transform, *point) for path, _ in sources for point in points_of(path)]
        near = {place for place, distance in filter(None, cells) if distance <= radius}
        hidden = sum(value_at(band, *place) == 0 for place in near)
    if hidden:
        yield {"code": "zeros_hidden", "count": hidden, "of": len(near)}


def radii(options):
    texts = (word.partition("=")[2] for word in options if word.startswith("--radius"))
    return [float(text) for text in texts]


def points_of(path):
    """Yields x and y of the first points of a file's layers."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
    layers = layers_of(dataset) if dataset is not None else ()
    for feature in itertools.islice(itertools.chain.from_iterable(layers), MAX_POINTS):
        geometry = feature.GetGeometryRef()
        if geometry is not None and ogr.GT_Flatten(geometry.GetGeometryType()) == ogr.wkbPoint:
            yield geometry.GetX(), geometry.GetY()


def cell_of(band, transform, x, y):
    """The column and line of a point, and its distance to the centre of this cell; None outside of the grid."""
    west, width, _, north, _, height = transform
    column, line = (x - west) / width, (y - north) / height
    if not (0 <= column <= band.XSize and 0 <= line <= band.YSize):
        return None
    place = min(int(column), band.XSize - 1), min(int(line), band.YSize - 1)
    return place, math.hypot((place[0] + 0.5 - column) * width, (place[1] + 0.5 - line) * height)


def value_at(band, x, y):
    return struct.unpack("d", band.ReadRaster(x, y, 1, 1, buf_type=gdal.GDT_Float64))[0]
