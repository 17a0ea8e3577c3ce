"""What changes is told to the clients that asked: `subscriptions/listen` of 2026-07-28, and `resources/subscribe` before it.

Invariants:
* a change is told to its own principal, and to those who may see everybody's; to anybody else it never happened;
* who publishes a change never waits for who is told of it: the stream of a client that does not read ends, and a session of
  the handshake era is told once of what changed many times;
* what a client asked for goes with its stream or session, and is bounded while that lasts.

Only changes by calls of this process are seen. There is no replay: who comes back reads again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

import anyio
import anyio.abc
import mcp_types as t
from mcp.server.connection import Connection
from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_matches,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.access.identity import ADMIN, Principal
from gdal_mcp.calls.changes import Changed
from gdal_mcp.ledger.statement import CALLS

MOST_STREAMS: Final = 32  # of one principal; a client needs one
MOST_URIS: Final = 1000  # of one stream or session
_ALL_URIS: Final = 256 << 10  # characters, of one session or stream
MAX_URI: Final = 16384  # characters; the longest path with every byte percent-encoded, and some more
_METHODS: Final[Mapping[type[ServerEvent], str]] = MappingProxyType(
    {
        ToolsListChanged: "notifications/tools/list_changed",
        PromptsListChanged: "notifications/prompts/list_changed",
        ResourcesListChanged: "notifications/resources/list_changed",
        ResourceUpdated: "notifications/resources/updated",
    }
)

Context = ServerRequestContext[Any]
Listener = Callable[[ServerEvent], None]
_Yielded = TypeVar("_Yielded")
Lifespan = Callable[[Server[Any]], AbstractAsyncContextManager[_Yielded]]
Readable = Callable[[Principal, Sequence[str]], Awaitable[list[str]]]  # which of these URIs one may read


@dataclass(frozen=True, slots=True)
class Change:
    """What a call changed."""

    principal: str  # whose call it was
    events: tuple[ServerEvent, ...]


def wired(changed: Changed) -> Change:
    """A change as the protocol tells it."""
    record = f"{CALLS}{changed.call_id}"
    events = _updates([record, f"{record}/provenance", *changed.outputs])
    return Change(changed.principal, (*events, ResourcesListChanged()) if changed.outputs else events)


def _updates(uris: list[str]) -> tuple[ServerEvent, ...]:
    return tuple(ResourceUpdated(uri=uri) for uri in dict.fromkeys(uris))


@dataclass(frozen=True, slots=True)
class Lists:
    """Which lists of a server ever change."""

    tools: bool = False
    prompts: bool = False
    resources: bool = True

    @property
    def all(self) -> t.SubscriptionFilter:
        return t.SubscriptionFilter(
            tools_list_changed=self.tools or None,
            prompts_list_changed=self.prompts or None,
            resources_list_changed=self.resources or None,
        )

    def granted(self, asked: t.SubscriptionFilter, uris: list[str]) -> t.SubscriptionFilter:
        """What of a filter will be told."""
        kept = Lists(
            tools=self.tools and bool(asked.tools_list_changed),
            prompts=self.prompts and bool(asked.prompts_list_changed),
            resources=self.resources and bool(asked.resources_list_changed),
        )
        return kept.all.model_copy(update={"resource_subscriptions": uris or None})


@dataclass(eq=False, slots=True)
class _Watch:
    """What one session of the handshake era is told of, and what it is still to be told."""

    who: Principal
    lists: t.SubscriptionFilter
    uris: set[str] = field(default_factory=set)
    _pending: dict[ServerEvent, None] = field(default_factory=dict)  # a set that keeps its order
    _woken: anyio.Event = field(default_factory=anyio.Event)

    def put(self, event: ServerEvent) -> None:
        if event_matches(self.lists, frozenset(self.uris), event):
            self._pending[event] = None
            self._woken.set()

    async def told(self) -> AsyncIterator[ServerEvent]:
        """The events as they come; what changed again before it was told comes once."""
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            while self._pending:
                event = next(iter(self._pending))
                del self._pending[event]
                yield event


@dataclass(frozen=True, slots=True)
class _PrincipalBus:
    """The SDK's bus, as one principal sees it."""

    who: Principal
    listeners: dict[object, tuple[Principal, Listener]]

    async def publish(self, event: ServerEvent) -> None:
        """Nothing is published here: `Subscriptions.publish` knows whose change it is."""
        raise NotImplementedError

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        token = object()
        self.listeners[token] = self.who, listener
        return lambda: self.listeners.pop(token, None) and None


