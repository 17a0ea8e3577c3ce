"""When the console of a server over stdio opens: at the start, once a question needs it, or when a person asks for it.

Light, since every server over stdio loads it at its start: what serves the page is loaded when it opens.
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

LOOK_SECONDS: Final = 1.0  # between two looks whether a person asked for the page

_log = structlog.get_logger()


class Autostart:
    """The console of one server. For one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._mode = settings.console
        self._state_dir = settings.state_dir
        self._needed = anyio.Event()
        self._has_outcome = anyio.Event()  # it is open, or cannot be
        self._address: str | None = None

    async def url(self, needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
        """The address of the page, which signs nobody in. If `needed`, opens the page first and waits for it."""
        if needed and self._mode != "off":
            self._needed.set()
            await self._has_outcome.wait()
        return self._address

    async def serve_when_needed(self, app: "App") -> None:
        """Waits until the page is wanted, and serves it until it is cancelled."""
        if self._mode == "off":
            return
        look = partial(runtime_file.open_requested, self._state_dir)
        while self._mode == "auto" and not (self._needed.is_set() or look()):
            with anyio.move_on_after(LOOK_SECONDS):
                await self._needed.wait()
        try:
            server = await anyio.to_thread.run_sync(import_module, "gdal_mcp.server.console.local_server")
            await server.serve(app, self._opened)
        except SettingsError as error:  # calls go on; they can be approved in other ways
            _log.error("no_console", reason=str(error))
        finally:
            self._address = None
            self._has_outcome.set()

    def _opened(self, address: str) -> None:
        self._address = address
        self._has_outcome.set()
