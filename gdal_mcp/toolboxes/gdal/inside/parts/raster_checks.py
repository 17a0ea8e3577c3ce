"""Cheap checks of a raster that was written, and of layers that were made of one."""

import itertools
import math
import re

from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import has_other_georeferencing
from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_checks, reference, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import any_holes, value_ranges
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

SIDE = 21  # points on each side of a raster where the coverage of the inputs is tested
MAX_BLOCKS = 10_000  # of a raster that are looked for
MAX_SHAPES = 1000  # that cut a raster
FEW = 3  # of them: what a slanted edge leaves
MAX_FEATURES = 10_000
TEXT_OF_NUMBER = re.compile(r"-?(?:nan|[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)", re.IGNORECASE)
MAX_PIXELS = 4 << 20  # of a band whose overviews are compared
STALE = 0.01  # of an overview's pixels
# lowest and highest value of types of whole numbers
LIMITS = {
    "Byte": (0, 255),
    **{f"UInt{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
# values that mean nodata in many datasets, and a measurement in hardly any
FILLS = (
    *(-9999.0, -99999.0, -32767.0, -32768.0),
    -3.4028234663852886e38,  # the lowest Float32, which ESRI's programs write
    -3.4028230607370965e38,  # the same in text with 7 digits, read back as Float32
    -1.7976931348623157e308,  # the lowest Float64
)


def raster_checks(dataset, facts, rows, origin):
    sources, expected = [] if origin.updates else origin.sources, origin.expected
    seen = [row for row, band in zip(rows, facts["bands"], strict=False) if band["color"] != "Alpha"]
    if seen and all(seen):
        sampled = {} if all(row["exact"] for row in seen) else {"sampled": True}
        if any(row.get("unreadable") for row in seen):
            yield {"code": "pixels_unreadable"}
        elif all(row.get("empty") for row in seen):
            yield {"code": "all_nodata", **sampled}
        elif all(map(has_one_value, seen)) and not may_be_constant(facts, sources, expected):
            yield {"code": "constant", **sampled}
    yield from crs_checks(facts, dataset.GetSpatialRef())
    figure = "figures" in expected and dataset.GetDriver().ShortName in ("PNG", "JPEG", "WEBP")
    if facts["extent"] is None and not figure and not has_other_georeferencing(dataset):
        yield {"code": "has_no_georeferencing"}
    if sources:
        stacked = "stack" in origin.options and len(sources) > 1
        yield from (
            stack_checks(dataset, facts, sources)
            if stacked
            else collar_checks(dataset, facts, sources, origin.cut)
        )
    yield from statistics_checks(dataset, rows)
    yield from nodata_checks(dataset, facts, rows, sources)
    if "summed" in expected:
        yield from sum_checks(facts, rows)
    if "filled" in expected and any_holes(dataset):
        yield {"code": "holes_left"}


def unwritten_blocks(dataset, options):
    """How many blocks of a new GeoTIFF were not written, and how many there are: GDAL does not report that its threads failed to compress."""
    words = " ".join(options).upper()
    if dataset.GetDriver().ShortName != "GTiff" or "COMPRESS=" not in words or "SPARSE_OK=" in words:
        return 0, 0
    band = dataset.GetRasterBand(1)
    width, height = band.GetBlockSize()
    columns, rows = -(-band.XSize // width), -(-band.YSize // height)
    places = list(itertools.islice(itertools.product(range(columns), range(rows)), MAX_BLOCKS))
    found = sum(band.GetMetadataItem(f"BLOCK_OFFSET_{x}_{y}", "TIFF") is None for x, y in places)
    return found, len(places)


def nodata_checks(dataset, facts, rows, sources):
    for number, band in enumerate(facts["bands"]):
        low, high = LIMITS.get(band["type"], (-math.inf, math.inf))
        lowest = rows[number].get("min") if number < len(rows) and rows[number] else None
        if low < 0 and lowest in FILLS and facts["bands"][-1]["color"] != "Alpha":
            yield {"code": "nodata_undeclared", "band": number, "minimum": lowest}
            return
        nodata = dataset.GetRasterBand(number + 1).GetNoDataValue()
        held = nodata is None or low <= nodata <= high or (math.isnan(nodata) and low == -math.inf)
        if not held and any(map(with_holes, sources)):
            yield {"code": "nodata_out_of_range", "band": number}
            return


def may_be_constant(facts, sources, expected):
    """Whether one value is no surprise: of a mask, of a single pixel, or of inputs that have one value themselves."""
    of_one_value = bool(sources) and all(map(is_constant, sources))
    return "constant" in expected or facts["size"] == [1, 1] or of_one_value


def has_one_value(row):
    return row.get("empty") or row["min"] == row["max"]


def is_constant(source):
    """Whether each band of a raster has one value, so that what is made of it has one, too."""
    path, found = source
    dataset = gdal.OpenEx(path, gdal.OF_RASTER) if found and "bands" in found["facts"] else None
    rows = value_ranges(dataset) if dataset is not None else []
    return bool(rows) and all(row and row.get("min") == row.get("max") for row in rows)


def with_holes(source):
    path, found = source
    dataset = gdal.OpenEx(path, gdal.OF_RASTER) if found and "bands" in found["facts"] else None
    return dataset is not None and any_holes(dataset)


def kept_checks(facts, sources):
    """Pixels that were copied into a type that does not hold them, or next to others of another scale."""
    own = {scale_of(band) for band in facts["bands"]}
    limits = limits_of(facts["bands"][0])
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
            yield {"code": "values_clamped", "minimum": least, "maximum": most}


def limits_of(band):
    """The lowest and highest value that a band can store, with NBITS taken into account."""
    bits = band.get("bits")
    return (0, 2**bits - 1) if bits else LIMITS.get(band["type"])


def rotation_checks(facts, sources):
    """A rotated raster in a format that holds no rotation: the same pixels at another place."""
    for _, source in sources:
        before = source["facts"] if source else {}
        turned = before.get("rotated") and not facts["rotated"]
        if turned and before["size"] == facts["size"] and before["extent"] != facts["extent"]:
            yield {"code": "rotation_lost"}


def sum_checks(facts, rows):
    """Sums in a type of whole numbers that end at its limit, where larger ones are cut."""
    for number, (band, row) in enumerate(zip(facts["bands"], rows, strict=False)):
        limits = LIMITS.get(band["type"])
        if limits and row and row.get("max") == limits[1]:
            yield {"code": "sum_clamped", "band": number, "maximum": limits[1]}
            return


def joined_checks(dataset, sources):
    """Merged rasters whose colour tables differ, or in which another one's nodata value is data."""
    with quiet():
        opened = [
            gdal.OpenEx(path, gdal.OF_RASTER) for path, row in sources if row and "bands" in row["facts"]
        ]
        bands = [one.GetRasterBand(1) for one in opened if one is not None and one.RasterCount == 1]
        if len(bands) < 2:
            return
        tables = [colors_of(one) for one in (*bands, dataset.GetRasterBand(1))]
        used = [dict(enumerate(table)) for table in tables if table]
        pairs = itertools.combinations(used, 2)
        if dataset.RasterCount == 1 and any(a[i] != b[i] for a, b in pairs for i in a.keys() & b.keys()):
            yield {"code": "colors_differ"}
        declared = {one.GetNoDataValue() for one in bands} - {None}
        for number, one in enumerate(bands):
            if one.GetMaskFlags() != gdal.GMF_ALL_VALID or not declared:
                continue
            exact = one.XSize * one.YSize <= MAX_PIXELS
            found = one.ComputeRasterMinMax(not exact, can_return_none=True)
            if found and declared & set(found):
                yield {"code": "nodata_in_others", "input": number, "minimum": min(declared & set(found))}
                return


def colors_of(band):
    table = band.GetColorTable()
    return [table.GetColorEntry(i) for i in range(table.GetCount())] if table else None


def scale_of(band):
    return band.get("scale", 1), band.get("offset", 0)


def collar_checks(dataset, facts, sources, cut=None):
    """Pixels beyond all inputs, or beyond the shapes that cut it (layers, or `cut`: WKT or GeoJSON and its CRS), count as data where nothing hides them: the corners of a raster that was turned."""
    masked = dataset.GetRasterBand(1).GetMaskFlags() != gdal.GMF_ALL_VALID
    crs = dataset.GetSpatialRef()
    if masked or crs is None or facts["rotated"] or facts["extent"] is None:
        return
    if any(source is None for _, source in sources):
        return
    rasters = [source for _, source in sources if source["facts"].get("pixel_size")]
    inside = [reaches(source, crs) for source in rasters]
    shapes = [covers(path, crs) for path, source in sources if source not in rasters]
    shapes += [within(*cut, crs)] if cut else []
    if not rasters or None in inside or None in shapes:
        return
    beyond = places_where(
        facts["extent"],
        lambda *place: not (any(one(*place) for one in inside) and all(one(*place) for one in shapes)),
    )
    zeros = 0  # in all bands; not the pixels that an edge goes through
    for x, y in beyond:
        place = int(x * dataset.RasterXSize), int(y * dataset.RasterYSize)
        zeros += not any(dataset.ReadRaster(*place, 1, 1, buf_type=gdal.GDT_Float64) or b"1")
    if FEW <= len(beyond) < SIDE * SIDE and zeros > 0.8 * len(beyond):
        yield {"code": "collar_without_nodata", "percent": round(100 * len(beyond) / SIDE**2, 1)}


def stack_checks(dataset, facts, sources):
    """Bands that are larger than the raster that they come from, and count as data beyond it."""
    crs, rows = dataset.GetSpatialRef(), [source["facts"] for _, source in sources if source]
    counts = [len(one.get("bands", ())) for one in rows]
    if crs is None or not facts["extent"] or sum(counts) != dataset.RasterCount or len(rows) != len(sources):
        return
    for (_, source), first in zip(sources, itertools.accumulate(counts, initial=1), strict=False):
        band, inside = dataset.GetRasterBand(first), reaches(source, crs)
        if inside is None or band.GetMaskFlags() != gdal.GMF_ALL_VALID:
            continue
        beyond = places_where(facts["extent"], lambda *place, inside=inside: not inside(*place))
        at = [(int(x * dataset.RasterXSize), int(y * dataset.RasterYSize)) for x, y in beyond]
        zeros = sum(not any(band.ReadRaster(*one, 1, 1, buf_type=gdal.GDT_Float64) or b"1") for one in at)
        if len(beyond) >= FEW and zeros > 0.8 * len(beyond):
            yield {
                "code": "collar_without_nodata",
                "band": first,
                "percent": round(100 * len(beyond) / SIDE**2, 1),
            }
            return


def places_where(extent, holds):
    """Those of a grid of places on a raster, as fractions of its width and height, whose coordinates pass a test."""
    west, south, east, north = extent
    steps = [(i + 0.5) / SIDE for i in range(SIDE)]
    return [
        (x, y) for x in steps for y in steps if holds(west + x * (east - west), north - y * (north - south))
    ]


def within(text, own, crs):
    """Whether a shape that a call gives, in a CRS by its name or in that of the raster, covers a point."""
    shape = (ogr.CreateGeometryFromJson if text.lstrip().startswith("{") else ogr.CreateGeometryFromWkt)(text)
    there = reference(own) if own else crs
    if shape is None or there is None:
        return None
    change = osr.CreateCoordinateTransformation(traditional(crs), traditional(there))

    def inside(x, y):
        point = ogr.Geometry(ogr.wkbPoint)
        point.AddPoint_2D(*change.TransformPoint(x, y)[:2])
        return shape.Intersects(point)

    return inside if change is not None else None


def covers(path, crs):
    """Whether the only layer of a dataset covers a point of that CRS; None where it has several, or none in a CRS."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
    layer = dataset.GetLayer(0) if dataset is not None and dataset.GetLayerCount() == 1 else None
    if layer is None or layer.GetSpatialRef() is None or not 0 < layer.GetFeatureCount() <= MAX_SHAPES:
        return None
    change = osr.CreateCoordinateTransformation(traditional(crs), traditional(layer.GetSpatialRef()))
    shapes = [one.GetGeometryRef().Clone() for one in layer if one.GetGeometryRef() is not None]

    def inside(x, y):
        point = ogr.Geometry(ogr.wkbPoint)
        point.AddPoint_2D(*change.TransformPoint(x, y)[:2])
        return any(shape.Intersects(point) for shape in shapes)

    return inside if change is not None else None


def reaches(source, crs):
    """Whether an input has a pixel at a point of that CRS, give or take one; None where it cannot be told."""
    ((box, own),) = source["boxes"]
    if box is None or own is None:
        return None
    same = bool(crs.IsSame(own))
    change = None if same else osr.CreateCoordinateTransformation(traditional(crs), traditional(own))
    width, height = source["facts"]["pixel_size"]
    west, south, east, north = box

    def inside(x, y):
        there = (x, y) if same else change.TransformPoint(x, y)
        return west - width <= there[0] <= east + width and south - height <= there[1] <= north + height

    return inside if same or change is not None else None


def statistics_checks(dataset, rows):
    """Stored statistics of pixels that have changed since."""
    for number, row in enumerate(rows):
        band = dataset.GetRasterBand(number + 1)
        kept = [band.GetMetadataItem(f"STATISTICS_{name}") for name in ("MINIMUM", "MAXIMUM")]
        if None in kept or not row or "min" not in row or not row["exact"]:
            continue
        low, high = map(float, kept)
        minimum, maximum = float(row["min"]), float(row["max"])  # a text where JSON has no such number
        slack = 0.01 * (maximum - minimum) + 1e-6 * max(abs(maximum), 1)
        approximate = band.GetMetadataItem("STATISTICS_APPROXIMATE") == "YES"  # of a sample, so inside
        apart = (minimum - low, high - maximum)
        if any(one > slack or (one < -slack and not approximate) for one in apart):
            yield {"code": "statistics_stale", "band": number, "minimum": row["min"], "maximum": row["max"]}
            return


def overview_checks(dataset):
    """Overviews of pixels that have changed since: a correct value lies between its source pixels and their neighbours."""
    band = dataset.GetRasterBand(1)
    hidden = band.GetMaskFlags() & (gdal.GMF_PER_DATASET | gdal.GMF_ALPHA)  # whose values mean nothing
    if hidden or gdal.DataTypeIsComplex(band.DataType) or band.GetColorInterpretation() == gdal.GCI_AlphaBand:
        return
    if not band.GetOverviewCount() or band.XSize * band.YSize > MAX_PIXELS:
        return
    import numpy

    smaller = band.GetOverview(0).ReadAsArray()
    pixels, nodata = band.ReadAsArray().astype("float64"), band.GetNoDataValue()
    height, width = smaller.shape
    step = max(-(-band.YSize // height), -(-band.XSize // width))
    if step < 2:
        return
    padded = numpy.pad(pixels, ((0, height * step - band.YSize), (0, width * step - band.XSize)), mode="edge")
    blocks = padded.reshape(height, step, width, step)
    hidden = blocks == nodata
    low = numpy.where(hidden, numpy.inf, blocks).min((1, 3))
    high = numpy.where(hidden, -numpy.inf, blocks).max((1, 3))
    for axis in (0, 1):
        edges = [(1, 1) if axis == 0 else (0, 0), (1, 1) if axis == 1 else (0, 0)]
        wide = numpy.pad(low, edges, mode="edge"), numpy.pad(high, edges, mode="edge")
        views = [[numpy.take(one, range(i, i + low.shape[axis]), axis) for i in range(3)] for one in wide]
        low, high = numpy.minimum.reduce(views[0]), numpy.maximum.reduce(views[1])
    with numpy.errstate(invalid="ignore"):
        slack = 0.5 * (high - low) + 1e-6 * numpy.abs(high) + 1  # cubic and its like go beyond
        beyond = ((smaller < low - slack) | (smaller > high + slack) | (low > high)) & (smaller != nodata)
    if beyond.mean() > STALE:
        yield {"code": "overviews_stale", "percent": round(100 * float(beyond.mean()), 1)}


def sampled_checks(dataset, *, zones):
    """Layers with values sampled from a raster: reports empty results, and with `zones` also zones without values."""
    for number, layer in enumerate(layers_of(dataset)):
        layer.ResetReading()
        values = [one for feature in itertools.islice(layer, MAX_FEATURES) for one in measured(feature)]
        missing = sum(map(math.isnan, values))
        if values and missing == len(values):
            yield {"code": "all_nan", "layer": number, "count": len(values)}
        elif missing and zones:
            yield {"code": "zones_without_pixels", "layer": number, "count": missing, "of": len(values)}


def measured(feature):
    """Its numbers with a fraction; in a format that keeps all as text also what says that it is none."""
    for i in range(feature.GetFieldCount()):
        kind, there = feature.GetFieldDefnRef(i).GetType(), feature.IsFieldSetAndNotNull(i)
        if kind == ogr.OFTReal:
            yield feature.GetFieldAsDouble(i) if there else math.nan
        elif kind == ogr.OFTString and there:
            text = feature.GetFieldAsString(i)
            yield from [float(text)] if TEXT_OF_NUMBER.fullmatch(text) else []
