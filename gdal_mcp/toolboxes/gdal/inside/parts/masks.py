"""Checks that pixels hidden in an input, by a mask, alpha or a nodata value, are also hidden in the output."""

import numpy
from osgeo import gdal, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

SIDE = 256  # pixels per side of the sample of a mask that is read completely
ROWS = 64  # sampled rows and columns of a larger mask
MAX_PIXELS = 4 << 20  # pixels; a larger mask is not read completely
MOST = 400  # hidden pixels of each input that are looked up in the output
LOST = 0.5  # fraction of these pixels; resampling and neighbourhoods fill the edges of a hole
MANY_INPUTS = 20
BY_VALUE = gdal.GMF_NODATA


def mask_checks(dataset, sources, expected):
    """Reports pixels that the inputs hide and the output shows.

    With `by_value` in `expected`, the command may treat a nodata value as an ordinary number.
    """
    with quiet():
        inputs = [source for source in map(Hidden.of, sources[:MANY_INPUTS]) if source is not None]
        lost = compared = 0
        for source in inputs:
            if "by_value" in expected and source.by_value:
                continue
            places = source.places()
            for other in inputs:
                if other is not source:  # a hole that another input fills does not count
                    places = places[~other.shown(source.crs, places)]
            if not len(places):
                continue
            shown, known = shown_at(dataset, source.crs, places)
            compared, lost = compared + known, lost + shown
    if compared and lost > LOST * compared:
        yield {"code": "mask_lost", "percent": round(100 * lost / compared, 1)}


class Hidden:
    """A raster that may hide some of its pixels."""

    def __init__(self, dataset):
        self.dataset, self.crs = dataset, dataset.GetSpatialRef()
        flags = dataset.GetRasterBand(1).GetMaskFlags()
        self.by_value = bool(flags & BY_VALUE)
        self.hides = flags != gdal.GMF_ALL_VALID

    @classmethod
    def of(cls, source):
        path, row = source
        if row is None or "bands" not in row["facts"]:
            return None
        dataset = gdal.OpenEx(path, gdal.OF_RASTER)
        return cls(dataset) if dataset is not None and dataset.RasterCount else None

    def places(self):
        """Coordinates of some hidden pixels, or their columns and lines if the raster is not georeferenced."""
        if not self.hides:
            return numpy.empty((0, 2))
        band, (width, height) = mask_of(self.dataset), (self.dataset.RasterXSize, self.dataset.RasterYSize)
        if width * height <= MAX_PIXELS:
            xs, ys = centres(width, min(width, SIDE)), centres(height, min(height, SIDE))
            sample = band.ReadAsArray(buf_xsize=len(xs), buf_ysize=len(ys))
        else:
            xs, ys = centres(width, ROWS), centres(height, ROWS)
            sample = numpy.vstack([band.ReadAsArray(0, int(y), width, 1, buf_xsize=len(xs)) for y in ys])
        lines, columns = numpy.nonzero(sample == 0)
        step = max(1, len(lines) // MOST)
        pixels = numpy.column_stack([xs[columns[::step]], ys[lines[::step]]])
        transform = self.dataset.GetGeoTransform(can_return_null=True)
        return pixels if transform is None else applied(transform, pixels)

    def shown(self, crs, places):
        """A flag for each place, True if this raster has a visible pixel there."""
        pixels = pixels_at(self.dataset, crs, places)
        return numpy.array([pixel is not None and is_shown(self.dataset, pixel) for pixel in pixels], bool)


def shown_at(dataset, crs, places):
    """The number of places on visible pixels, and the number of places on any pixels."""
    inside = [pixel for pixel in pixels_at(dataset, crs, places) if pixel is not None]
    return sum(is_shown(dataset, pixel) for pixel in inside), len(inside)


def mask_of(dataset):
    return dataset.GetRasterBand(1).GetMaskBand()


def is_shown(dataset, pixel):
    return mask_of(dataset).ReadRaster(*pixel, 1, 1, buf_type=gdal.GDT_Byte) != b"\0"


def centres(length, count):
    return (numpy.arange(count) + 0.5) * length / count


def applied(transform, pixels):
    x, y = pixels[:, 0], pixels[:, 1]
    return numpy.column_stack(
        [
            transform[0] + x * transform[1] + y * transform[2],
            transform[3] + x * transform[4] + y * transform[5],
        ]
    )


def pixels_at(dataset, crs, places):
    """Column and line of each place; None for a place outside the raster."""
    own, transform = dataset.GetSpatialRef(), dataset.GetGeoTransform(can_return_null=True)
    if crs is not None and own is not None and not crs.IsSame(own):
        change = osr.CreateCoordinateTransformation(traditional(crs), traditional(own))
        if change is None:
            return [None] * len(places)
        places = numpy.array([change.TransformPoint(*place)[:2] for place in places.tolist()])
    if transform is not None:
        inverse = gdal.InvGeoTransform(transform)
        if inverse is None or not len(places):
            return [None] * len(places)
        places = applied(inverse, places)
    width, height = dataset.RasterXSize, dataset.RasterYSize
    return [
        (int(x), int(y)) if 0 <= x < width and 0 <= y < height else None
        for x, y in numpy.nan_to_num(places, nan=-1)
    ]
