"""A published file, or a part of it, on its way to a client.

Invariants:
* an answer that cannot be sent to its end is cut off before its length, which clients take for a failure;
* whoever takes nothing for a while is cut off, as the file is held open for them;
* nothing is read for a client that left.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

import anyio
import anyio.to_thread
import structlog
from starlette.types import Receive, Scope, Send

from gdal_mcp.http.serving import TAKE_SECONDS
from gdal_mcp.ledger.artifacts import Gone, Opened
from gdal_mcp.ledger.registry import Artifact
from gdal_mcp.web.ranges import Part

_log = structlog.get_logger()

_CHUNK: Final = 1 << 20  # bytes read and sent at a time
_SHOWN: Final = frozenset({"image/png", "image/jpeg", "image/webp"})  # that a browser draws and nothing more


@dataclass(frozen=True)
class Sending:
    """A file, or a part of it, as it is read."""

    opened: Opened
    part: Part | None
    headers: Mapping[str, str]
    readers: anyio.CapacityLimiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_left, receive, group.cancel_scope)
                await self._send(scope["method"], send)
                group.cancel_scope.cancel()
        finally:
            self.opened.close()

    async def _send(self, method: str, send: Send) -> None:
        size = self.opened.artifact.size
        wanted = self.part or Part(0, size)
        told = {**self.headers, "Content-Length": str(len(wanted))}
        if self.part is not None:
            told["Content-Range"] = self.part.content_range(size)
        status = 200 if self.part is None else 206
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
        try:
            await send({"type": "http.response.start", "status": status, "headers": raw})
            if method == "GET":
                await self._body(wanted, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (Gone, TimeoutError, OSError) as error:  # without its end the connection is closed
            _log.warning("file_cut_off", file=self.opened.artifact.path, reason=str(error) or "not taken")

    async def _body(self, wanted: Part, send: Send) -> None:
        at = wanted.start
        while at < wanted.stop:
            read = partial(self.opened.read, at, min(_CHUNK, wanted.stop - at))
            data = await anyio.to_thread.run_sync(read, limiter=self.readers)
            if not data:
                raise Gone("it ended early")
            with anyio.fail_after(TAKE_SECONDS):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            at += len(data)


async def _left(receive: Receive, scope: anyio.CancelScope) -> None:
    """Ends the sending when the client is gone: what is sent then is dropped without a word."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def disposition(name: str, media_type: str) -> str:
    """The header that says under which name a file is kept, as RFC 6266 has it; no name can add to it."""
    kind = "inline" if media_type in _SHOWN else "attachment"
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name
    )
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def about(artifact: Artifact) -> dict[str, str]:
    """The headers that tell what a file is."""
    digest = base64.b64encode(bytes.fromhex(artifact.sha256)).decode("ascii")
    return {
        "Content-Type": artifact.media_type,
        "Content-Disposition": disposition(artifact.name, artifact.media_type),
        "Accept-Ranges": "bytes",
        "Repr-Digest": f"sha-256=:{digest}:",
    }
