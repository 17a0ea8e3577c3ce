"""WKT1 and WKT2: read completely, against a list of known keywords. Pure.

`EXTENSION` (a PROJ string inside WKT1), `PARAMETERFILE` (a grid file), `URI`, `VELOCITYGRID` and everything that describes
an operation between two CRS are not on the list. Numbers are numbers: only the name of a PARAMETER is text.
"""

import re
from collections.abc import Iterator
from typing import Final

from gdal_mcp.gdal.catalogue.crs_text import MAX_DEPTH, SUGGESTION, inner_text
from gdal_mcp.gdal.catalogue.errors import CrsRefused

ROOTS: Final = frozenset(
    """
    GEOGCS PROJCS GEOCCS VERT_CS VERTCS COMPD_CS LOCAL_CS GEODCRS GEODETICCRS GEOGCRS GEOGRAPHICCRS PROJCRS PROJECTEDCRS
    VERTCRS VERTICALCRS COMPOUNDCRS BOUNDCRS ENGCRS ENGINEERINGCRS DERIVEDPROJCRS COORDINATEMETADATA
    """.split()
)
KEYWORDS: Final = ROOTS | frozenset(
    """
    DATUM GEODETICDATUM TRF SPHEROID ELLIPSOID PRIMEM PRIMEMERIDIAN UNIT LENGTHUNIT ANGLEUNIT SCALEUNIT LINUNIT AXIS ORDER
    MERIDIAN AXISMINVALUE AXISMAXVALUE RANGEMEANING AUTHORITY ID VERSION CITATION CS PROJECTION PARAMETER CONVERSION METHOD
    DERIVINGCONVERSION TOWGS84 VERT_DATUM VDATUM VERTICALDATUM VRF LOCAL_DATUM EDATUM ENGINEERINGDATUM
    BASEGEODCRS BASEGEOGCRS BASEPROJCRS BASEVERTCRS BASEENGCRS ENSEMBLE MEMBER ENSEMBLEACCURACY DYNAMIC FRAMEEPOCH MODEL
    EPOCH ANCHOR ANCHOREPOCH GEOIDMODEL SOURCECRS TARGETCRS ABRIDGEDTRANSFORMATION OPERATIONACCURACY
    USAGE SCOPE AREA BBOX VERTICALEXTENT REMARK
    """.split()
)
_NUMERIC: Final = frozenset(
    ("TOWGS84", "BBOX", "ORDER", "EPOCH", "FRAMEEPOCH", "ANCHOREPOCH", "OPERATIONACCURACY")
)
_NAMED_NUMERIC: Final = frozenset(
    ("PARAMETER", "UNIT", "LENGTHUNIT", "ANGLEUNIT", "SCALEUNIT", "SPHEROID", "ELLIPSOID")
)

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"]|"")*")
      |(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.])
      |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<sign>[\[\](),]))\s*""",
    re.VERBOSE,
)
_WHITE: Final = re.compile(r"[ \t\r\n]+")  # some areas of use in EPSG hold a line break
_CLOSING: Final = {"[": "]", "(": ")"}

Token = tuple[str, str]  # kind, text
_END: Final[Token] = ("end", "")


def check_wkt(text: str) -> str:
    """The same WKT without white space between its parts. Raises CrsRefused."""
    tokens = list(_tokens(_WHITE.sub(" ", text)))
    keyword = tokens[0][1].upper()
    if keyword not in ROOTS:
        raise CrsRefused(f"{keyword[:40]} is not a CRS in WKT.", SUGGESTION)
    end = _node(tokens, 0, 1)
    if end != len(tokens):
        raise CrsRefused("something follows the end of the WKT.", SUGGESTION)
    return "".join(token for _, token in tokens)


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise CrsRefused("the text is not well-formed WKT.", SUGGESTION)
        yield match.lastgroup, match.group(match.lastgroup)
        position = match.end()


def _node(tokens: list[Token], start: int, depth: int) -> int:
    """Checks one KEYWORD[...] and returns the position behind it. `start` is at a word that a bracket follows."""
    if depth > MAX_DEPTH:
        raise CrsRefused(f"the WKT is nested deeper than {MAX_DEPTH} levels.", SUGGESTION)
    keyword = tokens[start][1].upper()
    if keyword not in KEYWORDS:
        raise CrsRefused(
            f"{keyword[:40]} is not allowed in WKT: files, PROJ strings and operations are not part of a CRS.",
            SUGGESTION,
        )
    closing = _CLOSING[tokens[start + 1][1]]
    position, count = start + 2, 0
    while True:
        position = _child(tokens, position, depth, numeric=_is_numeric(keyword, count))
        count += 1
        kind, sign = _at(tokens, position)
        if (kind, sign) == ("sign", closing):
            return position + 1
        if (kind, sign) != ("sign", ","):
            raise CrsRefused("the brackets or commas of the WKT do not match.", SUGGESTION)
        position += 1


def _is_numeric(keyword: str, place: int) -> bool:
    """Whether the child at this place is never a text. The first of most nodes is a name."""
    return keyword in _NUMERIC or (place > 0 and keyword in _NAMED_NUMERIC)


def _child(tokens: list[Token], position: int, depth: int, *, numeric: bool) -> int:
    kind, text = _at(tokens, position)
    if kind == "word":
        follows = _at(tokens, position + 1)
        return _node(tokens, position, depth + 1) if follows[1] in _CLOSING else position + 1
    if kind == "text":
        if numeric:
            raise CrsRefused("a number is expected in the WKT where a text stands.", SUGGESTION)
        inner_text(text[1:-1].replace('""', '"'))
    elif kind != "number":
        raise CrsRefused("the brackets or commas of the WKT do not match.", SUGGESTION)
    return position + 1


def _at(tokens: list[Token], position: int) -> Token:
    return tokens[position] if position < len(tokens) else _END
