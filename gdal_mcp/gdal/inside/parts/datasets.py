"""What a dataset is: `facts` (numbers, switches, GDAL's own words) and `names` (text of the file), joined by their order."""

import os

from osgeo import gdal, ogr

from gdal_mcp.gdal.inside.parts.extents import (
    crs_facts,
    crs_name,
    layer_extent,
    raster_extent,
    wgs84_box,
)
from gdal_mcp.gdal.inside.parts.outputs import bytes_of
from gdal_mcp.gdal.inside.parts.reporting import Errors, plain, quiet

MOST = 1000  # bands, layers and fields that are listed; the counts are whole
MOST_GROUPS = 200
CLASSIC = gdal.OF_RASTER | gdal.OF_VECTOR


def opened(path, errors):
    """A dataset as raster, vector or multidimensional, whichever holds something; None with what GDAL said in `errors`."""
    with Errors(quiet=True) as heard:
        dataset = gdal.OpenEx(path, CLASSIC | gdal.OF_VERBOSE_ERROR)
    if dataset is None or not (dataset.RasterCount or dataset.GetLayerCount()):
        with quiet():
            found = gdal.OpenEx(path, gdal.OF_MULTIDIM_RASTER)
        if found is not None:
            return found
    errors.take(heard)
    return dataset


def facts_and_names(path, dataset, *, whole=True):
    """Of an open dataset. Unless `whole`, nothing is read that the format does not hold ready, and nothing is transformed."""
    facts, names = {"driver": dataset.GetDriver().ShortName, "bytes": bytes_of(path)}, {}
    parts = []
    if dataset.RasterCount:
        parts.append(raster(dataset, whole=whole))
    if dataset.GetLayerCount():
        parts.append(layers(dataset, whole=whole))
    group = dataset.GetRootGroup() if not parts else None
    if group is not None:
        parts.append(multidimensional(group))
    for more_facts, more_names in parts:
        facts |= more_facts
        names |= more_names
    if listed := len(dataset.GetSubDatasets() or ()):
        facts["subdatasets"] = listed
    return facts, names


def raster(dataset, *, whole):
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MOST))]
    crs, extent = dataset.GetSpatialRef(), raster_extent(dataset)
    transform = dataset.GetGeoTransform(can_return_null=True)
    facts = {
        "size": [dataset.RasterXSize, dataset.RasterYSize],
        "band_count": dataset.RasterCount,
        "bands": [band_facts(band) for band in bands],
        "block_size": bands[0].GetBlockSize(),
        "overviews": bands[0].GetOverviewCount(),
        "compression": dataset.GetMetadataItem("COMPRESSION", "IMAGE_STRUCTURE"),
        "crs": crs_facts(crs),
        "extent": extent,
        **({"wgs84": wgs84_box(extent, crs)} if whole else {}),
        "pixel_size": [plain(abs(transform[1])), plain(abs(transform[5]))] if transform else None,
        "rotated": bool(transform and (transform[2] or transform[4])),
        "gcps": dataset.GetGCPCount(),
    }
    return facts, {"crs": crs_name(crs), "bands": [band.GetDescription() for band in bands]}


def band_facts(band):
    return {
        "type": gdal.GetDataTypeName(band.DataType),
        "nodata": plain(band.GetNoDataValue()),
        "color": gdal.GetColorInterpretationName(band.GetColorInterpretation()),
    }


def layers(dataset, *, whole):
    found = [dataset.GetLayer(i) for i in range(min(dataset.GetLayerCount(), MOST))]
    facts = {
        "layer_count": dataset.GetLayerCount(),
        "layers": [layer_facts(layer, whole=whole) for layer in found],
    }
    return facts, {"layers": [layer_names(layer) for layer in found]}


def layer_facts(layer, *, whole):
    definition, crs = layer.GetLayerDefn(), layer.GetSpatialRef()
    # some formats read the whole file for what they are asked without force; what they call fast they hold ready
    count = layer.GetFeatureCount() if whole or layer.TestCapability(ogr.OLCFastFeatureCount) else -1
    extent = layer_extent(layer) if whole or layer.TestCapability(ogr.OLCFastGetExtent) else None
    return {
        "geometry": ogr.GeometryTypeToName(layer.GetGeomType()),
        "features": count if count >= 0 else None,
        "field_count": definition.GetFieldCount(),
        "fields": [field_facts(field) for field in fields(definition)],
        "crs": crs_facts(crs),
        "extent": extent,
        **({"wgs84": wgs84_box(extent, crs)} if whole else {}),
    }


def fields(definition):
    return [definition.GetFieldDefn(i) for i in range(min(definition.GetFieldCount(), MOST))]


def field_facts(field):
    facts = {"type": field.GetTypeName()}
    if field.GetSubType() != ogr.OFSTNone:
        facts["subtype"] = ogr.GetFieldSubTypeName(field.GetSubType())
    return facts


def layer_names(layer):
    return {
        "name": layer.GetName(),
        "crs": crs_name(layer.GetSpatialRef()),
        "fields": [field.GetName() for field in fields(layer.GetLayerDefn())],
    }


def multidimensional(root):
    groups = below(root)
    arrays = [(group, name) for group in groups for name in group.GetMDArrayNames() or ()]
    opened_arrays = [group.OpenMDArray(name) for group, name in arrays[:MOST]]
    opened_arrays = [array for array in opened_arrays if array is not None]
    dimensions = [one for group in groups for one in group.GetDimensions() or ()][:MOST]
    facts = {
        "group_count": len(groups),
        "array_count": len(arrays),
        "dimensions": [{"size": one.GetSize(), "kind": one.GetType() or None} for one in dimensions],
        "arrays": [array_facts(array) for array in opened_arrays],
    }
    names = {
        "dimensions": [one.GetFullName() for one in dimensions],
        "arrays": [array_names(array) for array in opened_arrays],
    }
    return facts, names


def below(root):
    """The root and the groups in it, breadth first; never more than MOST_GROUPS."""
    groups = [root]
    for group in groups:
        room = MOST_GROUPS - len(groups)
        inner = (group.OpenGroup(name) for name in (group.GetGroupNames() or ())[:room])
        groups += [one for one in inner if one is not None]
    return groups


def array_facts(array):
    return {
        "type": array_type(array.GetDataType()),
        "shape": [one.GetSize() for one in array.GetDimensions()],
        "nodata": plain(array.GetNoDataValueAsDouble()),
        "block_size": list(array.GetBlockSize() or ()),
        "crs": crs_facts(array.GetSpatialRef()),
    }


def array_type(kind):
    if kind.GetClass() == gdal.GEDTC_NUMERIC:
        return gdal.GetDataTypeName(kind.GetNumericDataType())
    return "String" if kind.GetClass() == gdal.GEDTC_STRING else "Compound"


def array_names(array):
    return {
        "name": array.GetFullName(),
        "unit": array.GetUnit() or None,
        "dimensions": [one.GetName() for one in array.GetDimensions()],
        "crs": crs_name(array.GetSpatialRef()),
    }


def write_only_driver(path):
    """The driver of a format that GDAL here writes and cannot read, such as PDF; None for all others."""
    suffix = os.path.splitext(path)[1][1:].lower()
    if not suffix:
        return None
    drivers = (gdal.GetDriver(i) for i in range(gdal.GetDriverCount()))
    fitting = [one for one in drivers if suffix in (one.GetMetadataItem(gdal.DMD_EXTENSIONS) or "").split()]
    if not fitting or any(one.GetMetadataItem(gdal.DCAP_OPEN) for one in fitting):
        return None
    return fitting[0].ShortName
