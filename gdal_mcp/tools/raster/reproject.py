"""`reproject`: PROVISIONAL"""

from pydantic import Field

from gdal_mcp.paths import Paths
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import CommandResult, DatasetPath, OutputPath, present_command
from gdal_mcp.tools.crs import checked_crs
from gdal_mcp.tools.model import Arguments, Tool


class ReprojectArguments(Arguments):
    input: DatasetPath
    output: OutputPath
    dst_crs: str
    overwrite: bool = Field(default=True, description="Replace an existing output, which is kept for undo")


def _draft(arguments: ReprojectArguments, paths: Paths) -> Draft:
    source = paths.input(arguments.input)
    output = paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    options = (
        "raster",
        "reproject",
        f"--output-crs={checked_crs(arguments.dst_crs)}",
        f"--input={source}",
        f"--output={output.inside}",
    )
    return Draft(Command("gdal", options), (source,), output)


REPROJECT = Tool(
    name="reproject",
    title="Reproject a raster",
    description="Reprojects",
    arguments=ReprojectArguments,
    result=CommandResult,
    draft=_draft,
    present=present_command,
    writes=True,
    replaces=True,
)
