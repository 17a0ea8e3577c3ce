"""Where the consoles of one state folder are, for `gdal-mcp console`: a private file of each, while its server lives.

Who can read such a file can come in: it is this user, who could read and write everything else of the server's as well.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gdal_mcp.state import put_private

FOLDER: Final = "consoles"  # in the state folder
_WANTED: Final = "wanted"
_FRESH: Final = 30.0  # seconds that a wish for a console is answered in


@dataclass(frozen=True, slots=True)
class Advertisement:
    """One console: its server, its address, and the secret that tickets for it are made with."""

    server: str
    address: str
    secret: str
    workspaces: tuple[str, ...]
    since: float  # seconds since the epoch


def put(state: Path, notice: Advertisement) -> None:
    """Says where a console is. Raises OSError."""
    put_private(_path(state / FOLDER, notice.server), json.dumps(asdict(notice)).encode())


def drop(state: Path, server: str) -> None:
    with suppress(OSError):
        _path(state / FOLDER, server).unlink()


def living(state: Path, alive: Callable[[str], bool]) -> tuple[Advertisement, ...]:
    """The consoles there are, the newest first; the files of dead servers go."""
    found = []
    for path in (state / FOLDER).glob("*.json"):
        if not alive(path.stem):
            drop(state, path.stem)
        elif (notice := _read(path)) is not None:
            found.append(notice)
    return tuple(sorted(found, key=lambda one: one.since, reverse=True))


def ask(state: Path) -> None:
    """Asks every server of this state folder to open its console. Raises OSError."""
    (_folder(state) / _WANTED).touch(mode=0o600)


def is_asked(state: Path) -> bool:
    """Whether somebody asked a moment ago."""
    try:
        asked = (state / FOLDER / _WANTED).lstat().st_mtime
    except OSError:
        return False
    return abs(time.time() - asked) < _FRESH


def _folder(state: Path) -> Path:
    folder = state / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _path(folder: Path, server: str) -> Path:
    return folder / f"{server}.json"


def _read(path: Path) -> Advertisement | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Advertisement(**{**told, "workspaces": tuple(told["workspaces"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
