"""Opens the console of a server over stdio: at the start, at the first question that needs it, or on a user's
request.

Every server over stdio imports this module when it starts, so the modules that serve the page are imported only when
it opens.
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.server.console import runtime_file
from gdal_mcp.settings import Settings, SettingsError

if TYPE_CHECKING:
    from gdal_mcp.server.app import App

LOOK_SECONDS: Final = 1.0  # seconds between two checks whether a user requested the page

_log = structlog.get_logger()


class Autostart:
    """The console of one server. For one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._mode = settings.console
        self._state_dir = settings.state_dir
        self._needed = anyio.Event()
        self._has_outcome = anyio.Event()  # set when the page is open, or cannot be opened
        self._address: str | None = None

    async def url(self, needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
        """The address of the page, without a login token. If `needed`, opens the page first and waits until it is
        open.
        """
        if needed and self._mode != "off":
            self._needed.set()
            await self._has_outcome.wait()
        return self._address

    async def serve_when_needed(self, app: "App") -> None:
        """Waits until the page is needed, and serves it until it is cancelled."""
        if self._mode == "off":
            return
        look = partial(runtime_file.open_requested, self._state_dir)
        while self._mode == "auto" and not (self._needed.is_set() or look()):
            with anyio.move_on_after(LOOK_SECONDS):
                await self._needed.wait()
        try:
            server = await anyio.to_thread.run_sync(import_module, "gdal_mcp.server.console.local_server")
            await server.serve(app, self._opened)
        except SettingsError as error:  # the server continues without it; calls can be approved in other ways
            _log.error("no_console", reason=str(error))
        finally:
            self._address = None
            self._has_outcome.set()

    def _opened(self, address: str) -> None:
        self._address = address
        self._has_outcome.set()
