"""Small pictures of outputs, each made once by the tool `preview`, in a container like every other call.

Invariants:
* a picture is made only for a viewer whom the policy lets read the dataset without being asked;
* pictures are made one after another, so that a gallery never takes the places of calls;
* a picture is known by the digest of what it shows, so that another content never has it.
"""

import os
import re
import secrets
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
from gdal_mcp.console.entrance import Refused
from gdal_mcp.console.sessions import Viewer
from gdal_mcp.ledger.registry import Artifact
from gdal_mcp.pipeline import Request

FOLDER: Final = "previews"  # in the state folder
PIXELS: Final = 320  # of the longer side
MOST: Final = 2000  # kept pictures, some 100 MB; the oldest make room
WAITING: Final = 64  # requests for one; a page of the gallery has 24
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MAX_BYTES: Final = 4 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(slots=True)
class Pictures:
    """Of one server. For one event loop."""

    app: App
    _one: anyio.Lock = field(default_factory=anyio.Lock)
    _without: set[str] = field(default_factory=set)  # digests of what has no picture

    async def of(self, artifact: Artifact, viewer: Viewer) -> bytes | None:
        """The PNG of a dataset; None where there is none to be had. Raises Refused when too many are asked for."""
        digest = artifact.sha256
        if not _DIGEST.fullmatch(digest) or digest in self._without:
            return None
        if self._one.statistics().tasks_waiting >= WAITING:
            raise Refused(429, "Too many pictures are being made.")
        path = self.app.settings.state_dir / FOLDER / f"{digest}.png"
        async with self._one:
            kept = await anyio.to_thread.run_sync(_kept, path)
            if kept is not None:
                return kept
            made = await self._made(artifact, viewer)
            if made is None:
                self._without.add(digest)
            else:
                await anyio.to_thread.run_sync(_keep, path, made)
        return made

    async def _made(self, artifact: Artifact, viewer: Viewer) -> bytes | None:
        reply = None
        with anyio.CancelScope() as scope:
            arguments = {"path": artifact.path, "max_size": PIXELS}
            request = Request("preview", arguments, viewer.principal, "console", _Unasked(scope))
            reply = await self.app.pipeline.call(request)
        picture = reply.done.preview if reply is not None and reply.done is not None else None
        is_png = picture is not None and picture.startswith(_PNG) and len(picture) <= _MAX_BYTES
        return picture if is_png else None


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


def _kept(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    return data


def _keep(path: Path, data: bytes) -> None:
    """A disk that is full has no pictures, and nothing else suffers."""
    partial = path.with_name(f".{secrets.token_hex(8)}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(
            os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(data)
        partial.replace(path)
        for old in _beyond(path.parent):
            old.unlink()


def _beyond(folder: Path) -> Iterator[Path]:
    found = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    yield from found[MOST:]
