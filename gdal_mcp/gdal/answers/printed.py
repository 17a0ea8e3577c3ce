"""What GDAL prints as JSON, read. Pure.

GDAL writes numbers that are none in two ways, of which JSON knows neither: `NaN` and `Infinity`, or what C's printf makes of
them, such as `inf` in a geotransform. Both are told as the texts "NaN", "Infinity" and "-Infinity".
"""

import json
import re
from typing import Any

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
