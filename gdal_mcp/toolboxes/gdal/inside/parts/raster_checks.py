"""Cheap checks of a raster output, and of layers that were made from a raster."""

import itertools
import math
import re

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import UNITS, has_other_georeferencing
from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_checks
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import any_holes, value_ranges
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

MAX_BLOCKS = 10_000  # blocks of a raster that are checked
MAX_FEATURES = 10_000
TEXT_OF_NUMBER = re.compile(r"-?(?:nan|[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)", re.IGNORECASE)
MAX_PIXELS = 4 << 20  # pixels of one band
# lowest and highest value of integer types
LIMITS = {
    "Byte": (0, 255),
    **{f"UInt{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
ENCODES = {"Terragen"}  # formats whose drivers scale true values, and wrap those beyond their limits
FEET = {"foot", "US survey foot"}
LENGTHS = {"metre", "foot", "centimetre", "millimetre", "kilometre"}
# one band is added to another or compared with it, as in `A-B`; a factor between metric units
ADDITION = re.compile(
    r"[A-Za-z_]\w*(?:\[\d+\])?\s*(?:[-+]|[<>=!]=?)\s*[A-Za-z_]|\b(?:min|max|avg|sum|mean)\b"
)
POWER_OF_TEN = re.compile(r"(?<![\w.])(?:0?\.0*1|10+(?:\.0*)?|1e-?\d+)(?![\w.])")
# values that mean nodata in many datasets, and hardly ever a measurement; 1e20 is that of climate models
FILLS = (-9999.0, -99999.0, -32767.0, -32768.0, 1e20, 1.0000000200408773e20)
# so are the limits of floating-point types, which ESRI's programs and Surfer write, and the default of netCDF (9.97e36)
ENORMOUS = 1e30
NAME_OF_INPUT = re.compile(r"--input=(\w+)=")


def raster_checks(dataset, facts, rows, origin):
    sources, expected = [] if origin.updates else origin.sources, origin.expected
    visible = [row for row, band in zip(rows, facts["bands"], strict=False) if band["color"] != "Alpha"]
    if visible and all(visible):
        sampled = {} if all(row["exact"] for row in visible) else {"sampled": True}
        if any(row.get("unreadable") for row in visible):
            yield {"code": "pixels_unreadable"}
        elif all(row.get("empty") for row in visible):
            yield {"code": "all_nodata", **sampled}
        elif all(map(has_one_value, visible)) and not may_be_constant(facts, sources, expected):
            yield {"code": "constant", **sampled}
    yield from crs_checks(facts, dataset.GetSpatialRef())
    figure = "figures" in expected and dataset.GetDriver().ShortName in ("PNG", "JPEG", "WEBP")
    if facts["extent"] is None and not figure and not has_other_georeferencing(dataset):
        yield {"code": "has_no_georeferencing"}
    if sources:
        stacked = "stack" in origin.options and len(sources) > 1
        collars = part("collars")
        yield from (
            collars.stack_checks(dataset, facts, sources)
            if stacked
            else collars.collar_checks(
                dataset, facts, sources, origin.cutting_shape, needs_all="pansharpen" in origin.options
            )
        )
    yield from statistics_checks(dataset, rows)
    yield from nodata_checks(dataset, facts, rows, sources)
    if "summed" in expected:
        yield from sum_checks(facts, rows)
    if "filled" in expected and any_holes(dataset):
        yield {"code": "holes_left"}


def unwritten_blocks(dataset, options):
    """The numbers of unwritten blocks, and of all examined blocks, of a new GeoTIFF.

    GDAL does not report that its threads failed to compress.
    """
    words = " ".join(options).upper()
    if dataset.GetDriver().ShortName != "GTiff" or "COMPRESS=" not in words or "SPARSE_OK=" in words:
        return 0, 0
    band = dataset.GetRasterBand(1)
    width, height = band.GetBlockSize()
    columns, rows = -(-band.XSize // width), -(-band.YSize // height)
    places = list(itertools.islice(itertools.product(range(columns), range(rows)), MAX_BLOCKS))
    unwritten = sum(band.GetMetadataItem(f"BLOCK_OFFSET_{x}_{y}", "TIFF") is None for x, y in places)
    return unwritten, len(places)


def fill_checks(dataset, rows):
    """Reports the first band in which a usual code for missing data counts as data."""
    for number, row in enumerate(rows):
        value = fill_of(row, dataset.GetRasterBand(number + 1))
        if value is not None:
            yield {"code": "nodata_undeclared", "band": number, "minimum": value}
            return


def fill_of(row, band):
    """The lowest or highest value of a band if it is a usual code for missing data; None if neither is.

    A netCDF variable may name several codes, of which GDAL takes one as the nodata value.
    """
    stated = band.GetMetadataItem("missing_value")
    for value in (row.get("min"), row.get("max")) if row else ():
        is_number = isinstance(value, (int, float))  # text if JSON cannot represent it
        if is_number and (value in FILLS or abs(value) >= ENORMOUS or str(value) == stated):
            return value
    return None


def nodata_checks(dataset, facts, rows, sources):
    fills = [] if facts["bands"][-1]["color"] == "Alpha" else list(fill_checks(dataset, rows))
    yield from fills
    for number, band in enumerate(() if fills else facts["bands"]):
        low, high = LIMITS.get(band["type"], (-math.inf, math.inf))
        nodata = dataset.GetRasterBand(number + 1).GetNoDataValue()
        stored = nodata is None or facts["driver"] not in ENCODES
        fits = nodata is None or low <= nodata <= high or (math.isnan(nodata) and low == -math.inf)
        if not (fits and stored) and any(map(with_holes, sources)):
            yield {"code": "nodata_out_of_range", "band": number}
            return


def may_be_constant(facts, sources, expected):
    """True if a single value is expected: for a mask, a single pixel, or inputs that have a single value."""
    of_one_value = bool(sources) and all(map(is_constant, sources))
    return "constant" in expected or facts["size"] == [1, 1] or of_one_value


def has_one_value(row):
    return row.get("empty") or row["min"] == row["max"]


def is_constant(source):
    """True if each band of a raster has a single value, so that results from it have one too."""
    path, description = source
    dataset = gdal.OpenEx(path, gdal.OF_RASTER) if description and "bands" in description["facts"] else None
    rows = value_ranges(dataset) if dataset is not None else []
    return bool(rows) and all(row and row.get("min") == row.get("max") for row in rows)


def with_holes(source):
    path, description = source
    dataset = gdal.OpenEx(path, gdal.OF_RASTER) if description and "bands" in description["facts"] else None
    return dataset is not None and any_holes(dataset)


def copied_pixel_checks(facts, sources):
    """Reports pixels that were copied into a data type that cannot store them, or to bands with another scale."""
    encodes, first = facts["driver"] in ENCODES, facts["bands"][0]
    own = {(1, 0)} if encodes else {scale_of(band) for band in facts["bands"]}
    limits = true_limits(first) if encodes else limits_of(first)
    for path, source in sources:
        bands = source["facts"].get("bands", ()) if source else ()
        if any(scale_of(band) not in own for band in bands):
            yield {"code": "scale_ignored"}
        types = {limits_of(band) or (-math.inf, math.inf) for band in bands}
        if not limits or all(low >= limits[0] and high <= limits[1] for low, high in types):
            continue
        rows = [row for row in value_ranges(gdal.OpenEx(path, gdal.OF_RASTER)) if row and "min" in row]
        least = min((row["min"] for row in rows), default=limits[0])
        most = max((row["max"] for row in rows), default=limits[1])
        if least < limits[0] or most > limits[1]:
            code = "heights_wrapped" if encodes else "values_clamped"
            yield {"code": code, "minimum": least, "maximum": most}


def true_limits(band):
    """The lowest and highest value that a scaled band of integers can store."""
    scale, offset = scale_of(band)
    low, high = LIMITS[band["type"]]
    return low * scale + offset, high * scale + offset


def limits_of(band):
    """The lowest and highest value that a band can store, with NBITS taken into account."""
    bits = band.get("bits")
    return (0, 2**bits - 1) if bits else LIMITS.get(band["type"])


def rotation_checks(facts, sources):
    """Reports a raster in a format that does not store its rotation or its CRS: the same pixels are at another place."""
    for _, source in sources:
        before = source["facts"] if source else {}
        if kind_of_crs(facts) == "local" and kind_of_crs(before) not in (None, "local"):
            yield {"code": "georeferencing_lost"}
        turned = before.get("rotated") and not facts["rotated"]
        if turned and before["size"] == facts["size"] and before["extent"] != facts["extent"]:
            yield {"code": "rotation_lost"}


def kind_of_crs(facts):
    return (facts.get("crs") or {}).get("kind")


def sum_checks(facts, rows):
    """Reports sums in an integer type that reach its limit, where larger sums are clamped."""
    for number, (band, row) in enumerate(zip(facts["bands"], rows, strict=False)):
        limits = LIMITS.get(band["type"])
        if limits and row and row.get("max") == limits[1]:
            yield {"code": "sum_clamped", "band": number, "maximum": limits[1]}
            return


def joined_checks(dataset, sources):
    """Reports merged rasters whose colour tables differ, or that have another raster's nodata value as data."""
    with quiet():
        opened = [
            gdal.OpenEx(path, gdal.OF_RASTER) for path, row in sources if row and "bands" in row["facts"]
        ]
        bands = [
            source.GetRasterBand(1) for source in opened if source is not None and source.RasterCount == 1
        ]
        if len(bands) < 2:
            return
        tables = [colors_of(band) for band in (*bands, dataset.GetRasterBand(1))]
        used = [dict(enumerate(table)) for table in tables if table]
        pairs = itertools.combinations(used, 2)
        if dataset.RasterCount == 1 and any(a[i] != b[i] for a, b in pairs for i in a.keys() & b.keys()):
            yield {"code": "colors_differ"}
        units = {unit for band in bands if (unit := unit_of(band))}
        if dataset.RasterCount == 1 and len(units) > 1:
            yield {"code": "units_differ", "count": len(units)}
        declared = {band.GetNoDataValue() for band in bands} - {None}
        own = dataset.GetRasterBand(1).GetNoDataValue()
        for number, band in enumerate(bands):
            # an input with a nodata value of its own loses pixels only to that of the output
            there = band.GetNoDataValue()
            others = declared if there is None else declared & {own} - {there}
            if not others:
                continue
            exact = band.XSize * band.YSize <= MAX_PIXELS
            limits = band.ComputeRasterMinMax(not exact, can_return_none=True)
            if limits and others & set(limits):
                yield {"code": "nodata_in_others", "input": number, "minimum": min(others & set(limits))}
                return


def combined_checks(sources, options):
    """Reports bands in different units of length that a formula combines.

    Bands in metric units may be different quantities, such as height and rain, unless it adds or compares them.
    """
    units = {band.get("unit") for band in bands_of_formula(sources, options)}
    lengths = {"foot" if unit in FEET else unit for unit in units} & LENGTHS
    formula = formula_of(options)
    adds = ADDITION.search(formula) and not POWER_OF_TEN.search(formula)
    if len(lengths) > 1 and ("foot" in lengths or adds):
        yield {"code": "units_combined"}


def formula_of(options):
    return " ".join(word.partition("=")[2] for word in options if word.startswith("--calc="))


def bands_of_formula(sources, options):
    """Yields the facts of the bands that a formula names: `A` for all bands of an input, `A[2]` for one."""
    formula = formula_of(options)
    names = [found[1] for word in options if (found := NAME_OF_INPUT.match(word))]
    for number, (_, row) in enumerate(sources):
        bands = row["facts"].get("bands", ()) if row else ()
        if len(names) == len(sources):
            used = re.findall(rf"\b{names[number]}\b(?:\[(\d+)\])?", formula)
            bands = [band for i, band in enumerate(bands, 1) if {"", str(i)} & set(used)]
        yield from bands


def unit_of(band):
    """The unit of a band's values, spelled in one way; "" if it has none."""
    unit = band.GetUnitType().strip().lower()
    return UNITS.get(unit, unit)


def colors_of(band):
    table = band.GetColorTable()
    return [table.GetColorEntry(i) for i in range(table.GetCount())] if table else None


def scale_of(band):
    return band.get("scale", 1), band.get("offset", 0)


def statistics_checks(dataset, rows):
    """Reports stored statistics of pixels that have changed since."""
    for number, row in enumerate(rows):
        band = dataset.GetRasterBand(number + 1)
        stored = [band.GetMetadataItem(f"STATISTICS_{name}") for name in ("MINIMUM", "MAXIMUM")]
        if None in stored or not row or "min" not in row or not row["exact"]:
            continue
        low, high = map(float, stored)
        minimum, maximum = float(row["min"]), float(row["max"])  # text if JSON cannot represent the number
        slack = 0.01 * (maximum - minimum) + 1e-6 * max(abs(maximum), 1)
        # statistics from a sample, whose range may be narrower
        approximate = band.GetMetadataItem("STATISTICS_APPROXIMATE") == "YES"
        gaps = (minimum - low, high - maximum)
        if any(gap > slack or (gap < -slack and not approximate) for gap in gaps):
            yield {"code": "statistics_stale", "band": number, "minimum": row["min"], "maximum": row["max"]}
            return


def sampled_checks(dataset, *, zones):
    """Reports layers with values sampled from a raster that are all missing; with `zones`, zones without values."""
    for number, layer in enumerate(layers_of(dataset)):
        layer.ResetReading()
        values = [value for feature in itertools.islice(layer, MAX_FEATURES) for value in measured(feature)]
        missing = sum(map(math.isnan, values))
        if values and missing == len(values):
            yield {"code": "all_nan", "layer": number, "count": len(values)}
        elif missing and zones:
            yield {"code": "zones_without_pixels", "layer": number, "count": missing, "of": len(values)}


def measured(feature):
    """Yields the floating-point numbers of a feature, NaN for missing ones.

    In a format that stores everything as text, such numbers and NaN are parsed from the texts.
    """
    for i in range(feature.GetFieldCount()):
        kind, there = feature.GetFieldDefnRef(i).GetType(), feature.IsFieldSetAndNotNull(i)
        if kind == ogr.OFTReal:
            yield feature.GetFieldAsDouble(i) if there else math.nan
        elif kind == ogr.OFTString and there:
            text = feature.GetFieldAsString(i)
            yield from [float(text)] if TEXT_OF_NUMBER.fullmatch(text) else []
