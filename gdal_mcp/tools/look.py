"""`preview` and `list_workspace`: pictures of data, and the files that exist."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gdal_mcp.calls.longresults import result_uri, store_of
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, PrintedOutput
from gdal_mcp.toolboxes.base import Arguments, ImmediateResult, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.answers.described import SHOWN
from gdal_mcp.toolboxes.gdal.answers.words import valid_parts
from gdal_mcp.toolboxes.gdal.datasets.listing import MAX_PATTERN, MAX_ROWS, Query, as_json, page
from gdal_mcp.tools.common import DatasetArguments, DatasetPath, DraftContext
from sandbox.browse import opened

_LONGEST: Final = 16 << 20  # bytes of a stored answer that are parsed to answer again
Band = Annotated[int, Field(ge=1, le=65_535)]


class PreviewArguments(DatasetArguments):
    path: DatasetPath
    max_size: Annotated[int, Field(ge=32, le=2048)] = Field(512, description="Longer side in pixels")
    bands: Annotated[list[Band], Field(min_length=1, max_length=4)] | None = Field(
        None, description="Bands to show, from 1: one, or red, green, blue"
    )
    color: Literal["auto", "gray", "rgb", "hillshade", "palette"] = "auto"


def _preview(arguments: PreviewArguments, context: DraftContext) -> Draft:
    source = context.paths.source(arguments.path)
    picture = {"pixels": arguments.max_size, "bands": arguments.bands, "color": arguments.color}
    return Draft(
        Command("preview", (), (source.name,), extra={"preview": picture}),
        (source.located,),
        printed=PrintedOutput(
            is_json=True, present=lambda answer: {"shown": dict(valid_parts(SHOWN, answer.parsed))}
        ),
    )


PREVIEW = Tool(
    name="preview",
    pictures=True,
    title="Show a dataset",
    description="A PNG picture of a raster or vector dataset. Elevation can be hillshaded.",
    **schema_and_draft(PreviewArguments, _preview),
    writes=False,
    own_keys={"shown": {"type": "object"}},
)


class ListArguments(Arguments):
    path: str = Field(".", description="Folder in a workspace", max_length=4096)
    pattern: str = Field("*", description="Glob such as `*.tif` or `2024/*`", max_length=MAX_PATTERN)
    cursor: str | None = Field(None, description="`next_cursor` of the page before")
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 100
    result: str | None = Field(None, description="Id of a call: its answer instead", max_length=64)


def _list(arguments: ListArguments, context: DraftContext) -> Draft | ImmediateResult:
    """Drafts a listing.

    The host lists without following links; GDAL then identifies the format of each file without opening it fully.
    """
    if arguments.result is not None:
        return ImmediateResult({"result": _stored_result(arguments.result, context)})
    folder = context.paths.folder(arguments.path)
    query = Query(folder, arguments.pattern, arguments.limit)
    with opened(context.paths.workspaces, folder) as top:
        listing = page(top, query, arguments.cursor)
    if not listing.to_identify:
        return ImmediateResult(as_json(listing))
    return Draft(
        Command("identify", (), tuple(map(str, listing.to_identify))),
        (),
        looked_at=(folder,),
        printed=PrintedOutput(is_json=True, present=lambda answer: as_json(listing, answer.parsed)),
    )


def _stored_result(call_id: str, context: DraftContext) -> Any:
    """The stored answer of an earlier call of the same principal. Raises ToolError if it does not exist or is too
    long.
    """
    stored = store_of(context.settings).read(call_id, 0, _LONGEST, context.principal)
    if stored is not None and len(stored[0]) == stored[1]:
        return json.loads(stored[0])
    problem = "is kept" if stored is None else f"is short enough; read {result_uri(call_id)} in parts"
    raise ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        f"no answer of a call {call_id!r} of yours {problem}.",
        "Answers that a client may not have received, and long ones, are kept for some days.",
    )


LIST_WORKSPACE = Tool(
    name="list_workspace",
    title="List a workspace",
    description="Datasets, files and folders below a folder, with format and size. Links are shown, never followed.",
    **schema_and_draft(ListArguments, _list),
    writes=False,
    runs=False,  # a page without files needs no container, and has no receipt
)
