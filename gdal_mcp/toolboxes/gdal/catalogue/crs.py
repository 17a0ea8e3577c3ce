"""Checks texts that name a coordinate reference system (CRS). Pure.

GDAL tries a CRS text as a code, a document, a file, a URL and a dictionary file, and PROJ opens grids, init files and
pipelines that a document names. Invariants of accepted text:
* it has the form of a code, an OGC URN, a well-known name or a CRS document, so that GDAL never takes it for a file
  or a URL;
* nothing in a document names a file, a grid, an address or an operation;
* it is one line of at most MAX_BYTES.

GDAL in the container decides if a document is a valid CRS. GDAL's own ALLOW_FILE_ACCESS=NO does not replace the
second rule: with it PROJ still reads `+init=/path:code` and opens `+nadgrids=/path`.
"""

import json
import re
from typing import Any, Final

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from sandbox.parsing import parse_json

MAX_BYTES: Final = 32 << 10  # bytes; the longest EPSG CRS, with all its usages, has about 16 kB as PROJJSON
_MAX_VALUES: Final = 5000  # members and elements of a document; the longest one has fewer than a thousand
SUGGESTION: Final = "Give an authority code such as EPSG:4326 or ESRI:102001, a PROJ string of one projection, WKT or PROJJSON."

# GDAL knows WGS84, WGS72, NAD27 and NAD83. It does not know CRS84 without an authority, so the authority is added.
_WELL_KNOWN: Final = {
    **{name: name for name in ("WGS84", "WGS72", "NAD27", "NAD83")},
    **{name: f"OGC:{name}" for name in ("CRS84", "CRS83", "CRS27")},
    **{f"CRS:{code}": f"OGC:CRS{code}" for code in ("84", "83", "27")},
}

# Forms of all codes in PROJ's database. Only IGN codes can contain a dot, before a vertical CRS in capitals.
_NUMBER: Final = r"[0-9]{1,9}"
_WORD: Final = r"[A-Za-z0-9]{1,32}"
_IGN: Final = r"(?-i:[A-Z0-9_]{1,32}(?:\.[A-Z][A-Z0-9]{1,31})?)"
_NUMBERED: Final = rf"(?:EPSG|ESRI|IAU(?:_[0-9]{{4}})?):{_NUMBER}"
_NAMED: Final = rf"(?:(?:OGC|NKG):{_WORD}|IGNF:{_IGN})"
_AUTHORITY: Final = re.compile(
    rf"(?P<horizontal>{_NUMBERED}|{_NAMED})"
    rf"(?:\+(?P<vertical>[0-9]{{1,9}}|{_NUMBERED}|{_NAMED}))?"
    r"(?:\s?@\s?(?P<epoch>[12][0-9]{3}(?:\.[0-9]{1,6})?))?",
    re.IGNORECASE,
)
_EDITION: Final = "[0-9.]{0,16}"
_URN_PART: Final = (
    rf"crs:(?:(?:EPSG|ESRI|IAU(?:_[0-9]{{4}})?):{_EDITION}:{_NUMBER}"
    rf"|(?:OGC|NKG):{_EDITION}:{_WORD}|IGNF:{_EDITION}:{_IGN})"
)
_URN: Final = re.compile(
    rf"urn:(?:x-)?ogc:def:{_URN_PART}|urn:(?:x-)?ogc:def:crs(?:,{_URN_PART}){{2,3}}", re.IGNORECASE
)

_WKT: Final = re.compile(
    r"(GEOGCS|PROJCS|GEOCCS|VERT_CS|VERTCS|COMPD_CS|LOCAL_CS|GEOD(ETIC)?CRS|GEOG(RAPHIC)?CRS|PROJ(ECTED)?CRS|VERT(ICAL)?CRS"
    r"|COMPOUNDCRS|BOUNDCRS|ENG(INEERING)?CRS|DERIVEDPROJCRS|COORDINATEMETADATA)\s*[\[(]",
    re.IGNORECASE,
)
_REMARK: Final = re.compile(r',\s*REMARK\s*\[\s*"[^"]*+(?:""[^"]*+)*"\s*\]', re.IGNORECASE)
# PROJ never reads these members, which often contain URLs
_PROSE: Final = frozenset(("$schema", "remarks", "scope", "area"))

