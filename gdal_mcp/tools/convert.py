"""`convert`: `gdal convert`, for raster or vector data, depending on the input."""

from pydantic import Field

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.catalogue.formats import usual_driver
from gdal_mcp.tools.common import (
    WRITES_OUTPUT,
    DatasetArguments,
    DatasetPath,
    DraftContext,
    ExtraArguments,
    Options,
    OutputPath,
    gdal_command,
)


class ConvertArguments(DatasetArguments):
    input: DatasetPath
    output: OutputPath
    output_format: str | None = Field(None, description="Such as GTiff, COG, GPKG; default: by extension")
    overwrite: bool = Field(
        default=True,
        description="Replace an existing output, kept for undo; default true here and in reproject",
    )
    creation_options: Options | None = Field(
        None, description='As {"COMPRESS": "LZW"}; COG has PROFILE: web (EPSG:3857) or analysis'
    )
    extra_args: ExtraArguments | None = None


def _draft(arguments: ConvertArguments, context: DraftContext) -> Draft:
    source = context.paths.source(arguments.input)
    output = context.paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    values = {
        "output-format": arguments.output_format or usual_driver(context.catalogue, arguments.output, None),
        "creation-option": arguments.creation_options or None,
    }
    # raster or vector: found by opening the input in the container
    algorithms = ("raster convert", "vector convert")
    return gdal_command(
        "convert", algorithms, (values, arguments.extra_args or ()), context, (source, output)
    )


CONVERT = Tool(
    name="convert",
    title="Convert a dataset",
    description="Converts a dataset to another format. "
    'Example: {"input": "dem.tif", "output": "dem_cog.tif", "output_format": "COG", '
    '"creation_options": {"PROFILE": "web"}}.',
    **schema_and_draft(ConvertArguments, _draft),
    required_keys=("output", "resource_uri"),
    like="raster convert",
    **WRITES_OUTPUT,
)
