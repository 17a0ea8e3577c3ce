"""Images in and out: pixels of any number of bands in their own type, what of them is data, and where they lie on earth."""

import contextlib
import os
from dataclasses import dataclass, field

import cv2
import numpy as np
from osgeo import gdal, osr
from scipy import ndimage

TYPES = {
    gdal.GDT_Byte: "u1", gdal.GDT_UInt16: "u2", gdal.GDT_Int16: "i2", gdal.GDT_UInt32: "u4", gdal.GDT_Int32: "i4",
    gdal.GDT_Float32: "f4", gdal.GDT_Float64: "f8",
}  # fmt: skip
CODES = {np.dtype(name): code for code, name in TYPES.items()}
SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"RIFF": "webp", b"II*\0": "tif", b"MM\0*": "tif", b"II+\0": "tif"}  # fmt: skip
DRIVERS = ["GTiff", "PNG", "JPEG", "WEBP"]  # of `augment_image`, which takes these formats and no others
LOOK = 1024  # pixels of the longer side of a raster's copy that its range of values is taken from
WRITE = ["COMPRESS=DEFLATE", "BIGTIFF=IF_SAFER"]


class Unreadable(RuntimeError):
    """It is no image that this can work on; the text says why."""


@dataclass
class Raster:
    pixels: np.ndarray  # rows, columns, bands
    invalid: np.ndarray | None = None  # 1 where a band has no data, of the same shape
    alpha: np.ndarray | None = None  # rows, columns
    nodata: tuple | None = None  # of each band; None is NaN
    place: tuple | None = None  # GDAL's geotransform
    crs: str = ""  # WKT
    names: tuple = ()  # of the bands
    range: tuple = field(default=(0.0, 255.0))  # of values, which is 0 to 1 for transforms that change values

    @property
    def size(self):
        return self.pixels.shape[1], self.pixels.shape[0]


def decoded(data):
    """A PNG, JPEG or WEBP file in 8 or 16 bits, as it is: nothing is turned, scaled or compressed again."""
    with contextlib.suppress(cv2.error):
        found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        if found is not None:
            found = found[:, :, None] if found.ndim == 2 else found
            alpha = np.ascontiguousarray(found[:, :, 3]) if found.shape[2] == 4 else None
            pixels = np.ascontiguousarray(found[:, :, 2::-1] if found.shape[2] > 1 else found)
            return Raster(pixels, alpha=alpha, range=(0.0, float(np.iinfo(pixels.dtype).max)))
    raise Unreadable("it is no PNG, JPEG or WEBP file that can be read")


def opened(path, drivers=None):
    dataset = gdal.OpenEx(path, gdal.OF_RASTER, allowed_drivers=drivers or [])
    if dataset is None or not dataset.RasterCount:
        raise Unreadable("it is no image that GDAL can open")
    kinds = {dataset.GetRasterBand(number + 1).DataType for number in range(dataset.RasterCount)}
    if len(kinds) > 1 or not kinds <= TYPES.keys():
        raise Unreadable("its bands are not all of one type, or of one that is not a real number")
    if dataset.GetRasterBand(1).GetColorTable() is not None:
        raise Unreadable(
            "its values are numbers of colours in a palette; turn it into bands of colours first"
        )
    return dataset


def has_alpha(dataset):
    return dataset.RasterCount > 1 and dataset.GetRasterBand(dataset.RasterCount).GetColorInterpretation() == gdal.GCI_AlphaBand  # fmt: skip


def read(dataset, window=None, span=None):
    """All of a dataset, or a window: column, row, columns and rows. `span` is the range of values, where it is known."""
    left, top, width, height = window or (0, 0, dataset.RasterXSize, dataset.RasterYSize)
    bands = [dataset.GetRasterBand(number + 1) for number in range(dataset.RasterCount)]

    def values(source, kind):
        data = source.ReadRaster(left, top, width, height, buf_type=CODES[np.dtype(kind)])
        if data is None:
            raise Unreadable("a part of its pixels cannot be read")
        return np.frombuffer(data, kind).reshape(-1, height, width)

    pixels = values(dataset, TYPES[bands[0].DataType])
    alpha = pixels[-1].copy() if has_alpha(dataset) else None
    pixels, bands = (pixels[:-1], bands[:-1]) if alpha is not None else (pixels, bands)
    pixels = np.ascontiguousarray(pixels.transpose(1, 2, 0))
    nodata = tuple(band.GetNoDataValue() for band in bands)
    masked = [None if band.GetMaskFlags() & (gdal.GMF_ALL_VALID | gdal.GMF_ALPHA) else band.GetMaskBand() for band in bands]  # fmt: skip
    invalid = np.zeros(pixels.shape, np.uint8)
    for number, mask in enumerate(masked):
        if mask is not None:
            invalid[:, :, number] = values(mask, "u1")[0] == 0
    if pixels.dtype.kind == "f":
        invalid |= ~np.isfinite(pixels)
    place = dataset.GetGeoTransform(can_return_null=True)
    if place is not None:
        a, b, c, d, e, f = place
        place = (a + left * b + top * c, b, c, d + left * e + top * f, e, f)
    return Raster(
        filled(pixels, invalid),
        invalid if invalid.any() else None,
        alpha,
        None if nodata == (None,) * len(bands) else nodata,
        place,
        dataset.GetProjection() or "",
        tuple(band.GetDescription() for band in bands),
        span or range_of(dataset),
    )


