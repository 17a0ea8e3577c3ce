"""Draws rasters in natural colours, with a palette, in stretched grey, or as a hillshade.

NumPy is not used, because importing it takes time.
"""

import math
import time
from array import array
from typing import Any, NamedTuple

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_facts, in_degrees, raster_extent, wgs84_box
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import is_float
from gdal_mcp.toolboxes.gdal.inside.parts.preview_vector import COLORS
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import plain

# pixels in the blocks that a decimated read may decode; above, a smaller read is used
MAX_DECODED = 1 << 30
FEWEST = 32  # rows and columns of that smaller read, at least
MAX_AVERAGED = 16 << 20  # pixels of a raster that is averaged rather than sampled
SAMPLE = 5_000  # values from which the stretch is computed; its quantiles are accurate to half a hundredth
LOW, HIGH = 0.02, 0.98  # quantiles of the valid values
ENOUGH_BYTES = 100  # grey levels between the two quantiles; with so many, no stretch is needed
# pixels: longer side of the picture of a tiny raster; shorter side of every picture, at least
ENLARGED, NARROWEST = 256, 8
METRES_A_DEGREE = 111_320.0
RELIEF = 0.1  # height over width to which flat terrain is exaggerated, so that its shading is visible
MAX_EXAGGERATION = 20.0
RGB = (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand)


def paint(dataset, request):
    """An in-memory dataset with grey or RGB bands and alpha, and a description of what it shows."""
    mode, numbers = color_mode(dataset, request)
    source = PreviewBands(dataset, numbers, request, averages=mode != "palette")
    channels, alpha, stretched = PAINTERS[mode](source)
    crs, extent = dataset.GetSpatialRef(), raster_extent(dataset)
    shown = {
        "kind": "raster",
        "color": mode,
        "bands": list(numbers),
        "source_size": [dataset.RasterXSize, dataset.RasterYSize],
        "coarse": source.coarse,
        "stretch": [[plain(low), plain(high)] for low, high in stretched],
        "empty": alpha is not None and not any(alpha),
        **({"extent": extent, "crs": crs_facts(crs), "wgs84": wgs84_box(extent, crs)} if crs else {}),
    }
    bands = [*channels, *([alpha] if alpha is not None else [])]
    image = gdal.GetDriverByName("MEM").Create("", source.width, source.height, len(bands), gdal.GDT_Byte)
    colors = [*(RGB if len(channels) == 3 else [gdal.GCI_GrayIndex]), gdal.GCI_AlphaBand]
    for number, (data, color) in enumerate(zip(bands, colors, strict=False), 1):
        image.GetRasterBand(number).WriteRaster(0, 0, source.width, source.height, data)
        image.GetRasterBand(number).SetColorInterpretation(color)
    return enlarged(image, request["pixels"]), shown


