"""Sends outputs as downloads.

Invariants:
* only a listed output is sent, found by its number; no path ever comes from a client;
* a link cannot be guessed, and works once, within a minute, only while its viewer may see the output;
* a browser that displays the file runs no script in it.
"""

import os
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gdal_mcp.records.registry import Artifact
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.http.sending import OpenFile, disposition
from sandbox.errors import SandboxError
from sandbox.workspace import Workspaces, open_file

SECONDS: Final = 60.0  # seconds between the click and the browser's request
# the content security policy of a downloaded file: if a browser displays it, no script runs and nothing is loaded
FILE_POLICY: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"
_MOST: Final = 256  # links of one principal at the same time


@dataclass(slots=True)
class Links:
    """Links for downloads, because a browser cannot send the key of a session with a download."""

    # by link: its viewer, the number of the output, and when it expires
    _open: dict[str, tuple[Viewer, int, float]] = field(default_factory=dict)

    def new(self, viewer: Viewer, number: int) -> str:
        now = time.monotonic()
        self._open = {name: download for name, download in self._open.items() if download[2] > now}
        if sum(owner.name == viewer.name for owner, *_ in self._open.values()) >= _MOST:
            raise Refused(429, "Too many downloads at once. Try again in a minute.")
        name = secrets.token_urlsafe(32)
        self._open[name] = (viewer, number, now + SECONDS)
        return name

    def take(self, name: str) -> tuple[Viewer, int]:
        """The viewer and the output number of a link. Raises Refused for a link that was used, expired or never
        issued.
        """
        viewer, number, ends = self._open.pop(name, (None, 0, 0.0))
        if viewer is None or ends <= time.monotonic():
            raise Refused(404, "This link was already used or has expired. Click Download again.")
        return viewer, number


def download(workspaces: Workspaces, artifact: Artifact) -> OpenFile:
    """The current file of an output. Raises Refused if it is a folder or was replaced by something else."""
    try:
        located = workspaces.input(artifact.path)
        if str(located) != artifact.path or located.is_folder:
            raise Refused(409, "That output is a folder, or was replaced by another file.")
        with open_file(located) as opened:
            file = os.dup(opened)
    except SandboxError as error:
        raise Refused(404, "That output no longer exists.") from error
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": disposition("attachment", artifact.name),
        "Content-Security-Policy": FILE_POLICY,
    }
    return OpenFile(file, headers, partial(os.close, file))
