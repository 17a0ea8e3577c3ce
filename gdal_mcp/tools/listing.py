"""The hand-picked tools, in the order in which clients see them. Those of single algorithms are made in `direct`."""

from functools import lru_cache
from typing import Final

from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.toolbox import Tool
from gdal_mcp.tools.convert import CONVERT
from gdal_mcp.tools.discover import FIND_CRS, FORMATS, GDAL_DESCRIBE, GDAL_SEARCH
from gdal_mcp.tools.info import INFO
from gdal_mcp.tools.look import LIST_WORKSPACE, PREVIEW
from gdal_mcp.tools.pipelines import PIPELINE
from gdal_mcp.tools.query import QUERY, QUERY_TO_FILE
from gdal_mcp.tools.raster.reproject import REPROJECT
from gdal_mcp.tools.run import GDAL_READ, GDAL_WRITE, brief_tool
from gdal_mcp.tools.validate import VALIDATE_CALL

# algorithms that are listed with the arguments that most calls need, and what they are called by
_BRIEF: Final = (
    (
        "raster clip",
        ("input", "output", "bbox", "bbox-crs", "window", "geometry", "like", "overwrite"),
        "Cuts a raster to a box, a pixel window, a geometry or the extent of another dataset.",
    ),
    (
        "raster overview add",
        ("input", "levels", "resampling", "external"),
        "Adds overviews (pyramids) to a raster, in its file or, with external, beside it.",
    ),
    (
        "raster overview delete",
        ("input", "external"),
        "Takes the overviews of a raster away.",
    ),
    (
        "vector info",
        ("input", "input-layer", "features", "limit", "where"),
        "Describes the layers of a vector dataset; with features, their features.",
    ),
    (
        "vector convert",
        ("input", "output", "output-format", "input-layer", "output-layer", "overwrite", "append"),
        "Converts a vector dataset, whole or some layers, to another format.",
    ),
    (
        "vector reproject",
        ("input", "output", "output-crs", "input-crs", "overwrite"),
        "Reprojects a vector dataset to another CRS.",
    ),
    (
        "vector clip",
        ("input", "output", "bbox", "bbox-crs", "geometry", "like", "overwrite"),
        "Cuts a vector dataset to a box, a geometry or another dataset.",
    ),
)


@lru_cache(maxsize=4)
def core(catalogue: Catalogue) -> tuple[Tool, ...]:
    """The tools of the default set. Some are made from the catalogue."""
    return (
        LIST_WORKSPACE,
        INFO,
        PREVIEW,
        CONVERT,
        REPROJECT,
        *(brief_tool(catalogue, *row) for row in _BRIEF),
        QUERY,
        QUERY_TO_FILE,
        PIPELINE,
        VALIDATE_CALL,
        FORMATS,
        FIND_CRS,
        GDAL_SEARCH,
        GDAL_DESCRIBE,
        GDAL_READ,
        GDAL_WRITE,
    )
