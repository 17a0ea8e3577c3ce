"""`gdal-mcp tools`: the tools that a server with these settings lists."""

from typing import Any

from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json
from gdal_mcp.settings import Settings
from gdal_mcp.toolbox import Tool
from gdal_mcp.toolboxes import toolboxes


def show(settings: Settings, *, every: bool, as_json: bool) -> Exit:
    """Prints a line for each tool, or its schemas. Raises CatalogueBroken."""
    chosen = settings.model_copy(update={"toolsets": ("all",)}) if every else settings
    tools = toolboxes(chosen).surface(chosen).listed
    if as_json:
        out_json([_row(tool) for tool in tools])
        return Exit.DONE
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        out(f"{tool.name:<{width}}  {'writes' if tool.writes else 'reads '}  {_first_sentence(tool)}")
    return Exit.DONE


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "writes": tool.writes,
    }


def _first_sentence(tool: Tool) -> str:
    return f"{tool.description.split('. ')[0].rstrip('.')}."
