"""Describes datasets in two parts that are joined by their order.

`facts` are numbers, switches and GDAL's own words; `names` are text from the file.
"""

import math
import os

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_facts, in_degrees, raster_extent, wgs84_box
from gdal_mcp.toolboxes.gdal.inside.parts.outputs import bytes_of
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import plain, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import Clock, Survey, antimeridian_bbox
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

MOST = 1000  # bands, layers and fields that are listed; counts include all of them
MAX_GROUPS = 200
HALF = 180.0  # degrees of longitude
CLASSIC = gdal.OF_RASTER | gdal.OF_VECTOR


def kinds_of(path):
    """The dataset kinds to try for a file with this name.

    GDAL treats a table with three numeric columns as a grid of points, which is mostly broken.
    """
    return gdal.OF_VECTOR if path.lower().endswith((".csv", ".tsv")) else CLASSIC


def opened(path, errors, kinds=CLASSIC):
    """Opens a dataset as raster, vector or multidimensional, whichever is not empty; None if it does not open.

    Adds GDAL's messages to `errors`.
    """
    with quiet() as messages:
        dataset = gdal.OpenEx(path, kinds | gdal.OF_VERBOSE_ERROR)
    if dataset is None or not (dataset.RasterCount or dataset.GetLayerCount()):
        # if a raster driver claims a table and fails, GDAL tries no other driver
        for kind in (gdal.OF_VECTOR, gdal.OF_MULTIDIM_RASTER):
            with quiet():
                alternative = gdal.OpenEx(path, kind)
            if alternative is not None and (alternative.GetLayerCount() or kind == gdal.OF_MULTIDIM_RASTER):
                return alternative
    errors.take(messages)
    return dataset


def facts_and_names(path, dataset, *, is_complete=True):
    """The facts and names of an open dataset.

    Unless `is_complete`, nothing is transformed, and only facts that the format stores are read.
    """
    facts = {"driver": dataset.GetDriver().ShortName, "bytes": bytes_of(path)}
    names, parts, count = {}, [], dataset.GetLayerCount()
    if has_pixels(dataset):
        parts.append(raster(dataset, is_complete=is_complete))
    if count:
        rows = [layer_facts_and_names(layer, is_complete=is_complete) for layer in layers_of(dataset, MOST)]
        facts["layer_count"], (facts["layers"], names["layers"]) = count, map(list, zip(*rows, strict=True))
    if not dataset.RasterCount and not count and (group := dataset.GetRootGroup()) is not None:
        parts.append(multidimensional(group))
    for more_facts, more_names in parts:
        facts |= more_facts
        names |= more_names
    if listed := len(dataset.GetSubDatasets() or ()):
        facts["subdatasets"] = listed
    return facts, names


def has_pixels(dataset):
    """True if a dataset is a raster.

    An MBTiles file with vector tiles is not a raster, although GDAL also opens it as an empty one.
    """
    tiles = dataset.GetLayerCount() and dataset.GetDriver().ShortName == "MBTiles"
    return bool(dataset.RasterCount and not tiles)


def has_other_georeferencing(dataset):
    """True if a dataset has ground control points, a camera or sensor model (RPC), or geolocation arrays."""
    return bool(dataset.GetGCPCount() or dataset.GetMetadata("RPC") or dataset.GetMetadata("GEOLOCATION"))


# spellings of units in files, and the names of these units in answers
UNITS = {
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), "metre"),
    **dict.fromkeys(("ft", "foot", "feet", "international foot", "international feet"), "foot"),
    **dict.fromkeys(("us-ft", "us survey foot", "us survey feet", "ftus", "foot_us"), "US survey foot"),
    **dict.fromkeys(("cm", "centimetre", "centimetres", "centimeter", "centimeters"), "centimetre"),
    **dict.fromkeys(("mm", "millimetre", "millimetres", "millimeter", "millimeters"), "millimetre"),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), "kilometre"),
    **dict.fromkeys(("degree", "degrees", "deg"), "degree"),
    **dict.fromkeys(("k", "kelvin"), "kelvin"),
}


def raster(dataset, *, is_complete):
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MOST))]
    crs, extent = dataset.GetSpatialRef(), raster_extent(dataset)
    transform = dataset.GetGeoTransform(can_return_null=True)
    facts = {
        "size": [dataset.RasterXSize, dataset.RasterYSize],
        "band_count": dataset.RasterCount,
        "bands": [],
        "block_size": bands[0].GetBlockSize(),
        "overviews": bands[0].GetOverviewCount(),
        "compression": dataset.GetMetadataItem("COMPRESSION", "IMAGE_STRUCTURE"),
        "crs": crs_facts(crs),
        "extent": extent,
        **({"wgs84": wgs84_box(extent, crs)} if is_complete else {}),
        "pixel_size": pixel_size(transform) if transform else None,
        # also true if columns run from east to west
        "rotated": bool(transform and (transform[2] or transform[4] or transform[1] < 0)),
        "gcps": dataset.GetGCPCount(),
    }
    for band in bands:
        row = {
            "type": gdal.GetDataTypeName(band.DataType),
            "nodata": plain(band.GetNoDataValue()),
            "color": gdal.GetColorInterpretationName(band.GetColorInterpretation()),
        }
        # scale and offset convert stored numbers to values; absent if they change nothing
        for key, value, usual in (("scale", band.GetScale(), 1), ("offset", band.GetOffset(), 0)):
            if value is not None and value != usual:
                row[key] = plain(value)
        if unit := band.GetUnitType():
            row["unit"] = UNITS.get(unit.strip().lower(), "other")
        if bits := band.GetMetadataItem("NBITS", "IMAGE_STRUCTURE"):
            row["bits"] = int(bits) if bits.isdecimal() else None
        facts["bands"].append(row)
    return facts, {"crs": crs and crs.GetName(), "bands": [band.GetDescription() for band in bands]}


