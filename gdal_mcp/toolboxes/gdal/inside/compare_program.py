"""The handler inside the container that describes the content of datasets, so that they can be compared.

`sandbox/worker.py` receives it as text. Pixels, features and arrays are digested completely, not sampled. The order
of features, feature ids, metadata, statistics and block layout are ignored. A dataset that cannot be digested is
reported as a `problem`, never omitted.
"""

import hashlib
import json
from typing import Any

MAX_ROWS = 4 << 20  # bytes of pixels that are read at a time; at least one row
MAX_ARRAY = 256 << 20  # bytes of the largest multidimensional array that is digested
_WIDE = 1 << 256

gdal: Any = None


def prepare() -> None:
    global gdal
    from osgeo import gdal as loaded
    from osgeo import ogr, osr

    gdal = loaded
    for module in (gdal, ogr, osr):
        module._UseExceptions()


def run(job: dict[str, Any], _report: Any) -> dict[str, Any]:
    return {"code": 0, "datasets": [describe(path) for path in job["inputs"]]}


def describe(path: str) -> dict[str, Any]:
    """The description of a dataset; if the dataset cannot be described, `problem` with the name of the exception."""
    try:
        dataset = gdal.OpenEx(path, gdal.OF_RASTER | gdal.OF_VECTOR)
        layers = [dataset.GetLayer(i) for i in range(dataset.GetLayerCount())]
        if not dataset.RasterCount and not layers:
            return {"arrays": list(arrays(gdal.OpenEx(path, gdal.OF_MULTIDIM_RASTER).GetRootGroup(), ""))}
        description: dict[str, Any] = {"driver": dataset.GetDriver().ShortName}
        if dataset.RasterCount:
            description |= raster(dataset)
        if layers:
            description["layers"] = [
                layer(ogr_layer)
                for ogr_layer in sorted(layers, key=lambda ogr_layer: str(ogr_layer.GetName()))
            ]
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return {"problem": type(error).__name__}
    return description


def raster(dataset: Any) -> dict[str, Any]:
    transform = dataset.GetGeoTransform(can_return_null=True)
    return {
        "size": [dataset.RasterXSize, dataset.RasterYSize],
        "geotransform": [repr(value) for value in transform] if transform else None,
        "gcps": [
            repr((gcp.GCPPixel, gcp.GCPLine, gcp.GCPX, gcp.GCPY, gcp.GCPZ)) for gcp in dataset.GetGCPs()
        ],
        "crs": dataset.GetProjection(),
        "bands": [band(dataset.GetRasterBand(i + 1)) for i in range(dataset.RasterCount)],
    }


def band(gdal_band: Any) -> dict[str, Any]:
    colors = gdal_band.GetColorTable()
    return {
        "type": gdal.GetDataTypeName(gdal_band.DataType),
        "nodata": repr(gdal_band.GetNoDataValue()),
        "color": gdal.GetColorInterpretationName(gdal_band.GetColorInterpretation()),
        "palette": [list(colors.GetColorEntry(i)) for i in range(colors.GetCount())] if colors else None,
        "overviews": gdal_band.GetOverviewCount(),
        "pixels": pixels(gdal_band),
        "mask": ""
        if gdal_band.GetMaskFlags() & (gdal.GMF_ALL_VALID | gdal.GMF_NODATA)
        else pixels(gdal_band.GetMaskBand()),
    }


def pixels(gdal_band: Any) -> str:
    """The SHA-256 of the pixels, row by row from the top, in the machine's byte order."""
    total = hashlib.sha256()
    width = gdal_band.XSize * gdal.GetDataTypeSizeBytes(gdal_band.DataType)
    block = gdal_band.GetBlockSize()[1]
    # whole blocks, so that no block is decoded twice
    rows = max(1, MAX_ROWS // max(width, 1) // block * block)
    for top in range(0, gdal_band.YSize, rows):
        total.update(gdal_band.ReadRaster(0, top, gdal_band.XSize, min(rows, gdal_band.YSize - top)))
    return total.hexdigest()


def layer(gdal_layer: Any) -> dict[str, Any]:
    definition = gdal_layer.GetLayerDefn()
    fields = [definition.GetFieldDefn(i) for i in range(definition.GetFieldCount())]
    shapes = [definition.GetGeomFieldDefn(i) for i in range(definition.GetGeomFieldCount())]
    count = values = geometries = 0
    for feature in gdal_layer:
        count += 1
        parts = [feature.GetGeomFieldRef(i) for i in range(len(shapes))]
        drawn = ["" if geometry is None else bytes(geometry.ExportToIsoWkb()).hex() for geometry in parts]
        geometries = (geometries + number(drawn)) % _WIDE
        values = (values + number([drawn, [value(feature, i) for i in range(len(fields))]])) % _WIDE
    return {
        "name": gdal_layer.GetName(),
        "fields": [[field.GetName(), field.GetTypeName(), field.GetSubType()] for field in fields],
        "geometry": [shape.GetType() for shape in shapes],
        "crs": [shape.GetSpatialRef().ExportToWkt() if shape.GetSpatialRef() else "" for shape in shapes],
        "features": count,
        "geometries": f"{geometries:064x}",
        "values": f"{values:064x}",
    }


def value(feature: Any, index: int) -> Any:
    """A field's value as text, or as hexadecimal bytes if it is not UTF-8; None if unset or null."""
    if not feature.IsFieldSetAndNotNull(index):
        return None
    try:
        return feature.GetFieldAsString(index)
    except UnicodeDecodeError:
        return bytes(feature.GetFieldAsBinary(index)).hex()


def number(what: Any) -> int:
    """A digest as a number. Digests are summed, so the order of the features does not matter."""
    return int.from_bytes(hashlib.sha256(json.dumps(what).encode()).digest(), "big")


def arrays(group: Any, path: str) -> Any:
    """Yields every array of a group and its subgroups, with its path."""
    for name in group.GetMDArrayNames() or ():
        yield {"path": f"{path}/{name}", **array(group.OpenMDArray(name))}
    for name in group.GetGroupNames() or ():
        yield from arrays(group.OpenGroup(name), f"{path}/{name}")


def array(gdal_array: Any) -> dict[str, Any]:
    kind = gdal_array.GetDataType()
    sizes = [dimension.GetSize() for dimension in gdal_array.GetDimensions()]
    length = kind.GetSize()
    for size in sizes:
        length *= size
    if length > MAX_ARRAY:
        raise ValueError("too long")
    data = gdal_array.Read()
    text = data if isinstance(data, bytes | bytearray) else json.dumps(data).encode()
    return {"type": kind.GetName(), "sizes": sizes, "data": hashlib.sha256(text).hexdigest()}
