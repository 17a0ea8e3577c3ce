"""Pictures of rasters: natural colours, a palette, stretched grey, or a hillshade. Without NumPy, whose import costs more."""

import math
import time
from array import array
from typing import Any, NamedTuple

from osgeo import gdal

from gdal_mcp.gdal.inside.parts.extents import in_degrees
from gdal_mcp.gdal.inside.parts.preview_vector import COLORS
from gdal_mcp.gdal.inside.parts.reporting import plain

MOST_TOUCHED = 1 << 30  # pixels of the blocks that a decimated read may touch; above, fewer are read
FEWEST = 32  # rows and columns of such a read
MOST_AVERAGED = 16 << 20  # pixels of a raster that is averaged and not picked from
SAMPLE = 20_000  # values that the stretch is found from
LOW, HIGH = 0.02, 0.98  # of the valid values, in order
ENOUGH_BYTES = 100  # grey levels between those two that need no stretch
ENLARGED, NARROWEST = 256, 8  # pixels: of the longer side of a tiny raster's picture, and of any shorter side
METRES_A_DEGREE = 111_320.0
RELIEF = 0.1  # height over width to which a flat terrain is exaggerated, so that its shading shows
MOST_EXAGGERATED = 20.0
RGB = (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand)


def paint(dataset, asked):
    """A dataset of grey or colour bands and alpha in memory, and what it shows."""
    mode, numbers = chosen(dataset, asked)
    read = reading(dataset, numbers, asked, mode)
    made = PAINTERS[mode](read)
    shown = {
        "kind": "raster",
        "color": mode,
        "bands": list(numbers),
        "source_size": [dataset.RasterXSize, dataset.RasterYSize],
        "coarse": read.coarse,
        "stretch": [[plain(low), plain(high)] for low, high in made.stretch],
        "empty": made.alpha is not None and not any(made.alpha),
    }
    return enlarged(image(read, made), asked["pixels"]), shown


class Reading(NamedTuple):
    """What is read, and at which size."""

    dataset: Any
    bands: tuple
    width: int
    height: int
    coarse: bool  # fewer rows and columns than the picture could have
    averaged: bool
    end: float  # of time.monotonic()

    def values(self, band, kind):
        """A buffer of a band at the picture's size. Raises RuntimeError when it cannot be read in time."""
        data = band.ReadRaster(
            buf_xsize=self.width,
            buf_ysize=self.height,
            buf_type=kind,
            resample_alg=gdal.GRIORA_Average if self.averaged else gdal.GRIORA_NearestNeighbour,
            callback=lambda *_: int(time.monotonic() < self.end),
        )
        if data is None:
            raise RuntimeError(
                "the pixels could not be read, or not in time; add overviews or show a smaller part"
            )
        return data


class Made(NamedTuple):
    """Channels of bytes, alpha or None, and the values that became black and white."""

    channels: list
    alpha: bytes | None
    stretch: list


def chosen(dataset, asked):
    """The way of drawing, and the numbers of its bands. Raises RuntimeError for bands that are not there."""
    count, color, numbers = dataset.RasterCount, asked["color"], asked["bands"]
    for number in numbers or ():
        if not 1 <= number <= count:
            raise RuntimeError(f"band {number} is asked for; the dataset has bands 1 to {count}")
    if color == "auto":
        color = fitting(dataset, numbers)
    if color != "rgb":
        return color, (numbers or [1])[:1]
    numbers = numbers[:3] if numbers else natural(dataset) or [1, 2, 3][:count]
    return ("rgb", numbers) if len(numbers) == 3 else ("gray", numbers[:1])


def fitting(dataset, numbers):
    if numbers:
        return "rgb" if len(numbers) >= 3 else of_one(dataset.GetRasterBand(numbers[0]))
    return "rgb" if natural(dataset) else of_one(dataset.GetRasterBand(1))


def of_one(band):
    return "palette" if band.GetColorTable() is not None else "gray"


def natural(dataset):
    """The numbers of the red, green and blue band, or None."""
    found = {}
    for number in range(1, min(dataset.RasterCount, 1000) + 1):
        found.setdefault(dataset.GetRasterBand(number).GetColorInterpretation(), number)
    return [found[color] for color in RGB] if all(color in found for color in RGB) else None


