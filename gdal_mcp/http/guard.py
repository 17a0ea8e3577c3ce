"""What stands in front of everything that is served over HTTP.

Invariants:
* a request with a foreign Host or Origin reaches nothing;
* nothing but what is made for everybody is reached without a principal;
* a stranger's body is never read: the token comes first, and a request that is answered before its end is the last one of
  its connection;
* a body is bounded in size and in time, and what is checked of it is what the protocol then reads.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdal_mcp.access.identity import Principal
from gdal_mcp.access.tokens import TokensUnavailable
from gdal_mcp.http import replies
from gdal_mcp.http.bearer import Unavailable, Verifier
from gdal_mcp.http.gate import Full, Gate

_log = structlog.get_logger()

BODY_SECONDS: Final = 30.0  # for the whole body of one request of the protocol
_MAX_TOKEN: Final = 16 << 10  # characters; signed ones with many claims have a few thousand


@dataclass(frozen=True, slots=True)
class Names:
    """The values of two headers that are answered."""

    hosts: Collection[str]
    origins: Collection[str]


class Outermost:
    """Counts requests, ends them with the server, and refuses those with a foreign Host or Origin."""

    def __init__(self, app: ASGIApp, gate: Gate, names: Names, anywhere: Collection[str]) -> None:
        """`anywhere` are paths that are answered under any name, since they tell nothing."""
        self._app = app
        self._gate = gate
        self._names = names
        self._anywhere = anywhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reply = _Reply(scope, receive, send)
        try:
            with self._gate.request():
                await self._named(scope, reply.receive, reply)
        except Full:
            await replies.busy(503, "the server is busy")(scope, reply.receive, reply)
            return
        if reply.begun:
            await reply.finish()
        elif self._gate.closed:
            await replies.busy(503, "the server is ending")(scope, reply.receive, reply)

    async def _named(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        app = self._app
        if scope["path"] not in self._anywhere:
            if headers.getlist("host") not in ([host] for host in self._names.hosts):
                app = replies.refused(421, "misdirected_request", "this server is not reached by that name")
            elif any(origin not in self._names.origins for origin in headers.getlist("origin")):
                app = replies.refused(403, "invalid_origin", "pages of that origin may not call this server")
        await app(scope, receive, send)


class _Reply:
    """Passes a reply on, and ends one that was cut off: a stream has ended well then, and its connection can be used.

    Whoever is answered while there is more of the request than was asked for is hung up on: what they go on to send would
    be parsed for nothing.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._unread = _has_body(Headers(scope=scope))
        self.begun = False
        self._open = False  # an end can be put to it

    async def receive(self) -> Message:
        message = await self._receive()
        self._unread = self._unread and bool(message.get("more_body", False))
        return message

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            self._open = "content-length" not in headers
            if self._unread:
                headers["Connection"] = "close"
                message = {**message, "headers": headers.raw}
        elif not message.get("more_body", False):
            self._open = False
        await self._send(message)

    async def finish(self) -> None:
        if self._open:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


class Door:
    """Lets those in who show a good token, as the principal that it is of."""

    def __init__(self, verifier: Verifier | None, local: Principal, gate: Gate, metadata: str) -> None:
        """Without a verifier everybody is the local user. `metadata` is the address that challenges name, or empty."""
        self._verifier = verifier
        self._local = local
        self._gate = gate
        self.metadata = metadata

    async def principal(self, headers: Headers) -> Principal | None:
        """Who sent a request with these headers. Raises Unavailable, TokensUnavailable."""
        if self._verifier is None:
            return self._local
        text = _token(headers)
        return await self._verifier.verify(text) if text else None

    def guarded(self, app: Callable[[Principal], ASGIApp], *scopes: str) -> ASGIApp:
        """An application for principals with all these scopes, made for each request."""

        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            headers = Headers(scope=scope)
            try:
                who = await self.principal(headers)
            except (Unavailable, TokensUnavailable):
                await replies.busy(503, "tokens cannot be checked now")(scope, receive, send)
                return
            if who is None:
                _log.info("stranger", path=scope["path"][:200], peer=scope.get("client"))
                refusal = replies.unauthorized(self.metadata, presented="authorization" in headers)
                await refusal(scope, receive, send)
            elif not all(who.holds(one) for one in scopes):
                await replies.forbidden(self.metadata, scopes)(scope, receive, send)
            else:
                await self._shared(who, app(who), (scope, receive, send))

        return guard

    async def _shared(self, who: Principal, app: ASGIApp, call: Sequence[Any]) -> None:
        try:
            with self._gate.share(who.id):
                await app(*call)
        except Full:
            await replies.busy(429, "too many requests of yours are open")(*call)


def _token(headers: Headers) -> str | None:
    """The one token of a request. Two headers are none: who is meant could be read in two ways."""
    given = headers.getlist("authorization")
    if len(given) != 1 or len(given[0]) > _MAX_TOKEN:
        return None
    kind, _, text = given[0].partition(" ")
    return text.strip() or None if kind.lower() == "bearer" else None


class TooLarge(Exception):
    """A body is longer than it may be."""


class TooSlow(Exception):
    """A body did not come in time."""


class Left(Exception):
    """The client is gone."""


async def whole_body(receive: Receive, most: int, seconds: float = BODY_SECONDS) -> bytes:
    """The body of a request, of at most so many bytes and within so many seconds. Raises TooLarge, TooSlow, Left."""
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Left
            body += message.get("body", b"")
            if len(body) > most:
                raise TooLarge
            if not message.get("more_body", False):
                return bytes(body)
    raise TooSlow


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, once, and then whatever else there is to receive."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
