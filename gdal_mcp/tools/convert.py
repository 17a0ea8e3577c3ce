"""`convert`: `gdal convert`, raster or vector by what the input holds."""

from pydantic import Field

from gdal_mcp.gdal.catalogue.binding import Context, bind_switches_of
from gdal_mcp.plan import Draft
from gdal_mcp.toolbox import Arguments, Tool, schema_of, typed
from gdal_mcp.tools.common import (
    COMMAND_KEYS,
    DatasetPath,
    ExtraArguments,
    Options,
    OutputPath,
    gdal_command,
    option_texts,
    present_command,
)
from gdal_mcp.tools.model import DraftContext


class ConvertArguments(Arguments):
    input: DatasetPath
    output: OutputPath
    output_format: str | None = Field(None, description="Such as GTiff, COG, GPKG; left out, by extension")
    overwrite: bool = Field(default=True, description="Replace an existing output; it is kept for undo")
    creation_options: Options | None = None
    extra_args: ExtraArguments | None = None


def _draft(arguments: ConvertArguments, context: DraftContext) -> Draft:
    source = context.paths.source(arguments.input)
    output = context.paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    switches = [
        *([f"--output-format={arguments.output_format}"] if arguments.output_format else []),
        *(f"--creation-option={text}" for text in option_texts(arguments.creation_options)),
        *(arguments.extra_args or ()),
    ]
    algorithms = [context.catalogue.algorithms[path] for path in ("raster convert", "vector convert")]
    # the format is among the switches
    binding = Context(context.catalogue, output.target.name, None, context.threads)
    bound = bind_switches_of(algorithms, switches, binding)
    return gdal_command("convert", bound, context, (source, output))


CONVERT = Tool(
    name="convert",
    title="Convert a dataset",
    description="Converts a raster or vector dataset to another format, with creation options. "
    'Example: {"input": "dem.tif", "output": "dem_cog.tif", "output_format": "COG", '
    '"creation_options": {"COMPRESS": "DEFLATE"}}.',
    schema=schema_of(ConvertArguments),
    draft=typed(ConvertArguments, _draft),
    present=present_command,
    own_keys=COMMAND_KEYS,
    required_keys=("output", "resource_uri"),
    like="raster convert",
    writes=True,
    replaces=True,
)
