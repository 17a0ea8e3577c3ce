"""Likely mistakes in calls that GDAL would run all the same: one function for each check, in the `CHECKS` of its module. Pure.

A check looks at one thing and finds nothing where it does not know enough: unknown facts are None or "", and a wrong finding is
worse than none. A finding that refuses is one whose result would be wrong. No message contains text from inside a file.
"""

from collections.abc import Callable
from typing import Final

from gdal_mcp.gdal.preflight.call import Call
from gdal_mcp.gdal.preflight.checks import crs, files, raster, vector
from gdal_mcp.gdal.preflight.checks.finding import Finding

__all__ = ["CHECKS", "Finding", "findings"]

CHECKS: Final[tuple[Callable[[Call], Finding | None], ...]] = (
    *crs.CHECKS,
    *raster.CHECKS,
    *vector.CHECKS,
    *files.CHECKS,
)


def findings(call: Call) -> tuple[Finding, ...]:
    """What the checks find, in their order."""
    return tuple(found for check in CHECKS if (found := check(call)) is not None)
