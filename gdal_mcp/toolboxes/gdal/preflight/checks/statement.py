"""What a statement does with geometries and columns, as far as its text tells. Pure."""

import re
from collections.abc import Collection
from typing import Final

_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
# functions that measure in units of the CRS, with the number of arguments from which on they measure on the ellipsoid
_MEASURES: Final = {
    **dict.fromkeys(("st_area", "area", "st_length", "glength", "st_perimeter", "perimeter"), 2),
    **dict.fromkeys(("st_distance", "distance"), 3),
    **dict.fromkeys(("st_buffer", "buffer", "st_maxdistance", "maxdistance", "st_dwithin"), 99),
    "ptdistwithin": 4,
}
_CALL: Final = re.compile(rf"\b({'|'.join(_MEASURES)})\s*\(", re.IGNORECASE)
_MOVES: Final = re.compile(r"\b(?:st_)?(?:transform|transform_xyz|setsrid)\s*\(", re.IGNORECASE)
_RELATION: Final = re.compile(
    r"\b(?:st_)?(?:intersects|contains|within|covers|coveredby|overlaps|touches|crosses|disjoint|equals|distance|intersection|"
    r"difference|symdifference|ptdistwithin|relate)\s*\(",
    re.IGNORECASE,
)
_NEAREST: Final = re.compile(r"\(\s*select\b[^()]*\border\s+by\s+(?:st_)?distance\s*\(", re.IGNORECASE)
_LEAST: Final = re.compile(r"\bmin\s*\(\s*(?:st_)?distance\s*\(", re.IGNORECASE)
_TRANSFORM: Final = re.compile(r"\b(?:st_)?transform\s*\(", re.IGNORECASE)
_PIECE: Final = re.compile(
    r"\b(?:strftime|substr|substring)\s*\([^()]*\)\s*(?:<=|>=|<>|!=|==?|<|>)\s*[-+]?[0-9]", re.IGNORECASE
)
# what gives a geometry a CRS that is not its table's
_MADE: Final = re.compile(
    r"\b(?:\w*from\w*|(?:st_)?make(?!valid)\w*|(?:st_)?(?:setsrid|transform\w*|point|build\w*)|select)\b",
    re.IGNORECASE,
)
_POINT: Final = re.compile(
    r'\b(?:st_|make)point\w*\s*\(\s*(?:\w+\.)?"?(\w+)"?\s*,\s*(?:\w+\.)?"?(\w+)"?\s*[,)]', re.IGNORECASE
)
# a geometry that is made with the number of a CRS in degrees
_IN_DEGREES: Final = re.compile(
    r"\b(?:make\w*|(?:st_)?\w*from\w*|(?:st_)?setsrid|st_point|buildmbr)\s*\((?:[^()]|\([^()]*\))*,\s*(?:4326|4258|4269)\s*\)",
    re.IGNORECASE,
)
_LENGTH: Final = re.compile(r"\b(?:st_length|glength)\s*\(", re.IGNORECASE)
_LENGTH_3D: Final = re.compile(r"\b(?:st_)?3dlength\s*\(", re.IGNORECASE)
_ALIAS: Final = re.compile(r'(?:\b([a-z_]\w*)|"([^"]*)")\s*\.', re.IGNORECASE)
_TABLE: Final = re.compile(r'(?:\bfrom|\bjoin|,)\s+"?(\w+)"?(?:\s+(?:as\s+)?(\w+))?', re.IGNORECASE)
_OGR_AREA: Final = re.compile(r"\bogr_geom_area\b", re.IGNORECASE)
_TERMS: Final = re.compile(
    r'(?:"[^"]*"|(?!\b(?:limit|offset|rows|range|union|intersect|except)\b)[^")])*', re.IGNORECASE
)


def moves(statement: str) -> bool:
    """Whether it changes a CRS."""
    return bool(_MOVES.search(_without_texts(statement)))


