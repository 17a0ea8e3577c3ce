"""The console of a server over stdio: on loopback, on a port of its own, for the user who runs it."""

from collections.abc import Callable
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gdal_mcp.app import App
from gdal_mcp.console import runtime_file
from gdal_mcp.console.hosted import advertisement, build_console
from gdal_mcp.console.routes import PATH
from gdal_mcp.http.concurrency import RequestLimit
from gdal_mcp.http.guard import HostFilter, Names
from gdal_mcp.http.serving import Listening, bind, port_of, serve_routes
from gdal_mcp.settings import SettingsError

HOST: Final = "127.0.0.1"
_REQUESTS: Final = 128  # at once: the streams and what a person can click on
_log = structlog.get_logger()


async def serve(app: App, opened: Callable[[str], None]) -> None:
    """Serves until it is cancelled; `opened` is told the address. Raises SettingsError for a port that is taken."""
    wanted, state = app.settings.console_port, app.settings.state_dir
    try:
        bound = bind(HOST, wanted)
    except SettingsError as error:
        raise SettingsError(
            f"port {wanted} of the console is not free; another program may have it. Choose another --console-port, or 0."
        ) from error
    port = port_of(bound)
    url = f"http://{HOST}:{port}{PATH}/"
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
    names = Names(hosts, [f"http://{host}" for host in hosts])
    limit = RequestLimit(_REQUESTS, _REQUESTS)
    found = advertisement(app, url)
    console = build_console(app, found, names.origins, None)
    page = Starlette(routes=[Route("/", _to_page), *console.routes()])

    def started() -> None:
        try:
            runtime_file.put(state, found)
        except OSError as error:  # nobody can come in, and calls go on
            _log.warning("console_not_advertised", reason=str(error))
        opened(url)

    try:
        await serve_routes(
            HostFilter(page, limit, names, ()),
            bound,
            Listening(HOST, port, _REQUESTS * 2),
            started=started,
            ending=limit.close,
        )
    finally:
        runtime_file.drop(state, app.owner.id)


async def _to_page(_request: Request) -> Response:
    return RedirectResponse(f"{PATH}/", 307)
