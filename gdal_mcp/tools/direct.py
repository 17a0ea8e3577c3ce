"""Tools made from algorithms of the catalogue, one for each: `raster hillshade` is `raster_hillshade`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.catalogue.schema import input_schema
from gdal_mcp.gdal.discovery.entries import tool_name
from gdal_mcp.plan import Draft
from gdal_mcp.toolbox import Tool
from gdal_mcp.tools.algorithm import algorithm_named, may_write
from gdal_mcp.tools.common import COMMAND_KEYS, present_command
from gdal_mcp.tools.dispatch import draft_call
from gdal_mcp.tools.model import DraftContext

OPTIONS = "options"


@lru_cache(maxsize=256)
def direct_tool(catalogue: Catalogue, path: str) -> Tool:
    """The tool of one algorithm with all of its arguments."""
    algorithm = catalogue.algorithms[path]

    def draft(arguments: Mapping[str, Any], context: DraftContext) -> Draft:
        return draft_call(algorithm_named(path, context), arguments, context)

    writes = may_write(algorithm)
    return Tool(
        name=tool_name(path),
        title=f"gdal {path}",
        description=f"{algorithm.description.rstrip('.')}.",
        schema=lambda: input_schema(algorithm, compact=True),
        draft=draft,
        writes=writes,
        replaces=writes,
        present=present_command if writes else lambda _answer: {},
        own_keys=COMMAND_KEYS if writes else {},
        like=path,
    )


def brief_tool(catalogue: Catalogue, path: str, shown: tuple[str, ...], description: str) -> Tool:
    """The same with a few arguments in its schema and the others, by their names, in one object `options`."""
    full = direct_tool(catalogue, path)
    algorithm = catalogue.algorithms[path]

    def schema() -> dict[str, Any]:
        complete = input_schema(algorithm, compact=True)
        properties = {name: complete["properties"][name] for name in shown}
        properties[OPTIONS] = {
            "type": "object",
            "description": "Its other arguments by name (see gdal_describe)",
        }
        required = [name for name in complete.get("required", ()) if name in properties]
        return {**complete, "properties": properties, "required": required}

    def draft(arguments: Mapping[str, Any], context: DraftContext) -> Draft:
        more = arguments.get(OPTIONS, {})
        if not isinstance(more, Mapping):
            raise ArgumentRefused("`options` is no object.", 'Give its arguments by name: {"NAME": VALUE}.')
        merged = {key: value for key, value in arguments.items() if key != OPTIONS}
        return draft_call(algorithm_named(path, context), {**more, **merged}, context)

    return replace(full, description=description, schema=schema, draft=draft)
