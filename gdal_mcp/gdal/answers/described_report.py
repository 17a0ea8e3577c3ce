"""GDAL's own report of a dataset, as what a caller may be told. Pure.

Invariant: `facts_of_report` holds numbers, switches and GDAL's own words only, under known keys; anything else is left out.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.gdal.answers import described_words as words
from gdal_mcp.gdal.answers.described import MOST_ARRAYS, MOST_BANDS, MOST_FIELDS, MOST_LAYERS
from gdal_mcp.gdal.answers.described_words import (
    DRIVER,
    DROP,
    TYPE,
    Rule,
    count,
    crs_code,
    items,
    kept,
    number,
    real,
    rows,
    shaped,
    switch,
    whole,
    word,
)

_DEPTH: Final = 5  # of groups in groups


def facts_of_report(report: Any) -> Mapping[str, Any]:
    """GDAL's own JSON of a raster, vector or multidimensional dataset, in its structure, without any text of the file.

    What GDAL keys by name (arrays and groups of a multidimensional dataset) becomes a list in the same order. A CRS
    becomes its code, where it has one.
    """
    return kept(_REPORT, report)


_ID_AT_THE_END: Final = re.compile(
    r'ID\["([A-Za-z0-9_]{1,16})",(?:"([A-Za-z0-9_.]{1,24})"|(\d{1,9}))\]\]\s*$'
)


def _system(value: Any) -> Any:
    """A coordinate system, told by the code that its WKT ends with; the WKT itself is text of the file."""
    if not isinstance(value, dict):
        return DROP
    wkt = value.get("wkt")
    match = _ID_AT_THE_END.search(wkt[-120:]) if isinstance(wkt, str) else None
    code = crs_code(f"{match[1]}:{match[2] or match[3]}") if match else DROP
    axes = whole(number, {2, 3})(value.get("dataAxisToSRSAxisMapping"))
    told = {"code": None if code is DROP else code, "dataAxisToSRSAxisMapping": axes}
    return {key: one for key, one in told.items() if one is not DROP}


_POINT: Final = whole(number, {2, 3})
_SIZE: Final = whole(count, {2})
_OVERVIEWS: Final = items(shaped({"size": _SIZE, "checksum": count}), 64)
_STATISTICS: Final = dict.fromkeys(
    (
        "minimum",
        "maximum",
        "mean",
        "stdDev",
        "min",
        "max",
        "computedMin",
        "computedMax",
        "validPercent",
        "approximate",
    ),
    real,
)
_REPORT_BAND: Final = shaped(
    {
        "band": count,
        "block": _SIZE,
        "type": TYPE,
        "colorInterpretation": word(words.COLORS),
        "noDataValue": real,
        **_STATISTICS,
        "checksum": count,
        "scale": real,
        "offset": real,
        "histogram": shaped({"count": count, "min": real, "max": real, "buckets": items(count, 4096)}),
        "overviews": _OVERVIEWS,
        "mask": shaped({"flags": items(word(words.MASKS), 4), "overviews": _OVERVIEWS}),
        "colorTable": shaped(
            {
                "palette": word({"Gray", "RGB", "CMYK", "HLS"}),
                "count": count,
                "entries": items(whole(count, {4}), 256),
            }
        ),
    }
)
_CORNERS: Final = shaped(
    dict.fromkeys(("upperLeft", "lowerLeft", "lowerRight", "upperRight", "center"), _POINT)
)
_AREA: Final = shaped(
    {"type": word({"Polygon", "MultiPolygon"}), "coordinates": items(items(items(number, 3), 400), 8)}
)
_REPORT_FIELD: Final = shaped(
    {
        "type": word(words.FIELD_TYPES),
        "subType": word(words.FIELD_TYPES),
        "width": count,
        "precision": count,
        "nullable": switch,
        "uniqueConstraint": switch,
    }
)
_REPORT_LAYER: Final = shaped(
    {
        "featureCount": count,
        "geometryFields": items(
            shaped(
                {
                    "type": word(words.GEOMETRIES),
                    "nullable": switch,
                    "extent": whole(number, {4, 6}),
                    "coordinateSystem": _system,
                }
            ),
            20,
        ),
        "fields": items(_REPORT_FIELD, MOST_FIELDS),
    }
)
_REPORT_ARRAY: Final = shaped(
    {
        "datatype": TYPE,
        "dimension_size": items(count, 32),
        "block_size": items(count, 32),
        "nodata_value": real,
        "scale": real,
        "offset": real,
        "srs": _system,
    }
)
_DIMENSION: Final = shaped(
    {"size": count, "type": word(words.DIMENSIONS), "direction": word(words.DIRECTIONS)}
)


def _group(depth: int) -> Rule:
    keys: dict[str, Rule] = {
        "type": word({"group", "array"}),
        "driver": DRIVER,
        "dimensions": items(_DIMENSION, MOST_ARRAYS),
        "arrays": rows(_REPORT_ARRAY, MOST_ARRAYS),
    }
    if depth:
        keys["groups"] = rows(_group(depth - 1), MOST_LAYERS)
    return shaped(keys)


def _report(value: Any) -> Any:
    """A report of a group, else one of a raster or of layers or of both."""
    is_group = isinstance(value, dict) and ("arrays" in value or value.get("type") in ("group", "array"))
    return (_GROUP if is_group else _DATASET)(value)


_GROUP: Final = _group(_DEPTH)
_DATASET: Final = shaped(
    {
        "driverShortName": DRIVER,
        "size": _SIZE,
        "coordinateSystem": _system,
        "geoTransform": whole(number, {6}),
        "cornerCoordinates": _CORNERS,
        "wgs84Extent": _AREA,
        "gcps": shaped(
            {
                "coordinateSystem": _system,
                "gcpList": items(shaped(dict.fromkeys(("pixel", "line", "x", "y", "z"), number)), 1000),
            }
        ),
        "bands": items(_REPORT_BAND, MOST_BANDS),
        "layers": items(_REPORT_LAYER, MOST_LAYERS),
    }
)
_REPORT: Final = _report
