"""Geometries as text, WKT and GeoJSON, of known words only. Pure; whether they are valid is for GDAL to say.

Invariant: what is let through consists of the names of geometry types, numbers and brackets, so nothing in it can name a file.
"""

import json
import re
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.expressions import MAX_TEXT, parse_json
from gdal_mcp.gdal.catalogue.text import check_text

MAX_DEPTH: Final = 16  # collections in collections; a multipolygon has three
_MOST: Final = 1e300  # no coordinate is near the end of the range of a double
_HINT: Final = "Give WKT such as POLYGON ((0 0,1 0,1 1,0 0)), or a GeoJSON geometry."
_TYPES: Final = (
    "POINT LINESTRING POLYGON MULTIPOINT MULTILINESTRING MULTIPOLYGON GEOMETRYCOLLECTION CIRCULARSTRING COMPOUNDCURVE"
    " CURVEPOLYGON MULTICURVE MULTISURFACE POLYHEDRALSURFACE TIN TRIANGLE"
).split()
_WORD: Final = "|".join(sorted(_TYPES, key=len, reverse=True))
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<type>(?:{_WORD})(?:\s*(?:ZM|Z|M))?(?![A-Za-z0-9_]))|(?P<empty>EMPTY(?![A-Za-z0-9_]))"
    r"|(?P<number>[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z0-9_.]))"
    r"|(?P<sign>[(),]))\s*",
    re.IGNORECASE,
)
_COORDINATES: Final = {
    "Point": 1,
    "MultiPoint": 2,
    "LineString": 2,
    "MultiLineString": 3,
    "Polygon": 3,
    "MultiPolygon": 4,
}  # how deep the arrays nest


def check_geometry(text: str, what: str) -> str:
    """The geometry on one line. Raises ArgumentRefused for anything that is neither WKT nor a GeoJSON geometry."""
    plain = text.strip()
    if plain.startswith("{"):
        return json.dumps(_geojson(parse_json(plain, what), what, MAX_DEPTH), separators=(",", ":"))
    return _wkt(check_text(" ".join(plain.split()), what, limit=MAX_TEXT), what)


def _wkt(text: str, what: str) -> str:
    position = depth = 0
    kinds = []
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refused(what)
        depth += {"(": 1, ")": -1}.get(match["sign"] or "", 0)
        if not 0 <= depth <= MAX_DEPTH:
            raise _refused(what)
        kinds.append(match.lastgroup)
        position = match.end()
    if depth or not kinds or kinds[0] != "type" or kinds[-1] not in ("sign", "empty"):
        raise _refused(what)
    return text


def _geojson(value: Any, what: str, left: int) -> dict[str, Any]:
    """The geometry with its type and coordinates alone."""
    if not isinstance(value, dict) or not left:
        raise _refused(what)
    kind = value.get("type")
    if kind == "Feature":
        return _geojson(value.get("geometry"), what, left - 1)
    if kind == "GeometryCollection" and isinstance(value.get("geometries"), list):
        return {"type": kind, "geometries": [_geojson(one, what, left - 1) for one in value["geometries"]]}
    depth = _COORDINATES.get(kind) if isinstance(kind, str) else None
    if depth is None:
        raise _refused(what)
    _check_coordinates(value.get("coordinates"), depth, what)
    return {"type": kind, "coordinates": value["coordinates"]}


def _check_coordinates(value: Any, depth: int, what: str) -> None:
    if not isinstance(value, list):
        raise _refused(what)
    if depth > 1:
        for one in value:
            _check_coordinates(one, depth - 1, what)
    elif not 2 <= len(value) <= 4 or not all(_is_number(one) for one in value):
        raise _refused(what)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST


def _refused(what: str) -> ArgumentRefused:
    return ArgumentRefused(f"{what} is no geometry that can be read.", _HINT)
