"""What GDAL prints as JSON, and its own report of a dataset as what a caller may be told. Pure.

GDAL writes numbers that are none in two ways, neither of which JSON knows: `NaN` and `Infinity`, or what C's printf makes of
them, such as `inf` in a geotransform. Both are read as the texts "NaN", "Infinity" and "-Infinity".

Invariant: `facts_of_report` holds numbers, switches and GDAL's own words only, under known keys; anything else is left out.
`summary` says each fact once, keeps GDAL's structure and names, and has all other text under `untrusted`.
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
from gdal_mcp.untrusted import UNTRUSTED

_DEPTH: Final = 20  # of objects and lists in each other: a group in five others, an array in it and its CRS
_MOST: Final = 4096  # items of one list
_FEWER: Final[Mapping[str, int]] = {"bands": 32, "gcpList": 10}  # a mark says how many there are
_TEXTS: Final = 800  # bytes of JSON that metadata and other texts of a summary may take, names not counted
_SOME: Final = (8, 200)  # items of metadata and the like, characters of each text
_SMALL: Final = 200  # bytes of JSON of a geometry that is shown whole
_KEYS: Final = frozenset(
    """approximate arrays arrowTypes band bands block block_size checksum colorInterpretation colorTable computedMax computedMin coordinateSystem
    coordinates count datatype dimension_size dimensions direction driver driverShortName extent featureCount fields flags gcpList
    gcps geoTransform geometryFields groups histogram buckets layers line mask max maximum mean min minimum noDataValue nodata_value
    offset overviews palette pixel scale size srs stdDev type validPercent wgs84Extent x y z""".split()
)
# of a whole dataset: what the caller said, what a fact says as well, and documents of a CRS
_REPEATED: Final = frozenset({"description", "driverLongName", "files", "stac", "cornerCoordinates"})
_PARTS: Final = "SUBDATASETS"  # of metadata: names that a caller gives back
_KEPT_PARTS: Final = (200, 1000)  # items and characters of them
_TWICE: Final = frozenset({"full_name", "datatype", "dimension_size", "block_size", "indexing_variable"})
_SYSTEMS: Final = frozenset({"coordinateSystem", "srs"})
_KEYED_BY_NAME: Final = frozenset({"arrays", "groups"})
_ID_AT_THE_END: Final = re.compile(
    r'ID\["([A-Za-z0-9_]{1,16})",(?:"([A-Za-z0-9_.]{1,24})"|([0-9]{1,9}))\]\]\s*$'
)
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

    What GDAL keys by name (arrays and groups of a multidimensional dataset) becomes a list in the same order. A CRS becomes
    its code, where it has one, and its kind; the fields of a layer become their types. The extent of a raster is
    [xmin, ymin, xmax, ymax] in its CRS; that in degrees is left out where it would be the same.
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
        facts["coordinateSystem"] = None  # said, as a missing key says nothing
    system = facts.get("coordinateSystem")
    if isinstance(system, dict) and system.get("kind") == "geographic":
        facts.pop("wgs84Extent", None)
    return facts


def _placed_otherwise(report: Mapping[str, Any]) -> bool:
    """Whether GDAL finds the place of a raster by coefficients or arrays instead of a CRS of its own."""
    metadata = report.get("metadata")
    return isinstance(metadata, Mapping) and bool({"RPC", "GEOLOCATION"} & metadata.keys())


def summary(answer: CallAnswer) -> Mapping[str, Any]:
    """The facts of a report, and under `untrusted` its texts: all names, and of the rest what fits. Geometries become boxes."""
    report = answer.parsed
    if not isinstance(report, dict):
        return whole(answer)
    systems: dict[str, str] = {}
    rest = {key: value for key, value in report.items() if key not in _REPEATED}
    metadata = rest.get("metadata")
    parts = None
    if isinstance(metadata, dict) and (parts := truncate(metadata.get(_PARTS), _KEPT_PARTS)):
        rest["metadata"] = {key: value for key, value in metadata.items() if key != _PARTS}
    texts = _texts(rest, systems)
    names = [name for name in ("layers", "arrays", "groups", "dimensions") if name in texts]
    kept = {name: _brief(texts.pop(name)) for name in names} | ({"crs": systems} if systems else {})
    texts = next(found for step in STEPS if len(json_text(found := truncate(texts, step)).encode()) <= _TEXTS)
    if parts:
        texts["metadata"] = {_PARTS: parts, **texts.get("metadata", {})}
    return {**facts_of_report(report), UNTRUSTED: {"report": kept | texts} if kept or texts else {}}


def _brief(names: Any) -> Any:
    """Without what stands in the facts, or twice, of arrays and dimensions."""
    if isinstance(names, list):
        return [_brief(one) for one in names]
    if isinstance(names, dict):
        return {key: _brief(one) for key, one in names.items() if key not in _TWICE}
    return names


def whole(answer: CallAnswer) -> Mapping[str, Any]:
    """The facts of a report, and all of it under `untrusted`."""
    printed = {"text": answer.printed} if answer.parsed is None else {"report": answer.parsed}
    return {**facts_of_report(answer.parsed), UNTRUSTED: printed}


def _extent(transform: Any, size: Any) -> list[float] | None:
    """Around all four corners. To 15 digits: what is beyond them comes from the sums."""
    try:
        x, dx, rx, y, ry, dy = transform
        width, height = size
        corners = [(px, py) for px in (0, width) for py in (0, height)]
        xs = [float(f"{x + px * dx + py * rx:.15g}") for px, py in corners]
        ys = [float(f"{y + px * ry + py * dy:.15g}") for px, py in corners]
    except (TypeError, ValueError):
        return None
    return [min(xs), min(ys), max(xs), max(ys)]


def _texts(given: Mapping[str, Any], systems: dict[str, str]) -> dict[str, Any]:
    """What the facts leave out of an object, in its structure; names of CRSs that have a code go into `systems`."""
    found = ((key, _text(key, value, systems)) for key, value in given.items() if key != "supportedSRSList")
    return {key: text for key, text in found if text or (isinstance(text, dict) and key in _KEYED_BY_NAME)}


def _text(key: str, value: Any, systems: dict[str, str]) -> Any:
    if key in _SYSTEMS:
        wkt = value.get("wkt") if isinstance(value, dict) else None
        found = _NAME.match(wkt) if isinstance(wkt, str) else None
        name, code = found[1] if found else "", _code_of(wkt)
        if code is not None:
            systems[code] = name
        return name if code is None else None
    if isinstance(value, str):
        return value if key not in _KEYS or _fact(key, value, 1) is _DROP else None
    if isinstance(value, dict):
        if key in _KEYED_BY_NAME:
            return {
                name: _texts(one, systems) if isinstance(one, dict) else {} for name, one in value.items()
            }
        return _texts(value, systems) if key in _KEYS else truncate(_filled(value), _SOME)
    if isinstance(value, list):
        rows = [_item(key, one, systems) for one in value]
        return rows if any(rows) else None
    return None


def _item(key: str, one: Any, systems: dict[str, str]) -> Any:
    """An item of a list; of a field its name alone."""
    if key == "features":
        return _feature(one)
    if isinstance(one, dict):
        return one.get("name") if key == "fields" else _texts(one, systems)
    return one if isinstance(one, str) and one not in _known_words() else None


def _filled(value: Any) -> Any:
    """Without keys whose value is empty."""
    if not isinstance(value, dict):
        return value
    return {key: full for key, one in value.items() if (full := _filled(one)) not in ("", {}, [], None)}


def _feature(feature: Any) -> Any:
    """A feature with its geometry if that is small, else with type, number of points and box."""
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    if not isinstance(geometry, dict) or len(json_text(geometry)) <= _SMALL:
        return feature
    points = list(_points(geometry))
    box = [least(one[i] for one in points) for least in (min, max) for i in (0, 1)] if points else None
    return {**feature, "geometry": {"type": geometry.get("type"), "points": len(points), "bbox": box}}


def _points(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = value.get("coordinates", value.get("geometries"))
    if isinstance(value, list) and len(value) > 1 and all(isinstance(one, int | float) for one in value):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _points(one)


@cache
def _known_words() -> frozenset[str]:
    ours = {"group", "array", "MultiPolygon", "RGB", "CMYK", "HLS"}
    fixed = words.DATA_TYPES | words.COLORS | words.GEOMETRIES | words.FIELD_TYPES | words.MULTIDIMENSIONAL
    return words.drivers() | fixed | words.MASKS | words.ARROW_TYPES | ours


def _facts(given: Mapping[str, Any], depth: int) -> dict[str, Any]:
    found = ((key, _fact(key, given[key], depth - 1)) for key in given if key in _KEYS)
    return {key: fact for key, fact in found if fact is not _DROP}


def _fact(key: str, value: Any, depth: int) -> Any:
    if depth == 0:
        return _DROP
    if key == "fields":
        fields = value[:_MOST] if isinstance(value, list) else []
        return [
            (isinstance(one, dict) and words.field_type(one.get("type"), one.get("subType"))) or None
            for one in fields
        ]
    if isinstance(value, dict):
        if key in _SYSTEMS:
            wkt = value.get("wkt")
            kind = _KIND.search(wkt) if isinstance(wkt, str) else None
            return {"code": _code_of(wkt), **({"kind": _KINDS[kind[1]]} if kind else {}), **_unit(wkt)}
        if key not in _KEYED_BY_NAME:
            return _facts(value, depth)
        value = list(value.values())
    if isinstance(value, list):
        # what does not fit stays as null, so that lists can be joined by position
        most = _FEWER.get(key, _MOST)
        inner = (_fact("", one, depth - 1) for one in value[:most])
        rows = [None if one is _DROP else one for one in inner]
        return rows if len(value) <= most else [*rows, truncation(most, len(value))]
    if isinstance(value, str) and value in _known_words():
        return value
    try:
        return adapter(_Leaf).validate_python(value)
    except ValidationError:
        return _DROP


def _unit(wkt: Any) -> Mapping[str, float]:
    """What a unit of the coordinates is, where it is neither the metre nor the degree: in metres, or in degrees."""
    axes = _AXES.search(wkt) if isinstance(wkt, str) else None
    if axes is None:
        return {}
    found = _UNIT.search(wkt, axes.end())
    size = float(found[2]) if found else 0.0
    if not found or not math.isfinite(size) or size <= 0:
        return {}
    if found[1] == "ANGLEUNIT":
        degrees = size * 180 / math.pi
        return {} if abs(degrees - 1) < _SAME_UNIT else {"unit_degrees": round(degrees, 12)}
    return {} if abs(size - 1) < _SAME_UNIT else {"unit_metres": size}


def _code_of(wkt: Any) -> str | None:
    """The code that a WKT ends with; the WKT itself is text of the file."""
    found = _ID_AT_THE_END.search(wkt[-120:]) if isinstance(wkt, str) else None
    code = f"{found[1]}:{found[2] or found[3]}" if found else None
    try:
        known: str | None = adapter(words.CrsCode | None).validate_python(code)
    except ValidationError:
        return None
    return known
