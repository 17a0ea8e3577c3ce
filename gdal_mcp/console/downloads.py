"""Outputs as files for a person's disk.

Invariants:
* what is sent is a listed output, found by its number; no path ever comes from a client;
* a link cannot be guessed, is good once, within a minute, and for what its viewer may still see then;
* a browser that shows the file in spite of all runs nothing of it.
"""

import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

import anyio.to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gdal_mcp.console.auth import Refused
from gdal_mcp.console.headers import FILE_POLICY
from gdal_mcp.console.sessions import Viewer
from gdal_mcp.ledger.registry import Artifact
from sandbox.errors import SandboxError
from sandbox.workspace import Workspaces, open_file

SECONDS: Final = 60.0  # from the click to the browser's request
_MOST: Final = 256  # links at once
_CHUNK: Final = 256 << 10  # bytes


@dataclass(frozen=True, slots=True)
class _Link:
    viewer: Viewer
    number: int
    ends: float


@dataclass(slots=True)
class Links:
    """Links to outputs that were asked for, since a browser cannot send a session's key with a download."""

    clock: Callable[[], float] = time.monotonic
    _open: dict[str, _Link] = field(default_factory=dict)

    def new(self, viewer: Viewer, number: int) -> str:
        now = self.clock()
        self._open = {name: one for name, one in self._open.items() if one.ends > now}
        if len(self._open) >= _MOST:
            raise Refused(429, "Too many downloads were asked for at once. Try again in a minute.")
        name = secrets.token_urlsafe(32)
        self._open[name] = _Link(viewer, number, now + SECONDS)
        return name

    def take(self, name: str) -> tuple[Viewer, int]:
        """Who asked for which output. Raises Refused for what was taken already, or never given out."""
        found = self._open.pop(name, None)
        if found is None or found.ends <= self.clock():
            raise Refused(
                404, "This link was used already, or is too old. Ask for the file again on the page."
            )
        return found.viewer, found.number


def download(workspaces: Workspaces, artifact: Artifact) -> "Download":
    """The file as it is now. Raises Refused when the place is another one, or is a folder."""
    try:
        located = workspaces.input(artifact.path)
        if str(located) != artifact.path or located.is_folder:
            raise Refused(409, "That output is a folder, or another file stands in its place.")
        with open_file(located) as file:
            return Download(os.dup(file), artifact.name)
    except SandboxError as error:
        raise Refused(404, "That output is not there any more.") from error


class Download(StreamingResponse):
    """An open file, closed when all of it was sent or nobody takes it."""

    def __init__(self, file: int, name: str) -> None:
        self._file = file
        size = os.fstat(file).st_size
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}",
            "Content-Length": str(size),
            "Content-Security-Policy": FILE_POLICY,
        }
        super().__init__(_bytes(file, size), headers=headers, media_type="application/octet-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file)


async def _bytes(file: int, size: int) -> AsyncIterator[bytes]:
    """As many as were promised: a file that grows meanwhile is cut, one that shrinks breaks the download off."""
    at = 0
    while at < size:
        data = await anyio.to_thread.run_sync(os.pread, file, min(_CHUNK, size - at), at)
        if not data:
            return
        at += len(data)
        yield data
