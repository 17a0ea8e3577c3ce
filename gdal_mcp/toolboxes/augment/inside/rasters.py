"""Reads and writes images: pixels of any number of bands in their own type, their valid pixels and their georeference."""

import contextlib
import os
from dataclasses import dataclass, field

import cv2
import numpy as np
from osgeo import gdal, osr
from scipy import ndimage

from gdal_mcp.toolboxes.augment.inside.ranges import widened

TYPES = {
    gdal.GDT_Byte: "u1", gdal.GDT_UInt16: "u2", gdal.GDT_Int16: "i2", gdal.GDT_UInt32: "u4", gdal.GDT_Int32: "i4",
    gdal.GDT_Float32: "f4", gdal.GDT_Float64: "f8",
}  # fmt: skip
CODES = {np.dtype(name): code for code, name in TYPES.items()}
SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"RIFF": "webp", b"II*\0": "tif", b"MM\0*": "tif", b"II+\0": "tif"}  # fmt: skip
DRIVERS = ["GTiff", "PNG", "JPEG", "WEBP"]  # the formats that `augment_image` accepts
# pixels of the longer side of a raster's copy, from which its range of values is taken before a part of it is read
LOOK = 1024
WRITE = ["COMPRESS=DEFLATE", "BIGTIFF=IF_SAFER"]


class Unreadable(RuntimeError):
    """The image cannot be processed; the text says why."""


@dataclass
class Raster:
    pixels: np.ndarray  # axes: rows, columns, bands
    invalid: np.ndarray | None = None  # 1 where a band has no data; has the shape of `pixels`
    alpha: np.ndarray | None = None  # axes: rows, columns
    nodata: tuple | None = None  # one for each band; None means NaN
    place: tuple | None = None  # GDAL's geotransform
    crs: osr.SpatialReference | None = None
    names: tuple = ()  # one for each band
    # the values that are 0 and 1 for transforms that change values
    range: tuple = field(default=(0.0, 255.0))

    @property
    def size(self):
        return self.pixels.shape[1], self.pixels.shape[0]


def decoded(data):
    """Decodes a PNG, JPEG or WEBP file in 8 or 16 bits, without rotating or scaling it."""
    with contextlib.suppress(cv2.error):
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        if image is not None:
            image = image[:, :, None] if image.ndim == 2 else image
            alpha = np.ascontiguousarray(image[:, :, 3]) if image.shape[2] == 4 else None
            pixels = np.ascontiguousarray(image[:, :, 2::-1] if image.shape[2] > 1 else image)
            return Raster(pixels, alpha=alpha, range=(0.0, float(np.iinfo(pixels.dtype).max)))
    raise Unreadable("it is no PNG, JPEG or WEBP file that can be read")


