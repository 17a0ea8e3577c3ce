"""The protocol behind the door: which scopes a message needs, and its bounds.

Invariants:
* a call that writes, and in a session the answer to a question of one, comes with the scope to write, in each request anew;
* however many requests come at once, they open no more sessions than a principal may have.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdal_mcp.access.identity import READ, WRITE, Principal
from gdal_mcp.access.tokens import TokensUnavailable
from gdal_mcp.http import replies
from gdal_mcp.http.auth import Authenticator, Unavailable
from gdal_mcp.http.guard import TooLarge, TooSlow, replayed, whole_body
from gdal_mcp.mcp.http import Protocol, marked

RECHECK_SECONDS: Final = 15.0  # for which a stream may outlive its token
_SESSION: Final = "mcp-session-id"
_LISTEN: Final = "subscriptions/listen"


@dataclass(frozen=True, slots=True)
class ProtocolEndpoint:
    """Where messages are handed in. `writing` are the tools that need the scope to write."""

    protocol: Protocol
    auth: Authenticator
    writing: Collection[str]
    body_bytes: int
    _wrote: set[str] = field(default_factory=set)  # sessions in which a call that writes was made

    def of(self, who: Principal) -> ASGIApp:
        """What this principal's requests meet."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            marked(scope, who)
            if scope["method"] == "POST":
                await self._posted(who, scope, receive, send)
            elif scope["method"] == "GET":
                await self._streamed(who, scope, receive, send)
            else:
                await self.protocol(scope, receive, send)

        return answer

    async def _posted(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """What is checked here is what the protocol reads: the body comes once, and is handed on."""
        try:
            body = await whole_body(receive, self.body_bytes)
        except TooLarge:
            await replies.refused(413, "too_large", "the body is too large")(scope, receive, send)
        except TooSlow:
            await replies.refused(408, "too_slow", "the body did not come in time")(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            messages = _messages(body)
            headers = Headers(scope=scope)
            app = self._refusal(who, messages, headers) or self._for(who, messages, headers)
            await app(scope, replayed(body, receive), send)

    def _refusal(self, who: Principal, messages: Sequence[Any], headers: Headers) -> ASGIApp | None:
        session = headers.get(_SESSION, "")
        writes = any(_called(one) in self.writing for one in messages)
        if not who.holds(WRITE):
            answers = session in self._wrote and any(_method(one) is None for one in messages)
            return self.auth.forbidden((READ, WRITE)) if writes or answers else None
        if writes and session:
            self._wrote.add(session)
            self._wrote.intersection_update(self.protocol.sessions)
        return None

    def _for(self, who: Principal, messages: Sequence[Any], headers: Headers) -> ASGIApp:
        if any(_method(one) == _LISTEN for one in messages):
            return partial(self._streamed, who)
        if _SESSION not in headers and any(_method(one) == "initialize" for one in messages):
            return partial(self._opened, who)
        return self.protocol

    async def _opened(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """A session is counted before there is one: between the two, others ask as well."""
        give_back = self.protocol.room(who)
        if give_back is None:
            await replies.busy(429, "too many sessions of yours are open")(scope, receive, send)
            return

        async def answered(message: Message) -> None:
            give_back()  # by now there is a session, or a refusal
            await send(message)

        try:
            await self.protocol(scope, receive, answered)
        finally:
            give_back()

    async def _streamed(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """A stream that has no end of its own ends when its token does; a call runs to its end."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while True:
                    await anyio.sleep(RECHECK_SECONDS)
                    if not await self._still(who, Headers(scope=scope)):
                        group.cancel_scope.cancel()

            group.start_soon(watch)
            await self.protocol(scope, receive, send)
            group.cancel_scope.cancel()

    async def _still(self, who: Principal, headers: Headers) -> bool:
        try:
            return await self.auth.principal(headers) == who
        except (Unavailable, TokensUnavailable):
            return True  # it is not known to have ended, and was good when the stream began


def _messages(body: bytes) -> list[Any]:
    """What a body holds; nothing of one that is no JSON, which the protocol answers."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else [found]


def _method(message: Any) -> Any:
    return message.get("method") if isinstance(message, dict) else None


def _called(message: Any) -> str | None:
    """The tool that a message calls."""
    params = message.get("params") if _method(message) == "tools/call" else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None
