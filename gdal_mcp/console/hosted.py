"""The console of a server over HTTP, below its own address: for those who have a token, and for the user who runs it."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.routing import BaseRoute

from gdal_mcp.access.identity import Principal
from gdal_mcp.app import App
from gdal_mcp.console import runtime_file
from gdal_mcp.console.auth import Verify
from gdal_mcp.console.local_server import advertisement, made
from gdal_mcp.console.routes import PATH
from gdal_mcp.http import address
from gdal_mcp.settings import Settings

Knows = Callable[[Headers], Awaitable[Principal | None]]


def console_routes(app: App, port: int, knows: Knows) -> list[BaseRoute]:
    """The routes of the page; none when the settings say so. `knows` tells who sent a request with these headers.

    A server without authentication still asks who decides: there only the ticket of `gdal-mcp console` opens the page.
    """
    settings = app.settings
    if settings.console == "off":
        return []
    home = f"{address.base_url(settings, port)}{PATH}/"
    notice = advertisement(app, home)
    runtime_file.put(settings.state_dir, notice)

    async def door(_needed: bool) -> str:  # noqa: FBT001 - as every door
        return home

    app.asking.door = door
    origins = address.origins(_own(settings), port)
    return made(app, notice, origins, None if settings.no_auth else _verify(knows)).routes()


def _own(settings: Settings) -> Settings:
    """Pages elsewhere that may call the protocol are no part of the console."""
    return settings.model_copy(update={"http_origins": ()})


def _verify(knows: Knows) -> Verify:
    async def verify(token: str) -> Principal | None:
        return await knows(Headers({"authorization": f"Bearer {token}"}))

    return verify
