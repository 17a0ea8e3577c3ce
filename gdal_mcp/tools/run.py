"""`gdal_read` and `gdal_write`: any algorithm by its name. Two tools, so that what they say of themselves is true."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolbox import Arguments, Tool, schema_of, typed
from gdal_mcp.tools.algorithm import algorithm_named
from gdal_mcp.tools.common import COMMAND_KEYS, present_command
from gdal_mcp.tools.dispatch import draft_call
from gdal_mcp.tools.model import DraftContext


class RunArguments(Arguments):
    algorithm: str = Field(description="Command path such as `raster hillshade`", max_length=100)
    arguments: Mapping[str, Any] = Field(description="Its arguments by name, as gdal_describe lists them")


def _draft(arguments: RunArguments, context: DraftContext) -> Draft:
    algorithm = algorithm_named(arguments.algorithm, context)
    return draft_call(algorithm, arguments.arguments, context)


def _read(arguments: RunArguments, context: DraftContext) -> Draft:
    draft = _draft(arguments, context)
    if draft.writes:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.VALIDATE,
            "this call would write, and gdal_read only reads.",
            "Call gdal_write with the same arguments, or leave the output out where it is optional.",
        )
    return draft


GDAL_READ = Tool(
    name="gdal_read",
    title="Run a GDAL algorithm that reads",
    description="Runs any GDAL algorithm that writes nothing. Example: "
    '{"algorithm": "raster pixel-info", "arguments": {"input": "dem.tif", "position": [10, 20]}}.',
    schema=schema_of(RunArguments),
    draft=typed(RunArguments, _read),
    writes=False,
)
GDAL_WRITE = Tool(
    name="gdal_write",
    title="Run a GDAL algorithm that writes",
    description="Runs any GDAL algorithm, with outputs. Existing outputs are replaced only with overwrite, and kept for undo. "
    'Example: {"algorithm": "raster slope", "arguments": {"input": "dem.tif", "output": "slope.tif"}}.',
    schema=schema_of(RunArguments),
    draft=typed(RunArguments, _draft),
    writes=True,
    replaces=True,
    present=present_command,
    own_keys=COMMAND_KEYS,
)