def moves_to_text(statement: str) -> bool:
    """Whether it names the CRS of a geometry by a text, for which it gets NULL."""
    plain = _without_texts(statement)
    given = (_arguments(plain, match.end())[1:2] for match in _MOVES.finditer(plain))
    return any(one.strip() == "''" for two in given for one in two)


def points_made(statement: str) -> list[tuple[str, str]]:
    """The two columns of each point that it makes of columns, as it names them."""
    return _POINT.findall(_without_texts(statement))


def transformed_to(statement: str) -> list[tuple[str, str, str]]:
    """Each change of CRS that it makes: the table, "" where that is not said; the CRS before, "" for the table's own; and the one after.

    Of columns, of what is computed from them, and of what was transformed before. A point that is made in the statement is in a CRS that
    is not its table's.
    """
    plain = _without_texts(statement)
    named = _TABLE.findall(plain)
    tables = {alias.lower(): table.lower() for table, name in named for alias in (table, name)}
    found: dict[tuple[str, str, str], None] = {}
    for one in _TRANSFORM.finditer(plain):
        given = _arguments(plain, one.end())
        if len(given) != 2 or not re.fullmatch(r"\s*[0-9]{1,9}\s*", given[1]):
            continue
        before = _transformed(given[0])
        if before is None and _MADE.search(given[0]):
            continue
        aliases = sorted({(a or b).lower() for a, b in _ALIAS.findall(given[0])} or {""})
        code = f"EPSG:{given[1].strip()}"
        found |= dict.fromkeys((tables.get(name, "") if name else "", before or "", code) for name in aliases)
    return list(found)


def _transformed(text: str) -> str | None:
    """The CRS of an expression that is itself transformed, or given a CRS by SetSRID; None for another."""
    if not (match := _MOVES.match(text.strip())):
        return None
    given = _arguments(text.strip(), match.end())
    return f"EPSG:{given[1].strip()}" if len(given) == 2 and given[1].strip().isdecimal() else None


def measures(statement: str) -> bool:
    """Whether it measures geometries as they are: in no other CRS and not on the ellipsoid."""
    plain = _without_texts(statement)
    if moves(plain):
        return False
    found = ((match[1].lower(), len(_arguments(plain, match.end()))) for match in _CALL.finditer(plain))
    return any(count < _MEASURES[name] for name, count in found) or bool(_OGR_AREA.search(plain))


def measures_degrees(statement: str) -> bool:
    """Whether it measures points, or what it makes of texts, that it says are in degrees: as they are, and not on the ellipsoid."""
    plain = _without_texts(statement)
    for match in _CALL.finditer(plain):
        given = _arguments(plain, match.end())
        made = [one for one in given if _IN_DEGREES.search(one) and not _TRANSFORM.search(one)]
        if made and len(given) < _MEASURES[match[1].lower()]:
            return True
    return False


def measures_length(statement: str) -> bool:
    """Whether it measures lines as they lie on the map, without their heights, and nowhere with them."""
    plain = _without_texts(statement)
    return bool(_LENGTH.search(plain)) and not _LENGTH_3D.search(plain)


def measures_in(statement: str, code: str) -> bool:
    """Whether it measures geometries that it transforms to this CRS."""
    plain = _without_texts(statement)
    given = (_arguments(plain, match.end())[0] for match in _CALL.finditer(plain))
    return any(_TRANSFORM.search(one) and re.search(rf",\s*{code}\s*\)", one) for one in given)


def compares_text_of_date(statement: str) -> bool:
    """Whether it compares a piece of a text with a number."""
    return bool(_PIECE.search(_without_texts(statement)))


def adds_up(statement: str, columns: Collection[str]) -> bool:
    """Whether it takes the sum or the mean of one of these columns, without choosing among its values."""
    names = "|".join(re.escape(one) for one in columns)
    found = rf'\b(?:sum|avg|total)\s*\(\s*(?:cast\s*\(\s*)?(?:"?\w+"?\.)?"?(?:{names})"?(?!\w)'
    chosen = re.search(r"\b(?:glob|regexp|typeof|nullif|case)\b", statement, re.IGNORECASE)
    return not chosen and bool(re.search(found, _without_texts(statement), re.IGNORECASE))


