"""Private files that tell `gdal-mcp console` the addresses of the running consoles of one state folder.

Anybody who can read such a file can sign in. That is only this user, who can access everything else of the server
too.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gdal_mcp.settings.state import put_private

FOLDER: Final = "consoles"  # name in the state folder
_REQUEST_FILE: Final = "wanted"
_FRESH: Final = 30.0  # seconds for which a request for a console is valid


@dataclass(frozen=True, slots=True)
class Advertisement:
    """One console: its server, its address, and the secret for its login tokens."""

    server: str
    address: str
    secret: str
    workspaces: tuple[str, ...]
    since: float  # seconds since the epoch


def put(state: Path, notice: Advertisement) -> None:
    """Advertises a console. Raises OSError."""
    put_private(state / FOLDER / f"{notice.server}.json", json.dumps(asdict(notice)).encode())


def drop(state: Path, server: str) -> None:
    with suppress(OSError):
        (state / FOLDER / f"{server}.json").unlink()


def running(state: Path, alive: Callable[[str], bool]) -> tuple[Advertisement, ...]:
    """The running consoles, newest first; removes the files of dead servers."""
    adverts = []
    for path in (state / FOLDER).glob("*.json"):
        if not alive(path.stem):
            drop(state, path.stem)
            continue
        with suppress(OSError, ValueError, TypeError, KeyError):
            fields = json.loads(path.read_text(encoding="utf-8"))
            adverts.append(Advertisement(**{**fields, "workspaces": tuple(fields["workspaces"])}))
    return tuple(sorted(adverts, key=lambda advert: advert.since, reverse=True))


def ask(state: Path) -> None:
    """Asks every server of this state folder to open its console. Raises OSError."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _REQUEST_FILE).touch(mode=0o600)


def open_requested(state: Path) -> bool:
    try:
        requested = (state / FOLDER / _REQUEST_FILE).lstat().st_mtime
    except OSError:
        return False
    return abs(time.time() - requested) < _FRESH
