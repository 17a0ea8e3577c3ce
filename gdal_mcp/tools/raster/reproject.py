"""The tool `reproject`, which runs `gdal raster reproject`."""

from typing import Annotated, Literal

from pydantic import Field

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import Tool, schema_and_draft
from gdal_mcp.tools.common import (
    WRITES_OUTPUT,
    Box,
    DatasetArguments,
    DatasetPath,
    DraftContext,
    ExtraArguments,
    Options,
    OutputPath,
    Packed,
    gdal_command,
)

Resampling = Literal[
    "nearest", "bilinear", "cubic", "cubicspline", "lanczos", "average", "rms",
    "mode", "min", "max", "med", "q1", "q3", "sum",
]  # fmt: skip
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PAIR = (Packed, Field(min_length=2, max_length=2))


class ReprojectArguments(DatasetArguments):
    input: DatasetPath
    output: OutputPath
    dst_crs: str = Field(description="Target CRS: EPSG:3857, other codes, WKT, PROJJSON or a PROJ string")
    src_crs: str | None = Field(
        None, description="Of an input without a CRS, or with a wrong one; default: its own"
    )
    resampling: Resampling | None = Field(
        None, description="Default nearest; bilinear or cubic for elevation"
    )
    resolution: Positive | Annotated[list[Positive], *PAIR] | None = Field(
        None, description="Pixel size in units of dst_crs, a number or [x, y]; default: as fine as the input"
    )
    size: Annotated[list[Annotated[int, Field(ge=0)]], *PAIR] | None = Field(
        None, description="[width, height] in pixels, 0 keeps the proportion; not with resolution"
    )
    bbox: Box | None = Field(None, description="[xmin, ymin, xmax, ymax] in bbox_crs")
    bbox_crs: str | None = Field(None, description="Default: dst_crs")
    overwrite: bool = Field(
        default=True,
        description="Replace an existing output, kept for undo; default true here and in convert",
    )
    creation_options: Options | None = Field(None, description='As {"COMPRESS": "LZW"}')
    warp_options: Options | None = None
    transform_options: Options | None = None
    extra_args: ExtraArguments | None = None


def _draft(arguments: ReprojectArguments, context: DraftContext) -> Draft:
    source = context.paths.source(arguments.input)
    output = context.paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    resolution = arguments.resolution
    values = {
        "output-crs": arguments.dst_crs,
        "input-crs": arguments.src_crs,
        "resampling": arguments.resampling,
        "resolution": [resolution, resolution] if isinstance(resolution, float) else resolution,
        "size": arguments.size,
        "bbox": arguments.bbox,
        "bbox-crs": arguments.bbox_crs,
        "creation-option": arguments.creation_options or None,
        "warp-option": arguments.warp_options or None,
        "transform-option": arguments.transform_options or None,
    }
    path = "raster reproject"
    return gdal_command(path, (path,), (values, arguments.extra_args or ()), context, (source, output))


REPROJECT = Tool(
    name="reproject",
    title="Reproject a raster",
    description="Reprojects a raster to another CRS, resolution, size or extent. "
    'Example: {"input": "dem.tif", "output": "dem_3857.tif", "dst_crs": "EPSG:3857", "resampling": "bilinear"}.',
    **schema_and_draft(ReprojectArguments, _draft),
    required_keys=("output", "resource_uri"),
    like="raster reproject",
    **WRITES_OUTPUT,
)
