"""The MCP endpoint over HTTP, behind the authentication: the scopes that a message needs, and limits.

Invariants:
* each request with a call that writes, or with the answer to a question in a session with such a call, needs the
  scope to write;
* concurrent requests cannot open more sessions than a principal may have.
"""

from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdal_mcp.policy.identity import READ, WRITE, Principal
from gdal_mcp.policy.tokens import TokensUnavailable
from gdal_mcp.server.http import replies
from gdal_mcp.server.http.auth import Authenticator, Unavailable
from gdal_mcp.server.http.concurrency import LimitExceeded
from gdal_mcp.server.http.guard import TooLarge, TooSlow, complete_body, replayed
from gdal_mcp.server.mcp.http import Protocol, set_principal
from sandbox.parsing import TooComplex, parse_json

MAX_VALUES: Final = 200_000  # members and elements of one body, which takes memory as long as its call runs
RECHECK_SECONDS: Final = 15.0  # seconds that a stream may outlive its token
_SESSION: Final = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class ProtocolEndpoint:
    """The endpoint for messages. `writing` are the tools that need the scope to write."""

    protocol: Protocol
    auth: Authenticator
    writing: Collection[str]
    body_bytes: int
    _wrote: set[str] = field(default_factory=set)  # sessions in which a call that writes was made

    def of(self, who: Principal) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            set_principal(scope, who)
            if scope["method"] == "POST":
                await self._posted(who, scope, receive, send)
            elif scope["method"] == "GET":
                await self._streamed(who, scope, receive, send)
            else:
                await self.protocol(scope, receive, send)

        return answer

    async def _posted(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a POST. The body is read once, checked, and passed on, so that the protocol reads the same bytes."""
        try:
            body = await complete_body(receive, self.body_bytes)
        except TooLarge:
            await replies.refused(413, "too_large", "the body is too large")(scope, receive, send)
        except TooSlow:
            await replies.refused(408, "too_slow", "the body did not arrive in time")(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            app = self._chosen(who, body, Headers(scope=scope))
            await app(scope, replayed(body, receive), send)

    def _chosen(self, who: Principal, body: bytes, headers: Headers) -> ASGIApp:
        """The application for the messages in a body: a refusal, a stream, a new session, or the protocol itself."""
        try:
            parsed = parse_json(body, MAX_VALUES)
        except TooComplex as error:
            return replies.refused(413, "too_large", f"the body has {error}")
        except (ValueError, RecursionError):  # the protocol reports the error
            parsed = []
        messages = parsed if isinstance(parsed, list) else [parsed]
        session = headers.get(_SESSION, "")
        methods = [message.get("method") if isinstance(message, dict) else None for message in messages]
        writes = any(_called(message) in self.writing for message in messages)
        answers = session in self._wrote and None in methods
        if not who.holds(WRITE) and (writes or answers):
            return self.auth.forbidden((READ, WRITE))
        if writes and session:
            self._wrote.add(session)
            self._wrote.intersection_update(self.protocol.sessions)
        if "subscriptions/listen" in methods:
            return partial(self._streamed, who)
        if _SESSION not in headers and "initialize" in methods:
            return partial(self._opened, who)
        return self.protocol

    async def _opened(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserves the session before it exists, because other requests may open one at the same time."""
        with ExitStack() as reservation:
            try:
                reservation.enter_context(self.protocol.opening(who))
            except LimitExceeded:
                await replies.busy(429, "you have too many open sessions")(scope, receive, send)
                return

            async def answered(message: Message) -> None:
                reservation.close()  # by then the session was opened or refused
                await send(message)

            await self.protocol(scope, receive, answered)

    async def _streamed(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a stream, which ends with its token. Calls in it run to their end."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while True:
                    await anyio.sleep(RECHECK_SECONDS)
                    # if tokens cannot be checked at the moment, the stream's token counts as valid
                    with suppress(Unavailable, TokensUnavailable):
                        if await self.auth.principal(Headers(scope=scope)) != who:
                            group.cancel_scope.cancel()

            group.start_soon(watch)
            await self.protocol(scope, receive, send)
            group.cancel_scope.cancel()


def _called(message: Any) -> str | None:
    calls = isinstance(message, dict) and message.get("method") == "tools/call"
    params = message.get("params") if calls else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None
