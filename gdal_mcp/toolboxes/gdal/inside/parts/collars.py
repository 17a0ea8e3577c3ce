"""Checks for zeros that count as data where there is none.

Such zeros surround rotated or clipped rasters in an output, and the pixels of an input whose statistics are computed.
"""

import itertools

from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import reference, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip

SIDE = 21  # points per side of the grid on which coverage by the inputs is tested
MAX_SHAPES = 1000  # shapes that cut a raster
FEW = 3  # minimum of uncovered points for a report; a slanted edge alone leaves fewer
MAX_PIXELS = 64 << 20  # pixels of an input whose border is examined
SAMPLE = 512  # pixels per side of the sample that is examined
MAX_BANDS = 4
HOLES = 0.01  # fraction of the hull of all non-zero pixels; data has few zeros inside
OUTSIDE = 0.02  # fraction of the raster outside the hull, at least
CORNERS = 8  # corners of the hull, at most, for a raster that was rotated or warped
WOBBLE = 1.5  # pixels; tolerance for the edges of the hull


def collar_checks(dataset, facts, sources, cutting_shape=None):
    """Reports zeros outside all inputs, or outside the shapes that cut the raster, if they count as data.

    An example is the corners of a rotated raster without nodata. The cutting shapes are the layers among the sources,
    and `cutting_shape`: WKT or GeoJSON, and the name of its CRS.
    """
    masked = dataset.GetRasterBand(1).GetMaskFlags() != gdal.GMF_ALL_VALID
    if masked or any(source is None for _, source in sources):
        return
    rasters = [path for path, source in sources if "bands" in source["facts"]]
    covering = [reaches(path, dataset) for path in rasters]
    cutting = [covers(path, dataset) for path, _ in sources if path not in rasters]
    cutting += [within(*cutting_shape, dataset)] if cutting_shape else []
    if not rasters or None in (*covering, *cutting):
        return
    places = places_of(facts["size"])
    beyond = [
        place
        for place in places
        if not (any(test(*place) for test in covering) and all(test(*place) for test in cutting))
    ]
    if FEW <= len(beyond) < len(places) and zeros_at(dataset, beyond) > 0.8 * len(beyond):
        yield {"code": "collar_without_nodata", "percent": round(100 * len(beyond) / len(places), 1)}


def stack_checks(dataset, facts, sources):
    """Reports a band of a stack that is larger than its source raster and counts as data outside it."""
    counts = [len(row["facts"].get("bands", ())) for _, row in sources if row]
    if sum(counts) != dataset.RasterCount or len(counts) != len(sources):
        return
    places = places_of(facts["size"])
    for (path, _), first in zip(sources, itertools.accumulate(counts, initial=1), strict=False):
        band, inside = dataset.GetRasterBand(first), reaches(path, dataset)
        if inside is None or band.GetMaskFlags() != gdal.GMF_ALL_VALID:
            continue
        beyond = [place for place in places if not inside(*place)]
        if len(beyond) >= FEW and zeros_at(band, beyond) > 0.8 * len(beyond):
            percent = round(100 * len(beyond) / len(places), 1)
            yield {"code": "collar_without_nodata", "band": first, "percent": percent}
            return


def places_of(size):
    """The centres of a grid of pixels, as (column, line)."""
    across, down = ([int((i + 0.5) / SIDE * side) + 0.5 for i in range(SIDE)] for side in size)
    return list(dict.fromkeys(itertools.product(across, down)))


def zeros_at(pixels, places):
    """The number of places where a dataset or a band has only zeros.

    Pixels that an edge crosses have other values.
    """
    return sum(
        not any(pixels.ReadRaster(int(x), int(y), 1, 1, buf_type=gdal.GDT_Float64) or b"1") for x, y in places
    )


def within(text, own, dataset):
    """A function that tests if a shape from the call covers a pixel of the raster; None if the shape is unusable.

    The shape is WKT or GeoJSON, in the CRS that `own` names, or in that of the raster.
    """
    shape = (ogr.CreateGeometryFromJson if text.lstrip().startswith("{") else ogr.CreateGeometryFromWkt)(text)
    there = reference(own) if own else dataset.GetSpatialRef()
    return None if shape is None else contains([shape], there, dataset)


def covers(path, dataset):
    """A function that tests if the only layer of a file covers a pixel; None if the file has no such layer.

    The layer must have a CRS and at most MAX_SHAPES features.
    """
    source = gdal.OpenEx(path, gdal.OF_VECTOR)
    layer = source.GetLayer(0) if source is not None and source.GetLayerCount() == 1 else None
    if layer is None or not layer.GetFeatureCount():
        return None
    if layer.GetFeatureCount() > MAX_SHAPES:
        skip("collar_without_nodata")
        return None
    shapes = [feature.GetGeometryRef().Clone() for feature in layer if feature.GetGeometryRef() is not None]
    return contains(shapes, layer.GetSpatialRef(), dataset)


