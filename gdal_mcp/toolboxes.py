"""The toolboxes that this product comes with. The only module outside `tools/` and `gdal/` that knows GDAL by name."""

from gdal_mcp.settings import Settings
from gdal_mcp.surface import Toolboxes
from gdal_mcp.tools.toolbox import gdal


def toolboxes(settings: Settings) -> Toolboxes:
    """Those that the settings turn on. Raises CatalogueBroken."""
    return Toolboxes((gdal(settings),))
