"""Authenticates requests by their bearer token.

The SDK's bearer middleware is not used: it takes the first of two Authorization headers, reports a server error if a
token cannot be checked at the moment, and names only one missing scope in its challenge.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio.to_thread
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.policy.tokens import PREFIX, TokenStore, TokensUnavailable
from gdal_mcp.server.http import replies
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit

_log = structlog.get_logger()

_MAX_TOKEN: Final = 16 << 10  # characters; signed tokens with many claims have a few thousand


class Unavailable(Exception):
    """Tokens cannot be checked at the moment: no request is admitted, and no token is reported as invalid."""


class Verifier(Protocol):
    async def verify(self, text: str) -> Principal | None:
        """The owner of a token; None if it is invalid. Raises Unavailable, TokensUnavailable."""


@dataclass(frozen=True, slots=True)
class TokenVerifier:
    """Verifies static tokens, made by `gdal-mcp token`, and signed tokens of issuers, if there are any."""

    store: TokenStore
    signed: Verifier | None

    async def verify(self, text: str) -> Principal | None:
        if text.startswith(PREFIX):
            token = await anyio.to_thread.run_sync(self.store.find, text)
            return token.principal() if token else None
        return await self.signed.verify(text) if self.signed else None


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Admits requests with a valid token, up to a number of concurrent requests for each principal.

    Without a verifier, the local user is the sender of every request. `metadata` is the address in challenges, or
    empty.
    """

    verifier: Verifier | None
    local: Principal
    limit: RequestLimit
    metadata: str

    async def principal(self, headers: Headers) -> Principal | None:
        """The sender of a request with these headers. Raises Unavailable, TokensUnavailable."""
        if self.verifier is None:
            return self.local
        credentials = headers.getlist("authorization")
        if len(credentials) != 1 or len(credentials[0]) > _MAX_TOKEN:
            return None  # two headers could name two senders
        kind, _, text = credentials[0].partition(" ")
        text = text.strip()
        return await self.verifier.verify(text) if text and kind.lower() == "bearer" else None

    def guarded(self, app: Callable[[Principal], ASGIApp], *scopes: str) -> "Guarded":
        """An application for principals with all these scopes; `app` makes it for each request."""
        return Guarded(self, app, scopes)

    async def answer(
        self, headers: Headers, app: Callable[[Principal], ASGIApp], scopes: tuple[str, ...], peer: str = ""
    ) -> ASGIApp:
        """The application for the principal of these headers, or a refusal. `peer` is the address that is logged."""
        try:
            who = await self.principal(headers)
        except (Unavailable, TokensUnavailable):
            return replies.busy(503, "tokens cannot be checked now")
        if who is None:
            _log.info("not_authenticated", peer=peer, host=headers.get("host", "")[:200])
            text, error = "a token is needed", {}
            if "authorization" in headers:  # the answer does not reveal why the token is invalid
                text, error = "the token is not valid here, or no longer", {"error": "invalid_token"}
            return replies.refused(401, "invalid_token", text, self._challenge(**error, scope=READ))
        if not all(who.holds(scope) for scope in scopes):
            _log.info("scope_missing", peer=peer, principal=who.id, needed=list(scopes))
            return self.forbidden(scopes)
        return self.limited(who.id, app(who))

    def limited(self, principal: str, app: ASGIApp) -> ASGIApp:
        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                with self.limit.per_principal(principal):
                    await app(scope, receive, send)
            except LimitExceeded:
                await replies.busy(429, "you have too many open requests")(scope, receive, send)

        return counted

    def forbidden(self, scopes: Iterable[str]) -> Response:
        """The response to a valid token without these scopes; it names all of them (RFC 6750)."""
        needed = " ".join(scopes)
        challenge = self._challenge(error="insufficient_scope", scope=needed)
        return replies.refused(403, "insufficient_scope", f"this needs the scopes {needed}", challenge)

    def _challenge(self, **parts: str) -> dict[str, str]:
        """The header of a challenge. No part contains a quote: scopes are our own, and addresses are checked."""
        if self.metadata:
            parts["resource_metadata"] = self.metadata
        fields = ", ".join(f'{name}="{value}"' for name, value in parts.items())
        return {"WWW-Authenticate": f"Bearer {fields}"}


def peer_address(scope: Mapping[str, Any]) -> str:
    """The address that a request came from, which may be that of a proxy; empty if it is unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


@dataclass(frozen=True, slots=True)
class Guarded:
    """An application that requires a token. Starlette accepts it as the endpoint of a route."""

    auth: Authenticator
    app: Callable[[Principal], ASGIApp]
    scopes: tuple[str, ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = await self.auth.answer(Headers(scope=scope), self.app, self.scopes, peer_address(scope))
        await chosen(scope, receive, send)
