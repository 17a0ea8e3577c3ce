"""Changes of CRS for which PROJ knows no true operation between the datums. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.gdal.preflight.checks.finding import Finding
from gdal_mcp.plan import Draft

BALLPARK: Final = "ballpark_transformation"
_PLAIN: Final = frozenset({"input", "output", "output-crs", "overwrite", "output-format", "input-format"})


def findings(changes: Sequence[Mapping[str, Any]], draft: Draft) -> Iterator[Finding]:
    """Nothing where the coordinates of both datums are read as those of WGS 84 anyway."""
    for change in changes:
        if change.get("ballpark") and not change.get("alike"):
            # far from where the CRS is used no operation is made for the place, and what is wrong is the CRS
            refuses = change.get("in_use") is not False and BALLPARK not in draft.allows
            yield _ballpark(change, draft, refuses=refuses)


def _ballpark(change: Mapping[str, Any], draft: Draft, *, refuses: bool) -> Finding:
    between = (
        f"from {change.get('from') or 'the CRS of the data'} to {change.get('to') or 'the CRS asked for'}"
    )
    message = (
        f"PROJ would take coordinates {between} as they are, without changing the datum (a ballpark transformation): places come out "
        "tens to hundreds of metres off, heights up to a hundred."
    )
    better, through = change.get("better") or {}, None
    if better.get("grid_missing"):
        advice = f"A true operation of {better.get('accuracy')} m exists, and needs a grid that this image lacks: use an image with it."
    elif better:
        through = next(filter(None, reversed(better.get("through") or ())), None)
        advice = f"A true operation of {better.get('accuracy')} m exists."
        if through:
            advice += f" PROJ finds it by way of {through}: reproject to {through} first, and from there."
    else:
        advice = "PROJ knows no true operation. Check both CRSs."
    allow = f' To have it all the same, call again with "allow": ["{BALLPARK}"].' if refuses else ""
    return _mending(Finding(BALLPARK, message, advice + allow, refuses), better, through, draft)


def _mending(finding: Finding, better: Mapping[str, Any], through: str | None, draft: Draft) -> Finding:
    """With how PROJ is brought to use the better operation: by the area, which only the warper tells it, or in two steps."""
    if draft.algorithm == "raster reproject" and (area := better.get("area")):
        text = f"AREA_OF_INTEREST={','.join(f'{one:.9g}' for one in area)}"
        return replace(finding, change={"transform-option": (text,)})
    if draft.algorithm == "vector reproject" and through and set(draft.arguments) <= _PLAIN:
        targets = (through, *draft.arguments["output-crs"])
        return replace(
            finding, steps=[{"step": "reproject", "arguments": {"output-crs": one}} for one in targets]
        )
    return finding
