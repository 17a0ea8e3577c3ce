"""The SDK's Streamable HTTP transport as an ASGI application, and the principal of each request."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from gdal_mcp.policy.identity import Principal
from gdal_mcp.server.app import App
from gdal_mcp.server.http.concurrency import LimitExceeded
from gdal_mcp.server.mcp.server import build
from gdal_mcp.server.mcp.tasks import Context

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_KEY: Final = "gdal_mcp.principal"  # key in the state of an ASGI scope


class Protocol:
    """The protocol of one server, for both eras. `set_principal` must be called on every request first."""

    def __init__(self, app: App, hosts: Collection[str], origins: Collection[str], downloads: str) -> None:
        """`hosts` and `origins` are the accepted ones; `downloads` is the address below which outputs are served."""
        settings = app.settings
        self._end_calls = app.pipeline.activity.end
        self._sessions_each = settings.http_sessions_each
        self._opening: Counter[str] = Counter()
        self._manager = StreamableHTTPSessionManager(
            build(app, who, downloads),
            json_response=False,  # with True, progress and cancellation would be lost
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=list(hosts),
                allowed_origins=list(origins),
            ),
            session_idle_timeout=settings.http_idle_seconds,
            max_request_body_size=settings.body_size,
            max_sessions=settings.http_sessions,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves while the context lasts; then cancels every session, task and call, and waits for them."""
        async with self._manager.run():
            try:
                yield
            finally:
                self._end_calls()

    @property
    def sessions(self) -> Collection[str]:
        return self._owners.keys()

    @property
    def _owners(self) -> Mapping[str, object]:
        """The user who opened each session."""
        return self._manager._session_owners  # noqa: SLF001 - the SDK bounds only all sessions together, and has no public name for them

    @contextmanager
    def opening(self, principal: Principal) -> Iterator[None]:
        """Reserves room for a session while the SDK creates it. Raises LimitExceeded."""
        mine = authorization_context(_user(principal))
        if (
            sum(owner == mine for owner in self._owners.values()) + self._opening[principal.id]
            >= self._sessions_each
        ):
            raise LimitExceeded
        self._opening[principal.id] += 1
        try:
            yield
        finally:
            self._opening -= Counter([principal.id])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; a session stays with the principal that opened it."""
        user = _user(scope["state"][_KEY])
        previous = auth_context_var.set(user)
        try:
            await self._manager.handle_request({**scope, "user": user}, receive, send)
        finally:
            auth_context_var.reset(previous)


def set_principal(scope: Scope, principal: Principal) -> None:
    scope.setdefault("state", {})[_KEY] = principal


def who(ctx: Context) -> Principal:
    """The sender of this request, independent of its session. Raises KeyError without `set_principal`."""
    assert ctx.request is not None
    principal = ctx.request.scope["state"][_KEY]
    assert isinstance(principal, Principal)
    return principal


def _user(principal: Principal) -> AuthenticatedUser:
    """A principal as the SDK's type, to which it binds sessions. The token itself is left out."""
    access = AccessToken(
        token="", client_id=principal.id, scopes=sorted(principal.scopes), subject=principal.id
    )
    return AuthenticatedUser(access)
