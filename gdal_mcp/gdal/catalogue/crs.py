"""Which texts may name a coordinate reference system.

GDAL resolves a CRS text by trying, among others, a file of that name, a URL, a dictionary file and PROJ strings with
grid files in them. Invariants of what is let through:
* it is of one of the forms below, each recognised completely, and none of them opens anything but PROJ's database;
* no grid, no initialisation file, no transformation: a CRS only says what coordinates mean;
* it is returned in a canonical form: one line, without what the form does not need.

Forms: AUTHORITY:CODE (also compound, also with an epoch), OGC URNs, a few well known names, PROJ strings of a
single projection (`crs_proj`), WKT1 and WKT2 (`crs_wkt`), PROJJSON (`crs_json`).
"""

import re
from typing import Final

from gdal_mcp.errors import Code
from gdal_mcp.gdal.catalogue.crs_json import check_projjson
from gdal_mcp.gdal.catalogue.crs_proj import check_proj_string
from gdal_mcp.gdal.catalogue.crs_text import SUGGESTION, inner_text, one_line
from gdal_mcp.gdal.catalogue.crs_wkt import check_wkt
from gdal_mcp.gdal.catalogue.errors import CrsRefused

MAX_BYTES: Final = 32 << 10  # the longest CRS of EPSG, with all its usages, is about 16 kB as PROJJSON
MAX_NAME: Final = 256  # of every form that is not a document

# WGS84 and its like are understood by GDAL itself; CRS84 alone is not, so it is spelled out.
_WELL_KNOWN: Final = {
    **{name: name for name in ("WGS84", "WGS72", "NAD27", "NAD83")},
    **{name: f"OGC:{name}" for name in ("CRS84", "CRS83", "CRS27")},
    **{f"CRS:{code}": f"OGC:CRS{code}" for code in ("84", "83", "27")},
}

# the shapes of all codes in PROJ's database; only those of the IGN hold a dot, before the name of a vertical CRS in capitals
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
_DOCUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s*[\[(]")


def check_crs(text: str) -> str:
    """The CRS in canonical form. Raises CrsRefused for anything that might be a file, a URL or a grid."""
    plain = _bounded(text)
    if plain.startswith("{"):
        return check_projjson(plain)
    if _DOCUMENT.match(plain):
        return check_wkt(plain)
    name = one_line(plain, MAX_NAME if not plain.startswith("+") else MAX_BYTES)
    if name.startswith("+"):
        return check_proj_string(name)
    return _well_known(name) or inner_text(_authority(name) or _urn(name) or _refuse(name))


def _bounded(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise CrsRefused("the CRS is not valid Unicode.", SUGGESTION) from error
    plain = text.strip()
    if not plain:
        raise CrsRefused("the CRS is empty.", SUGGESTION)
    if size > MAX_BYTES:
        raise CrsRefused(f"the CRS is longer than {MAX_BYTES} bytes.", SUGGESTION)
    return plain


def _well_known(name: str) -> str | None:
    return _WELL_KNOWN.get(name.upper())


def _authority(name: str) -> str | None:
    match = _AUTHORITY.fullmatch(name)
    if match is None:
        return None
    parts = [_code(part) for part in match.group("horizontal", "vertical") if part]
    epoch = match.group("epoch")
    return "+".join(parts) + (f"@{epoch}" if epoch else "")


def _code(part: str) -> str:
    authority, colon, code = part.rpartition(":")
    return f"{authority.upper()}{colon}{code}"


def _urn(name: str) -> str | None:
    return name if _URN.fullmatch(name) else None


def _refuse(name: str) -> str:
    """Says what the text would have been taken for, as far as that helps."""
    low = name.lower()
    if "://" in low or low.startswith(("http:", "https:", "ftp:")):
        raise CrsRefused(
            "the CRS is a URL; containers have no network.", SUGGESTION, code=Code.NETWORK_BLOCKED
        )
    if name.isdecimal():
        raise CrsRefused("the CRS is a bare number.", f"If it is an EPSG code, write EPSG:{name}.")
    if "init=" in low:
        raise CrsRefused(
            "an initialisation file is never read.", "Write EPSG:4326 instead of +init=epsg:4326."
        )
    if any(sign in name for sign in "/\\.") or low.startswith("dict:"):
        raise CrsRefused("the CRS looks like a file, and a CRS is never read from one.", SUGGESTION)
    raise CrsRefused("the CRS is of no known form.", SUGGESTION)
