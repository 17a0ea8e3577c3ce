"""`gdal-mcp call`, `undo` and `tools`: one call, one undo, and the list of what can be called."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from gdal_mcp.app import App, local_user
from gdal_mcp.approval.model import Terminal
from gdal_mcp.commands.exits import Exit, exit_of
from gdal_mcp.commands.finding import leave_link
from gdal_mcp.commands.streams import out, out_json, show_status
from gdal_mcp.operations.undoing import undo
from gdal_mcp.pipeline import Reply, Request
from gdal_mcp.settings import Settings
from gdal_mcp.toolbox import spelling
from gdal_mcp.toolboxes import toolboxes


def with_tool(settings: Settings, name: str) -> tuple[Settings, str]:
    """The settings with an algorithm's own tool, which clients only have when they ask for it, and the tool's name."""
    known = {spelling(one): one for one in toolboxes(settings).tools}
    tool = known.get(spelling(name), name)
    listed = tool in toolboxes(settings).surface(settings).callable or tool not in known.values()
    return settings if listed else settings.model_copy(update={"tools": (*settings.tools, tool)}), tool


def call_once(app: App, tool: str, arguments: Mapping[str, Any], *, assume_yes: bool) -> Exit:
    """Prints the structured result, or the error in the same shape as clients get it."""
    user = local_user()
    leave_link(app.settings)
    request = Request(
        tool,
        arguments,
        user,
        "gdal-mcp call",
        Terminal(user.id, assume_yes),
        on_progress=lambda fraction, message: show_status(f"{fraction:4.0%} {message}"),
    )
    try:
        reply: Reply = anyio.run(partial(app.pipeline.call, request))
    finally:
        show_status()
    out_json(reply.result)
    return exit_of(reply.error)


def undo_call(app: App, call_id: str) -> Exit:
    """Undoes a publication in whichever workspace it was made. Raises StagingFailed, PathMissing."""
    out_json(undo(app, call_id, local_user().id))
    return Exit.DONE


def list_tools(settings: Settings, *, every: bool, as_json: bool) -> Exit:
    """Prints a line for each tool that a server lists, or their schemas. Raises CatalogueBroken."""
    chosen = settings.model_copy(update={"toolsets": ("all",)}) if every else settings
    tools = toolboxes(chosen).surface(chosen).listed
    if as_json:
        rows = [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.listed_schema,
                "writes": tool.writes,
            }
            for tool in tools
        ]
        out_json(rows)
        return Exit.DONE
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        first = tool.description.split(". ")[0].rstrip(".")
        out(f"{tool.name:<{width}}  {'writes' if tool.writes else 'reads '}  {first}.")
    return Exit.DONE
