"""Notifies subscribed clients of changes: `subscriptions/listen` of 2026-07-28, and `resources/subscribe` before it.

Invariants:
* only the principal whose call made a change, and administrators, are notified of it;
* publishing never waits for a subscriber: if a client does not read its stream, the stream ends, and a session of the
  handshake era is notified once of repeated changes;
* a subscription ends with its stream or session, and the number of subscriptions is bounded.

Only changes by calls of this process are detected. Nothing is replayed: a client that reconnects must read again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import anyio
import anyio.abc
import mcp_types as t
from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    event_matches,
    event_to_notification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.calls.activity import ChangedCall
from gdal_mcp.policy.identity import ADMIN, Principal
from gdal_mcp.records.statement import CALLS

MAX_STREAMS: Final = 32  # streams of one principal; a client needs one
MAX_URIS: Final = 1000  # URIs of one stream or session
_ALL_URIS: Final = 256 << 10  # characters of all URIs of one stream or session
MAX_URI: Final = 16384  # characters; more than the longest path has with every byte percent-encoded
RESOURCES: Final = t.SubscriptionFilter(resources_list_changed=True)

Context = ServerRequestContext[Any]
Listener = Callable[[ServerEvent], None]
_Yielded = TypeVar("_Yielded")
Lifespan = Callable[[Server[Any]], AbstractAsyncContextManager[_Yielded]]
# returns the URIs that the principal may read
Readable = Callable[[Principal, Sequence[str]], Awaitable[list[str]]]


def events_of(changed: ChangedCall) -> tuple[ServerEvent, ...]:
    record = f"{CALLS}{changed.call_id}"
    uris = dict.fromkeys([record, f"{record}/provenance", *changed.outputs])
    events: tuple[ServerEvent, ...] = tuple(ResourceUpdated(uri=uri) for uri in uris)
    return (*events, ResourcesListChanged()) if changed.outputs else events


@dataclass(eq=False, slots=True)
class _SubscribedSession:
    """One session of the handshake era: its subscriptions, and the events that were not sent to it yet."""

    who: Principal
    lists: t.SubscriptionFilter
    uris: set[str] = field(default_factory=set)
    _pending: dict[ServerEvent, None] = field(default_factory=dict)  # used as an ordered set
    _woken: anyio.Event = field(default_factory=anyio.Event)

    def put(self, event: ServerEvent) -> None:
        if event_matches(self.lists, frozenset(self.uris), event):
            self._pending[event] = None
            self._woken.set()

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yields each event when it occurs. An event that is repeated before it was sent is yielded once."""
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            while self._pending:
                event = next(iter(self._pending))
                del self._pending[event]
                yield event


class _PrincipalBus(InMemorySubscriptionBus):
    """Registers a stream with its principal, so that `Subscriptions.publish` notifies only the right principals."""

    def __init__(self, who: Principal, streams: dict[object, tuple[Principal, Listener]]) -> None:
        super().__init__()
        self._who, self._streams = who, streams

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        token = object()
        self._streams[token] = self._who, listener
        return lambda: self._streams.pop(token, None) and None


class Subscriptions:
    """The subscriptions of one server. `lists` names the lists that change. For one event loop."""

    def __init__(
        self, who: Callable[[Context], Principal], readable: Readable, lists: t.SubscriptionFilter = RESOURCES
    ) -> None:
        self._who, self._readable, self.lists = who, readable, lists
        self._streams: dict[object, tuple[Principal, Listener]] = {}
        self._sessions: dict[object, _SubscribedSession] = {}  # by connection of the SDK
        self._group: anyio.abc.TaskGroup

    def wrap_lifespan(self, lifespan: Lifespan[_Yielded]) -> Lifespan[_Yielded]:
        """Extends the lifespan of a server, during which sessions of the handshake era are notified."""

        @asynccontextmanager
        async def both(server: Server[Any]) -> AsyncIterator[_Yielded]:
            async with anyio.create_task_group() as self._group, lifespan(server) as state:
                yield state
                self._group.cancel_scope.cancel()

        return both

    def publish(self, principal: str, events: Sequence[ServerEvent]) -> None:
        """Notifies the principals that may see a change by this principal's call. Returns at once."""
        watches = ((watch.who, watch.put) for watch in self._sessions.values())
        for who, listener in (*self._streams.values(), *watches):
            if who.id == principal or who.holds(ADMIN):
                for event in events:
                    listener(event)

    async def listen(
        self, ctx: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """Serves one stream with the SDK's handler, as long as its request lasts."""
        requested = params.notifications
        uris = list(dict.fromkeys(requested.resource_subscriptions or ()))
        _check(uris)
        who = self._who(ctx)
        lists = {name: True for name, has in self.lists if has and getattr(requested, name)}
        granted = t.SubscriptionFilter(
            **lists, resource_subscriptions=await self._readable(who, uris) or None
        )
        if sum(other.id == who.id for other, _ in self._streams.values()) >= MAX_STREAMS:
            raise MCPError(
                t.INTERNAL_ERROR, f"There are {MAX_STREAMS} subscriptions already. End one of them first."
            )
        handler = ListenHandler(_PrincipalBus(who, self._streams))
        return await handler(ctx, params.model_copy(update={"notifications": granted}))

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        """Subscribes to a URI. Every URI is accepted, so that the reply does not reveal whether it exists.

        `publish` sends only what the principal may see.
        """
        uris = self._session(ctx).uris
        uri = str(params.uri)
        _check([*uris - {uri}, uri])
        uris.add(uri)
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self._session(ctx).uris.discard(str(params.uri))
        return t.EmptyResult()

    async def register_session(self, ctx: Context, call_next: CallNext) -> Any:
        """Registers sessions of the handshake era with their first request, so that they are notified of changed
        lists.
        """
        legacy = ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if legacy and ctx.request_id is not None and ctx.session.client_params is not None:
            self._session(ctx)
        return await call_next(ctx)

    def _session(self, ctx: Context) -> _SubscribedSession:
        connection = ctx.session._connection  # noqa: SLF001 - the SDK has no public name for what outlives the request
        known, who = self._sessions.get(connection), self._who(ctx)
        # if a token of the same principal has fewer scopes, the session keeps only the scopes that both have
        if known is not None:
            known.who = replace(known.who, scopes=known.who.scopes & who.scopes)
            return known
        watch = self._sessions[connection] = _SubscribedSession(who, self.lists)
        until_end = anyio.CancelScope()

        async def notify() -> None:
            with until_end:
                async for event in watch.events():
                    params = {"uri": event.uri} if isinstance(event, ResourceUpdated) else None
                    await connection.notify(event_to_notification(event, {}).method, params)

        connection.exit_stack.callback(until_end.cancel)
        connection.exit_stack.callback(self._sessions.pop, connection)
        self._group.start_soon(notify)
        return watch


def _check(uris: Sequence[str]) -> None:
    # a valid URI is ASCII; other characters take up to four bytes each
    invalid = any(len(uri) > MAX_URI or not uri.isascii() for uri in uris)
    if invalid or len(uris) > MAX_URIS or sum(map(len, uris)) > _ALL_URIS:
        raise MCPError(
            t.INVALID_PARAMS,
            f"At most {MAX_URIS} URIs of at most {MAX_URI} characters, {_ALL_URIS} together, can be subscribed to.",
        )