def range_of(dataset):
    """The least and the greatest value of a copy that is at most 1024 pixels wide and high; 8 bits have theirs."""
    kind = TYPES[dataset.GetRasterBand(1).DataType]
    if kind == "u1":
        return 0.0, 255.0
    share = max(1.0, max(dataset.RasterXSize, dataset.RasterYSize) / LOOK)
    width, height = (max(1, round(one / share)) for one in (dataset.RasterXSize, dataset.RasterYSize))
    low, high = np.inf, -np.inf
    for number in range(dataset.RasterCount - has_alpha(dataset)):
        band = dataset.GetRasterBand(number + 1)
        data = np.frombuffer(band.ReadRaster(buf_xsize=width, buf_ysize=height), kind)
        mask = band.GetMaskBand().ReadRaster(buf_xsize=width, buf_ysize=height, buf_type=gdal.GDT_Byte)
        some = data[(np.frombuffer(mask, "u1") > 0) & np.isfinite(data)]
        if some.size:
            low, high = min(low, float(some.min())), max(high, float(some.max()))
    return (low, high) if high > low else (0.0, 1.0)


def filled(pixels, invalid):
    """With the nearest value where there is none, so that nothing is mixed with a mark for nodata."""
    if not invalid.any():
        return pixels
    made = pixels.copy()
    for number in range(pixels.shape[2]):
        gaps = invalid[:, :, number] > 0
        if gaps.all():
            made[:, :, number] = 0
        elif gaps.any():
            rows, columns = ndimage.distance_transform_edt(gaps, return_distances=False, return_indices=True)
            made[:, :, number] = pixels[:, :, number][rows, columns]
    return made


def marked(raster):
    """The pixels with the mark for nodata where there is none."""
    if raster.invalid is None:
        return raster.pixels
    made = raster.pixels.copy()
    for number in range(made.shape[2]):
        mark = raster.nodata[number] if raster.nodata else None
        if mark is None and made.dtype.kind != "f":
            mark = 0
        made[:, :, number][raster.invalid[:, :, number] > 0] = np.nan if mark is None else mark
    return made


def write(raster, path, driver="GTiff"):
    """A file with the place, the nodata value and the names of the bands."""
    pixels = marked(raster)
    bands = [pixels[:, :, number] for number in range(pixels.shape[2])]
    bands += [] if raster.alpha is None else [raster.alpha]
    direct = driver == "GTiff"
    width, height = raster.size
    kind = CODES[pixels.dtype]
    colours = (
        ["PHOTOMETRIC=RGB"]
        if len(bands) - (raster.alpha is not None) == 3 and pixels.dtype.kind == "u"
        else []
    )
    colours += ["ALPHA=YES"] if raster.alpha is not None else []
    made = gdal.GetDriverByName("GTiff" if direct else "MEM").Create(
        path if direct else "", width, height, len(bands), kind, [*WRITE, *colours] if direct else []
    )
    if raster.place is not None:
        made.SetGeoTransform(raster.place)
    if raster.crs:
        made.SetProjection(raster.crs)
    for number in range(1, len(bands) + 1):
        band = made.GetRasterBand(number)
        mark = raster.nodata[number - 1] if raster.nodata and number <= len(raster.nodata) else None
        if mark is not None:
            band.SetNoDataValue(mark)
        if number <= len(raster.names) and raster.names[number - 1]:
            band.SetDescription(raster.names[number - 1])
    made.WriteRaster(0, 0, width, height, np.stack(bands).tobytes())
    if not direct:
        options = ["WORLDFILE=YES"] if raster.place is not None else []
        if gdal.GetDriverByName(driver).CreateCopy(path, made, options=options) is None:
            raise RuntimeError(f"{driver} cannot hold these bands: write GTiff")
    elif made.Close() != gdal.CE_None:
        raise RuntimeError(f"{os.path.basename(path)} could not be written")


def shown(raster):
    """8 bits in one or three bands, and alpha, for people and for models that look at pictures."""
    pixels = raster.pixels[:, :, :3] if raster.pixels.shape[2] >= 3 else raster.pixels[:, :, :1]
    if pixels.dtype != np.uint8:
        known = pixels if raster.invalid is None else pixels[raster.invalid[:, :, : pixels.shape[2]] == 0]
        low, high = np.percentile(known, (2, 98)) if known.size else (0, 1)
        pixels = np.clip((pixels.astype(np.float64) - low) / max(high - low, 1e-12) * 255, 0, 255).astype(
            np.uint8
        )
    return pixels


def encoded(pixels, alpha, kind, quality=95):
    """The bytes of a picture; JPEG has no alpha."""
    layers = pixels[:, :, ::-1] if pixels.shape[2] == 3 else pixels
    if alpha is not None and kind != "JPEG":
        layers = np.dstack([np.repeat(layers, 3, 2) if layers.shape[2] == 1 else layers, alpha])
    options = {
        "JPEG": [cv2.IMWRITE_JPEG_QUALITY, quality],
        "WEBP": [cv2.IMWRITE_WEBP_QUALITY, 101],  # above 100 nothing is lost
        "PNG": [],
    }
    done, data = cv2.imencode(f".{kind.lower()}", np.ascontiguousarray(layers), options[kind])
    if not done:
        raise RuntimeError(f"the picture cannot be written as {kind}")
    return data.tobytes()


def same_place(one, other):
    """Whether two datasets have one grid."""
    sizes = (one.RasterXSize, one.RasterYSize) == (other.RasterXSize, other.RasterYSize)
    return sizes and one.GetGeoTransform() == other.GetGeoTransform()


def reference(wkt):
    made = osr.SpatialReference()
    made.ImportFromWkt(wkt)
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made