def names(statement: str, columns: Collection[str]) -> bool:
    """Whether it names one of these columns, or takes all of them."""
    plain = _without_texts(statement)
    words = "|".join(re.escape(one) for one in columns)
    return bool(re.search(rf'(?:\bselect|,|\.)\s*\*|(?<!\w)"?(?:{words})"?(?!\w)', plain, re.IGNORECASE))


def compares(statement: str, columns: Collection[str]) -> bool:
    """Whether it orders by one of these columns, or compares it with a number or by its size."""
    plain = _without_texts(statement)
    inner, any_depth = _cast_under_own_name(plain, columns)
    if not (left := [one for one in columns if one.lower() not in inner]):
        return False
    names = "|".join(re.escape(one) for one in left)
    column = rf'(?:(?<![\w."])(?:"?\w+"?\.)?(?:"(?:{names})"|(?:{names})(?![\w"(])))'
    number = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
    patterns = (
        rf"\b(?:min|max)\s*\(\s*{column}\s*\)",
        rf"{column}\s*(?:<=|>=|<>|!=|=|<|>)\s*{number}",
        rf"{number}\s*(?:<=|>=|<>|!=|=|<|>)\s*{column}",
        rf"{column}\s+(?:not\s+)?between\b",
    )
    quoted = rf"{column}\s*(?:<=|>=|<|>)\s*'{number}'"
    if re.search("|".join(patterns), plain, re.IGNORECASE) or re.search(quoted, statement, re.IGNORECASE):
        return True
    item = re.compile(rf"\s*{column}\s*(?:asc|desc)?\s*(?:nulls\s+\w+)?\s*", re.IGNORECASE)
    orders = (_TERMS.match(plain, one.end()) for one in re.finditer(r"\border\s+by\b", plain, re.IGNORECASE))
    terms = [term for found in orders if found for term in found[0].split(",")]
    ordered = (one.strip().split()[0].strip('"').lower() for one in terms if item.fullmatch(one))
    return any(name not in any_depth for name in ordered)


def _cast_under_own_name(plain: str, columns: Collection[str]) -> tuple[set[str], set[str]]:
    """The columns that it casts to numbers under their own names: in a subquery, whose outer query then compares numbers, and anywhere."""
    inner: set[str] = set()
    anywhere: set[str] = set()
    for name in columns:
        quoted = rf'(?:"?\w+"?\.)?"?{re.escape(name)}"?'
        cast = rf'\bcast\s*\(\s*{quoted}\s+as\s+(?:real|integer|numeric|float|double|int)\w*\s*\)\s+as\s+"?{re.escape(name)}"?(?!\w)'
        for found in re.finditer(cast, plain, re.IGNORECASE):
            anywhere.add(name.lower())
            before = plain[: found.start()]
            if before.count("(") > before.count(")"):
                inner.add(name.lower())
    return inner, anywhere


def relates(statement: str) -> bool:
    """Whether it compares geometries as they are, without bringing any into another CRS."""
    plain = _without_texts(statement)
    return not moves(plain) and bool(_RELATION.search(plain))


def compares_all_pairs(statement: str) -> bool:
    """Whether it takes the nearest row of a whole table for each row."""
    plain = _without_texts(statement)
    return bool(_NEAREST.search(plain)) or ("=" not in plain and bool(_LEAST.search(plain)))


def _without_texts(statement: str) -> str:
    return _TEXT.sub("''", statement)


def _arguments(text: str, start: int) -> list[str]:
    """The arguments of a call whose parenthesis is open at `start`."""
    depth, found = 1, [""]
    for letter in text[start:]:
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            break
        if letter == "," and depth == 1:
            found.append("")
        else:
            found[-1] += letter
    return found
