"""Checks JSON documents and geometries that are passed as text. Pure; GDAL decides if a geometry is valid.

Invariant: accepted text names no file. WKT contains only words, numbers and brackets. From GeoJSON, all members
except the type and the coordinates are removed (`crs` may be a link).
"""

import json
import re
from contextlib import suppress
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.values import check_text
from sandbox.parsing import parse_json

MAX_TEXT: Final = 48 << 10  # bytes; the kernel allows 128 KiB for one command-line argument
_MAX_VALUES: Final = 20_000  # members and elements
_TYPES: Final = frozenset(
    "Point LineString Polygon MultiPoint MultiLineString MultiPolygon GeometryCollection CircularString CompoundCurve"
    " CurvePolygon MultiCurve MultiSurface PolyhedralSurface TIN Triangle".split()
)
_WKT: Final = re.compile(
    rf"(?:{'|'.join(_TYPES)})\s*(?:ZM|Z|M)?\s*(?:EMPTY|\([A-Za-z0-9 (),.+-]*\))", re.IGNORECASE
)
# nested lists of numbers; a number with very many digits would become infinity
_NUMBERS: Final = re.compile(r"\[(?:[][, ]++|-?[0-9][0-9.eE+-]{0,39}+(?![0-9.eE+-]))*")
_HARMLESS: Final = re.compile(r'\\["\\]')  # JSON escapes of visible characters


def check_document(text: str, what: str) -> str:
    """The JSON object as one compact line. Raises ArgumentRefused for anything else."""
    value = _parsed(text, what)
    if not isinstance(value, dict):
        raise ArgumentRefused(
            f"{what} is not a JSON object.", "Give an object, such as GDAL's export-schema prints."
        )
    return json.dumps(value, separators=(",", ":"))


def check_geometry(text: str, what: str) -> str:
    """The geometry as WKT or GeoJSON, on one line. Raises ArgumentRefused for anything else."""
    plain = " ".join(text.split())
    if plain.startswith("{"):
        with suppress(RecursionError):
            if (geometry := _geometry(_parsed(plain, what))) is not None:
                return json.dumps(geometry, separators=(",", ":"))
    elif _WKT.fullmatch(check_text(plain, what, limit=MAX_TEXT)):
        return plain
    raise ArgumentRefused(
        f"{what} is not a geometry that can be read.",
        "Give WKT such as POLYGON ((0 0,1 0,1 1,0 0)), or a GeoJSON geometry.",
    )


def _geometry(value: Any) -> dict[str, Any] | None:
    """The type and coordinates of a GeoJSON geometry, or of a feature's geometry; None for anything else."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "Feature":
        return _geometry(value.get("geometry"))
    if kind == "GeometryCollection" and isinstance(value.get("geometries"), list):
        parts = [_geometry(part) for part in value["geometries"]]
        return {"type": kind, "geometries": parts} if None not in parts else None
    known = isinstance(kind, str) and kind in _TYPES
    if known and _NUMBERS.fullmatch(json.dumps(value.get("coordinates"))):
        return {"type": kind, "coordinates": value["coordinates"]}
    return None


def _parsed(text: str, what: str) -> Any:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise ArgumentRefused(
            f"{what} is longer than {MAX_TEXT} bytes.", "Put it into a file of the workspace."
        )
    try:
        value = parse_json(text, _MAX_VALUES)
        # NaN, and 1e999 which Python reads as infinity, are not valid JSON
        shown = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ArgumentRefused(f"{what} is not JSON.", "Check its quotes and brackets.") from error
    if not shown.isprintable() or "\\" in _HARMLESS.sub("", shown):
        raise ArgumentRefused(f"{what} holds a control or invisible character.", "Take it out.")
    return value
