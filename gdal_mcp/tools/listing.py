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

_OVERWRITE: Final = "Replace an existing output; default false"
_CUT: Final = {
    "bbox": "[xmin, ymin, xmax, ymax] in bbox_crs",
    "bbox_crs": "Default: CRS of the input",
    "geometry": "WKT or GeoJSON, in the CRS of the input",
    "like": "Dataset whose extent is taken",
    "overwrite": _OVERWRITE,
}
# algorithms that are listed with the arguments that most calls need, what is said of these, and what they are called by
_BRIEF: Final = (
    (
        "raster clip",
        {"input": "", "output": "", "window": "[column, line, width, height] in pixels", **_CUT},
        "Cuts a raster to a box, a pixel window, a geometry or the extent of another dataset.",
    ),
    (
        "raster overview add",
        {
            "input": "",
            "levels": "Reduction factors such as [2, 4]; default: by two down to 256 pixels",
            "resampling": "Default nearest",
            "external": "Into a file beside it; default false",
        },
        "Adds overviews (pyramids) to a raster, in its file or, with external, beside it.",
    ),
    (
        "raster overview delete",
        {"input": "", "external": "Those in a file beside it alone; default false"},
        "Takes the overviews of a raster away.",
    ),
    (
        "vector info",
        {
            "input": "",
            "input_layer": "Default: all",
            "features": "Tell the features too; default false",
            "limit": "Most features of a layer; implies features",
            "where": "Such as \"pop > 1000 AND name LIKE 'A%'\"",
            "output_format": "json: GDAL's whole report and geometries. Default: a summary",
        },
        "Describes the layers of a vector dataset; with features, their features.",
    ),
    (
        "vector convert",
        {
            "input": "",
            "output": "",
            "output_format": "Such as GPKG; default: by extension",
            "input_layer": "Default: all",
            "output_layer": "Default: as in the input",
            "overwrite": _OVERWRITE,
            "append": "Add to an existing output; default false",
        },
        "Converts a vector dataset, whole or some layers, to another format.",
    ),
    (
        "vector reproject",
        {
            "input": "",
            "output": "",
            "dst_crs": "Target CRS such as EPSG:3857",
            "src_crs": "Default: CRS of the input",
            "overwrite": _OVERWRITE,
        },
        "Reprojects a vector dataset to another CRS.",
    ),
    (
        "vector clip",
        {"input": "", "output": "", **_CUT},
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
