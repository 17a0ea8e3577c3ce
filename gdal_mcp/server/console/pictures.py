"""Thumbnails of outputs, each made once by a call of the tool `preview` in a container.

Invariants:
* a thumbnail is made only for a viewer whom the policy lets read the dataset without approval;
* thumbnails are made one at a time, so that a gallery never takes the slots of other calls;
* the file is checked to be the published one before and after it is drawn, so that no other content is stored as its
  thumbnail. Other files that it reads, such as the sources of a VRT, may have changed since;
* a thumbnail belongs to one output of one call, and is shown to viewers who have its workspace. Two files with equal
  bytes have separate thumbnails, because they can show different things, such as two VRTs with relative paths.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from gdal_mcp.calls.operation import Operation
from gdal_mcp.errors import Code
from gdal_mcp.records.artifacts import Absent, ArtifactStore, Fingerprint, Gone, Opened
from gdal_mcp.records.registry import Artifact
from gdal_mcp.server.app import App
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.operations.allowed_calls import UNLISTED, call_if_allowed
from gdal_mcp.settings.state import put_private
from sandbox.errors import PathMissing, PathRefused
from sandbox.workspace import Workspaces, open_file

FOLDER: Final = "previews"  # name in the state folder
PIXELS: Final = 320  # pixels of the longer side
# files: a thumbnail and a legend for each output, together some 100 MB; the oldest are removed
MOST: Final = 4000
WAITING: Final = 64  # waiting requests; a page of the gallery has 24
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(slots=True)
class Pictures:
    """The thumbnails of one server. For one event loop."""

    app: App
    store: ArtifactStore
    _one: anyio.Lock = field(default_factory=anyio.Lock)
    # keys of outputs that GDAL cannot draw, because each attempt is a call
    _without: set[str] = field(default_factory=set)

    async def of(
        self,
        artifact: Artifact,
        viewer: Viewer,
        workspaces: Workspaces,
        operation: Operation = UNLISTED,
    ) -> bytes | None:
        """The PNG of an output in these workspaces; None if it cannot be drawn, such as a folder.

        Raises Refused if too many requests wait.
        """
        if not _shows(artifact, workspaces):
            return None
        return await self._drawn(artifact, viewer, partial(self.store.open, artifact, workspaces), operation)

    async def of_input(self, path: str, viewer: Viewer, workspaces: Workspaces) -> bytes | None:
        """The PNG of any file in these workspaces; None if it cannot be drawn. Raises Refused."""
        try:
            opened = await anyio.to_thread.run_sync(open_input, path, workspaces)
        except Gone:
            return None
        opened.close()

        def again() -> Opened:
            reopened = open_input(path, workspaces)
            if reopened.artifact == opened.artifact:
                return reopened
            reopened.close()
            raise Gone("it was changed")

        return await self._drawn(opened.artifact, viewer, again, UNLISTED)

    async def _drawn(
        self, artifact: Artifact, viewer: Viewer, reopen: Callable[[], Opened], operation: Operation
    ) -> bytes | None:
        key = _key(artifact)
        if key in self._without:
            return None
        if self._one.statistics().tasks_waiting >= WAITING:
            raise Refused(429, "Too many pictures are being made.")
        path = self.app.settings.state_dir / FOLDER / f"{key}.png"
        async with self._one:
            stored = await anyio.to_thread.run_sync(_read_stored, path)
            if stored is not None:
                return stored
            try:
                opened = await anyio.to_thread.run_sync(reopen)
            except (Absent, Gone):
                return None  # it might not be the published file that is drawn
            try:
                drawing = await self._picture_and_facts(artifact, viewer, key, operation)
                same = await anyio.to_thread.run_sync(opened.is_in_place)
            finally:
                opened.close()
            if drawing is None or not same:
                return None
            picture, legend = drawing
            await anyio.to_thread.run_sync(_store, path.with_suffix(".json"), legend)
            await anyio.to_thread.run_sync(_store, path, picture)
            return picture

    def legend(self, artifact: Artifact, workspaces: Workspaces) -> dict[str, Any]:
        """The legend of a picture that was drawn: how `color`, `bands` and `stretch` map the values to colours.

        For threads. Raises Refused if there is no picture.
        """
        path = self.app.settings.state_dir / FOLDER / f"{_key(artifact)}.json"
        try:
            text = path.read_text(encoding="utf-8") if _shows(artifact, workspaces) else ""
            shown = json.loads(text)
        except (OSError, ValueError) as error:
            raise Refused(404, "No legend is available.") from error
        return {name: shown.get(name) for name in ("kind", "color", "bands", "stretch")}

    async def _picture_and_facts(
        self, artifact: Artifact, viewer: Viewer, key: str, operation: Operation
    ) -> tuple[bytes, bytes] | None:
        """The PNG, and the tool's description of the picture as JSON; None if there is no picture."""
        arguments = {"path": artifact.path, "max_size": PIXELS}
        reply = await call_if_allowed(self.app, viewer.principal, "preview", arguments, operation=operation)
        picture = reply.done.preview if reply is not None and reply.done is not None else None
        if reply is not None and picture is not None:
            return picture, json.dumps(reply.result.get("shown", {})).encode()
        if reply is not None and reply.error is not None and reply.error.code is Code.GDAL_ERROR:
            self._without = {*self._without, key} if len(self._without) < MOST else {key}
        return None


def open_input(path: str, workspaces: Workspaces) -> Opened:
    """A file in these workspaces, as an artifact whose digest is that of its metadata. Raises Gone if it cannot be
    opened.
    """
    with ExitStack() as stack:
        try:
            located = workspaces.input(path)
            file = stack.enter_context(open_file(located))
        except (PathMissing, PathRefused, OSError) as error:
            raise Gone("it cannot be opened") from error
        fingerprint = Fingerprint.of(file)
        digest = hashlib.sha256(repr(fingerprint).encode()).hexdigest()
        artifact = Artifact(
            located.uri, str(located), located.name, fingerprint.size, "", digest, kind="input"
        )
        return Opened(artifact, file, fingerprint, stack.pop_all().close)


def _key(artifact: Artifact) -> str:
    identity = f"{artifact.call_id}\0{artifact.path}\0{artifact.sha256}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()


def _shows(artifact: Artifact, workspaces: Workspaces) -> bool:
    """True if an output can be drawn and lies in one of these workspaces."""
    has = any(Path(artifact.path).is_relative_to(workspace.root) for workspace in workspaces.items)
    return has and _DIGEST.fullmatch(artifact.sha256) is not None


def _read_stored(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    return data


def _store(path: Path, data: bytes) -> None:
    with suppress(OSError):  # if the disk is full, thumbnails are not stored, and everything else continues
        put_private(path, data)
        files = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in files[MOST:]:
            old.unlink()
