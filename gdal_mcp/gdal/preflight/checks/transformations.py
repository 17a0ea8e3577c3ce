"""Changes of CRS for which PROJ knows no true operation between the datums. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from gdal_mcp.gdal.preflight.checks.finding import Finding

BALLPARK: Final = "ballpark_transformation"


def findings(changes: Sequence[Mapping[str, Any]], allowed: Collection[str]) -> Iterator[Finding]:
    """Nothing where the coordinates of both datums are read as those of WGS 84 anyway."""
    for change in changes:
        if change.get("ballpark") and not change.get("alike"):
            yield _ballpark(change, refuses=BALLPARK not in allowed)


def _ballpark(change: Mapping[str, Any], *, refuses: bool) -> Finding:
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
    return Finding(BALLPARK, message, advice + allow, refuses)
