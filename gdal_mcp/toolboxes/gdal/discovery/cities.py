"""Cities in questions for a CRS. EPSG names countries and regions, so a city becomes a box. Pure."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from gdal_mcp.toolboxes.gdal.discovery import read

_CITY: Final = " city"
_HALF: Final = 0.1  # degrees around the centre; the table has tenths of a degree


def find_city(query: str) -> tuple[str, list[float] | None]:
    """The query without the city, and a box of west, south, east and north; None if it names no city.

    A city is the whole query, or follows a word such as `for` or `in`. Elsewhere the word may be from the name of
    a CRS, such as `Lagos 1955` or `Tokyo / UTM zone 54N`. A name that ends in `city` can be anywhere, and its other
    words stay, because most are also the name of the state: `New York City`.
    """
    text = " ".join(_plain(query).split())
    if (match := _pattern().search(text)) is None:
        return query, None
    name = match[1] or match[2]
    x, y = read("cities.toml")["cities"][name]
    state = name.removesuffix(_CITY).split() if name.endswith(_CITY) else []
    rest = [*text[: match.start()].split(), *state, *text[match.end() :].split()]
    return " ".join(rest), [round(number, 1) for number in (x - _HALF, y - _HALF, x + _HALF, y + _HALF)]


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(read("cities.toml")["cities"], key=len, reverse=True)
    names = "|".join(map(re.escape, longest_first))
    cities = "|".join(re.escape(name) for name in longest_first if name.endswith(_CITY))
    return re.compile(
        rf"(?:^(?=(?:{names})$)|\b(?:for|in|of|near|at|around) )({names})(?![\w/])|\b({cities})(?![\w/])"
    )


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
