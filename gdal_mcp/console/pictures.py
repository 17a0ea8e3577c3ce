"""Small pictures of outputs, each made once by the tool `preview`, in a container like every other call.

Invariants:
* a picture is made only for a viewer whom the policy lets read the dataset without being asked;
* pictures are made one after another, so that a gallery never takes the places of calls;
* what is drawn is the very file that was published, before the drawing and after it, so that no other content is ever kept
  as its picture. What a file draws on besides, such as the sources of a VRT, is as it was then;
* a picture is of one output of one call, and is shown to those who have its workspace: two files that read alike can show
  different things, as a VRT with relative paths does.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from gdal_mcp.access.policy import Way
from gdal_mcp.app import App
from gdal_mcp.approval.model import Decision, Question
from gdal_mcp.console.auth import Refused
from gdal_mcp.console.sessions import Viewer
from gdal_mcp.errors import Code
from gdal_mcp.ledger.artifacts import Absent, ArtifactStore, Busy, Fingerprint, Gone, Opened
from gdal_mcp.ledger.registry import Artifact
from gdal_mcp.pipeline import Request
from gdal_mcp.state import put_private
from sandbox.workspace import Workspaces

FOLDER: Final = "previews"  # in the state folder
PIXELS: Final = 320  # of the longer side
MOST: Final = 2000  # kept pictures, some 100 MB; the oldest make room
REMEMBERED: Final = 10_000  # outputs without a picture
WAITING: Final = 64  # requests for one; a page of the gallery has 24
# refusals that say nothing about the dataset
_PASSING: Final = frozenset(
    {Code.BUSY, Code.RATE_LIMITED, Code.ENGINE_UNAVAILABLE, Code.CANCELLED, Code.TIMEOUT}
)
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MAX_BYTES: Final = 4 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(slots=True)
class Pictures:
    """Of one server. For one event loop."""

    app: App
    shelf: ArtifactStore
    _one: anyio.Lock = field(default_factory=anyio.Lock)
    _without: set[str] = field(default_factory=set)  # keys of what has no picture

    async def of(self, artifact: Artifact, viewer: Viewer, workspaces: Workspaces) -> bytes | None:
        """The PNG of a dataset for one who has these workspaces; None where there is none to be had, as of folders.

        Raises Refused when too many are asked for.
        """
        key = _key(artifact)
        has = any(Path(artifact.path).is_relative_to(one.root) for one in workspaces.items)
        if not has or not _DIGEST.fullmatch(artifact.sha256) or key in self._without:
            return None
        if self._one.statistics().tasks_waiting >= WAITING:
            raise Refused(429, "Too many pictures are being made.")
        path = self.app.settings.state_dir / FOLDER / f"{key}.png"
        async with self._one:
            kept = await anyio.to_thread.run_sync(_kept, path)
            return kept if kept is not None else await self._new(artifact, viewer, workspaces, path)

    async def _new(
        self, artifact: Artifact, viewer: Viewer, workspaces: Workspaces, path: Path
    ) -> bytes | None:
        try:
            opened = await anyio.to_thread.run_sync(self.shelf.open, artifact, workspaces)
        except (Absent, Gone, Busy):
            return None  # nothing can be drawn that is sure to be what was published
        try:
            made = await self._made(artifact, viewer)
            same = await anyio.to_thread.run_sync(_is_still_there, opened)
        finally:
            opened.close()
        if not same:
            return None
        if made is not None:
            await anyio.to_thread.run_sync(_keep, path, made)
        return made

    async def _made(self, artifact: Artifact, viewer: Viewer) -> bytes | None:
        reply = None
        with anyio.CancelScope() as scope:
            arguments = {"path": artifact.path, "max_size": PIXELS}
            request = Request("preview", arguments, viewer.principal, "console", _Unasked(scope))
            reply = await self.app.pipeline.call(request)
        picture = reply.done.preview if reply is not None and reply.done is not None else None
        if picture is not None and picture.startswith(_PNG) and len(picture) <= _MAX_BYTES:
            return picture
        if reply is not None and not (reply.error and reply.error.code in _PASSING):
            self._remember(_key(artifact))
        return None

    def _remember(self, without: str) -> None:
        if len(self._without) >= REMEMBERED:
            self._without.clear()
        self._without.add(without)


@dataclass(frozen=True, slots=True)
class _Unasked:
    """Nobody is asked for a picture: a call that needs a yes ends."""

    scope: anyio.CancelScope

    def asks(self, ways: frozenset[Way]) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    def answered(self) -> tuple[str, Decision | None] | None:
        return None

    async def ask(self, question: Question) -> Decision | None:  # noqa: ARG002 - the protocol's signature
        self.scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError


def _key(artifact: Artifact) -> str:
    """A name for a file of its picture."""
    parts = (artifact.call_id, artifact.path, artifact.sha256)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _is_still_there(opened: Opened) -> bool:
    """Whether what was opened is unchanged, and still is what its place leads to."""
    try:
        now = os.open(opened.artifact.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return Fingerprint.of(now) == opened.fingerprint
    finally:
        os.close(now)


def _kept(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    return data


def _keep(path: Path, data: bytes) -> None:
    """A disk that is full has no pictures, and nothing else suffers."""
    with suppress(OSError):
        put_private(path, data)
        for old in _beyond(path.parent):
            old.unlink()


def _beyond(folder: Path) -> Iterator[Path]:
    found = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    yield from found[MOST:]
