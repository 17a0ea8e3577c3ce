"""What is odd about a call or its output, in our words. Pure.

A row of the container's is a code and numbers; each known code has its message and suggestion in `data/checks.toml`, and every
other key is left out; codes that GDAL's warnings have as well are in `data/warnings.toml`. So a check can carry no text of a file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from gdal_mcp.toolboxes.gdal.answers import read
from gdal_mcp.toolboxes.gdal.answers.words import Count, Flag, Number, Real, at_most, kept, shape

MOST_CHECKS: Final = 50
# by its code, or by a name where one code has several words: what is wrong and why, and what to do; `verdict` is "unknown" where something
# could not be examined
CHECKS: Final[Mapping[str, Mapping[str, str]]] = {
    name: {
        "code": one.get("code", name),
        **{key: one[key] for key in ("message", "suggestion", "verdict") if key in one},
    }
    for name, one in [
        *((one["code"], one) for one in read("warnings.toml")["warning"]),
        *read("checks.toml").items(),
    ]
}


# which input, layer or band, from 0; and how much
_NUMBERS: Final = shape(
    **dict.fromkeys(("input", "layer", "band", "count", "of"), Count),
    **dict.fromkeys(("percent", "metres", "units"), Number),
    fields=Annotated[list[Count], at_most(100)],
    minimum=Real,
    maximum=Real,
    sampled=Flag,
    geometry=Annotated[
        str, Field(pattern="^(MULTI)?(POINT|LINESTRING|POLYGON)Z?M?$|^GEOMETRYCOLLECTIONZ?M?$")
    ],
)


def checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Known codes with our words, and the numbers that came with them."""
    told = []
    for row in value[:MOST_CHECKS] if isinstance(value, list) else []:
        code = row.get("code") if isinstance(row, dict) else None
        if isinstance(code, str) and code in CHECKS:
            told.append({**CHECKS[code], **kept(_NUMBERS, row)})
    return tuple(told)
