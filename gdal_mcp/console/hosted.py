"""The console of a server over HTTP, below its own address: for those who have a token, and for the user who runs it."""

import secrets
import time
from collections.abc import Awaitable, Callable, Collection

from starlette.datastructures import Headers
from starlette.routing import BaseRoute

from gdal_mcp.access.identity import Principal
from gdal_mcp.app import App, local_user
from gdal_mcp.console import runtime_file
from gdal_mcp.console.auth import ConsoleAuth, Verify
from gdal_mcp.console.live import Live
from gdal_mcp.console.pictures import Pictures
from gdal_mcp.console.routes import PATH, Console
from gdal_mcp.console.runtime_file import Advertisement
from gdal_mcp.console.service import ConsoleService
from gdal_mcp.console.sessions import LoginTokens
from gdal_mcp.http import address
from gdal_mcp.ledger.artifacts import ArtifactStore
from gdal_mcp.settings import Settings


def home_url(settings: Settings, port: int) -> str | None:
    """Where the console of a server over HTTP is; None if it has none."""
    return None if settings.console == "off" else f"{address.base_url(settings, port)}{PATH}/"


def console_routes(
    app: App, port: int, authenticate: Callable[[Headers], Awaitable[Principal | None]]
) -> list[BaseRoute]:
    """The routes of the page; none when the settings say so. `authenticate` tells who sent a request with these headers.

    A server without authentication still asks who decides: there only the link of `gdal-mcp console` opens the page.
    """
    settings = app.settings
    if (home := home_url(settings, port)) is None:
        return []

    async def verify(token: str) -> Principal | None:
        return await authenticate(Headers({"authorization": f"Bearer {token}"}))

    found = advertisement(app, home)
    runtime_file.put(settings.state_dir, found)
    # pages elsewhere that may call the protocol are no part of the console
    origins = address.origins(settings.model_copy(update={"http_origins": ()}), port)
    return build_console(app, found, origins, None if settings.no_auth else verify).routes()


def advertisement(app: App, url: str) -> Advertisement:
    workspaces = tuple(str(one.root) for one in app.workspaces.items)
    return Advertisement(app.owner.id, url, secrets.token_urlsafe(32), workspaces, time.time())


def build_console(app: App, found: Advertisement, origins: Collection[str], verify: Verify | None) -> Console:
    # Cookies are told apart by host and name, not by port: two servers of one host need two names.
    auth = ConsoleAuth(local_user(), LoginTokens(found.secret), f"gdal-mcp-{app.owner.id}", origins, verify)
    secure = found.address.startswith("https:")
    pictures = Pictures(app, ArtifactStore(app.registry))
    return Console(ConsoleService(app), auth, Live(app), pictures, secure=secure)
