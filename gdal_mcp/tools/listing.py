"""Every tool, in the order in which clients see them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gdal_mcp.tools.classic.gdal2xyz import GDAL2XYZ
from gdal_mcp.tools.classic.gdal_merge import GDAL_MERGE
from gdal_mcp.tools.classic.gdal_polygonize import GDAL_POLYGONIZE
from gdal_mcp.tools.classic.gdal_rasterize import GDAL_RASTERIZE
from gdal_mcp.tools.classic.gdal_translate import GDAL_TRANSLATE
from gdal_mcp.tools.classic.gdalbuildvrt import GDALBUILDVRT
from gdal_mcp.tools.classic.gdalinfo import GDALINFO
from gdal_mcp.tools.classic.gdalwarp import GDALWARP
from gdal_mcp.tools.convert import CONVERT
from gdal_mcp.tools.info import INFO
from gdal_mcp.tools.model import Tool
from gdal_mcp.tools.raster.reproject import REPROJECT

ALL: tuple[Tool[Any], ...] = (
    INFO,
    CONVERT,
    REPROJECT,
    GDALINFO,
    GDAL_TRANSLATE,
    GDALWARP,
    GDALBUILDVRT,
    GDAL_RASTERIZE,
    GDAL2XYZ,
    GDAL_MERGE,
    GDAL_POLYGONIZE,
)
BY_NAME: Mapping[str, Tool[Any]] = MappingProxyType({tool.name: tool for tool in ALL})
