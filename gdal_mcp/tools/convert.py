"""`convert`: PROVISIONAL"""

from pydantic import Field

from gdal_mcp.paths import Paths
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import (
    CommandResult,
    DatasetPath,
    Options,
    OutputPath,
    option_texts,
    present_command,
)
from gdal_mcp.tools.model import Arguments, Tool


class ConvertArguments(Arguments):
    input: DatasetPath
    output: OutputPath
    output_format: str | None = Field(
        None, description="Driver short name such as GTiff, COG, GPKG; else by extension"
    )
    overwrite: bool = Field(default=True, description="Replace an existing output, which is kept for undo")
    creation_options: Options | None = None
    extra_args: list[str] | None = None


def _draft(arguments: ConvertArguments, paths: Paths) -> Draft:
    source = paths.input(arguments.input)
    output = paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    options = ["convert"]
    if arguments.output_format:
        options.append(f"--output-format={arguments.output_format}")
    options += [f"--creation-option={text}" for text in option_texts(arguments.creation_options)]
    return Draft(Command("gdal", (*options, str(source), output.inside)), (source,), output)


CONVERT = Tool(
    name="convert",
    title="Convert a dataset",
    description="Converts a raster or vector dataset to another format.",
    arguments=ConvertArguments,
    result=CommandResult,
    draft=_draft,
    present=present_command,
    writes=True,
    replaces=True,
)
