"""Authenticates the requests of the console.

Invariants:
* every request needs a session, or in HTTP mode a token, that is valid at that moment and has the scope to read;
* without authentication, only logins are read, and only for seconds; the oldest ones are cancelled to make room;
* requests that another site makes a browser send are refused: they have a foreign Origin, and never the key of a
  session;
* requests that change something must be JSON from a page of this console.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from starlette.requests import ClientDisconnect, Request

from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.server.console.sessions import ConsoleSession, LoginTokens, Sessions, Viewer
from gdal_mcp.server.http.guard import TooLarge, TooSlow, complete_body
from sandbox.parsing import parse_json

KEY_HEADER: Final = "X-Console-Key"
BODY_BYTES: Final = 16 << 10  # bytes; the longest body is a token with many claims
_BODY_VALUES: Final = 1000  # members and elements
# bytes of a login where only login tokens are accepted; such a login has a hundred
TICKET_BYTES: Final = 1 << 10
BODY_SECONDS: Final = 5.0  # seconds; a page sends its whole body at once
MAX_PENDING_LOGINS: Final = 16  # logins that are read at once
_OURS: Final = ("same-origin", "none")  # accepted values of Sec-Fetch-Site

Verify = Callable[[str], Awaitable[Principal | None]]


class Refused(Exception):
    """A refused request: its HTTP status, and the reason as a sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True, eq=False)
class LoginThrottle:
    """Bounds the number of logins that are being read. For one event loop."""

    _reading: list[anyio.CancelScope] = field(default_factory=list)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Always yields a slot. If none is free, the oldest login is cancelled, which raises Refused in that login."""
        while len(self._reading) >= MAX_PENDING_LOGINS:
            self._reading.pop(0).cancel()
        with anyio.CancelScope() as mine:
            self._reading.append(mine)
            try:
                yield
            finally:
                if mine in self._reading:
                    self._reading.remove(mine)
        if mine.cancelled_caught:
            raise Refused(408, "Too many logins at once. Try again.")


@dataclass(frozen=True, slots=True)
class ConsoleAuth:
    """Authenticates the requests of one console.

    `origins` are those of its own page; `verify` returns the principal of a token.
    """

    local: Principal
    tickets: LoginTokens
    cookie: str
    origins: Collection[str]
    verify: Verify | None = None
    sessions: Sessions = field(default_factory=Sessions)
    throttle: LoginThrottle = field(default_factory=LoginThrottle)

    async def enter(self, request: Request) -> ConsoleSession:
        """Opens a session for a valid login token or access token. Raises Refused."""
        with self.throttle.slot():
            body = await self.body(request, BODY_BYTES if self.verify else TICKET_BYTES)
        ticket, token = body.get("ticket"), body.get("token")
        if isinstance(ticket, str):
            if self.tickets.take(ticket):
                return self.sessions.open(self.local, None)
            raise Refused(401, "This link was already used, or is older than a minute.")
        if isinstance(token, str) and token.isascii() and (principal := await self._owner(token)) is not None:
            return self.sessions.open(principal, token)
        raise Refused(401, "That token is not valid here.")

    async def viewer(self, request: Request) -> Viewer:
        """The sender of a request. Raises Refused without a valid session or token."""
        self._require_own_page(request)
        if "authorization" in request.headers:
            kind, _, token = request.headers["authorization"].partition(" ")
            principal = await self._owner(token.strip()) if kind.lower() == "bearer" else None
            if principal is None:
                raise Refused(401, "That token is not valid here.")
            return Viewer(principal, "token")
        session = self._session(request)
        if session is not None:
            # the token of the session must still be valid, with the same scopes
            if session.token is None or await self._owner(session.token) == session.principal:
                if self.sessions.find(session.id, session.key) is not None:
                    return Viewer(session.principal, session.name)
            else:
                self.sessions.close(session.id)
        raise Refused(401, "You are not signed in, or your session has expired.")

    def leave(self, request: Request) -> None:
        if (session := self._session(request)) is not None:
            self.sessions.close(session.id)

    async def body(self, request: Request, most: int = BODY_BYTES) -> dict[str, Any]:
        """The JSON object of a request from one of the console's pages. Raises Refused."""
        if request.headers.get("origin") is None and "authorization" not in request.headers:
            raise Refused(403, "Changes are accepted only from the console's own page.")
        self._require_own_page(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "It must be JSON.")
        try:
            body = parse_json(await complete_body(request.receive, most, BODY_SECONDS) or b"{}", _BODY_VALUES)
        except TooLarge:
            raise Refused(413, "That is too long.") from None
        except (TooSlow, ClientDisconnect):
            raise Refused(408, "The request did not arrive in time.") from None
        except (ValueError, RecursionError):
            raise Refused(400, "It is not JSON.") from None
        if not isinstance(body, dict):
            raise Refused(400, "It is not a JSON object.")
        return body

    def _session(self, request: Request) -> ConsoleSession | None:
        key = request.headers.get(KEY_HEADER)
        return self.sessions.find(request.cookies.get(self.cookie, ""), key) if key else None

    async def _owner(self, token: str) -> Principal | None:
        """The owner of a token. Raises Refused for a valid token without read access."""
        principal = await self.verify(token) if self.verify is not None and token else None
        if principal is not None and not principal.holds(READ):
            raise Refused(403, f"That token lacks the scope {READ}, which the console needs.")
        return principal

    def _require_own_page(self, request: Request) -> None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        if (origin is not None and origin not in self.origins) or site not in _OURS:
            raise Refused(403, "Only the console's own page may send this.")
