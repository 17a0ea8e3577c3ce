"""`gdal-mcp console`: addresses of the consoles of running servers."""

import time
import webbrowser
from contextlib import closing
from typing import Final

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import out, say
from gdal_mcp.server.console import runtime_file
from gdal_mcp.server.console.sessions import new_login_token
from gdal_mcp.settings import Settings
from gdal_mcp.settings.state import StateFolder
from sandbox.owner import Owner

WAIT_SECONDS: Final = 6.0  # seconds for a server to start its console; it checks for requests once a second
_LOOK_SECONDS: Final = 0.1


def show(settings: Settings, *, opens: bool) -> Exit:
    """Prints an address for each console of the state folder, newest first. An address works once, for a minute."""
    try:
        consoles = _running_consoles(settings.state)
    except OSError as error:
        say(f"the state folder {settings.state_dir} cannot be used: {error.strerror or error}")
        return Exit.FAILED
    if not consoles:
        say(
            f"no server with a console runs on {settings.state_dir}. Start one with `gdal-mcp serve`, without --console off, "
            "or name its --state-dir."
        )
        return Exit.FAILED
    addresses = [
        f"{console.address}#ticket={new_login_token(console.secret, time.time())}" for console in consoles
    ]
    for console, address in zip(consoles, addresses, strict=True):
        say(f"console of the server on {', '.join(console.workspaces)}; the link works once, for a minute")
        out(address)
    if opens and not webbrowser.open(addresses[0]):
        say("no browser could be opened; open the address above yourself.")
    return Exit.DONE


def _running_consoles(state: StateFolder) -> tuple[runtime_file.Advertisement, ...]:
    """The consoles that are running, or that servers start on this request."""
    if not state.servers.is_dir():
        return ()
    with closing(Owner(state.servers)) as owner:
        others = [path.stem for path in owner.folder.glob("*.lock") if path.stem != owner.id]
        if not any(owner.is_alive(server) for server in others):
            return runtime_file.running(state.root, owner.is_alive)
        runtime_file.ask(state.root)
        end = time.monotonic() + WAIT_SECONDS
        while not (consoles := runtime_file.running(state.root, owner.is_alive)) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        return consoles
