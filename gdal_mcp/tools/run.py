"""Runs any algorithm: by its name with `gdal_read` and `gdal_write`, or by a tool of its own, such as
`raster_hillshade`.

`gdal_read` and `gdal_write` are separate tools, so that the annotations of each are true.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic import Field

from gdal_mcp.plan import Draft, Review, Work
from gdal_mcp.toolboxes.base import Arguments, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Catalogue
from gdal_mcp.toolboxes.gdal.catalogue.schema import input_schema
from gdal_mcp.toolboxes.gdal.datasets.operations import (
    ALWAYS_ASKED,
    FILE_OPERATIONS,
    plan_operation,
)
from gdal_mcp.toolboxes.gdal.discovery.entries import tool_name
from gdal_mcp.tools.algorithm import PIPELINES, algorithm_named, binding_context, draft_algorithm, may_write
from gdal_mcp.tools.common import WRITES_OUTPUT, DraftContext
from gdal_mcp.tools.pipelines import draft_pipeline
from gdal_mcp.tools.query import SQL, draft_rows

OPTIONS = "options"


def draft_call(algorithm: Algorithm, arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """Drafts a call of an algorithm with its arguments. All tools of algorithms use it. Raises ToolError,
    ArgumentRefused.
    """
    if algorithm.path in PIPELINES:
        return draft_pipeline(algorithm.path, arguments, context)
    if algorithm.path == SQL and not {"output", "append", "update"} & set(arguments):
        return draft_rows(arguments, context)
    if algorithm.path not in FILE_OPERATIONS:
        return draft_algorithm(algorithm, arguments, context)
    # the host copies, renames, moves and deletes files; GDAL only examines them
    bound = bind(algorithm, arguments, binding_context(context))
    values = {argument.name: argument.values for argument in bound.arguments}
    work = plan_operation(algorithm.path, values, context.paths)
    if any(word.endswith("=?") for word in work.command.options):
        raise ArgumentRefused("a name ends with =?, which asks GDAL for completions.", "Use another name.")
    always_needs_approval = algorithm.path in ALWAYS_ASKED or bool(work.files.removes)
    return replace(work, work=Work(algorithm.path, values), review=Review(always_needs_approval))


class RunArguments(Arguments):
    algorithm: str = Field(description="Command path such as `raster hillshade`", max_length=100)
    arguments: Mapping[str, Any] = Field(description="Its arguments by name, as gdal_describe lists them")


def _draft(arguments: RunArguments, context: DraftContext) -> Draft:
    return draft_call(algorithm_named(arguments.algorithm, context), arguments.arguments, context)


def _read(arguments: RunArguments, context: DraftContext) -> Draft:
    draft = _draft(arguments, context)
    if draft.writes:
        raise ArgumentRefused(
            "this call would write, and gdal_read only reads.",
            "Call gdal_write with the same arguments, or leave the output out where it is optional.",
        )
    return draft


GDAL_READ = Tool(
    name="gdal_read",
    title="Run a GDAL algorithm that reads",
    description="Runs any GDAL algorithm that writes nothing. Example: "
    '{"algorithm": "raster pixel-info", "arguments": {"input": "dem.tif", "position": [10, 20]}}.',
    **schema_and_draft(RunArguments, _read),
    writes=False,
)
GDAL_WRITE = Tool(
    name="gdal_write",
    title="Run a GDAL algorithm that writes",
    description="Runs any GDAL algorithm, with outputs. Existing outputs are replaced only with overwrite, and kept for undo. "
    'Example: {"algorithm": "raster slope", "arguments": {"input": "dem.tif", "output": "slope.tif"}}.',
    **schema_and_draft(RunArguments, _draft),
    **WRITES_OUTPUT,
)


@lru_cache(maxsize=256)
def direct_tool(catalogue: Catalogue, path: str) -> Tool:
    algorithm = catalogue.algorithms[path]
    return Tool(
        name=tool_name(path),
        title=f"gdal {path}",
        description=f"{algorithm.description.rstrip('.')}.",
        schema=lambda: input_schema(algorithm, compact=True),
        draft=lambda arguments, context: draft_call(algorithm_named(path, context), arguments, context),
        like=path,
        **(WRITES_OUTPUT if may_write(algorithm) else {"writes": False}),
    )


def algorithm_tool(catalogue: Catalogue, path: str, shown: Mapping[str, str], description: str) -> Tool:
    """The tool of an algorithm with a few arguments in its schema and all others, by name, in one object `options`.

    `shown` has the description of each of the few; "" leaves it without one.
    """
    full = direct_tool(catalogue, path)

    def schema() -> dict[str, Any]:
        complete = full.schema()
        properties = {}
        for name, text in shown.items():
            described = {**complete["properties"][name], "description": text}
            properties[name] = {key: value for key, value in described.items() if value != ""}
        properties[OPTIONS] = {"type": "object", "description": "Other arguments (see gdal_describe)"}
        required = [name for name in complete.get("required", ()) if name in properties]
        return {**complete, "properties": properties, "required": required}

    def draft(arguments: Mapping[str, Any], context: DraftContext) -> Any:
        options = arguments.get(OPTIONS, {})
        if not isinstance(options, Mapping):
            raise ArgumentRefused("`options` is no object.", 'Give its arguments by name: {"NAME": VALUE}.')
        merged = {key: value for key, value in arguments.items() if key != OPTIONS}
        return full.draft({**options, **merged}, context)

    return replace(full, description=description, schema=schema, draft=draft)
