"""The console beside a server over stdio: on loopback, on a port of its own, for the user who runs it."""

import secrets
import socket
import time
from collections.abc import Callable, Collection
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gdal_mcp.app import App, local_user
from gdal_mcp.console import runtime_file
from gdal_mcp.console.auth import ConsoleAuth, Verify
from gdal_mcp.console.live import Live
from gdal_mcp.console.login_tokens import LoginTokens
from gdal_mcp.console.pictures import Pictures
from gdal_mcp.console.routes import PATH, Console
from gdal_mcp.console.runtime_file import Advertisement
from gdal_mcp.console.service import ConsoleService
from gdal_mcp.http.gate import Gate
from gdal_mcp.http.guard import Names, Outermost
from gdal_mcp.http.serving import Listening, bind, port_of, serve_routes
from gdal_mcp.ledger.shelf import ArtifactStore
from gdal_mcp.settings import SettingsError

HOST: Final = "127.0.0.1"
_REQUESTS: Final = 128  # at once: the streams and what a person can click on
_NAMES: Final = (HOST, "localhost")

_log = structlog.get_logger()


async def serve(app: App, opened: Callable[[str], None]) -> None:
    """Serves until it is cancelled; `opened` is told the address. Raises SettingsError for a port that is taken."""
    bound = _bound(app.settings.console_port)
    port = port_of(bound)
    address = f"http://{HOST}:{port}{PATH}/"
    gate = Gate(_REQUESTS, _REQUESTS)
    names = Names([f"{name}:{port}" for name in _NAMES], [f"http://{name}:{port}" for name in _NAMES])
    notice = advertisement(app, address)
    console = made(app, notice, names.origins, None)
    page = Starlette(routes=[Route("/", _to_page), *console.routes()])

    def started() -> None:
        try:
            runtime_file.put(app.settings.state_dir, notice)
        except OSError as error:  # nobody can come in, and calls go on
            _log.warning("console_not_noted", reason=str(error))
        opened(address)

    try:
        await serve_routes(
            Outermost(page, gate, names, ()),
            bound,
            Listening(HOST, port, _REQUESTS * 2),
            started=started,
            ending=gate.close,
        )
    finally:
        runtime_file.drop(app.settings.state_dir, app.owner.id)


def _bound(port: int) -> socket.socket:
    try:
        return bind(HOST, port)
    except SettingsError as error:
        raise SettingsError(
            f"port {port} of the console cannot be had; another program may have it. Choose another --console-port, or 0."
        ) from error


def advertisement(app: App, address: str) -> Advertisement:
    """What `gdal-mcp console` needs to let this user in."""
    places = tuple(str(one.root) for one in app.workspaces.items)
    return Advertisement(app.owner.id, address, secrets.token_urlsafe(32), places, time.time())


def made(app: App, notice: Advertisement, origins: Collection[str], verify: Verify | None) -> Console:
    """The console of a server, for the user who runs it and for whoever `verify` knows."""
    # Cookies are told apart by host and name, not by port: two servers of one host need two names.
    entrance = ConsoleAuth(
        local_user(), LoginTokens(notice.secret), f"gdal-mcp-{app.owner.id}", origins, verify
    )
    secure = notice.address.startswith("https:")
    return Console(
        ConsoleService(app), entrance, Live(app), Pictures(app, ArtifactStore(app.registry)), secure=secure
    )


async def _to_page(_request: Request) -> Response:
    return RedirectResponse(f"{PATH}/", 307)
