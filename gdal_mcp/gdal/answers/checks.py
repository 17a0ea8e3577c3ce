"""What the container found odd about an output, in our words. Pure.

A row of the container's is a code and numbers; each known code has its message and suggestion in `data/checks.toml`, and every
other key is left out; codes that GDAL's warnings have as well are in `data/warnings.toml`. So a check can carry no text of a file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from gdal_mcp.gdal.answers import read
from gdal_mcp.gdal.answers.words import Count, Kept, Number, Real, Switch, at_most, kept

MOST_CHECKS: Final = 50


class Advice(NamedTuple):
    """What is wrong and why, and what to do."""

    message: str
    suggestion: str


CHECKS: Final[Mapping[str, Advice]] = {
    code: Advice(one["message"], one["suggestion"])
    for code, one in [
        *((one["code"], one) for one in read("warnings.toml")["warning"]),
        *read("checks.toml").items(),
    ]
}


class _Numbers(TypedDict, total=False):
    """Which input, layer or band, from 0; and how much."""

    input: Kept[Count]
    layer: Kept[Count]
    band: Kept[Count]
    count: Kept[Count]
    of: Kept[Count]
    percent: Kept[Number]
    metres: Kept[Number]
    units: Kept[Number]
    fields: Kept[Annotated[list[Count], at_most(100)]]
    minimum: Kept[Real]
    maximum: Kept[Real]
    sampled: Kept[Switch]
    geometry: Kept[
        Annotated[str, Field(pattern="^(MULTI)?(POINT|LINESTRING|POLYGON)Z?M?$|^GEOMETRYCOLLECTIONZ?M?$")]
    ]


def checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Known codes with our words, and the numbers that came with them."""
    told = []
    for row in value[:MOST_CHECKS] if isinstance(value, list) else []:
        code = row.get("code") if isinstance(row, dict) else None
        if isinstance(code, str) and code in CHECKS:
            told.append({"code": code, **CHECKS[code]._asdict(), **kept(_Numbers, row)})
    return tuple(told)
