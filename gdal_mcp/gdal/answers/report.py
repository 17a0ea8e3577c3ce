"""What GDAL prints as JSON, and its own report of a dataset as what a caller may be told. Pure.

GDAL writes numbers that are none in two ways, neither of which JSON knows: `NaN` and `Infinity`, or what C's printf makes of
them, such as `inf` in a geotransform. Both are read as the texts "NaN", "Infinity" and "-Infinity".

Invariant: `facts_of_report` holds numbers, switches and GDAL's own words only, under known keys; anything else is left out.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from gdal_mcp.gdal.answers import words

_DEPTH: Final = 20  # of objects and lists in each other: a group in five others, an array in it and its CRS
_MOST: Final = 4096  # items of one list
_KEYS: Final = frozenset(
    """approximate arrays band bands block block_size center checksum colorInterpretation colorTable computedMax
    computedMin coordinateSystem coordinates cornerCoordinates count dataAxisToSRSAxisMapping datatype dimension_size dimensions
    direction driver driverShortName entries extent featureCount fields flags gcpList gcps geoTransform geometryFields groups
    histogram buckets layers line lowerLeft lowerRight mask max maximum mean min minimum noDataValue nodata_value nullable offset
    overviews palette pixel precision scale size srs stdDev subType type uniqueConstraint upperLeft upperRight validPercent
    wgs84Extent width x y z""".split()
)
_SYSTEMS: Final = frozenset({"coordinateSystem", "srs"})
_KEYED_BY_NAME: Final = frozenset({"arrays", "groups"})
_ID_AT_THE_END: Final = re.compile(
    r'ID\["([A-Za-z0-9_]{1,16})",(?:"([A-Za-z0-9_.]{1,24})"|([0-9]{1,9}))\]\]\s*$'
)
_DROP: Final = object()
_Leaf = words.Switch | words.Real | None
# a text as a whole, closed or not, so that no word in it is taken for a number and each character is looked at once
_TEXT_OR_NUMBER = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?<![\w.+-])([+-]?)(nan|inf(?:inity)?)(?![\w.+-])',
    re.IGNORECASE | re.DOTALL,
)


def read_json(text: str) -> Any:
    """The value, not cleaned. Raises ValueError for text that is no JSON even so, RecursionError when it is too deep."""
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        repaired = _TEXT_OR_NUMBER.sub(_as_text, text)
        if repaired == text:
            raise
        return json.loads(repaired, parse_constant=str)


def _as_text(found: re.Match[str]) -> str:
    sign, number = found.groups()
    if number is None:
        return found[0]
    if number[0] in "nN":
        return '"NaN"'
    return '"-Infinity"' if sign == "-" else '"Infinity"'


def facts_of_report(report: Any) -> Mapping[str, Any]:
    """GDAL's own JSON of a raster, vector or multidimensional dataset, in its structure, without any text of the file.

    What GDAL keys by name (arrays and groups of a multidimensional dataset) becomes a list in the same order. A CRS
    becomes its code, where it has one.
    """
    return _facts(report, _DEPTH) if isinstance(report, dict) else {}


@cache
def _known_words() -> frozenset[str]:
    ours = {"group", "array", "MultiPolygon", "RGB", "CMYK", "HLS"}
    fixed = words.DATA_TYPES | words.COLORS | words.GEOMETRIES | words.FIELD_TYPES | words.MULTIDIMENSIONAL
    return words.drivers() | fixed | words.MASKS | ours


def _facts(given: Mapping[str, Any], depth: int) -> dict[str, Any]:
    found = ((key, _fact(key, given[key], depth - 1)) for key in given if key in _KEYS)
    return {key: fact for key, fact in found if fact is not _DROP}


def _fact(key: str, value: Any, depth: int) -> Any:
    if depth == 0:
        return _DROP
    if isinstance(value, dict):
        if key in _SYSTEMS:
            return {"code": _code_of(value.get("wkt")), **_facts(value, depth)}
        if key not in _KEYED_BY_NAME:
            return _facts(value, depth)
        value = list(value.values())
    if isinstance(value, list):
        # what does not fit stays as null, so that lists can be joined by position
        inner = (_fact("", one, depth - 1) for one in value[:_MOST])
        return [None if one is _DROP else one for one in inner]
    if isinstance(value, str) and value in _known_words():
        return value
    try:
        return words.adapter(_Leaf).validate_python(value)
    except ValidationError:
        return _DROP


def _code_of(wkt: Any) -> str | None:
    """The code that a WKT ends with; the WKT itself is text of the file."""
    found = _ID_AT_THE_END.search(wkt[-120:]) if isinstance(wkt, str) else None
    code = f"{found[1]}:{found[2] or found[3]}" if found else None
    try:
        known: str | None = words.adapter(words.CrsCode | None).validate_python(code)
    except ValidationError:
        return None
    return known