def pixel_size(transform):
    """Width and height of a pixel along its own sides, also for a rotated raster, in CRS units."""
    return [plain(math.hypot(transform[1], transform[4])), plain(math.hypot(transform[2], transform[5]))]


def layer_facts_and_names(layer, *, is_complete):
    definition, crs = layer.GetLayerDefn(), layer.GetSpatialRef()
    # some formats read the whole file for count or extent, even without force, unless they report it as fast
    count = layer.GetFeatureCount() if is_complete or layer.TestCapability(ogr.OLCFastFeatureCount) else -1
    extent = None
    if definition.GetGeomFieldCount() and (is_complete or layer.TestCapability(ogr.OLCFastGetExtent)):
        west_first = layer.GetExtent(can_return_null=True)
        extent = [plain(west_first[i]) for i in (0, 2, 1, 3)] if west_first else None
    facts = {
        "geometry": ogr.GeometryTypeToName(layer.GetGeomType()),
        "features": count if count >= 0 else None,
        "field_count": definition.GetFieldCount(),
        "fields": [],
        "crs": crs_facts(crs),
        "extent": extent,
    }
    if is_complete:
        box = wgs84_box(extent, crs)
        # the features may cross the antimeridian
        if box is not None and in_degrees(crs) and box[2] - box[0] > HALF:
            spans = antimeridian_bbox(Survey(layer, Clock(), kinds=()).part_spans)
            box = [spans[0], box[1], spans[1], box[3]] if spans else box
        facts["wgs84"] = box
    listed = fields(definition, MOST)
    for field in listed:
        row = {"type": field.GetTypeName()}
        if field.GetSubType() != ogr.OFSTNone:
            row["subtype"] = ogr.GetFieldSubTypeName(field.GetSubType())
        facts["fields"].append(row)
    names = {"name": layer.GetName(), "crs": crs and crs.GetName()}
    return facts, {**names, "fields": [field.GetName() for field in listed]}


def multidimensional(root):
    groups = [root]  # the root and its subgroups, breadth first; the list grows during the loop
    for group in groups:
        room = MAX_GROUPS - len(groups)
        inner = (group.OpenGroup(name) for name in (group.GetGroupNames() or ())[:room])
        groups += [subgroup for subgroup in inner if subgroup is not None]
    named = [(group, name) for group in groups for name in group.GetMDArrayNames() or ()]
    arrays = [array for group, name in named[:MOST] if (array := group.OpenMDArray(name)) is not None]
    dimensions = [dimension for group in groups for dimension in group.GetDimensions() or ()][:MOST]
    facts = {
        "group_count": len(groups),
        "array_count": len(named),
        "dimensions": [
            {"size": dimension.GetSize(), "kind": dimension.GetType() or None} for dimension in dimensions
        ],
        "arrays": [
            {
                "type": array_type(array.GetDataType()),
                "shape": [dimension.GetSize() for dimension in array.GetDimensions()],
                "nodata": plain(array.GetNoDataValueAsDouble()),
                "block_size": list(array.GetBlockSize() or ()),
                "crs": crs_facts(array.GetSpatialRef()),
            }
            for array in arrays
        ],
    }
    names = {
        "dimensions": [dimension.GetFullName() for dimension in dimensions],
        "arrays": [
            {
                "name": array.GetFullName(),
                "unit": array.GetUnit() or None,
                "dimensions": [dimension.GetName() for dimension in array.GetDimensions()],
                "crs": (crs := array.GetSpatialRef()) and crs.GetName(),
            }
            for array in arrays
        ],
    }
    return facts, names


def array_type(kind):
    if kind.GetClass() == gdal.GEDTC_NUMERIC:
        return gdal.GetDataTypeName(kind.GetNumericDataType())
    return "String" if kind.GetClass() == gdal.GEDTC_STRING else "Compound"


def write_only_driver(path):
    """The driver of a format that this GDAL can write but not read, such as PDF; None for other formats."""
    suffix = os.path.splitext(path)[1][1:].lower()
    if not suffix:
        return None
    drivers = (gdal.GetDriver(i) for i in range(gdal.GetDriverCount()))
    fitting = [
        driver for driver in drivers if suffix in (driver.GetMetadataItem(gdal.DMD_EXTENSIONS) or "").split()
    ]
    if not fitting or any(driver.GetMetadataItem(gdal.DCAP_OPEN) for driver in fitting):
        return None
    return fitting[0].ShortName
