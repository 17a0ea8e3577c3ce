"""Likely mistakes with features: their geometries and fields. Pure."""

from collections.abc import Callable
from typing import Final

from gdal_mcp.gdal.preflight.call import Call
from gdal_mcp.gdal.preflight.checks.finding import Finding

CHECKS: Final[tuple[Callable[[Call], Finding | None], ...]] = ()
