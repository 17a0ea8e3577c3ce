"""Finds the lowest and highest values of bands, and bands without valid pixels, within a limit on reading."""

import math
import struct

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import plain, quiet

# pixels of a dataset that is read completely; above, overviews or a sample of blocks are read
MAX_PIXELS = 4 << 20
MAX_LAZY_PIXELS = 1 << 20  # pixels of a dataset that computes its pixels when they are read
LAZY = ("VRT", "GTI", "GDALG", "DERIVED")
DOUBLE = 2**53  # a double represents every whole number up to this one
MAX_BANDS = 16  # bands that are searched for nodata pixels
SIDE = 256  # pixels per side of the sample that is tested for values other than NaN


def value_ranges(dataset):
    """One row for each band: `min`, `max`, `exact`, `empty`, `unreadable`; None for a band that was not examined."""
    lazy = dataset.GetDriver().ShortName in LAZY
    left = MAX_LAZY_PIXELS if lazy else MAX_PIXELS
    rows = []
    for number in range(min(dataset.RasterCount, 1000)):
        band = dataset.GetRasterBand(number + 1)
        pixels = band.XSize * band.YSize
        exact = pixels <= left
        if left <= 0 or gdal.DataTypeIsComplex(band.DataType) or (lazy and not exact):
            rows.append(None)
            continue
        # a sample is only a few blocks, so three more bands are sampled after the first one
        left -= pixels if exact else MAX_PIXELS // 4
        with quiet() as messages:  # GDAL skips pixels that nodata, a mask or alpha hides
            limits = range_of(band, exact=exact)
        if limits is not None and not messages.failures:
            low, high = limits if is_float(band) else map(int, limits)
            row = {"min": plain(low), "max": plain(high)}
        else:
            row = {"empty" if is_empty(band, exact=exact) else "unreadable": True}
        rows.append({**row, "exact": exact})
    return rows


def range_of(band, *, exact):
    """The lowest and highest value of a band.

    GDAL computes them in floating point, which changes the last digits of large whole numbers.
    """
    limits = band.ComputeRasterMinMax(not exact, can_return_none=True)
    wide = band.DataType in (gdal.GDT_Int64, gdal.GDT_UInt64)
    if limits is None or not wide or not exact or max(map(abs, limits)) < DOUBLE:
        return limits
    values, mask = band.ReadAsArray(), band.GetMaskBand().ReadAsArray()
    values = values[mask != 0]
    return (int(values.min()), int(values.max())) if values.size else limits


def is_empty(band, *, exact):
    """True if a band without a lowest value has a zero mask, or is all NaN. Does not depend on error messages."""
    with quiet():
        if not band.GetMaskFlags() & gdal.GMF_ALL_VALID:
            mask = band.GetMaskBand().ComputeRasterMinMax(not exact, can_return_none=True)
            if mask == (0, 0):
                return True
        if not is_float(band):
            return False
        width, height = min(band.XSize, SIDE), min(band.YSize, SIDE)
        data = band.ReadRaster(buf_xsize=width, buf_ysize=height, buf_type=gdal.GDT_Float64)
    return bool(data) and all(math.isnan(value) for value in struct.unpack(f"{width * height}d", data))


def is_float(band):
    return "Float" in gdal.GetDataTypeName(band.DataType)


def any_holes(dataset):
    """True if a band declares a nodata value and has such pixels."""
    bands = map(dataset.GetRasterBand, range(1, min(dataset.RasterCount, MAX_BANDS) + 1))
    for band in (band for band in bands if band.GetNoDataValue() is not None):
        exact = band.XSize * band.YSize <= MAX_PIXELS
        limits = band.GetMaskBand().ComputeRasterMinMax(not exact, can_return_none=True)
        if limits is not None and limits[0] == 0:
            return True
    return False