class RasterReader:
    """A raster dataset that is read as a whole or in parts, by one thread. `span` is the range of its values, if known."""

    def __init__(self, path, span=None, drivers=()):
        self._dataset = dataset = gdal.OpenEx(path, gdal.OF_RASTER, allowed_drivers=list(drivers))
        if dataset is None or not dataset.RasterCount:
            raise Unreadable("it is no image that GDAL can open")
        bands = [dataset.GetRasterBand(number + 1) for number in range(dataset.RasterCount)]
        kinds = {band.DataType for band in bands}
        if len(kinds) > 1 or not kinds <= TYPES.keys():
            raise Unreadable("its bands are of several types, or of one that is not taken, such as Int8")
        if bands[0].GetColorTable() is not None:
            raise Unreadable("its values are numbers of a palette; turn it into bands of colours first")
        self.size = dataset.RasterXSize, dataset.RasterYSize
        self.place = dataset.GetGeoTransform(can_return_null=True)
        self.crs = dataset.GetSpatialRef()
        if self.crs is not None:
            self.crs.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
        self._kind = TYPES[bands[0].DataType]
        self._names = tuple(band.GetDescription() for band in bands)
        self._alpha = len(bands) > 1 and bands[-1].GetColorInterpretation() == gdal.GCI_AlphaBand
        if self._alpha:
            bands.pop()
        nodata = tuple(valid_nodata(band.GetNoDataValue(), self._kind) for band in bands)
        self._nodata = None if nodata == (None,) * len(bands) else nodata
        without_mask = gdal.GMF_ALL_VALID | gdal.GMF_ALPHA
        self._masks = {
            n: band.GetMaskBand() for n, band in enumerate(bands) if not band.GetMaskFlags() & without_mask
        }
        self.span = span or ((0.0, 255.0) if self._kind == "u1" else self._span(bands))

    def _span(self, bands):
        """The least and the greatest value of a copy that is at most 1024 pixels wide and high."""
        share = max(1.0, max(self.size) / LOOK)
        columns, rows = (max(1, round(length / share)) for length in self.size)
        small = {"buf_xsize": columns, "buf_ysize": rows}
        low, high = np.inf, -np.inf
        for band in bands:
            data = np.frombuffer(band.ReadRaster(**small), self._kind)
            mask = band.GetMaskBand().ReadRaster(**small, buf_type=gdal.GDT_Byte)
            some = data[(np.frombuffer(mask, "u1") > 0) & np.isfinite(data)]
            if some.size:
                low, high = min(low, float(some.min())), max(high, float(some.max()))
        return (low, high) if high > low else (0.0, 1.0)

    def read(self, window=None):
        """Reads the whole raster, or a window: column, row, columns and rows."""
        left, top, width, height = window = window or (0, 0, *self.size)
        pixels = np.empty((height, width, self._dataset.RasterCount), self._kind)
        if self._dataset.ReadRaster(*window, buf_obj=pixels, **spaces(pixels)) is None:
            raise Unreadable("a part of its pixels cannot be read")
        alpha = None
        if self._alpha:
            alpha, pixels = pixels[:, :, -1].copy(), np.ascontiguousarray(pixels[:, :, :-1])
        invalid = np.zeros(pixels.shape, bool) if pixels.dtype.kind != "f" else ~np.isfinite(pixels)
        for number, band in self._masks.items():
            mask = band.ReadRaster(*window, buf_type=gdal.GDT_Byte)
            if mask is None:
                raise Unreadable("a part of its pixels cannot be read")
            invalid[:, :, number] |= np.frombuffer(mask, "u1").reshape(height, width) == 0
        invalid = invalid.view(np.uint8) if invalid.any() else None
        place = self.place
        if place is not None:
            a, b, c, d, e, f = place
            place = (a + left * b + top * c, b, c, d + left * e + top * f, e, f)
        # for eight bits the whole range is used; for other types the sample may lack peaks of this part
        span = self.span if self._kind == "u1" else widened(self.span, pixels, invalid)
        filled_up = pixels if invalid is None else filled(pixels, invalid)
        return Raster(filled_up, invalid, alpha, self._nodata, place, self.crs, self._names, span)


def spaces(pixels):
    """The memory layout of an array of rows, columns and bands, with which GDAL reads and writes it without a copy."""
    line, pixel, band = pixels.strides
    return {"buf_pixel_space": pixel, "buf_line_space": line, "buf_band_space": band}


def filled(pixels, invalid):
    """Fills gaps with the nearest value, so that no pixel is mixed with a nodata value."""
    filled_pixels = pixels.copy()
    for number in range(pixels.shape[2]):
        gaps = invalid[:, :, number] > 0
        if gaps.all():
            filled_pixels[:, :, number] = 0
        elif gaps.any():
            rows, columns = ndimage.distance_transform_edt(gaps, return_distances=False, return_indices=True)
            filled_pixels[:, :, number] = pixels[:, :, number][rows, columns]
    return filled_pixels


def valid_nodata(nodata, kind):
    """The nodata value of a band. None if no pixel of its type can have it, such as -9999 in bytes."""
    if nodata is None or np.dtype(kind).kind not in "iu":
        return nodata
    limits = np.iinfo(kind)
    return nodata if limits.min <= nodata <= limits.max and nodata == int(nodata) else None


