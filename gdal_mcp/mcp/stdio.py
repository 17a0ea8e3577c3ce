"""Serves one client over standard input and output, and ends for certain: on end of input, SIGTERM and SIGINT."""

import anyio
from mcp.server.stdio import stdio_server

from gdal_mcp.app import App
from gdal_mcp.console.autostart import Autostart
from gdal_mcp.mcp.background import end_on_signal, get_ready, reap
from gdal_mcp.mcp.parse_errors import Answered
from gdal_mcp.mcp.server import build
from gdal_mcp.settings import Settings


async def serve(app: App) -> None:
    """Returns at end of input; a signal cancels every call, waits for their containers and ends the process."""
    server = build(app)
    app.asking.options = records_option(app.settings)
    async with anyio.create_task_group() as group:
        serving = anyio.CancelScope()
        group.start_soon(end_on_signal, serving, app)
        group.start_soon(get_ready, app)
        group.start_soon(reap, app)
        group.start_soon(Autostart(app).attend)
        with serving:
            async with stdio_server() as (reading, writing):
                read = Answered(reading, writing)
                await server.run(read, writing, server.create_initialization_options())
        group.cancel_scope.cancel()


def records_option(settings: Settings) -> tuple[str, ...]:
    """What names this server's records to a command at a terminal: nothing where they lie at the usual place."""
    usual = Settings.model_fields["state_dir"].get_default(call_default_factory=True)
    return () if settings.state_dir == usual else ("--state-dir", str(settings.state_dir))
