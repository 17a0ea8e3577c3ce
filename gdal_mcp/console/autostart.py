"""When the console beside stdio opens: at the start, once a question needs it, or when a person asks for it.

Light, since every server over stdio loads it at its start: what serves the page is loaded when it opens.
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.console import runtime_file
from gdal_mcp.settings import SettingsError

if TYPE_CHECKING:
    from gdal_mcp.app import App

LOOK_SECONDS: Final = 1.0  # between two looks whether a person asks for the page

_log = structlog.get_logger()


class Autostart:
    """The console of one server. For one event loop."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._needed = anyio.Event()
        self._settled = anyio.Event()  # it is open, or cannot be
        self._address: str | None = None

    async def door(self, needed: bool) -> str | None:  # noqa: FBT001 - as every door
        """The address of the page, which lets nobody in by itself; opened if it is needed."""
        if needed:
            self._needed.set()
            await self._settled.wait()
        return self._address

    async def attend(self) -> None:
        """Waits until the page is wanted, and serves it until it is cancelled."""
        mode = self._app.settings.console
        if mode == "off":
            return
        self._app.asking.door = self.door
        if mode == "auto":
            await self._until_wanted()
        try:
            serve = await anyio.to_thread.run_sync(_loaded)
            await serve(self._app, self._opened)
        except SettingsError as error:  # calls go on; they can be approved in other ways
            _log.error("no_console", reason=str(error))
        finally:
            self._address = None
            self._settled.set()

    async def _until_wanted(self) -> None:
        look = partial(runtime_file.is_asked, self._app.settings.state_dir)
        while not (self._needed.is_set() or look()):
            with anyio.move_on_after(LOOK_SECONDS):
                await self._needed.wait()

    def _opened(self, address: str) -> None:
        self._address = address
        self._settled.set()


def _loaded() -> Any:
    return import_module("gdal_mcp.console.local_server").serve