def reading(dataset, numbers, asked, mode):
    bands = tuple(dataset.GetRasterBand(number) for number in numbers)
    columns, rows = dataset.RasterXSize, dataset.RasterYSize
    shrink = min(1.0, asked["pixels"] / max(columns, rows))
    width, height = max(1, round(columns * shrink)), max(1, round(rows * shrink))
    coarse = False
    while touched(bands[0], width, height) > MOST_TOUCHED and max(width, height) > FEWEST:
        width, height, coarse = max(1, width // 2), max(1, height // 2), True
    averaged = columns * rows <= MOST_AVERAGED and mode != "palette"
    end = time.monotonic() + asked["seconds"]
    return Reading(dataset, bands, width, height, coarse, averaged, end)


def touched(band, width, height):
    """Pixels of the blocks that a read at this size has to decode."""
    overviews = (band.GetOverview(i) for i in range(band.GetOverviewCount()))
    sizes = [(one.XSize, one.YSize) for one in overviews if one is not None and one.XSize >= width]
    columns, rows = min([*sizes, (band.XSize, band.YSize)])
    across, down = band.GetBlockSize()
    return min(columns, width * across) * min(rows, height * down)


def paint_palette(read):
    band = read.bands[0]
    table = band.GetColorTable()
    entries = [table.GetColorEntry(i) for i in range(min(table.GetCount(), 256))] if table else invented()
    index = read.values(band, gdal.GDT_Byte)
    entries += [(0, 0, 0, 0)] * (256 - len(entries))
    red, green, blue, alpha = (index.translate(bytes(channel)) for channel in zip(*entries, strict=True))
    return Made([red, green, blue], both(alpha, mask(read)), [])


def invented():
    """Colours for classes without any; zero, mostly the ground, stays clear."""
    return [(0, 0, 0, 0), *((*COLORS[i % len(COLORS)], 255) for i in range(255))]


def paint_rgb(read):
    small = [channel(read, band) for band in read.bands]
    ranges = [one.range for one in small]
    if all(one.is_byte for one in small):  # together, so that colours stay what they are
        ranges = [bytes_range(min(low for low, _ in ranges), max(high for _, high in ranges))] * 3
    return Made(
        [scaled(read, one, *limits) for one, limits in zip(small, ranges, strict=True)],
        mask(read, small),
        ranges,
    )


def paint_gray(read):
    small = channel(read, read.bands[0])
    limits = bytes_range(*small.range) if small.is_byte else small.range
    return Made([scaled(read, small, *limits)], mask(read, [small]), [limits])


def paint_hillshade(read):
    small = channel(read, read.bands[0])
    source = in_memory(read, small.data, gdal.GDT_Float64)
    nodata = read.bands[0].GetNoDataValue()
    source.GetRasterBand(1).SetNoDataValue(math.nan if nodata is None else nodata)
    metres = placed(source, read)
    low, high = small.range
    lift = RELIEF * metres / (high - low) if high > low else 1.0
    options = {"zFactor": min(max(lift, 1.0), MOST_EXAGGERATED) if read.dataset.GetSpatialRef() else lift}
    shaded = gdal.DEMProcessing("", source, "hillshade", format="MEM", computeEdges=True, **options)
    if shaded is None:
        raise RuntimeError("no hillshade could be made of this band")
    data = bytes(shaded.GetRasterBand(1).ReadRaster())
    lit = data.translate(
        bytes([0] + [255] * 255)
    )  # GDAL gives zero to what has no slope for lack of neighbours
    return Made([data], both(lit, mask(read, [small])), [small.range])


PAINTERS = {
    "palette": paint_palette,
    "rgb": paint_rgb,
    "gray": paint_gray,
    "hillshade": paint_hillshade,
}


class Channel(NamedTuple):
    """A band at the picture's size as 8-byte floats; `valid` is None where every value counts."""

    data: bytes
    is_byte: bool
    valid: bytes | None
    range: tuple


def channel(read, band):
    data = (
        magnitudes(read, band)
        if gdal.DataTypeIsComplex(band.DataType)
        else read.values(band, gdal.GDT_Float64)
    )
    values = memoryview(data).cast("d")
    valid = band_mask(read, band)
    if "Float" in gdal.GetDataTypeName(band.DataType) and not all_finite(values):
        valid = both(bytes(255 if math.isfinite(one) else 0 for one in values), valid)
    return Channel(data, band.DataType == gdal.GDT_Byte, valid, stretch(values, valid))


def all_finite(values):
    """A value that is not makes the sum so too, which is told sooner; large ones can as well."""
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def magnitudes(read, band):
    parts = array("d", read.values(band, gdal.GDT_CFloat64))
    return array("d", map(math.hypot, parts[::2], parts[1::2])).tobytes()


def stretch(values, valid):
    """The values that become black and white: nearly the lowest and nearly the highest, so that strays do not count."""
    step = max(1, len(values) // SAMPLE) | 1  # odd, so that it does not follow the columns
    some = values[::step].tolist()
    if valid is not None:
        some = [one for one, kept in zip(some, valid[::step], strict=True) if kept]
        some = some or [one for one, kept in zip(values, valid, strict=True) if kept]
    if not some:
        return 0.0, 0.0
    ordered = sorted(some)
    low, high = ordered[int(LOW * (len(ordered) - 1))], ordered[math.ceil(HIGH * (len(ordered) - 1))]
    # where nearly all is one value, the rest is what there is to see
    return (low, high) if low < high else (ordered[0], ordered[-1])


def bytes_range(low, high):
    return (0.0, 255.0) if high - low >= ENOUGH_BYTES else (low, high)


def scaled(read, small, low, high):
    """Bytes of 0 to 255; a band of one value is grey."""
    if not low < high:
        return bytes([128]) * (read.width * read.height)
    source = in_memory(read, small.data, gdal.GDT_Float64)
    made = gdal.Translate(
        "", source, format="MEM", outputType=gdal.GDT_Byte, scaleParams=[[low, high, 0, 255]]
    )
    return bytes(made.GetRasterBand(1).ReadRaster())


def mask(read, small=()):
    """Alpha: a pixel is clear where no band of the picture has a value. None where all have."""
    masks = [one.valid for one in small] or [band_mask(read, band) for band in read.bands]
    if any(one is None for one in masks):
        return None
    combined = 0
    for one in masks:
        combined |= int.from_bytes(one, "big")
    return combined.to_bytes(read.width * read.height, "big")


def band_mask(read, band):
    if band.GetMaskFlags() & gdal.GMF_ALL_VALID:
        return None
    return read.values(band.GetMaskBand(), gdal.GDT_Byte)


def both(one, other):
    """What is kept by both masks."""
    if one is None or other is None:
        return one if other is None else other
    return (int.from_bytes(one, "big") & int.from_bytes(other, "big")).to_bytes(len(one), "big")


def in_memory(read, data, kind):
    made = gdal.GetDriverByName("MEM").Create("", read.width, read.height, 1, kind)
    made.GetRasterBand(1).WriteRaster(0, 0, read.width, read.height, data, buf_type=kind)
    return made


def placed(source, read):
    """Gives the small raster its place, so that heights and distances have the same unit; returns its width in metres."""
    transform = read.dataset.GetGeoTransform(can_return_null=True)
    crs = read.dataset.GetSpatialRef()
    if transform is None or crs is None:
        source.SetGeoTransform((0, 1, 0, 0, 0, -1))
        return float(read.width)
    across, down = read.dataset.RasterXSize / read.width, read.dataset.RasterYSize / read.height
    left, a, b, top, c, d = transform
    source.SetGeoTransform((left, a * across, b * down, top, c * across, d * down))
    source.SetSpatialRef(crs)  # GDAL takes degrees for what they are
    return abs(a) * read.dataset.RasterXSize * (METRES_A_DEGREE if in_degrees(crs) else 1.0)


def image(read, made):
    bands = [*made.channels, *([made.alpha] if made.alpha is not None else [])]
    out = gdal.GetDriverByName("MEM").Create("", read.width, read.height, len(bands), gdal.GDT_Byte)
    colors = list(RGB) if len(made.channels) == 3 else [gdal.GCI_GrayIndex]
    for number, (data, color) in enumerate(zip(bands, [*colors, gdal.GCI_AlphaBand], strict=False), 1):
        out.GetRasterBand(number).WriteRaster(0, 0, read.width, read.height, data)
        out.GetRasterBand(number).SetColorInterpretation(color)
    return out


def enlarged(small, pixels):
    """A tiny or a very narrow picture with larger pixels."""
    width, height = small.RasterXSize, small.RasterYSize
    factor = max(1, min(ENLARGED, pixels) // max(width, height))
    wide, high = max(width * factor, NARROWEST), max(height * factor, NARROWEST)
    if (wide, high) == (width, height):
        return small
    out = gdal.GetDriverByName("MEM").Create("", wide, high, small.RasterCount, gdal.GDT_Byte)
    for number in range(1, small.RasterCount + 1):
        source, target = small.GetRasterBand(number), out.GetRasterBand(number)
        target.WriteRaster(0, 0, wide, high, source.ReadRaster(buf_xsize=wide, buf_ysize=high))
        target.SetColorInterpretation(source.GetColorInterpretation())
    return out