class PreviewBands:
    """The bands to draw, and the size at which they are read."""

    def __init__(self, dataset, numbers, request, *, averages):
        self.dataset, self.bands = dataset, [dataset.GetRasterBand(number) for number in numbers]
        columns, rows = dataset.RasterXSize, dataset.RasterYSize
        shrink = min(1.0, request["pixels"] / max(columns, rows))
        width, height = max(1, round(columns * shrink)), max(1, round(rows * shrink))
        # for tiles, the last band; GDAL uses it as a mask only if it has 8 or 16 bits
        self._alpha = dataset.GetRasterBand(dataset.RasterCount) if request["block"] else None
        self.stretch = request["stretch"]  # values for black and white; None: computed from the picture
        self.coarse = False  # True if fewer rows and columns are read than the picture could have
        while decoded_pixels(self.bands[0], width, height) > MAX_DECODED and max(width, height) > FEWEST:
            width, height, self.coarse = max(1, width // 2), max(1, height // 2), True
        self.width, self.height = width, height
        averages = averages and columns * rows <= MAX_AVERAGED
        self._resampling = gdal.GRIORA_Average if averages else gdal.GRIORA_NearestNeighbour
        self._end = time.monotonic() + request["seconds"]

    def values(self, band, kind):
        """A buffer of a band at the picture's size. Raises RuntimeError if it cannot be read in time."""
        data = band.ReadRaster(
            buf_xsize=self.width,
            buf_ysize=self.height,
            buf_type=kind,
            resample_alg=self._resampling,
            callback=lambda *_: int(time.monotonic() < self._end),
        )
        if data is None:
            raise RuntimeError(
                "the pixels could not be read, or not in time; add overviews or show a smaller part"
            )
        return data

    def mask(self, band):
        """A mask in bytes that is zero where a band has no value; None if all pixels have a value."""
        if self._alpha is not None:
            return self.values(self._alpha, gdal.GDT_Byte)
        all_valid = band.GetMaskFlags() & gdal.GMF_ALL_VALID
        return None if all_valid else self.values(band.GetMaskBand(), gdal.GDT_Byte)

    def in_memory(self, channel):
        """An in-memory raster of the picture's size."""
        kind = gdal.GDT_Byte if channel.is_byte else gdal.GDT_Float64
        raster = gdal.GetDriverByName("MEM").Create("", self.width, self.height, 1, gdal.GDT_Float64)
        raster.GetRasterBand(1).WriteRaster(0, 0, self.width, self.height, channel.data, buf_type=kind)
        return raster


def color_mode(dataset, request):
    """The painter's name, and the numbers of its bands. Raises RuntimeError for missing bands."""
    count, color, numbers = dataset.RasterCount, request["color"], request["bands"]
    for number in numbers or ():
        if not 1 <= number <= count:
            raise RuntimeError(f"band {number} is asked for; the dataset has bands 1 to {count}")
    interpreted = {}
    for number in range(1, min(count, 1000) + 1):
        interpreted.setdefault(dataset.GetRasterBand(number).GetColorInterpretation(), number)
    natural = (
        [interpreted[channel] for channel in RGB] if all(channel in interpreted for channel in RGB) else None
    )
    if color == "auto":
        if len(numbers) >= 3 if numbers else natural:
            color = "rgb"
        else:
            has_palette = dataset.GetRasterBand((numbers or [1])[0]).GetColorTable() is not None
            color = "palette" if has_palette else "gray"
    if color != "rgb":
        return color, (numbers or [1])[:1]
    numbers = numbers[:3] if numbers else natural or [1, 2, 3][:count]
    return ("rgb", numbers) if len(numbers) == 3 else ("gray", numbers[:1])


def decoded_pixels(band, width, height):
    """The number of pixels in the blocks that a read at this size has to decode."""
    overviews = (band.GetOverview(i) for i in range(band.GetOverviewCount()))
    sizes = [
        (overview.XSize, overview.YSize)
        for overview in overviews
        if overview is not None and overview.XSize >= width
    ]
    columns, rows = min([*sizes, (band.XSize, band.YSize)])
    across, down = band.GetBlockSize()
    return min(columns, width * across) * min(rows, height * down)


def paint_palette(source):
    band = source.bands[0]
    if table := band.GetColorTable():
        entries = [table.GetColorEntry(i) for i in range(min(table.GetCount(), 256))]
    else:  # default colours for classes; zero, mostly the background, is transparent
        entries = [(0, 0, 0, 0), *((*COLORS[i % len(COLORS)], 255) for i in range(255))]
    index = source.values(band, gdal.GDT_Byte)
    entries += [(0, 0, 0, 0)] * (256 - len(entries))
    red, green, blue, alpha = (index.translate(bytes(channel)) for channel in zip(*entries, strict=True))
    return [red, green, blue], both(alpha, source.mask(band)), []


def paint_stretched(source):
    """Paints one band in grey or three bands in colour."""
    channels = [read_channel(source, band) for band in source.bands]
    ranges = [channel.range for channel in channels]
    if source.stretch:
        ranges = source.stretch
    elif all(channel.is_byte for channel in channels):  # stretched together, so that colours are preserved
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        ranges = [(0.0, 255.0) if high - low >= ENOUGH_BYTES else (low, high)] * len(ranges)
    pixels = []
    for channel, (low, high) in zip(channels, ranges, strict=True):
        if not low < high:  # a band of one value is grey
            pixels.append(bytes([128]) * (source.width * source.height))
        elif channel.is_byte:  # a table is faster
            table = (min(max((value - low) / (high - low), 0), 1) for value in range(256))
            pixels.append(bytes(channel.data).translate(bytes(round(255 * share) for share in table)))
        else:
            how = {"format": "MEM", "outputType": gdal.GDT_Byte, "scaleParams": [[low, high, 0, 255]]}
            scaled = gdal.Translate("", source.in_memory(channel), **how)
            pixels.append(bytes(scaled.GetRasterBand(1).ReadRaster()))
    return pixels, alpha_of(channels), ranges


def paint_hillshade(source):
    channel = read_channel(source, source.bands[0])
    heights, nodata = source.in_memory(channel), source.bands[0].GetNoDataValue()
    heights.GetRasterBand(1).SetNoDataValue(math.nan if nodata is None else nodata)
    transform = source.dataset.GetGeoTransform(can_return_null=True)
    crs, columns = source.dataset.GetSpatialRef(), source.dataset.RasterXSize
    if transform is None or crs is None:
        heights.SetGeoTransform((0, 1, 0, 0, 0, -1))
        metres = float(source.width)
    else:  # heights and distances in the same unit
        across, down = columns / source.width, source.dataset.RasterYSize / source.height
        left, a, b, top, c, d = transform
        heights.SetGeoTransform((left, a * across, b * down, top, c * across, d * down))
        heights.SetSpatialRef(crs)  # GDAL converts degrees itself
        metres = abs(a) * columns * (METRES_A_DEGREE if in_degrees(crs) else 1.0)
    low, high = channel.range
    lift = RELIEF * metres / (high - low) if high > low else 1.0
    lift = min(max(lift, 1.0), MAX_EXAGGERATION) if crs else lift
    shaded = gdal.DEMProcessing("", heights, "hillshade", format="MEM", computeEdges=True, zFactor=lift)
    if shaded is None:
        raise RuntimeError("no hillshade could be made of this band")
    data = bytes(shaded.GetRasterBand(1).ReadRaster())
    # GDAL writes zero where a pixel has no neighbours for its slope
    lit = data.translate(bytes([0] + [255] * 255))
    return [data], both(lit, alpha_of([channel])), [channel.range]


# each returns channels of bytes, alpha or None, and the values that became black and white
PAINTERS = dict.fromkeys(("rgb", "gray"), paint_stretched)
PAINTERS |= {"palette": paint_palette, "hillshade": paint_hillshade}


class Channel(NamedTuple):
    """A band at the picture's size, as bytes or 8-byte floats; `valid` is None if all values are valid."""

    data: Any
    is_byte: bool
    valid: bytes | None
    range: tuple


def read_channel(source, band):
    is_byte = band.DataType == gdal.GDT_Byte
    if gdal.DataTypeIsComplex(band.DataType):
        parts = array("d", source.values(band, gdal.GDT_CFloat64))
        data = array("d", map(math.hypot, parts[::2], parts[1::2])).tobytes()
    else:
        data = source.values(band, gdal.GDT_Byte if is_byte else gdal.GDT_Float64)
    values, valid = memoryview(data).cast("B" if is_byte else "d"), source.mask(band)
    # a sum is faster, and finite only if all values are; large values may overflow it, so every value is tested then
    if is_float(band) and not (math.isfinite(sum(values)) or all(map(math.isfinite, values))):
        valid = both(bytes(255 if math.isfinite(value) else 0 for value in values), valid)
    return Channel(data, is_byte, valid, stretch(values, valid))


def stretch(values, valid):
    """The values for black and white: low and high quantiles, so that outliers are ignored."""
    step = max(1, len(values) // SAMPLE) | 1  # odd, so that the samples do not follow the columns
    some = values[::step].tolist()
    if valid is not None:
        some = [value for value, is_valid in zip(some, valid[::step], strict=True) if is_valid]
        some = some or [value for value, is_valid in zip(values, valid, strict=True) if is_valid]
    if not some:
        return 0.0, 0.0
    ordered = sorted(some)
    low, high = ordered[int(LOW * (len(ordered) - 1))], ordered[math.ceil(HIGH * (len(ordered) - 1))]
    # if nearly all pixels have one value, stretch the rest
    return (low, high) if low < high else (ordered[0], ordered[-1])


def alpha_of(channels):
    """The alpha channel: transparent where no band of the picture has a value. None if all pixels have one."""
    if any(channel.valid is None for channel in channels):
        return None
    combined = 0
    for channel in channels:
        combined |= int.from_bytes(channel.valid, "big")
    return combined.to_bytes(len(channels[0].valid), "big")


def both(first, other):
    """The intersection of two masks. None means all pixels."""
    if first is None or other is None:
        return first if other is None else other
    return (int.from_bytes(first, "big") & int.from_bytes(other, "big")).to_bytes(len(first), "big")


def enlarged(small, pixels):
    """Enlarges the pixels of a tiny or very narrow picture; returns other pictures unchanged."""
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
