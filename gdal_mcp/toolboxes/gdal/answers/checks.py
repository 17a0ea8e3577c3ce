"""Warnings about a call or its output, in our own words. Pure.

A row from the container is a code with numbers. Each known code has its message and suggestion in `data/checks.toml`,
or in `data/warnings.toml` if GDAL has a warning for it. Other keys are left out, so a check never contains text from
a file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from pydantic import AfterValidator, Field

from gdal_mcp.toolboxes.gdal.answers import read
from gdal_mcp.toolboxes.gdal.answers.words import (
    Count,
    Flag,
    Label,
    Number,
    Real,
    at_most,
    many,
    shape,
    valid_parts,
)

MOST_CHECKS: Final = 50
# key: the code, or another name if one code has several messages. `verdict` is "unknown" if something could not be
# examined.
CHECKS: Final[Mapping[str, Mapping[str, str]]] = {
    name: {
        "code": check.get("code", name),
        **{key: check[key] for key in ("message", "suggestion", "verdict") if key in check},
    }
    for name, check in [
        *((warning["code"], warning) for warning in read("warnings.toml")["warning"]),
        *read("checks.toml").items(),
    ]
}


def _known_code(value: str) -> str:
    if not any(check["code"] == value for check in CHECKS.values()):
        raise ValueError("no check has this code")
    return value


_Code = Annotated[str, AfterValidator(_known_code)]
# `input`, `layer` and `band` are indices from 0; the others are amounts
_NUMBERS: Final = shape(
    **dict.fromkeys(("input", "layer", "band", "count", "of"), Count),
    **dict.fromkeys(("percent", "metres", "units", "epoch"), Number),
    lost=many(Label, len(get_args(Label))),
    fields=Annotated[list[Count], at_most(100)],
    skipped=many(_Code, 50),
    minimum=Real,
    maximum=Real,
    sampled=Flag,
    geometry=Annotated[
        str, Field(pattern="^(MULTI)?(POINT|LINESTRING|POLYGON)Z?M?$|^GEOMETRYCOLLECTIONZ?M?$")
    ],
)


def checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The known checks in a container's report, with our messages and the reported numbers."""
    known_checks = []
    for row in value[:MOST_CHECKS] if isinstance(value, list) else []:
        code = row.get("code") if isinstance(row, dict) else None
        if isinstance(code, str) and code in CHECKS:
            known_checks.append({**CHECKS[code], **valid_parts(_NUMBERS, row)})
    return tuple(known_checks)
