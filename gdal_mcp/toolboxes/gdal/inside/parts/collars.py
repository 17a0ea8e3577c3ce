"""Zeros that count as data where there is none: around what was turned or cut, in an output, and around the pixels of an input that is measured."""

import itertools

from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import reference, traditional

SIDE = 21  # points on each side of a raster where the coverage of the inputs is tested
MAX_SHAPES = 1000  # that cut a raster
FEW = 3  # of them: what a slanted edge leaves
MAX_PIXELS = 64 << 20  # of an input whose border is looked at
SAMPLE = 512  # pixels on each side of what is looked at of it
MAX_BANDS = 4
HOLES = 0.01  # of the shape around all pixels that are not zero: data has few zeros inside
OUTSIDE = 0.02  # of the raster, at least
CORNERS = 8  # at most, of a raster that was turned or warped
WOBBLE = 1.5  # pixels, of its edges


def collar_checks(dataset, facts, sources, cut=None):
    """Pixels beyond all inputs, or beyond the shapes that cut it (layers, or `cut`: WKT or GeoJSON and its CRS), count as data where nothing hides them: the corners of a raster that was turned."""
    masked = dataset.GetRasterBand(1).GetMaskFlags() != gdal.GMF_ALL_VALID
    if masked or any(source is None for _, source in sources):
        return
    rasters = [path for path, source in sources if "bands" in source["facts"]]
    covering = [reaches(path, dataset) for path in rasters]
    cutting = [covers(path, dataset) for path, _ in sources if path not in rasters]
    cutting += [within(*cut, dataset)] if cut else []
    if not rasters or None in (*covering, *cutting):
        return
    places = places_of(facts["size"])
    beyond = [
        place
        for place in places
        if not (any(one(*place) for one in covering) and all(one(*place) for one in cutting))
    ]
    if FEW <= len(beyond) < len(places) and zeros_at(dataset, beyond) > 0.8 * len(beyond):
        yield {"code": "collar_without_nodata", "percent": round(100 * len(beyond) / len(places), 1)}


def stack_checks(dataset, facts, sources):
    """Bands of a stack that are larger than the raster that they come from, and count as data beyond it."""
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
    """The centres of a grid of pixels, in columns and lines."""
    across, down = ([int((i + 0.5) / SIDE * side) + 0.5 for i in range(SIDE)] for side in size)
    return list(dict.fromkeys(itertools.product(across, down)))


def zeros_at(pixels, places):
    """The number of places where a dataset or a band has only zeros; other pixels there are those that an edge crosses."""
    return sum(
        not any(pixels.ReadRaster(int(x), int(y), 1, 1, buf_type=gdal.GDT_Float64) or b"1") for x, y in places
    )


def within(text, own, dataset):
    """Whether a shape that a call gives, in a CRS by its name or in that of the raster, covers a pixel of the raster."""
    shape = (ogr.CreateGeometryFromJson if text.lstrip().startswith("{") else ogr.CreateGeometryFromWkt)(text)
    there = reference(own) if own else dataset.GetSpatialRef()
    return None if shape is None else contains([shape], there, dataset)


def covers(path, dataset):
    """Whether the only layer of a file covers a pixel of the raster; None where it has several, or none in a CRS."""
    source = gdal.OpenEx(path, gdal.OF_VECTOR)
    layer = source.GetLayer(0) if source is not None and source.GetLayerCount() == 1 else None
    if layer is None or not 0 < layer.GetFeatureCount() <= MAX_SHAPES:
        return None
    shapes = [one.GetGeometryRef().Clone() for one in layer if one.GetGeometryRef() is not None]
    return contains(shapes, layer.GetSpatialRef(), dataset)


def contains(shapes, there, dataset):
    """Whether one of the shapes, in the CRS `there`, contains the place of a pixel; None where its place is not known."""
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
    """Whether an input has a pixel at a pixel of the raster, give or take one; None where GDAL cannot tell."""
    source = gdal.OpenEx(path, gdal.OF_RASTER)
    if source is None:
        return None
    its = source.GetSpatialRef() or source.GetGCPSpatialRef()
    if (its is None) != (dataset.GetSpatialRef() is None):
        return None
    change = gdal.Transformer(source, dataset, [])

    def inside(x, y):
        found, (column, line, _) = change.TransformPoint(True, x, y)
        return found and -1 <= column <= source.RasterXSize + 1 and -1 <= line <= source.RasterYSize + 1

    return inside if change is not None else None


def zeros_around(dataset):
    """Yields a check for a raster that hides no pixel and whose pixels that are not zero form a slanted shape with a few corners.

    Classes and shorelines have no such shape. A mask may have it, but it has one value only.
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
    """The values of the first bands, or of some of their pixels; None where a pixel is hidden, or that takes too long."""
    import numpy

    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MAX_BANDS))]
    hidden = any(one.GetMaskFlags() != gdal.GMF_ALL_VALID for one in bands)
    width, height = dataset.RasterXSize, dataset.RasterYSize
    unfit = hidden or any(gdal.DataTypeIsComplex(one.DataType) for one in bands)
    if unfit or not bands or width * height > MAX_PIXELS or min(width, height) < SIDE:
        return None
    size = {"buf_xsize": min(width, SAMPLE), "buf_ysize": min(height, SAMPLE)}
    return numpy.stack([one.ReadAsArray(**size) for one in bands])


def has_one_value(values):
    """True if the values are one number, or that number and zero."""
    return len({*values.ravel().tolist()} - {0}) < 2


def fills(shown, hull):
    """True if hardly any pixel in the hull is zero, but for those that its edges go through."""
    return hull.GetArea() - shown.sum() - hull.Boundary().Length() <= HOLES * hull.GetArea()


def is_turned(shown, hull):
    """True for a shape with few corners that leaves corners of the raster free and has a slanted edge, unlike a frame around data."""
    simple = hull.SimplifyPreserveTopology(WOBBLE).GetGeometryRef(0)
    first = shown.argmax(1)[shown.any(1)]  # shown column of each line
    slanted = len(set(first.tolist())) > SIDE // 2
    free = 4 - shown[:: len(shown) - 1, :: shown.shape[1] - 1].sum()
    return slanted and free >= 2 and simple.GetPointCount() - 1 <= CORNERS


def hull_of(shown):
    """The convex hull of the pixels that are true, in pixels."""
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