# `nadgrids=@null` means "no datum shift" and opens nothing. _OPENS finds everything else that makes PROJ open
# something, in a PROJ string, in a member of WKT or PROJJSON, or inside a name (`GEOIDMODEL["PROJ egm96.gtx"]`,
# `METHOD["PROJ grids=x"]`), and everything that looks like a path or an address.
_NULL_GRID: Final = re.compile(r"nadgrids=@null(?![^\s\"\])}])", re.IGNORECASE)
_OPENS: Final = re.compile(
    r"""
      (?:^|[\s,;:=("'\[])[/~@](?=\S) | \\ | \.\./ | \./ | // | /\. | /vsi
    | (?:^|["'])\s*PROJ[\s_-]
    | (?:init|grids|file|model|catalog)\s*= | \+step\b | =\s*pipeline\b
    | PARAMETER_?FILE | PROJ4_GRIDS | "value":"
    | \.(?:gsb|gtx|gvb|gsa|tif|tiff|ct2|lla|las|los|dat|asc|bin|byn|mnt|json|xml|prj|wkt|txt|db|sqlite|gpkg|ini|so|pol|lst|nlb|vrt)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def check_crs(text: str) -> str:
    """The CRS on one line, with codes and names in canonical form.

    Raises ArgumentRefused for text that might name a file, a URL or a grid.
    """
    plain = text.strip()
    if not plain:
        raise ArgumentRefused("the CRS is empty.", SUGGESTION)
    if len(plain.encode("utf-8", "replace")) > MAX_BYTES:
        raise ArgumentRefused(f"the CRS is longer than {MAX_BYTES} bytes.", SUGGESTION)
    if plain.startswith("{"):
        return _checked_document(_projjson(plain))
    if _WKT.match(plain):
        return _checked_document(_REMARK.sub("", " ".join(plain.split())))
    if plain.startswith("+") and "+proj=" in plain:
        return _checked_document(plain)
    name = _WELL_KNOWN.get(plain.upper()) or (plain if _URN.fullmatch(plain) else None)
    if match := _AUTHORITY.fullmatch(plain):
        codes = (part.rpartition(":") for part in match.group("horizontal", "vertical") if part)
        epoch = f"@{match['epoch']}" if match["epoch"] else ""
        name = "+".join(f"{authority.upper()}{colon}{code}" for authority, colon, code in codes) + epoch
    if name is None:
        raise _unknown(plain)
    return _checked_document(name)


def _checked_document(text: str) -> str:
    # some EPSG names contain no-break spaces
    if not text.replace("\u00a0", " ").isprintable():
        raise ArgumentRefused("the CRS holds a control character or a line break.", SUGGESTION)
    if _OPENS.search(_NULL_GRID.sub("", text)):
        raise ArgumentRefused(
            "the CRS names a file, a grid, an address or an operation, which a CRS given as text may not.",
            "Leave that part out; transformations choose their grids themselves. For web Mercator write EPSG:3857.",
        )
    return text


def _projjson(text: str) -> str:
    """The PROJJSON document in compact form, without the schema URL and prose members. Raises ArgumentRefused."""
    try:
        document = parse_json(text, _MAX_VALUES, object_pairs_hook=_members)
        root = str(document.get("type")) if isinstance(document, dict) else ""
        # NaN, and 1e999 which Python reads as infinity, are not valid JSON
        compact = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ArgumentRefused("the text is not well-formed JSON.", SUGGESTION) from error
    if not re.fullmatch("[A-Za-z]{1,32}CRS", root):
        raise ArgumentRefused("the JSON is not a CRS in PROJJSON.", SUGGESTION)
    return compact


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice")
    return {name: member for name, member in members.items() if name not in _PROSE}


def _unknown(name: str) -> ArgumentRefused:
    """The error for an unknown CRS, with a hint if the text looks like a URL or a bare number."""
    low = name.lower()
    if "://" in low or low.startswith(("http:", "https:", "ftp:")):
        return ArgumentRefused(
            "the CRS is a URL; containers have no network.", SUGGESTION, code=Code.NETWORK_BLOCKED
        )
    if name.isdecimal():
        return ArgumentRefused("the CRS is a bare number.", f"If it is an EPSG code, write EPSG:{name}.")
    return ArgumentRefused(
        "the CRS is not a code, a PROJ string, WKT or PROJJSON. A CRS is never read from a file.",
        f"Find the code of a name or a place with `find_crs`. {SUGGESTION}",
    )
