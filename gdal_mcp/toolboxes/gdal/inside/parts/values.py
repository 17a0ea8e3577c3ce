"""Examines the pixels of an input before a call changes their type or computes with them.

Reads only what is requested.
"""

import itertools
import os
import re
import time

import numpy
from osgeo import gdal, gdal_array, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.pixels import (
    DOUBLE,
    MAX_BANDS,
    MAX_PIXELS,
    any_holes,
    is_float,
    value_ranges,
)
from gdal_mcp.toolboxes.gdal.inside.parts.raster_checks import FILLS
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

SIDE = 1024  # pixels per side of the sample
NO_OVERVIEWS = 512  # pixels of the longer side, up to which a raster needs no overviews
CURVE_SECONDS = 3.0  # seconds of CPU time for layers that do not declare whether they have curves
FEW_FLOATS = 17  # distinct values; classes stored as floating point have fewer
MANY = 33  # distinct values; classes stored as integers have fewer
FEW_CODES = 8  # distinct values that count as codes without further evidence
EVEN = 0.5  # fraction of the pixels that equal their neighbour; classes form areas
UNSIGNED = ("Byte", "UInt8", "UInt16", "UInt32")
# names of bands and files, in lower case, with bit flags (QA_PIXEL, SCL, Fmask), classes, years and dates, and directions
FLAGS = re.compile(r"(?<![a-z])(?:b?qa|qc|scl|c?fmask|flags?|bit_?mask|bits)(?![a-z])")
CLASSES = re.compile(
    r"(?<![a-z])(?:class(?:es)?|classification|land_?(?:cover|use)|lulc|lccs|nlcd|corine|clc|soil_?types?|worldcover)(?![a-z])"
)
DIRECTIONS = re.compile(
    r"(?<![a-z])(?:aspect|w?dir|(?:wind|wave|current|swell)?_?(?:dir|direction)|azimuth|bearing|heading)(?![a-z])"
)
COLORS = (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand, gdal.GCI_AlphaBand)
# names of measures of classes, which are not codes
NOT_CODES = re.compile(r"frac|perc|pct|prob|share|dens|ratio|mean")
ANGLES = ("degree", "degrees", "deg", "°", "degree_true", "degrees_true")
# names and tests for years, days of a year or numbers of years, and dates such as 20240131
CALENDARS = (
    (r"years?|dates?", lambda values: values.min() >= 1800 and values.max() <= 2200),
    (r"doy|day_?of_?year|julian_?days?|burn_?dates?|loss_?year", lambda values: values.max() <= 366),
    (
        r"dates?",
        lambda values: (
            values.min() >= 18000101
            and values.max() <= 22001231
            and ((values % 100 <= 31) & (values // 100 % 100 <= 12)).all()
        ),
    ),
)
# image formats, and the type to which they reduce values
PICTURES = {"PNG": "UInt16", "JPEG": "UInt8", "WEBP": "UInt8", "GIF": "UInt8", "BMP": "UInt8"}


def look(dataset, what):
    """Examines an input. `what` is one of the names below or a data type or format, with `:` and band numbers.

    * `curves`: a layer has curves.
    * `holes`: pixels are nodata.
    * `masked`: a mask or alpha hides pixels.
    * `wide`: integers are too large for a double.
    * `fills`: pixels have a usual nodata value, but are not nodata.
    * `heights`: GDAL assumes the unit of the heights.
    * `classes`, `neighbours`, `overviews`: values look like codes that would be mixed.
    * `shares`: values are a mask.
    * `directions`, `overview_directions`: values are angles on both sides of north, whose mean would be wrong.
    * A data type or format: what values would lose in it.
    """
    if what == "curves":
        return curves(dataset)
    if not dataset.RasterCount:
        return None
    what, _, numbers = what.partition(":")
    wanted = map(int, numbers.split(",")) if numbers else range(1, dataset.RasterCount + 1)
    there = (number for number in wanted if 1 <= number <= dataset.RasterCount)
    bands = [dataset.GetRasterBand(number) for number in itertools.islice(there, MAX_BANDS)]
    with quiet():
        return LOOKS[what](dataset, bands) if what in LOOKS else lost(bands, what)


def fills(dataset, bands):
    shown = bands[0].GetMaskFlags() == gdal.GMF_ALL_VALID
    return {"fills": shown and any(row and row.get("min") in FILLS for row in value_ranges(dataset))}


def heights(dataset, bands):
    """Tests for heights without a unit, which GDAL treats as metres."""
    crs, unit = dataset.GetSpatialRef(), bands[0].GetUnitType()
    return {"assumed": bool(crs and crs.IsProjected() and crs.GetLinearUnits() != 1 and not unit)}


def gets_overviews(dataset):
    return max(dataset.RasterXSize, dataset.RasterYSize) > NO_OVERVIEWS


def overviews(dataset, bands):
    """Tests if overviews would mix classes. With a palette, GDAL takes the nearest pixel."""
    mixed = (not band.GetColorTable() and are_classes(band) for band in bands)
    return {"classes": gets_overviews(dataset) and all(mixed)}


# the probes, by their names in requests
LOOKS = {
    "holes": lambda dataset, _bands: {"holes": any_holes(dataset)},
    "masked": lambda dataset, _bands: {"masked": is_masked(dataset)},
    "wide": lambda _dataset, bands: {"wide": any(map(is_wide, bands))},
    "fills": fills,
    "heights": heights,
    "overviews": overviews,
    # one band of flags next to bands of measurements has its own description
    "classes": lambda _dataset, bands: {
        "classes": all(map(are_classes, bands)) or any(map(are_described_codes, bands))
    },
    "neighbours": lambda _dataset, bands: {"classes": are_classes(bands[0])},
    "shares": lambda _dataset, bands: {"mask": all(map(is_mask, bands))},
    "directions": lambda _dataset, bands: {"directions": any(map(are_directions, bands))},
    "overview_directions": lambda dataset, bands: {
        "directions": gets_overviews(dataset) and any(map(are_directions, bands))
    },
}


def curves(dataset):
    """Tests if a dataset has curves; `count` is the number of examined features if there was no time for all."""
    until, count = time.thread_time() + CURVE_SECONDS, 0
    for layer in layers_of(dataset):
        kind = ogr.GT_Flatten(layer.GetGeomType())
        if kind not in (ogr.wkbUnknown, ogr.wkbGeometryCollection):
            if ogr.GT_IsNonLinear(kind):
                return {"curves": True}
            continue
        layer.ResetReading()
        for feature in layer:
            shape = feature.GetGeometryRef()
            if shape is not None and shape.HasCurveGeometry():
                return {"curves": True}
            count += 1
            if time.thread_time() > until:
                return {"curves": False, "count": count}
        layer.ResetReading()
    return {"curves": False}


def is_masked(dataset):
    """True if a mask or alpha band, and not a nodata value, hides pixels."""
    band = dataset.GetRasterBand(1)
    if band.GetMaskFlags() & (gdal.GMF_ALL_VALID | gdal.GMF_NODATA):
        return False
    exact = band.XSize * band.YSize <= MAX_PIXELS
    limits = band.GetMaskBand().ComputeRasterMinMax(not exact, can_return_none=True)
    return limits is not None and limits[0] == 0


def is_wide(band):
    if band.DataType not in (gdal.GDT_Int64, gdal.GDT_UInt64):
        return False
    limits = band.ComputeRasterMinMax(band.XSize * band.YSize > MAX_PIXELS, can_return_none=True)
    return limits is not None and max(map(abs, limits)) > DOUBLE


def is_mask(band):
    """True for an integer band without a palette that has zeros and ones, and no other values."""
    if is_float(band) or band.GetColorTable() is not None:
        return False
    values, valid = pixels(band)
    return numpy.unique(values[valid]).tolist() == [0, 1]


def are_classes(band):
    """True if a band has a palette, values that its name calls codes, or areas of few distinct whole numbers, also as
    floating point.

    A band with 0 and one other value is a mask, whose mean is a share, so the result is False.
    """
    if band.GetColorTable() is not None or band.GetCategoryNames():
        return True
    if gdal.DataTypeIsComplex(band.DataType):
        return False
    values, valid = pixels(band)
    different = numpy.unique(values[valid])
    if len(different) > 2 and are_codes(band, name_of(band), different):
        return True
    few = FEW_FLOATS if is_float(band) else MANY
    if not 1 < len(different) < few or (different != numpy.floor(different)).any():
        return False
    if len(different) == 2 and different[0] == 0:
        return False
    return bool((values[:, 1:] == values[:, :-1]).mean() > EVEN)  # small pictures also have few values


def are_codes(band, name, different):
    """True if a name in lower case says that values are codes, bit flags or dates, and the values fit that."""
    shown = band.GetColorInterpretation() in COLORS
    if shown or NOT_CODES.search(name) or (different != numpy.floor(different)).any():
        return False
    unsigned = gdal.GetDataTypeName(band.DataType) in UNSIGNED
    if (unsigned and FLAGS.search(name)) or (not is_float(band) and CLASSES.search(name)):
        return True
    dates = different[different > 0]  # 0 often means no date
    return bool(dates.size) and any(
        re.search(f"(?<![a-z])(?:{names})(?![a-z])", name) and is_in(dates) for names, is_in in CALENDARS
    )


def are_described_codes(band):
    name = band.GetDescription().lower()
    different = unique_values(band) if name else ()
    return len(different) > 2 and are_codes(band, name, different)


def are_directions(band):
    """True if the name or the unit of a band says that its values are angles, and they lie on both sides of north.

    Angles are from 0 to 360 or from -180 to 180, where the mean of directions across south is wrong.
    """
    if not (DIRECTIONS.search(name_of(band)) or band.GetUnitType().strip().lower() in ANGLES):
        return False
    values, valid = pixels(band)
    angles = values[valid & ~numpy.isnan(values)] if is_float(band) else values[valid]
    if not angles.size:
        return False
    low, high = angles.min(), angles.max()
    return bool((0 <= low < 90 and 270 < high <= 360) or (-180 <= low < -90 and 90 < high <= 180))


def name_of(band):
    """The description of a band and the name of its file, in lower case."""
    dataset = band.GetDataset()
    return f"{band.GetDescription()} {os.path.basename(dataset.GetDescription() if dataset else '')}".lower()


def class_checks(output, sources):
    """Reports values between the codes of the input that are not codes themselves.

    If the codes form areas, `are_classes` finds them before the call.
    """
    paths = [path for path, row in sources if row and "bands" in row["facts"]]
    source = gdal.OpenEx(paths[0], gdal.OF_RASTER) if len(paths) == 1 else None
    if source is None or not source.RasterCount or are_classes(source.GetRasterBand(1)):
        return
    before, after = (unique_values(dataset.GetRasterBand(1)) for dataset in (source, output))
    is_mask = len(before) == 2 and before[0] == 0
    if not 1 < len(before) <= FEW_CODES or is_mask or (before != numpy.floor(before)).any():
        return
    between = after[(after > before[0]) & (after < before[-1])]
    if new := len(numpy.setdiff1d(between, before)):
        yield {"code": "classes_mixed", "count": new}


def unique_values(band):
    values, valid = pixels(band)
    return numpy.unique(values[valid])


def lost(bands, kind):
    """The lowest and highest value, and how many pixels do not fit; None if all values of their type fit."""
    rows = [row for band in bands if (row := lost_of(band, kind)) is not None]
    if not rows:
        return None
    counted = ("outside", "nan", "fractional", "digits", "count")
    return {
        **{key: sum(row[key] for row in rows) for key in counted},
        "minimum": min((row["minimum"] for row in rows if row["minimum"] is not None), default=None),
        "maximum": max((row["maximum"] for row in rows if row["maximum"] is not None), default=None),
        "exact": all(band.XSize * band.YSize <= MAX_PIXELS // len(bands) for band in bands),
        "bands": len(bands),
    }


def lost_of(band, kind):
    if kind == "PNG" and band.DataType != gdal.GDT_UInt16:
        kind = "UInt8"
    target = gdal.GetDataTypeByName(PICTURES.get(kind, kind))
    if gdal.DataTypeUnion(target, band.DataType) == target or gdal.DataTypeIsComplex(band.DataType):
        return None
    values, valid = pixels(band)
    nan = numpy.isnan(values) if values.dtype.kind == "f" else numpy.zeros(values.shape, bool)
    values = values[valid & ~nan]
    counts = {"nan": int((valid & nan).sum()), "count": int(valid.sum())}
    target_type = gdal_array.flip_code(target)
    if numpy.issubdtype(target_type, numpy.integer):
        room = numpy.iinfo(target_type)
        outside = (values < room.min) | (values > room.max)
        fractional = ~outside & (values != numpy.floor(values))
        digits = 0
    else:
        counts["nan"] = 0
        outside = ~numpy.isfinite(values.astype(target_type)) & numpy.isfinite(values)
        fractional = numpy.zeros(1, bool)
        is_integer = values.dtype.kind in "iu"  # the last digits of fractions are noise
        digits = int((values.astype(target_type).astype(values.dtype) != values).sum()) if is_integer else 0
    return {
        **counts,
        "outside": int(outside.sum()),
        "fractional": int(fractional.sum()),
        "digits": digits,
        "minimum": float(values.min()) if values.size else None,
        "maximum": float(values.max()) if values.size else None,
    }


def pixels(band):
    """The values of all pixels or of a sample, and a mask that is True for values that are not nodata."""
    side = {} if band.XSize * band.YSize <= MAX_PIXELS else {"buf_xsize": SIDE, "buf_ysize": SIDE}
    values, nodata = band.ReadAsArray(**side), band.GetNoDataValue()
    if nodata is None:
        return values, numpy.ones(values.shape, bool)
    return values, ~numpy.isnan(values) if numpy.isnan(nodata) else values != nodata
