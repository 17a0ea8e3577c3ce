"""Checks that a raster's overviews match its pixels, and reports answers that use unchecked overviews."""

import math

from osgeo import gdal

MAX_PIXELS = 4 << 20  # pixels of a band whose overviews are compared
STALE = 0.01  # fraction of an overview's pixels; if more of them are wrong, it is reported
MERCATOR = "EPSG:3857"
WORLD = 156543.03392804097  # metres per pixel at zoom level 0, at the equator
NEAR = 1.2  # GDAL may read an overview that is coarser than needed by this factor


def overview_checks(dataset):
    """Reports overviews of pixels that have changed since.

    A correct value lies between the values of its source pixels and their neighbours.
    """
    band = dataset.GetRasterBand(1)
    if gdal.DataTypeIsComplex(band.DataType) or band.GetColorInterpretation() == gdal.GCI_AlphaBand:
        return
    if not band.GetOverviewCount() or band.XSize * band.YSize > MAX_PIXELS:
        return
    import numpy

    smaller = values_of(band.GetOverview(0))
    pixels = values_of(band)
    height, width = smaller.shape
    step = max(-(-band.YSize // height), -(-band.XSize // width))
    if step < 2:
        return
    padded = numpy.pad(pixels, ((0, height * step - band.YSize), (0, width * step - band.XSize)), mode="edge")
    blocks = padded.reshape(height, step, width, step)
    hidden = numpy.isnan(blocks)
    low = numpy.where(hidden, numpy.inf, blocks).min((1, 3))
    high = numpy.where(hidden, -numpy.inf, blocks).max((1, 3))
    for axis in (0, 1):
        edges = [(1, 1) if axis == 0 else (0, 0), (1, 1) if axis == 1 else (0, 0)]
        wide = numpy.pad(low, edges, mode="edge"), numpy.pad(high, edges, mode="edge")
        views = [[numpy.take(bound, range(i, i + low.shape[axis]), axis) for i in range(3)] for bound in wide]
        low, high = numpy.minimum.reduce(views[0]), numpy.maximum.reduce(views[1])
    # overviews may lack the mask of their pixels
    hidden_there = numpy.isnan(smaller) | ((low > high) if is_masked(band) else False)
    with numpy.errstate(invalid="ignore"):
        # cubic and similar resampling methods exceed the range
        slack = 0.5 * (high - low) + 1e-6 * numpy.abs(high) + 1
        beyond = ((smaller < low - slack) | (smaller > high + slack) | (low > high)) & ~hidden_there
    if beyond.mean() > STALE:
        yield {"code": "overviews_stale", "percent": round(100 * float(beyond.mean()), 1)}


def is_masked(band):
    """True if pixels are hidden by a mask or alpha band, not by a nodata value."""
    return bool(band.GetMaskFlags() & (gdal.GMF_PER_DATASET | gdal.GMF_ALPHA))


def values_of(band):
    """The pixels of a band as floating-point numbers; NaN where nodata, a mask or an alpha band hides a pixel."""
    import numpy

    values = band.ReadAsArray().astype("float64")
    return numpy.where(band.GetMaskBand().ReadAsArray() == 0, numpy.nan, values)


def unexamined(dataset, sources):
    """Reports inputs whose overviews GDAL read for a coarser output, and that `overview_checks` does not compare."""
    for number, (path, row) in enumerate(sources):
        facts = row["facts"] if row else {}
        if facts.get("overviews") and math.prod(facts["size"]) > MAX_PIXELS:
            source = gdal.OpenEx(path, gdal.OF_RASTER)
            if source is not None and reduction(source, dataset) * NEAR >= first_step(source):
                yield {"code": "overviews_unexamined", "input": number}


def unexamined_when_reduced(dataset):
    """Like `unexamined`, for a raster that is read at a reduced size for a picture or an approximation."""
    band = dataset.GetRasterBand(1) if dataset.RasterCount else None
    if band is not None and band.GetOverviewCount() and band.XSize * band.YSize > MAX_PIXELS:
        yield {"code": "overviews_unexamined"}


def tiles_are_coarse(dataset, options):
    """True if the pixels of the largest zoom level of tiles are larger than those of the finest overview.

    If the call sets no largest zoom level, GDAL takes the one nearest to the raster's own resolution.
    """
    levels = [option.partition("=")[2] for option in options if option.startswith("--max-zoom=")]
    band = dataset.GetRasterBand(1)
    if not levels or not band.GetOverviewCount():
        return False
    flat = gdal.AutoCreateWarpedVRT(dataset, None, MERCATOR)
    if flat is None or any(option.startswith("--tiling-scheme=") for option in options):
        return True  # unknown; overviews may be used
    return WORLD / 2 ** int(levels[0]) / flat.GetGeoTransform()[1] * NEAR >= first_step(dataset)


def first_step(dataset):
    """The reduction factor of the finest overview: full pixels per overview pixel, on one side."""
    band = dataset.GetRasterBand(1)
    return band.XSize / max(1, band.GetOverview(0).XSize)


def reduction(source, dataset):
    """The number of source pixels per side that form one pixel in the middle of the output; 1 if unknown.

    The smaller number of the two sides counts.
    """
    change = gdal.Transformer(source, dataset, [])
    x, y = dataset.RasterXSize / 2, dataset.RasterYSize / 2
    if change is None:  # neither is georeferenced
        return min(source.RasterXSize / dataset.RasterXSize, source.RasterYSize / dataset.RasterYSize)
    transformed = [change.TransformPoint(True, *place) for place in ((x, y), (x + 1, y), (x, y + 1))]
    if not all(done for done, _ in transformed):
        return 1
    (_, middle), *others = transformed
    return min(math.dist(middle[:2], point[:2]) for _, point in others)
