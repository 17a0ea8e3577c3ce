"""`upload`: examines a file that was sent over HTTP before it is published. MCP clients do not see it."""

from pathlib import PurePosixPath
from typing import Any, Final

from pydantic import Field

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, PrintedOutput
from gdal_mcp.toolboxes.base import Arguments, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.datasets.paths import refuse_other_name
from gdal_mcp.tools.common import DraftContext


class UploadArguments(Arguments):
    path: str = Field(description="Where it goes, absolute")
    bytes: int
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    overwrite: bool = True


def _draft(arguments: UploadArguments, context: DraftContext) -> Draft:
    """Drafts the check of an upload. The command's words show what is approved; the program only needs the name."""
    refuse_other_name(PurePosixPath(arguments.path).name)
    output = context.paths.output(arguments.path, inputs=(), overwrite=arguments.overwrite)
    if output.target.is_folder:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.RESOLVE,
            f"{output.target.name} is a folder.",
            "Send the file to a name of its own.",
        )
    options = (f"--bytes={arguments.bytes}", f"--sha256={arguments.sha256}")
    command = Command("identify", options, (output.inside,))
    return Draft(command, (), (output,), printed=PrintedOutput(is_json=True, verify=_require_driver))


def _require_driver(report: Any) -> None:
    if not (isinstance(report, dict) and report and all(report.values())):
        raise ToolError(Code.GDAL_ERROR, Stage.RUN, "GDAL cannot read what was sent as a dataset.")


UPLOAD: Final = Tool(
    name="upload",
    title="Take a file in",
    description="Publishes a file that was sent over HTTP, once GDAL could read it.",
    **schema_and_draft(UploadArguments, _draft),
    writes=True,
    replaces=True,
)
