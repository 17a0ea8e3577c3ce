"""`PUT /uploads/NUMBER/PATH` stores a file in a workspace: a call with policy, approval and record like any other.

Invariants:
* if an upload can be refused before its bytes arrive, it is refused then, and none of them are read;
* the bytes are bounded in number and in time, whatever the request declares;
* an upload that was not published leaves nothing behind.
"""

import base64
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.calls.translation import explain
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.policy.identity import READ, WRITE, Principal
from gdal_mcp.server.http import replies
from gdal_mcp.server.http.auth import Authenticator, peer_address
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit
from gdal_mcp.server.http.files import path_of
from gdal_mcp.server.http.guard import TooSlow
from gdal_mcp.server.operations.uploading import Destination, Reception, Uploads, reception
from sandbox.errors import SandboxError
from sandbox.workspace import Workspace

UPLOADS_PATH: Final = "/uploads"
IDLE_SECONDS: Final = 30.0  # seconds that may pass without a byte
_AT_ONCE: Final = 1 << 20  # bytes written at once, because getting a thread takes longer than writing a few
_WRITERS: Final = 4  # threads that write uploads, a separate limit so that calls have threads
_TARGET: Final = re.compile(rf"{UPLOADS_PATH}/(\d{{1,4}})/(.+)", re.ASCII | re.DOTALL)
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)
_DIGEST: Final = re.compile(r"(?:^|,)\s*sha-256\s*=\s*:([A-Za-z0-9+/]{43}=):")
_FRESH: Final = {"Cache-Control": "no-store"}
_STATUS: Final = {
    Code.PATH_NOT_ALLOWED: 403,
    Code.NOT_FOUND: 404,
    Code.INVALID_ARGUMENT: 400,
    Code.DENIED: 403,
    Code.APPROVAL_EXPIRED: 409,
    Code.RATE_LIMITED: 429,
    Code.BUSY: 503,
    Code.DISK_LIMIT: 507,
    Code.OUTPUT_LIMIT: 413,
    Code.ENGINE_UNAVAILABLE: 503,
    Code.CANCELLED: 409,
    Code.INTERNAL: 500,
}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """The declarations of an upload about its body."""

    place: tuple[Workspace, str]  # the workspace, and the path below it
    size: int | None  # bytes
    sha256: str | None
    overwrite: bool


