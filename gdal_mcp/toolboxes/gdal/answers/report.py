"""Reads JSON that GDAL prints, and converts GDAL's report of a dataset to a result for callers. Pure.

GDAL writes non-finite numbers in two ways that are not valid JSON: `NaN` and `Infinity`, or the output of C's printf,
such as `inf` in a geotransform. Both are read as the texts "NaN", "Infinity" and "-Infinity".

Invariant: `facts_of_report` contains only numbers, switches and GDAL's own words under known keys; everything else is
left out. `summary` contains each fact once, keeps GDAL's structure and names, and has all other text under
`untrusted`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from gdal_mcp.toolboxes.base import CallAnswer
from gdal_mcp.toolboxes.gdal.answers import words
from gdal_mcp.toolboxes.gdal.catalogue.load import adapter
from gdal_mcp.toolboxes.shortening import STEPS, json_text, truncate, truncation
from gdal_mcp.toolboxes.untrusted import UNTRUSTED

_DEPTH: Final = 20  # nesting of objects and lists: a group inside five others, with an array and its CRS
_MOST: Final = 4096  # items of one list
_FEWER: Final[Mapping[str, int]] = {"bands": 32, "gcpList": 10}  # a truncation mark has the full count
_TEXTS: Final = 800  # bytes of JSON for metadata and other texts in a summary, without names
_SOME: Final = (8, 200)  # items of metadata and similar objects, characters of each text
_SMALL: Final = 200  # characters of JSON; a smaller geometry is shown completely
_KEYS: Final = frozenset(
    """approximate arrays arrowTypes band bands block block_size checksum colorInterpretation colorTable computedMax computedMin coordinateEpoch coordinateSystem
    coordinates count datatype dimension_size dimensions direction driver driverShortName extent featureCount fields flags gcpList
    gcps geoTransform geometryFields groups histogram buckets layers line mask max maximum mean min minimum noDataValue nodata_value
    offset overviews palette pixel scale size srs stdDev type validPercent wgs84Extent x y z""".split()
)
# keys of a dataset that are left out: they repeat the call's arguments or a fact, or are documents of a CRS
_REPEATED: Final = frozenset({"description", "driverLongName", "files", "stac", "cornerCoordinates"})
_PARTS: Final = "SUBDATASETS"  # metadata domain with names that a caller can pass in other calls
_MAX_PARTS: Final = (200, 1000)  # items, and characters of each
_TWICE: Final = frozenset({"full_name", "datatype", "dimension_size", "block_size", "indexing_variable"})
_SYSTEMS: Final = frozenset({"coordinateSystem", "srs"})
_KEYED_BY_NAME: Final = frozenset({"arrays", "groups"})
_ID_AT_THE_END: Final = re.compile(
    r'ID\["([A-Za-z0-9_]{1,16})",(?:"([A-Za-z0-9_.]{1,24})"|([0-9]{1,9}))\](?:,\s*REMARK\["(?:[^"]|"")*"\])?\]\s*$'
)
_END: Final = 2000  # characters at the end of a WKT that can contain the code and a remark
_EPOCH: Final = words.shape(coordinateEpoch=words.Number)
_NAME: Final = re.compile(r'[A-Z]+\["((?:[^"]|"")*)"')
_KIND: Final = re.compile(r"\b(COMPOUND|PROJ|GEOG|GEOD|VERT|ENG)CRS\[")
_KINDS: Final = {
    "COMPOUND": "compound", "PROJ": "projected", "GEOG": "geographic", "GEOD": "geocentric", "VERT": "vertical", "ENG": "local",
}  # fmt: skip
_AXES: Final = re.compile(r"\bCS\[(?:Cartesian|ellipsoidal),")
_UNIT: Final = re.compile(r'\b(LENGTHUNIT|ANGLEUNIT)\["[^"]{0,60}",([0-9.eE+-]{1,24})')
_SAME_UNIT: Final = 1e-9
_DROP: Final = object()
_Leaf = words.Flag | words.Real | None
# Matches a string as a whole, closed or not, so that no word in it is taken for a number and each character is scanned
# once.
_TEXT_OR_NUMBER = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)|(?<![\w.+-])([+-]?)(nan|inf(?:inity)?)(?![\w.+-])',
    re.IGNORECASE | re.DOTALL,
)


def read_json(text: str) -> Any:
    """Reads JSON, including GDAL's non-finite numbers. The value is not cleaned.

    Raises ValueError for text that is still not JSON, and RecursionError for too deep nesting.
    """
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        repaired = _TEXT_OR_NUMBER.sub(_as_text, text)
        if repaired == text:
            raise
        return json.loads(repaired, parse_constant=str)


def _as_text(match: re.Match[str]) -> str:
    sign, number = match.groups()
    if number is None:
        return match[0]
    if number[0] in "nN":
        return '"NaN"'
    return '"-Infinity"' if sign == "-" else '"Infinity"'


def facts_of_report(report: Any) -> Mapping[str, Any]:
    """The facts in GDAL's JSON of a raster, vector or multidimensional dataset, without any text from the file.

    The structure is GDAL's. Objects with names as keys (arrays and groups of a multidimensional dataset) become lists
    in the same order. A CRS becomes its code, if it has one, and its kind; the fields of a layer become their types.
    The extent of a raster is [xmin, ymin, xmax, ymax] in its CRS; the extent in degrees is left out if it would be
    the same.
    """
    if not isinstance(report, dict):
        return {}
    facts = _facts(report, _DEPTH)
    if box := _extent(facts.get("geoTransform"), facts.get("size")):
        facts["extent"] = box
    if (
        "bands" in report
        and not {"coordinateSystem", "gcps"} & report.keys()
        and not _placed_otherwise(report)
    ):
        facts["coordinateSystem"] = None  # explicit, because a missing key would mean unknown
    system = facts.get("coordinateSystem")
    if isinstance(system, dict) and system.get("kind") == "geographic":
        facts.pop("wgs84Extent", None)
    return facts


def _placed_otherwise(report: Mapping[str, Any]) -> bool:
    """True if a raster is georeferenced by RPC coefficients or geolocation arrays instead of its own CRS."""
    metadata = report.get("metadata")
    return isinstance(metadata, Mapping) and bool({"RPC", "GEOLOCATION"} & metadata.keys())


def summary(answer: CallAnswer) -> Mapping[str, Any]:
    """The facts of a report, and its texts under `untrusted`: all names, and as much of the rest as fits.

    Large geometries become bounding boxes.
    """
    report = answer.parsed
    if not isinstance(report, dict):
        return full_report(answer)
    systems: dict[str, str] = {}
    rest = {key: value for key, value in report.items() if key not in _REPEATED}
    metadata = rest.get("metadata")
    parts = None
    if isinstance(metadata, dict) and (parts := truncate(metadata.get(_PARTS), _MAX_PARTS)):
        rest["metadata"] = {key: value for key, value in metadata.items() if key != _PARTS}
    texts = _texts(rest, systems)
    names = [name for name in ("layers", "arrays", "groups", "dimensions") if name in texts]
    brief = {name: _brief(texts.pop(name)) for name in names} | ({"crs": systems} if systems else {})
    texts = next(
        shorter for step in STEPS if len(json_text(shorter := truncate(texts, step)).encode()) <= _TEXTS
    )
    if parts:
        texts["metadata"] = {_PARTS: parts, **texts.get("metadata", {})}
    return {**facts_of_report(report), UNTRUSTED: {"report": brief | texts} if brief or texts else {}}


def _brief(names: Any) -> Any:
    """Texts of arrays and dimensions without keys that repeat a fact or another text."""
    if isinstance(names, list):
        return [_brief(part) for part in names]
    if isinstance(names, dict):
        return {key: _brief(part) for key, part in names.items() if key not in _TWICE}
    return names


def full_report(answer: CallAnswer) -> Mapping[str, Any]:
    """The facts of a report, and the whole report under `untrusted`."""
    printed = {"text": answer.printed} if answer.parsed is None else {"report": answer.parsed}
    return {**facts_of_report(answer.parsed), UNTRUSTED: printed}


def _extent(transform: Any, size: Any) -> list[float] | None:
    """The bounding box of a raster's four corners, in CRS units; None without a valid geotransform and size.

    Rounded to 15 digits, because further digits are errors of the sums.
    """
    try:
        x, dx, rx, y, ry, dy = transform
        width, height = size
        corners = [(px, py) for px in (0, width) for py in (0, height)]
        xs = [float(f"{x + px * dx + py * rx:.15g}") for px, py in corners]
        ys = [float(f"{y + px * ry + py * dy:.15g}") for px, py in corners]
    except (TypeError, ValueError):
        return None
    return [min(xs), min(ys), max(xs), max(ys)]


def _texts(entries: Mapping[str, Any], systems: dict[str, str]) -> dict[str, Any]:
    """The texts of an object that the facts leave out, in the same structure.

    Names of CRSs that have a code are added to `systems`.
    """
    texts = ((key, _text(key, value, systems)) for key, value in entries.items() if key != "supportedSRSList")
    return {key: text for key, text in texts if text or (isinstance(text, dict) and key in _KEYED_BY_NAME)}


def _text(key: str, value: Any, systems: dict[str, str]) -> Any:
    if key in _SYSTEMS:
        wkt = value.get("wkt") if isinstance(value, dict) else None
        match = _NAME.match(wkt) if isinstance(wkt, str) else None
        name, code = match[1] if match else "", _code_of(wkt)
        if code is not None:
            systems[code] = name
        return name if code is None else None
    if isinstance(value, str):
        return value if key not in _KEYS or _fact(key, value, 1) is _DROP else None
    if isinstance(value, dict):
        if key in _KEYED_BY_NAME:
            return {
                name: _texts(entry, systems) if isinstance(entry, dict) else {}
                for name, entry in value.items()
            }
        return _texts(value, systems) if key in _KEYS else truncate(_filled(value), _SOME)
    if isinstance(value, list):
        rows = [_item(key, entry, systems) for entry in value]
        return rows if any(rows) else None
    return None


def _item(key: str, entry: Any, systems: dict[str, str]) -> Any:
    """The text of a list item; for a field, only its name."""
    if key == "features":
        return _feature(entry)
    if isinstance(entry, dict):
        return entry.get("name") if key == "fields" else _texts(entry, systems)
    return entry if isinstance(entry, str) and entry not in _known_words() else None


def _filled(value: Any) -> Any:
    """The value without keys that have an empty value."""
    if not isinstance(value, dict):
        return value
    return {key: full for key, part in value.items() if (full := _filled(part)) not in ("", {}, [], None)}


def _feature(feature: Any) -> Any:
    """A feature with its geometry if it is small, else with geometry type, number of points and bounding box."""
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    if not isinstance(geometry, dict) or len(json_text(geometry)) <= _SMALL:
        return feature
    points = list(_points(geometry))
    box = [least(point[i] for point in points) for least in (min, max) for i in (0, 1)] if points else None
    return {**feature, "geometry": {"type": geometry.get("type"), "points": len(points), "bbox": box}}


def _points(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = value.get("coordinates", value.get("geometries"))
    if (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(number, int | float) for number in value)
    ):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _points(part)


@cache
def _known_words() -> frozenset[str]:
    ours = {"group", "array", "MultiPolygon", "RGB", "CMYK", "HLS"}
    fixed = words.DATA_TYPES | words.COLORS | words.GEOMETRIES | words.FIELD_TYPES | words.MULTIDIMENSIONAL
    return words.drivers() | fixed | words.MASKS | words.ARROW_TYPES | ours


def _facts(entries: Mapping[str, Any], depth: int) -> dict[str, Any]:
    facts = ((key, _fact(key, entries[key], depth - 1)) for key in entries if key in _KEYS)
    return {key: fact for key, fact in facts if fact is not _DROP}


def _fact(key: str, value: Any, depth: int) -> Any:
    if depth == 0:
        return _DROP
    if key == "fields":
        fields = value[:_MOST] if isinstance(value, list) else []
        return [
            (isinstance(field, dict) and words.field_type(field.get("type"), field.get("subType"))) or None
            for field in fields
        ]
    if isinstance(value, dict):
        if key in _SYSTEMS:
            wkt = value.get("wkt")
            kind = _KIND.search(wkt) if isinstance(wkt, str) else None
            return {
                "code": _code_of(wkt),
                **({"kind": _KINDS[kind[1]]} if kind else {}),
                **_unit(wkt),
                **words.valid_parts(_EPOCH, value),
            }
        if key not in _KEYED_BY_NAME:
            return _facts(value, depth)
        value = list(value.values())
    if isinstance(value, list):
        # invalid items become null, so that lists can be joined by position
        most = _FEWER.get(key, _MOST)
        inner = (_fact("", entry, depth - 1) for entry in value[:most])
        rows = [None if fact is _DROP else fact for fact in inner]
        return rows if len(value) <= most else [*rows, truncation(most, len(value))]
    if isinstance(value, str) and value in _known_words():
        return value
    try:
        return adapter(_Leaf).validate_python(value)
    except ValidationError:
        return _DROP


def _unit(wkt: Any) -> Mapping[str, float]:
    """The size of a coordinate unit in metres or degrees; empty for the metre and the degree."""
    axes = _AXES.search(wkt) if isinstance(wkt, str) else None
    if axes is None:
        return {}
    match = _UNIT.search(wkt, axes.end())
    size = float(match[2]) if match else 0.0
    if not match or not math.isfinite(size) or size <= 0:
        return {}
    if match[1] == "ANGLEUNIT":
        degrees = size * 180 / math.pi
        return {} if abs(degrees - 1) < _SAME_UNIT else {"unit_degrees": round(degrees, 12)}
    return {} if abs(size - 1) < _SAME_UNIT else {"unit_metres": size}


def _code_of(wkt: Any) -> str | None:
    """The authority code at the end of a WKT, whose other text comes from the file; None without a valid code."""
    match = _ID_AT_THE_END.search(wkt[-_END:]) if isinstance(wkt, str) else None
    code = f"{match[1]}:{match[2] or match[3]}" if match else None
    try:
        known: str | None = adapter(words.CrsCode | None).validate_python(code)
    except ValidationError:
        return None
    return known
