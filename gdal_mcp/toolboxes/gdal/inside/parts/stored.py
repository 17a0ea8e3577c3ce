"""Checks facts in an input that can be stale: statistics, overviews, a spatial index, the name of an encoding."""

import itertools

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import outside, raster_extent
from gdal_mcp.toolboxes.gdal.inside.parts.overviews import overview_checks, unexamined_when_reduced
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import value_ranges
from gdal_mcp.toolboxes.gdal.inside.parts.raster_checks import statistics_checks
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip
from gdal_mcp.toolboxes.gdal.inside.parts.survey import GARBLED

MAX_FEATURES = 20_000  # features of a layer whose index is tested
MAX_TEXTS = 200  # features whose texts are examined
SINGLE_BYTES = ("latin-1", "cp1252")


def raster_checks(dataset, *, reads, reduced):
    """Checks an input raster.

    `reads`: the call writes nothing, so no output is examined. `reduced`: not every pixel is read.
    """
    bands = [dataset.GetRasterBand(i + 1) for i in range(dataset.RasterCount)]
    if any(band.GetMetadataItem("STATISTICS_MINIMUM") is not None for band in bands):
        yield from statistics_checks(dataset, value_ranges(dataset))
    yield from overview_checks(dataset)
    if reduced:
        yield from unexamined_when_reduced(dataset)
    transform = dataset.GetGeoTransform(can_return_null=True) if reads else None
    north_up = transform is not None and not (transform[2] or transform[4])
    if north_up and outside(raster_extent(dataset), dataset.GetSpatialRef()):
        yield {"code": "extent_outside_crs"}


def layer_checks(layer, *, reads):
    """Checks an input layer. `reads`: the call writes nothing, so no output is examined."""
    extent = layer.GetExtent(can_return_null=True) if reads and layer.GetGeomType() != ogr.wkbNone else None
    if extent is not None and outside([extent[i] for i in (0, 2, 1, 3)], layer.GetSpatialRef()):
        yield {"code": "extent_outside_crs"}
    if index_misses(layer):
        yield {"code": "spatial_index_stale"}
    accented = accented_texts(layer)
    if reads and (lost := sum(GARBLED.search(text) is not None for text in accented)):
        yield {"code": "characters_lost", "count": lost}
    misread = sum(map(is_misread, accented))
    if 2 * misread > len(accented):
        yield {"code": "encoding_misread", "count": misread}


def index_misses(layer):
    """True if the spatial index misses existing features in the western or the eastern half of the layer."""
    if not layer.TestCapability(ogr.OLCFastSpatialFilter) or not layer.GetLayerDefn().GetGeomFieldCount():
        return False
    if layer.GetFeatureCount() > MAX_FEATURES:
        skip("spatial_index_stale")
        return False
    layer.ResetReading()
    shapes = (feature.GetGeometryRef() for feature in layer)
    boxes = [shape.GetEnvelope() for shape in shapes if shape is not None and not shape.IsEmpty()]
    if not boxes:
        return False
    west, east, south, north = (
        pick(edge) for pick, edge in zip((min, max, min, max), zip(*boxes, strict=True), strict=True)
    )
    middle = (west + east) / 2
    for left, right in ((west, middle), (middle, east)):
        inside = sum(left <= box[0] and box[1] <= right for box in boxes)
        layer.SetSpatialFilterRect(left, south, right, north)
        count = sum(1 for _ in layer)
        layer.SetSpatialFilter(None)
        if count < inside:
            return True
    layer.ResetReading()
    return False


def accented_texts(layer):
    """Texts of the first features that have non-ASCII characters."""
    definition = layer.GetLayerDefn()
    kinds = range(min(definition.GetFieldCount(), 100))
    texts = [i for i in kinds if definition.GetFieldDefn(i).GetType() == ogr.OFTString]
    layer.ResetReading()
    values = (feature.GetFieldAsString(i) for feature in itertools.islice(layer, MAX_TEXTS) for i in texts)
    accented = [text for value in values if not (text := textual(value)).isascii()]
    layer.ResetReading()
    return accented


def textual(value):
    """A value as text. GDAL's binding returns bytes for text that is not UTF-8."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def is_misread(text):
    """True for a text in UTF-8 that was decoded in a single-byte encoding."""
    for encoding in SINGLE_BYTES:
        try:
            if text.encode(encoding).decode("utf-8") != text:
                return True
        except UnicodeError:
            continue
    return False
