"""`gdal-mcp console`: the way for a person into the pages of the servers that run."""

import argparse
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from gdal_mcp.commands.options import settings_of
from gdal_mcp.settings import Settings

OK, FAILED = 0, 1  # exit codes, as gdal_mcp.cli has them
WAIT_SECONDS: Final = 6.0  # for a server to open its page; it looks once a second and then loads it
_LOOK_SECONDS: Final = 0.1

Command = Callable[..., argparse.ArgumentParser]
Guarded = Callable[[Callable[[], int]], int]


def add_console(commands: Any, command: Command, guarded: Guarded) -> None:
    def run(given: argparse.Namespace) -> int:
        settings = settings_of(given)
        return guarded(lambda: show(settings, opens=given.open))

    parser = command(
        commands, "console", run, "print the address of the web page on which people decide and look"
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser of this machine too")


def show(settings: Settings, *, opens: bool) -> int:
    """Prints an address for each console of the state folder, which opens it once within a minute; the newest first."""
    from gdal_mcp.console import notices  # noqa: PLC0415 - not needed for help
    from gdal_mcp.console.tickets import minted  # noqa: PLC0415

    try:
        found = _found(settings.state_dir, notices)
    except OSError as error:
        _say(f"the state folder {settings.state_dir} cannot be used: {error.strerror or error}")
        return FAILED
    if not found:
        _say(
            f"no server with a console runs on {settings.state_dir}. Start one with `gdal-mcp serve`, without --console off, "
            "or name its --state-dir."
        )
        return FAILED
    addresses = [f"{one.address}#ticket={minted(one.secret, time.time())}" for one in found]
    for one, address in zip(found, addresses, strict=True):
        _say(f"console of the server on {', '.join(one.workspaces)}; the link works once, for a minute")
        sys.stdout.write(address + "\n")
    sys.stdout.flush()
    if opens:
        _open(addresses[0])
    return OK


def _found(state: Path, notices: Any) -> Any:
    """The consoles that are open, or that servers open now that somebody asks."""
    from sandbox.owner import Owner  # noqa: PLC0415

    if not (state / "servers").is_dir():
        return ()
    with closing(Owner(state / "servers")) as owner:

        def alive(server: str) -> bool:
            return (owner.folder / f"{server}.lock").exists() and not owner.is_dead(server)

        others = [path.stem for path in owner.folder.glob("*.lock") if path.stem != owner.id]
        if not any(alive(server) for server in others):
            return notices.living(state, alive)
        notices.ask(state)
        return _awaited(lambda: notices.living(state, alive))


def _awaited(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_SECONDS
    pause = threading.Event()
    while not (found := look()) and time.monotonic() < end:
        pause.wait(_LOOK_SECONDS)
    return found


def _open(address: str) -> None:
    import webbrowser  # noqa: PLC0415

    if not webbrowser.open(address):
        _say("there is no browser to open here; open the address above yourself.")


def _say(text: str) -> None:
    sys.stderr.write(f"gdal-mcp: {text}\n")
