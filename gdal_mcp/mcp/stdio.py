"""Serves one client over standard input and output, until end of input, SIGTERM or SIGINT."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from gdal_mcp.app import App
from gdal_mcp.mcp.background import end_on_signal, get_ready, reap
from gdal_mcp.mcp.parse_errors import Answered
from gdal_mcp.mcp.server import build


async def serve(app: App, *beside: Callable[[App], Coroutine[Any, Any, None]]) -> None:
    """Returns at end of input; a signal cancels every call, waits for their containers and ends the process.

    Tasks that run `beside` it, such as a console, are cancelled at the end.
    """
    server = build(app)
    async with anyio.create_task_group() as group:
        serving = anyio.CancelScope()
        group.start_soon(end_on_signal, serving, app)
        for task in (get_ready, reap, *beside):
            group.start_soon(task, app)
        with serving:
            await attend(server)
        group.cancel_scope.cancel()


async def attend(server: Server[Any]) -> None:
    async with stdio_server() as (reading, writing):
        await server.run(Answered(reading, writing), writing, server.create_initialization_options())
