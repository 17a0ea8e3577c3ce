"""Who may come in, and with what a request must come to be anybody's.

Invariants:
* nothing of anybody's is told or done without a session, or in HTTP mode a token, that is good at that moment and may read;
* of a stranger nothing is read but what lets people in, and that within seconds; who is slow makes room for who comes;
* a request that a page elsewhere had a browser send is nobody's: it has a foreign Origin, and never the key of a session;
* what changes something comes as JSON, from a page of our own.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from starlette.requests import ClientDisconnect, Request

from gdal_mcp.access.identity import READ, Principal
from gdal_mcp.console.login_tokens import LoginTokens
from gdal_mcp.console.sessions import Session, Sessions, Viewer
from gdal_mcp.http.guard import TooLarge, TooSlow, whole_body

KEY_HEADER: Final = "X-Console-Key"
BODY_BYTES: Final = 16 << 10  # the longest is a token with many claims
TICKET_BYTES: Final = 1 << 10  # of what lets in where no token does; a ticket has a hundred
BODY_SECONDS: Final = 5.0  # what a page sends is there at once
STRANGERS: Final = 16  # whose way in is being read at once
_OURS: Final = ("same-origin", "none")  # of Sec-Fetch-Site

Verify = Callable[[str], Awaitable[Principal | None]]


class Refused(Exception):
    """A request that is not answered as asked: its HTTP status and why, in a sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class LoginThrottle:
    """Where strangers stand while it is read what they bring. For one event loop."""

    def __init__(self) -> None:
        self._standing: list[anyio.CancelScope] = []

    @contextmanager
    def slot(self) -> Iterator[None]:
        """There always is one: the one who has stood for longest goes. Raises Refused for that one."""
        while len(self._standing) >= STRANGERS:
            self._standing.pop(0).cancel()
        with anyio.CancelScope() as mine:
            self._standing.append(mine)
            try:
                yield
            finally:
                if mine in self._standing:
                    self._standing.remove(mine)
        if mine.cancelled_caught:
            raise Refused(408, "Others came meanwhile. Try again.")


@dataclass(frozen=True, slots=True)
class ConsoleAuth:
    """The way into one console. `cookie` is its name, `origins` those of its own page, `verify` tells whose a token is."""

    local: Principal
    tickets: LoginTokens
    cookie: str
    origins: Collection[str]
    verify: Verify | None = None
    sessions: Sessions = field(default_factory=Sessions)
    throttle: LoginThrottle = field(default_factory=LoginThrottle)

    async def enter(self, request: Request) -> Session:
        """A session for a good ticket or token. Raises Refused."""
        given: dict[str, Any] = {}
        with self.throttle.slot():
            given = await self.body(request, BODY_BYTES if self.verify else TICKET_BYTES)
        ticket, token = given.get("ticket"), given.get("token")
        if isinstance(ticket, str):
            if self.tickets.take(ticket):
                return self.sessions.open(self.local, None)
            raise Refused(401, "This link was used already, or is older than a minute.")
        principal = await self._owner(token) if isinstance(token, str) else None
        if principal is None:
            raise Refused(401, "That token is not good here.")
        assert isinstance(token, str)
        return self.sessions.open(principal, token)

    async def viewer(self, request: Request) -> Viewer:
        """Who sent a request. Raises Refused when that is nobody."""
        self._require_own_page(request)
        if "authorization" in request.headers:
            kind, _, token = request.headers["authorization"].partition(" ")
            principal = await self._owner(token.strip()) if kind.lower() == "bearer" else None
            if principal is None:
                raise Refused(401, "That token is not good here.")
            return Viewer(principal, "token")
        session = self._session(request)
        if session is None or not await self.is_good(session):
            raise Refused(401, "You are not signed in here, or not any more.")
        return session.viewer

    async def is_good(self, session: Session) -> bool:
        """Whether what a session was opened with still holds, with the same scopes. Raises Refused."""
        if session.token is None or await self._owner(session.token) == session.principal:
            return self.sessions.find(session.id, session.key) is not None
        self.sessions.close(session.id)
        return False

    def leave(self, request: Request) -> None:
        session = self._session(request)
        if session is not None:
            self.sessions.close(session.id)

    async def body(self, request: Request, most: int = BODY_BYTES) -> dict[str, Any]:
        """The JSON object that one of our own pages sent. Raises Refused."""
        if request.headers.get("origin") is None and "authorization" not in request.headers:
            raise Refused(403, "What changes something must come from the console's own page.")
        self._require_own_page(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "It must be JSON.")
        try:
            given = json.loads(await whole_body(request.receive, most, BODY_SECONDS) or b"{}")
        except TooLarge:
            raise Refused(413, "That is too long.") from None
        except (TooSlow, ClientDisconnect):
            raise Refused(408, "It did not come in time.") from None
        except (ValueError, RecursionError):
            raise Refused(400, "It is not JSON.") from None
        if not isinstance(given, dict):
            raise Refused(400, "It is not a JSON object.")
        return given

    def _session(self, request: Request) -> Session | None:
        key = request.headers.get(KEY_HEADER)
        return self.sessions.find(request.cookies.get(self.cookie, ""), key) if key else None

    async def _owner(self, token: str) -> Principal | None:
        """Whose token it is. Raises Refused for a good one that may not read."""
        found = await self.verify(token) if self.verify is not None and token else None
        if found is not None and not found.holds(READ):
            raise Refused(403, f"That token lacks the scope {READ}, without which nothing is told.")
        return found

    def _require_own_page(self, request: Request) -> None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        if (origin is not None and origin not in self.origins) or site not in _OURS:
            raise Refused(403, "Only the console's own page may ask that.")
