"""The filter in front of every HTTP route.

Invariants:
* a request with a foreign Host or Origin, or with a head that is too large, reaches no route;
* if a request is answered before the end of its body, it is the last one of its connection: the rest is not read;
* a body is bounded in size and in time.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdal_mcp.server.http import replies
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit

MAX_HEAD: Final = 32 << 10  # bytes of request line and headers
MAX_HEADERS: Final = 100
_LAST: Final = {"Connection": "close"}
BODY_SECONDS: Final = 30.0  # seconds for the whole body of one request of the protocol


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Counts requests, cancels them when the server ends, and refuses those with a foreign Host or Origin."""

    app: ASGIApp
    limit: RequestLimit
    hosts: Collection[str]
    origins: Collection[str]
    anywhere: Collection[str]  # paths that are answered under any host name, because they reveal nothing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reply = _Reply(scope, receive, send)
        try:
            with self.limit.request():
                await (self._refusal(scope) or self.app)(scope, reply.receive, reply)
        except LimitExceeded:
            await replies.busy(503, "the server is busy")(scope, reply.receive, reply)
            return
        if reply.unfinished:
            await reply({"type": "http.response.body", "body": b"", "more_body": False})
        elif self.limit.closed and not reply.has_started:
            await replies.busy(503, "the server is shutting down")(scope, reply.receive, reply)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        if _head_size(scope) > MAX_HEAD or len(scope["headers"]) > MAX_HEADERS:
            return replies.refused(431, "too_large", "the head of the request is too large", _LAST)
        return None if scope["path"] in self.anywhere else self._foreign(Headers(scope=scope))

    def _foreign(self, headers: Headers) -> ASGIApp | None:
        if headers.getlist("host") not in ([host] for host in self.hosts):
            return replies.refused(
                421, "misdirected_request", "this server does not answer to that host name"
            )
        if any(origin not in self.origins for origin in headers.getlist("origin")):
            return replies.refused(403, "invalid_origin", "pages of that origin may not call this server")
        return None


def _head_size(scope: Scope) -> int:
    """The bytes of the request line and the headers, approximately as they were sent."""
    target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    return target + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


class _Reply:
    """Passes a response on.

    A response without a declared length can be completed if it was cut off: a stream then ends normally. If the
    response comes before the end of the request, the connection is closed, because the rest of the request would be
    read for nothing.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._send = send
        self._unread = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self.has_started = False
        self.unfinished = False  # True if the end of its body can still be sent

    async def receive(self) -> Message:
        message = await self._receive()
        self._unread = self._unread and bool(message.get("more_body", False))
        return message

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            self.unfinished = "content-length" not in headers
            if self._unread:
                headers["Connection"] = "close"
                message = {**message, "headers": headers.raw}
        elif not message.get("more_body", False):
            self.unfinished = False
        await self._send(message)


class TooLarge(Exception):
    """A body is larger than allowed."""


class TooSlow(Exception):
    """A body did not arrive in time."""


async def complete_body(receive: Receive, most: int, seconds: float = BODY_SECONDS) -> bytes:
    """The body of a request, of at most `most` bytes, received within `seconds`.

    Raises TooLarge, TooSlow, ClientDisconnect.
    """
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > most:
                raise TooLarge
            if not message.get("more_body", False):
                return bytes(body)
    raise TooSlow


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns a body that was already read, and then further messages."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
