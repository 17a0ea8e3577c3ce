"""CRS arguments: only what can be resolved without opening a file, a URL or a grid."""

from gdal_mcp.catalogue.crs import check_crs
from gdal_mcp.catalogue.errors import ArgumentRefused
from gdal_mcp.errors import Stage, ToolError


def checked_crs(text: str) -> str:
    """The CRS as it is passed to GDAL. Raises ToolError."""
    try:
        return check_crs(text)
    except ArgumentRefused as error:
        raise ToolError(error.code, Stage.VALIDATE, error.message, error.suggestion) from error