def contains(shapes, there, dataset):
    """A function that tests if one of the shapes, in the CRS `there`, contains a pixel; None without a position."""
    crs, transform = dataset.GetSpatialRef(), dataset.GetGeoTransform(can_return_null=True)
    if crs is None or there is None or transform is None:
        return None
    change = osr.CreateCoordinateTransformation(traditional(crs), traditional(there))

    def inside(x, y):
        point = ogr.Geometry(ogr.wkbPoint)
        point.AddPoint_2D(*change.TransformPoint(*gdal.ApplyGeoTransform(transform, x, y))[:2])
        return any(shape.Intersects(point) for shape in shapes)

    return inside if change is not None else None


def reaches(path, dataset):
    """A function that tests if an input covers a pixel of the raster, within one pixel; None if unknown."""
    source = gdal.OpenEx(path, gdal.OF_RASTER)
    if source is None:
        return None
    its = source.GetSpatialRef() or source.GetGCPSpatialRef()
    if (its is None) != (dataset.GetSpatialRef() is None):
        return None
    change = gdal.Transformer(source, dataset, [])

    def inside(x, y):
        success, (column, line, _) = change.TransformPoint(True, x, y)
        return success and -1 <= column <= source.RasterXSize + 1 and -1 <= line <= source.RasterYSize + 1

    return inside if change is not None else None


def zeros_around(dataset):
    """Reports a raster without hidden pixels whose non-zero pixels form a slanted shape with few corners.

    Classes and shorelines do not have such a shape. A mask may have it, but has only one value.
    """
    values = sampled(dataset)
    shown = (values != 0).any(0) if values is not None else None
    if shown is None or not shown.any() or has_one_value(values[:, shown]):
        return
    hull = hull_of(shown)
    beyond = 1 - hull.GetArea() / shown.size
    if beyond >= OUTSIDE and fills(shown, hull) and is_turned(shown, hull):
        yield {"code": "zeros_around", "percent": round(100 * beyond, 1)}


def sampled(dataset):
    """The values of the first bands, or a sample of them; None if the raster is not suitable.

    A raster is suitable if it has no hidden pixels and no complex numbers, and is neither too large nor too small.
    """
    import numpy

    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MAX_BANDS))]
    hidden = any(band.GetMaskFlags() != gdal.GMF_ALL_VALID for band in bands)
    width, height = dataset.RasterXSize, dataset.RasterYSize
    unfit = hidden or any(gdal.DataTypeIsComplex(band.DataType) for band in bands)
    if unfit or not bands or min(width, height) < SIDE:
        return None
    if width * height > MAX_PIXELS:
        skip("zeros_around")
        return None
    size = {"buf_xsize": min(width, SAMPLE), "buf_ysize": min(height, SAMPLE)}
    return numpy.stack([band.ReadAsArray(**size) for band in bands])


def has_one_value(values):
    """True if the values have at most one number in addition to zero."""
    return len({*values.ravel().tolist()} - {0}) < 2


def fills(shown, hull):
    """True if hardly any pixel in the hull is zero, except those that its edges cross."""
    return hull.GetArea() - shown.sum() - hull.Boundary().Length() <= HOLES * hull.GetArea()


def is_turned(shown, hull):
    """True for a shape with few corners and a slanted edge that leaves corners of the raster free.

    A frame around data is not such a shape.
    """
    simple = hull.SimplifyPreserveTopology(WOBBLE).GetGeometryRef(0)
    first = shown.argmax(1)[shown.any(1)]  # first shown column of each line that has one
    slanted = len(set(first.tolist())) > SIDE // 2
    free = 4 - shown[:: len(shown) - 1, :: shown.shape[1] - 1].sum()
    return slanted and free >= 2 and simple.GetPointCount() - 1 <= CORNERS


def hull_of(shown):
    """The convex hull of the pixels that are true, in pixel coordinates."""
    corners = ogr.Geometry(ogr.wkbMultiPoint)
    for line in range(len(shown)):
        (columns,) = shown[line].nonzero()
        for x, y in (
            itertools.product((columns[0], columns[-1] + 1), (line, line + 1)) if len(columns) else ()
        ):
            point = ogr.Geometry(ogr.wkbPoint)
            point.AddPoint_2D(float(x), float(y))
            corners.AddGeometry(point)
    return corners.ConvexHull()