class Subscriptions:
    """Who is told of what. Every method is for the event loop."""

    def __init__(
        self, who: Callable[[Context], Principal], readable: Readable, lists: Lists = Lists()
    ) -> None:
        self._who, self._readable, self.lists = who, readable, lists
        self._streams: dict[object, tuple[Principal, Listener]] = {}
        self._sessions: dict[Connection, _Watch] = {}
        self._group: anyio.abc.TaskGroup

    @property
    def watching(self) -> int:
        """How many streams and sessions are told of changes."""
        return len(self._streams) + len(self._sessions)

    def around(self, lifespan: Lifespan[_Yielded]) -> Lifespan[_Yielded]:
        """A server's lifespan in which sessions of the handshake era are told of changes."""

        @asynccontextmanager
        async def both(server: Server[Any]) -> AsyncIterator[_Yielded]:
            async with anyio.create_task_group() as self._group, lifespan(server) as made:
                yield made
                self._group.cancel_scope.cancel()

        return both

    def publish(self, change: Change) -> None:
        """Tells those who may know; returns at once."""
        watches = ((watch.who, watch.put) for watch in self._sessions.values())
        for who, listener in (*self._streams.values(), *watches):
            if who.id == change.principal or who.holds(ADMIN):
                for event in change.events:
                    listener(event)

    async def listen(
        self, ctx: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """Serves one stream, which lasts as long as its request, by the SDK's handler."""
        asked = params.notifications
        uris = list(dict.fromkeys(asked.resource_subscriptions or ()))
        _check(uris)
        who = self._who(ctx)
        granted = self.lists.granted(asked, await self._readable(who, uris))
        if sum(other.id == who.id for other, _ in self._streams.values()) >= MOST_STREAMS:
            raise MCPError(
                t.INTERNAL_ERROR, f"There are {MOST_STREAMS} subscriptions already. End one of them first."
            )
        handler = ListenHandler(_PrincipalBus(who, self._streams))
        return await handler(ctx, params.model_copy(update={"notifications": granted}))

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        """Takes every URI, so that the answer does not tell whether it is there; a change of it is told to who may know."""
        uris = self._session(ctx).uris
        uri = str(params.uri)
        _check([*uris - {uri}, uri])
        uris.add(uri)
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self._session(ctx).uris.discard(str(params.uri))
        return t.EmptyResult()

    async def meet(self, ctx: Context, call_next: CallNext) -> Any:
        """Middleware. A session of the handshake era is told of changed lists without asking, from its first request on."""
        legacy = ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if legacy and ctx.request_id is not None and ctx.session.client_params is not None:
            self._session(ctx)
        return await call_next(ctx)

    def _session(self, ctx: Context) -> _Watch:
        connection = ctx.session._connection  # noqa: SLF001 - no public name has what outlives the request
        watch, who = self._sessions.get(connection), self._who(ctx)
        if (
            watch is not None
        ):  # what a lesser token of the same principal is not told, its session is not told any more
            watch.who = replace(watch.who, scopes=watch.who.scopes & who.scopes)
        else:
            watch = self._sessions[connection] = _Watch(who, self.lists.all)
            until_end = anyio.CancelScope()
            connection.exit_stack.callback(self._forget, connection, until_end)
            self._group.start_soon(_tell, connection, watch, until_end)
        return watch

    def _forget(self, connection: Connection, telling: anyio.CancelScope) -> None:
        del self._sessions[connection]
        telling.cancel()


async def _tell(connection: Connection, watch: _Watch, until_end: anyio.CancelScope) -> None:
    with until_end:
        async for event in watch.told():
            params = {"uri": event.uri} if isinstance(event, ResourceUpdated) else None
            await connection.notify(_METHODS[type(event)], params)


def serve_subscriptions(server: Server[Any], subscriptions: Subscriptions) -> None:
    """Adds the methods of both eras to a server that runs within `subscriptions.running()`."""
    server.add_request_handler(
        "subscriptions/listen", t.SubscriptionsListenRequestParams, subscriptions.listen
    )
    server.add_request_handler("resources/subscribe", t.SubscribeRequestParams, subscriptions.subscribe)
    server.add_request_handler("resources/unsubscribe", t.UnsubscribeRequestParams, subscriptions.unsubscribe)
    server.middleware.append(subscriptions.meet)


def _check(uris: Sequence[str]) -> None:
    odd = any(
        len(uri) > MAX_URI or not uri.isascii() for uri in uris
    )  # a URI is ASCII; others take four bytes a letter
    if odd or len(uris) > MOST_URIS or sum(map(len, uris)) > _ALL_URIS:
        raise MCPError(
            t.INVALID_PARAMS,
            f"At most {MOST_URIS} URIs of at most {MAX_URI} characters, {_ALL_URIS} together, can be subscribed to.",
        )
