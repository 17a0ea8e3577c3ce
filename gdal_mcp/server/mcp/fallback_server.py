"""A server that answers every call with the reason why the real server could not be started.

It exists because a client that only shows "disconnected" does not help the user.
"""

import contextlib
import signal
from typing import Any

import mcp_types as t
from mcp.server.lowlevel.server import Server

from gdal_mcp import __version__
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.server.mcp import render
from gdal_mcp.server.mcp.stdio import run_stdio
from gdal_mcp.server.mcp.tasks import Context
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.toolboxes.shortening import json_text

_NEXT = "Fix that, then restart this server in the client. `gdal-mcp doctor` checks everything else."


async def serve(reason: str) -> None:
    """Serves one client over stdio. The instructions and the answer to every call have the reason for the failure."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the thread that reads stdin cannot be interrupted
    error = ToolError(Code.ENGINE_UNAVAILABLE, Stage.LOOKUP, reason, _NEXT).as_dict(call_id="")
    tools, usual = [], Settings.model_construct()  # default settings, because the user's may be the fault
    with contextlib.suppress(CatalogueBroken):
        tools = [render.tool(tool) for tool in toolboxes(usual).surface(usual).listed]

    async def list_tools(_ctx: Context, _params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=tools)

    async def call_tool(_ctx: Context, _params: t.CallToolRequestParams) -> t.CallToolResult:
        text = t.TextContent(text=json_text(error))
        return t.CallToolResult(content=[text], structured_content=error, is_error=True)

    server: Server[Any] = Server(
        "gdal-mcp",
        version=__version__,
        instructions=f"This server cannot run a call: {reason} {_NEXT}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    await run_stdio(server)
