"""The viewers of the console, their permissions, their sessions, and the login tokens that open a session.

Anybody who can read this user's files can make a login token. Invariants:
* a session needs two secrets: one in a cookie, which the browser hides from every script, and one in a header, which
  it hides from every other page and port. The cookie, which browsers send to all ports of a host, is not sufficient
  by itself;
* a session that was opened with a token is valid only as long as the token;
* the number of sessions and their duration are bounded;
* a login token is made with the secret of one server. It opens one session of that server, once, within a minute.
"""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.policy.identity import ADMIN, APPROVE, Principal
from gdal_mcp.server.http.signing import Signer

SECONDS: Final = 12 * 3600.0  # seconds that a session lasts: a working day
MOST: Final = 64  # sessions at the same time; a new one replaces the oldest
MAX_PER_PRINCIPAL: Final = 8  # sessions of one principal at the same time
LINK_SECONDS: Final = 60  # seconds between the command that makes a link and the browser that opens it


@dataclass(frozen=True, slots=True)
class Viewer:
    """A principal at a page.

    `session` distinguishes the windows of one person in records. It is not secret.
    """

    principal: Principal
    session: str

    @property
    def name(self) -> str:
        return self.principal.id

    @property
    def decides(self) -> bool:
        return self.principal.holds(APPROVE)

    @property
    def is_admin(self) -> bool:
        return self.principal.holds(ADMIN)

    @property
    def of(self) -> str | None:
        """The principal whose records this viewer sees; None for the records of all principals."""
        return None if self.is_admin else self.name

    @property
    def how(self) -> str:
        return f"console, session {self.session}"

    def sees_question(self, principal: str) -> bool:
        """True if this viewer sees questions about calls of `principal`. Approvers see all open questions."""
        return self.decides or self.is_admin or principal == self.name

    def can_manage(self, principal: str) -> bool:
        return self.is_admin or principal == self.name

    def may_undo(self, principal: str) -> bool:
        """True if the viewer may undo calls of `principal`: it changes files, so the viewer must be able to approve
        that.
        """
        return self.is_admin or (principal == self.name and self.decides)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """The session of one window. `token` opened it; None if it was opened with a login token."""

    id: str
    key: str
    principal: Principal
    ends: float
    token: str | None
    name: str


@dataclass(slots=True, eq=False)
class Sessions:
    """The sessions of one server, only in memory. For one event loop."""

    clock: Callable[[], float] = time.monotonic
    _open: dict[str, ConsoleSession] = field(default_factory=dict)

    def open(self, principal: Principal, token: str | None) -> ConsoleSession:
        now = self.clock()
        self._open = {name: session for name, session in self._open.items() if now < session.ends}
        mine = [session.id for session in self._open.values() if session.principal == principal]
        for oldest in mine[: max(0, len(mine) + 1 - MAX_PER_PRINCIPAL)]:
            self.close(oldest)  # so one principal's many sessions close no sessions of others
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        session_id, key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = ConsoleSession(session_id, key, principal, now + SECONDS, token, secrets.token_hex(2))
        self._open[session.id] = session
        return session

    def find(self, session_id: str, key: str) -> ConsoleSession | None:
        """The session with this id and key; None if there is none or it has expired."""
        session = self._open.get(session_id)
        if session is None or not hmac.compare_digest(session.key.encode(), key.encode("utf-8", "replace")):
            return None
        if self.clock() < session.ends:
            return session
        self.close(session_id)
        return None

    def close(self, session_id: str) -> None:
        self._open.pop(session_id, None)


def new_login_token(secret: str, now: float) -> str:
    """A new login token. `now` is in seconds since the epoch."""
    nonce = secrets.token_urlsafe(16)
    ends, signature = Signer(lambda: now, secret.encode()).sign([nonce], LINK_SECONDS)
    return f"{ends}.{nonce}.{signature}"


@dataclass(slots=True, eq=False)
class LoginTokens:
    """Accepts the login tokens of one server. For one event loop."""

    secret: str = field(repr=False)
    clock: Callable[[], float] = time.time
    _used: dict[str, int] = field(default_factory=dict)  # used tokens, with the time at which each expires

    def take(self, text: str) -> bool:
        """True if a login token is valid. It cannot be used again."""
        ends, _, rest = text.partition(".")
        nonce, _, signature = rest.partition(".")
        if not Signer(self.clock, self.secret.encode()).verify([nonce], ends, signature):
            return False
        now = self.clock()
        if int(ends) > now + LINK_SECONDS + 1 or nonce in self._used:
            return False
        self._used = {used: until for used, until in self._used.items() if until > now}
        self._used[nonce] = int(ends)
        return True
