"""`gdal-mcp serve`: starts a server, which runs until its client leaves or a signal ends it.

The parts of a server are imported where they are used: a server over stdio imports no HTTP modules.
"""

import gc
import sys
from typing import Final

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.finding import leave_link, usual_folder
from gdal_mcp.cli.streams import say
from gdal_mcp.runtime.nested import is_lasting
from gdal_mcp.settings import Settings

NOT_LASTING: Final = "records of calls go with this container; docker run -v gdal-mcp:{} keeps them."


def over_stdio(settings: Settings) -> Exit:
    """Serves one client over stdin and stdout until it leaves. Raises SettingsError, SandboxError and the errors of
    `running`.
    """
    settings.require_workspaces()
    import anyio

    from gdal_mcp.server.app import running
    from gdal_mcp.server.console.autostart import Autostart
    from gdal_mcp.server.mcp.background import tune_runtime
    from gdal_mcp.server.mcp.stdio import serve

    console = Autostart(settings)
    with running(settings, console.url, state_option(settings)) as app:
        tune_runtime()
        leave_link(settings)
        if not is_lasting(settings.state_dir):
            say(NOT_LASTING.format(settings.state_dir))
        if sys.stdin.isatty():
            say("serving MCP on stdin and stdout, for a client; Ctrl-D ends it.")
        unread = False
        try:
            anyio.run(serve, app, console.serve_when_needed)
        except* BrokenPipeError:
            unread = True
        if unread:
            raise BrokenPipeError("the client has closed the connection")
    return Exit.DONE


def report_not_ready(reason: str) -> None:
    """Reports why the server did not start, also to the client, which would only show that it is disconnected."""
    gc.enable()
    say(reason)
    if not sys.stdin.isatty():
        import anyio

        from gdal_mcp.server.mcp.fallback_server import serve

        anyio.run(serve, reason)


def over_http(settings: Settings) -> Exit:
    """Serves over HTTP until a signal ends the process. Raises SettingsError, SandboxError and the errors of
    `running`.
    """
    settings.require_workspaces()
    import anyio

    from gdal_mcp.server.app import running
    from gdal_mcp.server.http.server import console_url, prepare, serve
    from gdal_mcp.server.mcp.background import tune_runtime

    bound = prepare(settings)
    with running(settings, console_url(settings, bound), state_option(settings)) as app:
        tune_runtime()
        leave_link(settings)
        if sys.stderr.isatty():
            scheme = "https" if settings.tls_cert else "http"
            say(f"serving MCP at {scheme}://{settings.host}:{bound.getsockname()[1]}/mcp; Ctrl-C ends it.")
        anyio.run(serve, app, bound)
    return Exit.DONE


def state_option(settings: Settings) -> tuple[str, ...]:
    """Options of `gdal-mcp approve` for this server's questions: none with the default state folder."""
    return () if settings.state_dir == usual_folder() else ("--state-dir", str(settings.state_dir))
