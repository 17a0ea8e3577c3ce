"""`convert`: `gdal convert`, raster or vector by what the input holds."""

from pydantic import Field

from gdal_mcp.catalogue.binding import Context, bind_switches_of
from gdal_mcp.paths import Paths
from gdal_mcp.plan import Draft
from gdal_mcp.tools.common import (
    CommandResult,
    DatasetPath,
    ExtraArguments,
    Options,
    OutputPath,
    algorithms,
    gdal_command,
    option_texts,
    present_command,
)
from gdal_mcp.tools.model import Arguments, Tool


class ConvertArguments(Arguments):
    input: DatasetPath
    output: OutputPath
    output_format: str | None = Field(
        None, description="Driver short name such as GTiff, COG, GPKG, GeoJSON; left out, by extension"
    )
    overwrite: bool = Field(default=True, description="Replace an existing output, which is kept for undo")
    creation_options: Options | None = None
    extra_args: ExtraArguments | None = None


def _draft(arguments: ConvertArguments, paths: Paths) -> Draft:
    source = paths.input(arguments.input)
    output = paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    switches = [
        *([f"--output-format={arguments.output_format}"] if arguments.output_format else []),
        *(f"--creation-option={text}" for text in option_texts(arguments.creation_options)),
        *(arguments.extra_args or ()),
    ]
    context = Context(output.target.name, None, paths.threads)  # the format is among the switches
    bound = bind_switches_of(algorithms("raster convert", "vector convert"), switches, context)
    return gdal_command("convert", bound, paths, (source, output))


CONVERT = Tool(
    name="convert",
    title="Convert a dataset",
    description="Converts a raster or vector dataset to another format, with creation options. "
    'Example: {"input": "dem.tif", "output": "dem_cog.tif", "output_format": "COG", '
    '"creation_options": {"COMPRESS": "DEFLATE"}}.',
    arguments=ConvertArguments,
    result=CommandResult,
    draft=_draft,
    present=present_command,
    writes=True,
    replaces=True,
)