@dataclass(frozen=True, kw_only=True)
class UploadRoutes:
    """Uploads over HTTP.

    `limit` bounds the uploads of one principal that arrive at once; `seconds` bounds the time of each.
    """

    uploads: Uploads
    auth: Authenticator
    limit: RequestLimit
    seconds: float
    most: int
    _writers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_WRITERS))

    def routes(self) -> list[BaseRoute]:
        listed = self.auth.guarded(lambda who: partial(self._list, who), READ)
        received = self.auth.guarded(lambda who: partial(self._put, who), READ, WRITE)
        return [
            Route(UPLOADS_PATH, listed, methods=["GET"]),
            Route(f"{UPLOADS_PATH}/{{target:path}}", received, methods=["PUT"]),
        ]

    async def _list(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            own = self.uploads.workspaces(who)
        except ToolError as error:
            await _error_reply(error, error.as_dict(""))(scope, receive, send)
            return
        rows = [
            {"number": number, "path": str(workspace.root)}
            for number, workspace in enumerate(own)
            if workspace.writable
        ]
        await JSONResponse({"workspaces": rows, "most_bytes": self.most}, headers=_FRESH)(
            scope, receive, send
        )

    async def _put(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self.limit.per_principal(who.id):
                reply = await self._arrived(who, scope, receive)
        except LimitExceeded:
            reply = replies.busy(429, "you have too many uploads in progress")
        except TooSlow:
            reply = replies.refused(408, "too_slow", "the file did not arrive in time")
        except ClientDisconnect:
            return
        except (ToolError, SandboxError) as error:
            refused = error if isinstance(error, ToolError) else explain(error, Stage.RUN)
            record = partial(self.uploads.refused, who, scope["path"], refused, peer_address(scope))
            reply = _error_reply(refused, await anyio.to_thread.run_sync(record))
        await reply(scope, receive, send)

    async def _arrived(self, who: Principal, scope: Scope, receive: Receive) -> ASGIApp:
        """Receives and publishes a file. Raises ToolError, SandboxError, TooSlow, ClientDisconnect."""
        sent = self._sent(who, scope, Headers(scope=scope))
        look = partial(self.uploads.destination, who, sent.place, sent.size)
        to: Destination = await anyio.to_thread.run_sync(look)
        if to.output.replaces and not sent.overwrite:
            return replies.refused(412, "exists", "a file of that name exists")
        name, user = to.output.target.name, self.uploads.app.hosting.templates.user()
        async with self._entered(reception(to.area, name, user, to.most)) as received:
            await self._take(receive, received)
            if sent.sha256 not in (None, received.sha256):
                raise _invalid(
                    "the SHA-256 of the received bytes differs from the declared one", "Send them again."
                )
            reply = await self.uploads.publish(
                who, to, received, overwrite=sent.overwrite, peer=peer_address(scope)
            )
        if reply.error is not None:
            return _error_reply(reply.error, dict(reply.result))
        done = reply.done
        assert done is not None
        assert done.published is not None
        headers = {**_FRESH, "Location": path_of(reply.call_id, done.published.files[0].located.name)}
        return JSONResponse(dict(reply.result), 200 if done.published.replaced else 201, headers)

    def _sent(self, who: Principal, scope: Scope, headers: Headers) -> UploadRequest:
        """The declarations of an upload. Raises ToolError for a malformed request, or one that is not supported."""
        if not self.most:
            raise ToolError(
                Code.DENIED, Stage.POLICY, "this server accepts no uploads.", "Ask its administrator."
            )
        try:
            target = unquote_to_bytes(scope["raw_path"]).decode("utf-8")
        except UnicodeDecodeError as error:  # a guessed encoding could give another name
            raise _invalid("the path is not UTF-8", "Write it as UTF-8, percent-encoded.") from error
        match = _TARGET.fullmatch(target)
        own = self.uploads.workspaces(who)
        if match is None or int(match[1]) >= len(own):
            raise _invalid("the address is not in a workspace", "Send it to /uploads/NUMBER/PATH.")
        if "" in match[2].split("/"):
            raise _invalid("a name in the path is empty", "Remove the extra slash.")
        for name in ("content-range", "if-match", "content-encoding"):
            if name in headers:
                raise _invalid(
                    f"{name} is not supported", "Send the plain complete file without that header."
                )
        length = headers.get("content-length")
        return UploadRequest(
            (own[int(match[1])], match[2]),
            int(length) if length is not None and _LENGTH.fullmatch(length) else None,
            _digest(headers),
            "if-none-match" not in headers,
        )

    async def _take(self, receive: Receive, received: Reception) -> None:
        """Writes the body to the disk. Raises ToolError, TooSlow, ClientDisconnect."""
        with anyio.move_on_after(self.seconds):
            async for piece in _pieces(receive):
                await self._thread(received.write, piece)
            return
        raise TooSlow

    async def _thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._writers)

    @asynccontextmanager
    async def _entered(self, manager: AbstractContextManager[_T]) -> AsyncIterator[_T]:
        """Enters and exits a blocking context manager in threads, even after a cancellation."""
        stack = ExitStack()
        try:
            with anyio.CancelScope(shield=True):
                entered = await self._thread(stack.enter_context, manager)
            yield entered
        finally:
            with anyio.CancelScope(shield=True):
                await self._thread(stack.close)


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yields the body in pieces that are large enough to write. Raises TooSlow, ClientDisconnect."""
    buffer = bytearray()
    more = True
    while more:
        with anyio.move_on_after(IDLE_SECONDS) as waiting:
            message = await receive()
        if waiting.cancelled_caught:
            raise TooSlow
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        buffer += message.get("body", b"")
        more = message.get("more_body", False)
        if len(buffer) >= _AT_ONCE or not more:
            yield bytes(buffer)
            buffer.clear()


def _digest(headers: Headers) -> str | None:
    """The SHA-256 that a request declares, in hexadecimal. Raises ToolError for a digest of another kind."""
    for name in ("content-digest", "repr-digest"):
        text = ",".join(headers.getlist(name))
        match = _DIGEST.search(text)
        if match:
            return base64.b64decode(match[1]).hex()
        if text:
            raise _invalid(f"{name} has no SHA-256", "Write it as sha-256=:BASE64:.")
    return None


def _error_reply(error: ToolError, body: dict[str, Any]) -> Response:
    # for other codes, the file arrived and the container could not read it
    status = _STATUS.get(error.code, 422)
    if error.confirmation is not None or error.stage is Stage.PUBLISH:
        status = 409
    headers = dict(_FRESH)
    if error.retry_after is not None:
        headers["Retry-After"] = f"{error.retry_after:.0f}"
    return JSONResponse(body, status, headers)


def _invalid(message: str, suggestion: str) -> ToolError:
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, f"{message}.", suggestion)
