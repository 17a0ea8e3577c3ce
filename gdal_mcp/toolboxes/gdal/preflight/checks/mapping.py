"""Reads the mapping of `raster reclassify`, to find what it does with a nodata value. Pure."""

import re
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import number_of

# (a,b] and the like, or one number
_INTERVAL: Final = re.compile(
    r"(?P<open>[\[(])(?P<low>[^,]+),(?P<high>[^,]+)(?P<close>[\])])|(?P<only>[^,\[(]+)"
)
# results that keep nodata
_KEEPS: Final = frozenset({"NO_DATA", "PASS_THROUGH"})


def gives_class(mapping: str, nodata: float) -> bool:
    """True if a mapping such as `[-inf,5]=1;DEFAULT=2` gives a class to pixels with the nodata value.

    False if it names the value itself, which is intended.
    """
    for entry in mapping.split(";"):
        source, _, result = (part.strip() for part in entry.partition("="))
        if source.upper() == "DEFAULT" or _contains(source, nodata):
            return result.upper() not in _KEEPS and number_of(source) != nodata
    return False


def _contains(source: str, value: float) -> bool:
    found = _INTERVAL.fullmatch(source.replace(" ", ""))
    if found is None:
        return False
    if found["only"]:
        return number_of(found["only"]) == value
    low, high = (number_of(found[name], finite=False) for name in ("low", "high"))
    if low is None or high is None or low == high:
        return False  # an interval of one value names it
    return (low < value or (found["open"] == "[" and low == value)) and (
        value < high or (found["close"] == "]" and high == value)
    )