def marked(raster):
    """The pixels of a raster, with the nodata value in its gaps."""
    if raster.invalid is None:
        return raster.pixels
    marked_pixels = raster.pixels.copy()
    for number in range(marked_pixels.shape[2]):
        mark = raster.nodata[number] if raster.nodata else None
        if mark is None and marked_pixels.dtype.kind != "f":
            mark = 0
        marked_pixels[:, :, number][raster.invalid[:, :, number] > 0] = np.nan if mark is None else mark
    return marked_pixels


def write(raster, path, driver="GTiff"):
    """Writes a file with the georeference, the nodata value and the names of the bands."""
    pixels = marked(raster)
    colours = pixels.shape[2] == 3 and pixels.dtype.kind == "u"
    if raster.alpha is not None:
        pixels = np.dstack([pixels, raster.alpha])
    pixels = np.ascontiguousarray(pixels)
    direct = driver == "GTiff"
    width, height = raster.size
    kind = CODES[pixels.dtype]
    options = [*WRITE, *["PHOTOMETRIC=RGB"] * colours, *["ALPHA=YES"] * (raster.alpha is not None)]
    dataset = gdal.GetDriverByName("GTiff" if direct else "MEM").Create(
        path if direct else "", width, height, pixels.shape[2], kind, options if direct else []
    )
    annotate(dataset, raster)
    dataset.WriteRaster(0, 0, width, height, pixels, **spaces(pixels))
    if not direct:
        options = ["WORLDFILE=YES"] if raster.place is not None else []
        if gdal.GetDriverByName(driver).CreateCopy(path, dataset, options=options) is None:
            raise RuntimeError(f"{driver} cannot hold these bands: write GTiff")
    elif dataset.Close() != gdal.CE_None:
        raise RuntimeError(f"{os.path.basename(path)} could not be written")


def annotate(dataset, raster):
    if raster.place is not None:
        dataset.SetGeoTransform(raster.place)
    if raster.crs is not None:
        dataset.SetSpatialRef(raster.crs)
    for number, mark in enumerate(raster.nodata or ()):
        if mark is not None:
            dataset.GetRasterBand(number + 1).SetNoDataValue(mark)
    for number, name in enumerate(raster.names):
        if name:
            dataset.GetRasterBand(number + 1).SetDescription(name)


def shown(raster):
    """The image as 8 bits in one or three bands, and its alpha, for people and for models that look at pictures."""
    pixels = raster.pixels[:, :, :3] if raster.pixels.shape[2] >= 3 else raster.pixels[:, :, :1]
    if pixels.dtype != np.uint8:
        known = pixels if raster.invalid is None else pixels[raster.invalid[:, :, : pixels.shape[2]] == 0]
        low, high = np.percentile(known, (2, 98)) if known.size else (0, 1)
        stretched = (pixels.astype(np.float64) - low) / max(high - low, 1e-12) * 255
        pixels = np.clip(stretched, 0, 255).astype(np.uint8)
    return pixels


def encoded(pixels, alpha, kind, quality=95):
    """The bytes of a picture; JPEG has no alpha."""
    layers = pixels[:, :, ::-1] if pixels.shape[2] == 3 else pixels
    if alpha is not None and kind != "JPEG":
        layers = np.dstack([np.repeat(layers, 3, 2) if layers.shape[2] == 1 else layers, alpha])
    options = {
        "JPEG": [cv2.IMWRITE_JPEG_QUALITY, quality],
        "WEBP": [cv2.IMWRITE_WEBP_QUALITY, 101],  # above 100 WEBP is lossless
        "PNG": [],
    }
    done, data = cv2.imencode(f".{kind.lower()}", np.ascontiguousarray(layers), options[kind])
    if not done:
        raise RuntimeError(f"the picture cannot be written as {kind}")
    return data.tobytes()
