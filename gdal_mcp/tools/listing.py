"""The hand-picked tools, in the order in which clients see them. Tools of single algorithms are made in `run`."""

from functools import lru_cache

from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.tools.convert import CONVERT
from gdal_mcp.tools.discover import FIND_CRS, FORMATS, GDAL_DESCRIBE, GDAL_SEARCH
from gdal_mcp.tools.info import INFO
from gdal_mcp.tools.look import LIST_WORKSPACE, PREVIEW
from gdal_mcp.tools.pipelines import PIPELINE
from gdal_mcp.tools.query import QUERY, QUERY_TO_FILE
from gdal_mcp.tools.raster.reproject import REPROJECT
from gdal_mcp.tools.run import GDAL_READ, GDAL_WRITE, algorithm_tool
from gdal_mcp.tools.validate import VALIDATE_CALL
from gdal_mcp.tools.workflow import WORKFLOW_CHECK, WORKFLOW_RUN


@lru_cache(maxsize=4)
def core(catalogue: Catalogue) -> tuple[Tool, ...]:
    return (
        LIST_WORKSPACE,
        INFO,
        PREVIEW,
        CONVERT,
        REPROJECT,
        *(
            algorithm_tool(catalogue, row["algorithm"], row["shown"], row["description"])
            for row in data_of("gdal_mcp.tools", "algorithm_tools.toml")["tool"]
        ),
        QUERY,
        QUERY_TO_FILE,
        PIPELINE,
        WORKFLOW_CHECK,
        WORKFLOW_RUN,
        VALIDATE_CALL,
        FORMATS,
        FIND_CRS,
        GDAL_SEARCH,
        GDAL_DESCRIBE,
        GDAL_READ,
        GDAL_WRITE,
    )
