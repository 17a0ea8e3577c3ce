"""Who sent a request, by the bearer token in it.

The SDK's bearer middleware is not used: of two Authorization headers it takes the first, a token that cannot be checked now
would be an error of the server, and of the scopes that are missing its challenge names one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import anyio.to_thread
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.access.identity import READ, Principal
from gdal_mcp.access.tokens import PREFIX, TokenStore, TokensUnavailable
from gdal_mcp.http import replies
from gdal_mcp.http.concurrency import Full, RequestLimit

_log = structlog.get_logger()

_MAX_TOKEN: Final = 16 << 10  # characters; signed ones with many claims have a few thousand


class Unavailable(Exception):
    """Tokens cannot be checked now: nobody is let in, and no token is called bad."""


class Verifier(Protocol):
    async def verify(self, text: str) -> Principal | None:
        """Whose token it is; None if it is not good. Raises Unavailable, TokensUnavailable."""


class TokenVerifier:
    """Static tokens, which `gdal-mcp token` made, and those of issuers, if there are any."""

    def __init__(self, store: TokenStore, signed: Verifier | None) -> None:
        self._store = store
        self._signed = signed

    async def verify(self, text: str) -> Principal | None:
        if text.startswith(PREFIX):
            found = await anyio.to_thread.run_sync(partial(self._store.find, text))
            return found.principal() if found else None
        return await self._signed.verify(text) if self._signed else None


class Authenticator:
    """Lets in who shows a good token, as its principal, with a bounded number of requests of each."""

    def __init__(
        self, verifier: Verifier | None, local: Principal, limit: RequestLimit, metadata: str
    ) -> None:
        """Without a verifier everybody is the local user. `metadata` is the address that challenges name, or empty."""
        self._verifier = verifier
        self._local = local
        self._limit = limit
        self._metadata = metadata

    async def principal(self, headers: Headers) -> Principal | None:
        """Who sent a request with these headers. Raises Unavailable, TokensUnavailable."""
        if self._verifier is None:
            return self._local
        text = _token(headers)
        return await self._verifier.verify(text) if text else None

    def guarded(self, app: Callable[[Principal], ASGIApp], *scopes: str) -> "Guarded":
        """An application for principals with all these scopes, made for each request."""
        return Guarded(self, app, scopes)

    async def answer(
        self, headers: Headers, app: Callable[[Principal], ASGIApp], scopes: tuple[str, ...]
    ) -> ASGIApp:
        """The application for the principal of these headers, or a refusal."""
        try:
            who = await self.principal(headers)
        except (Unavailable, TokensUnavailable):
            return replies.busy(503, "tokens cannot be checked now")
        if who is None:
            _log.info("stranger", host=headers.get("host", "")[:200])
            return self._unauthorized(presented="authorization" in headers)
        if not all(who.holds(one) for one in scopes):
            return self.forbidden(scopes)
        return self.limited(who.id, app(who))

    def limited(self, principal: str, app: ASGIApp) -> ASGIApp:
        """An application that counts as an open request of this principal."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                with self._limit.share(principal):
                    await app(scope, receive, send)
            except Full:
                await replies.busy(429, "too many requests of yours are open")(scope, receive, send)

        return counted

    def forbidden(self, scopes: Iterable[str]) -> Response:
        """The answer to a good token without these scopes; it names all that are needed (RFC 6750)."""
        needed = " ".join(scopes)
        challenge = self._challenge(error="insufficient_scope", scope=needed)
        return replies.refused(403, "insufficient_scope", f"this needs the scopes {needed}", challenge)

    def _unauthorized(self, *, presented: bool) -> Response:
        """The answer to no token, or to one that is not good. What is wrong with it is not told."""
        if not presented:
            return replies.refused(401, "invalid_token", "a token is needed", self._challenge(scope=READ))
        challenge = self._challenge(error="invalid_token", scope=READ)
        return replies.refused(401, "invalid_token", "the token is not good here, or not any more", challenge)

    def _challenge(self, **parts: str) -> dict[str, str]:
        """No part holds a quote: scopes are ours, and addresses are checked."""
        if self._metadata:
            parts["resource_metadata"] = self._metadata
        return {
            "WWW-Authenticate": "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
        }


@dataclass(frozen=True, slots=True)
class Guarded:
    """An application behind a token. Starlette takes it as the endpoint of a route."""

    auth: Authenticator
    app: Callable[[Principal], ASGIApp]
    scopes: tuple[str, ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = await self.auth.answer(Headers(scope=scope), self.app, self.scopes)
        await chosen(scope, receive, send)


def _token(headers: Headers) -> str | None:
    """The token of a request. Two headers are none: whose request it is could be read in two ways."""
    given = headers.getlist("authorization")
    if len(given) != 1 or len(given[0]) > _MAX_TOKEN:
        return None
    kind, _, text = given[0].partition(" ")
    return text.strip() or None if kind.lower() == "bearer" else None
