"""The console of a server over stdio: on loopback, on a separate port, for the user who runs it."""

from collections.abc import Callable
from contextlib import closing
from typing import Final

import anyio.to_thread
import structlog
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Route

from gdal_mcp.runtime.nested import in_container, own_container
from gdal_mcp.server.app import App
from gdal_mcp.server.console import runtime_file
from gdal_mcp.server.console.routes import PATH, advertisement, build_console
from gdal_mcp.server.http.concurrency import RequestLimit
from gdal_mcp.server.http.guard import HostFilter
from gdal_mcp.server.http.serving import ListenOptions, bind, serve_routes
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.web import LOOPBACK
from sandbox.engines.opening import open_engine
from sandbox.errors import EngineUnavailable

HOST: Final = "127.0.0.1"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - in the network of a container that only the loopback of the host reaches
_REQUESTS: Final = 128  # open requests: the streams and what a person can click on
_log = structlog.get_logger()


async def serve(app: App, opened: Callable[[str], None]) -> None:
    """Serves until it is cancelled. `opened` is called with the address.

    Raises SettingsError if the port is not free.
    """
    wanted, state = app.settings.console_port, app.settings.state_dir
    host, published = await anyio.to_thread.run_sync(_place, app.settings)
    try:
        bound = bind(host, wanted)
    except SettingsError as error:
        raise SettingsError(
            f"port {wanted} of the console is not free; another program may have it. Choose another --console-port, or 0."
        ) from error
    port = published or bound.getsockname()[1]
    url = f"http://{HOST}:{port}{PATH}/"
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
    origins = [f"http://{host}" for host in hosts]
    limit = RequestLimit(_REQUESTS, _REQUESTS)
    advert = advertisement(app, url)
    console = build_console(app, advert, origins, None)
    page = Starlette(
        routes=[Route("/", RedirectResponse(f"{PATH}/", 307), methods=["GET"]), *console.routes()]
    )

    def started() -> None:
        try:
            runtime_file.put(state, advert)
        except OSError as error:  # nobody can sign in, but the server continues
            _log.warning("console_not_advertised", reason=str(error))
        opened(url)

    try:
        await serve_routes(
            HostFilter(page, limit, hosts, origins, ()),
            bound,
            ListenOptions(_REQUESTS, _REQUESTS // 2),
            started=started,
            ending=limit.close,
        )
    finally:
        runtime_file.drop(state, app.owner.id)


def _place(settings: Settings) -> tuple[str, int]:
    """The address to listen on, and the published port by which a browser on this machine reaches it.

    The port is 0 if it is the one that will be bound. Raises SettingsError for a container whose port is not
    published, or not only on the loopback of this machine.
    """
    if not in_container():
        return HOST, 0
    try:
        with closing(open_engine(settings.engine, options=settings.cluster_options())) as engine:
            own = own_container(engine)
    except EngineUnavailable as error:
        raise SettingsError(
            f"cannot determine whether the port of the console is published: {error}"
        ) from error
    if own is None or own.shares_network:
        return HOST, 0
    port = settings.console_port
    address, published = own.ports.get(port, ("", 0))
    if address not in LOOPBACK:
        raise SettingsError(
            f"port {port} of the console is not published, or not on this machine's loopback alone. For the page, add "
            f"-p 127.0.0.1:{port}:{port} to docker run."
        )
    return EVERYWHERE, published
