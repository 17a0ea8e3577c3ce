"""Who is notified of changes, in both protocol eras: on a server of fixture tools, with the SDK's own client in this
process.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged

from gdal_mcp.calls.results import changed_by
from gdal_mcp.policy.identity import ADMIN, Principal
from gdal_mcp.records.tasks import TaskStore
from gdal_mcp.server.mcp import subscriptions
from gdal_mcp.server.mcp.server import ProtocolServer
from gdal_mcp.server.mcp.subscriptions import Subscriptions, events_of
from sandbox.outputs.store import Published, PublishedFile, Transfer
from tests.e2e.conformance import profile

# a method of the older protocols, which the SDK's client still has
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning"),
]

MODERN, LEGACY = "2026-07-28", "legacy"
WATCHED, OTHER = "test://watched-resource", "test://static-text"
WHO = profile.EVERYBODY.id


@dataclass
class Heard:
    """Notifications that a client of the handshake era received."""

    events: list[Any] = field(default_factory=list)

    async def __call__(self, message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            self.events.append(ResourceUpdated(uri=str(message.params.uri)))
        elif isinstance(message, t.ResourceListChangedNotification):
            self.events.append(ResourcesListChanged())

    async def until(self, event: Any) -> list[Any]:
        """All notifications until this event."""
        await until(lambda: event in self.events)
        return self.events


@pytest.fixture
def server(tmp_path: Path) -> ProtocolServer:
    """A new server of the fixture tools."""
    return profile.server(TaskStore(tmp_path / "registry.sqlite", "one", lambda _server: True))


@asynccontextmanager
async def client(server: ProtocolServer, receiver: Heard | None = None) -> AsyncIterator[Client]:
    """A client of the handshake era if there is a receiver for its notifications."""
    with anyio.fail_after(30):  # far above any duration here
        async with Client(server, mode=LEGACY if receiver else MODERN, message_handler=receiver) as connected:
            yield connected


def watching(subscriptions: Subscriptions) -> int:
    """The number of streams and sessions."""
    return len(subscriptions._streams) + len(subscriptions._sessions)


def publish(server: ProtocolServer, *events: Any, principal: str = WHO) -> None:
    server.subscriptions.publish(principal, events)


async def until(happened: Callable[[], object]) -> None:
    while not happened():  # noqa: ASYNC110 - it happens in code that has no event for it
        await anyio.sleep(0.001)


async def settled() -> None:
    """Returns when every task that is ready to run has run."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_stream_gets_only_acknowledged_subscriptions(server):
    uris = [WATCHED, "test://absent", WATCHED]
    async with client(server) as connected, connected.listen(resource_subscriptions=uris) as stream:
        assert stream.honored.resource_subscriptions == [WATCHED]
        assert not stream.honored.tools_list_changed
        publish(server, *(ResourceUpdated(uri=uri) for uri in (OTHER, "test://absent")))
        publish(server, ResourcesListChanged(), ToolsListChanged(), ResourceUpdated(uri=WATCHED))
        assert await anext(stream) == ResourceUpdated(uri=WATCHED)
    async with client(server) as connected, connected.listen(tools_list_changed=True) as stream:
        assert (stream.honored.tools_list_changed, stream.honored.resources_list_changed) == (True, None)
        publish(server, ResourcesListChanged(), ToolsListChanged())
        assert await anext(stream) == ToolsListChanged()


async def test_session_is_notified_until_it_unsubscribes(server):
    receiver = Heard()
    async with client(server, receiver) as connected:
        await connected.subscribe_resource(WATCHED)
        await connected.subscribe_resource(OTHER)
        publish(server, ResourceUpdated(uri=WATCHED))
        await receiver.until(ResourceUpdated(uri=WATCHED))
        await connected.unsubscribe_resource(WATCHED)
        receiver.events.clear()
        publish(server, ResourceUpdated(uri=WATCHED))
        publish(server, ResourceUpdated(uri=OTHER))
        assert await receiver.until(ResourceUpdated(uri=OTHER)) == [ResourceUpdated(uri=OTHER)]


@pytest.mark.claim("identity.others-unseen")
async def test_session_of_demoted_token_no_longer_sees_others(server):
    scopes = {ADMIN}

    server.subscriptions._who = lambda _ctx: Principal(WHO, frozenset(scopes))
    receiver = Heard()
    async with client(server, receiver) as connected:
        await connected.subscribe_resource(WATCHED)
        publish(server, ResourcesListChanged(), principal="token:other")
        await receiver.until(ResourcesListChanged())
        scopes.clear()
        await connected.list_resources()
        publish(server, ResourcesListChanged(), principal="token:other")
        await settled()
        publish(server, ResourceUpdated(uri=WATCHED))
        events = await receiver.until(ResourceUpdated(uri=WATCHED))
    assert events.count(ResourcesListChanged()) == 1


async def test_subscription_answer_does_not_reveal_existence(server):
    async with client(server, Heard()) as connected:
        answers = [await connected.subscribe_resource(uri) for uri in (WATCHED, "test://absent", "x" * 1000)]
        assert len({answer.model_dump_json() for answer in answers}) == 1


@pytest.mark.claim("identity.others-unseen")
async def test_change_reaches_only_its_principal_and_administrators():
    async def is_notified(watching: Principal, owner: str) -> bool:
        service = Subscriptions(lambda _ctx: watching, lambda _who, uris: _all(uris))
        sent: list[Any] = []
        async with anyio.create_task_group() as group:
            group.start_soon(service.listen, _request(sent), _asks(WATCHED))
            await until(lambda: sent)
            service.publish(owner, [ResourceUpdated(uri=WATCHED)])
            await settled()
            group.cancel_scope.cancel()
        assert isinstance(sent[0], t.SubscriptionsAcknowledgedNotification)
        return len(sent) == 2

    admin = Principal("token:admin", frozenset({ADMIN}))
    assert await is_notified(Principal("token:ann"), "token:ann")
    assert not await is_notified(Principal("token:ann"), "token:bob")
    assert await is_notified(admin, "token:bob")


async def _all(uris: Any) -> list[str]:
    return list(uris)


def _asks(*uris: str) -> t.SubscriptionsListenRequestParams:
    wanted = t.SubscriptionFilter(resource_subscriptions=list(uris))
    return t.SubscriptionsListenRequestParams(notifications=wanted)


def _request(sent: list[Any], blocked: anyio.Event | None = None) -> Any:
    """A request whose client accepts notifications, or blocks from the second one on."""

    async def send(message: Any, **_named: Any) -> None:
        sent.append(message)
        if blocked is not None and len(sent) > 1:
            await blocked.wait()

    return SimpleNamespace(request_id=1, session=SimpleNamespace(send_notification=send))


@pytest.mark.claim("http.bounded")
async def test_stream_of_client_that_does_not_read_ends():
    service = Subscriptions(lambda _ctx: Principal(WHO), lambda _who, uris: _all(uris))
    sent: list[Any] = []
    blocked = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(service.listen, _request(sent, blocked), _asks(WATCHED))
        await until(lambda: sent)
        for _ in range(5000):
            service.publish(WHO, [ResourceUpdated(uri=WATCHED)])
        blocked.set()
        await until(lambda: not watching(service))
    assert len(sent) < 2000


@pytest.mark.claim("http.bounded")
async def test_unread_session_stores_one_report_per_resource():
    watch = subscriptions._SubscribedSession(Principal(WHO), t.SubscriptionFilter(), {WATCHED, OTHER})
    events = watch.events()
    for _ in range(5000):
        for uri in (WATCHED, OTHER):
            watch.put(ResourceUpdated(uri=uri))
    assert [(await anext(events)).uri for _ in range(2)] == [WATCHED, OTHER]
    assert not watch._pending


@pytest.mark.parametrize("legacy", [True, False])
async def test_who_is_gone_leaves_nothing_behind(server, legacy: bool):
    for _ in range(5):
        async with client(server, Heard() if legacy else None) as connected:
            if legacy:
                await connected.subscribe_resource(WATCHED)
                assert watching(server.subscriptions) == 1
            else:
                async with connected.listen(resources_list_changed=True):
                    assert watching(server.subscriptions) == 1
        await until(lambda: not watching(server.subscriptions))
    publish(server, ResourceUpdated(uri=WATCHED), ResourcesListChanged())


async def test_streams_per_principal_are_bounded_until_one_ends(server, monkeypatch):
    monkeypatch.setattr(subscriptions, "MAX_STREAMS", 2)

    async with client(server) as connected, connected.listen(tools_list_changed=True):
        async with connected.listen(tools_list_changed=True):
            with pytest.raises(MCPError):
                async with connected.listen(tools_list_changed=True):
                    pass
        await until(lambda: watching(server.subscriptions) == 1)
        async with connected.listen(tools_list_changed=True):
            assert watching(server.subscriptions) == 2


@pytest.mark.parametrize(
    "uris",
    [
        [f"test://{n}" for n in range(subscriptions.MAX_URIS + 1)],
        ["x" * (subscriptions.MAX_URI + 1)],
        ["test://\U0001f600"],
        [f"test://{n}/" + "x" * 1000 for n in range(300)],
    ],
)
async def test_client_subscriptions_are_bounded_in_both_protocol_eras(server, uris: list[str]):
    async with client(server) as connected:
        with pytest.raises(MCPError) as caught:
            async with connected.listen(resource_subscriptions=uris):
                pass
        assert caught.value.error.code == t.INVALID_PARAMS
    async with client(server, Heard()) as connected:
        with pytest.raises(MCPError) as caught:
            for uri in uris:
                await connected.subscribe_resource(uri)
        assert caught.value.error.code == t.INVALID_PARAMS
        await connected.unsubscribe_resource(uris[0])
        await connected.subscribe_resource(WATCHED)


def located(path: str) -> Any:
    return SimpleNamespace(uri=f"file://{path}")


def test_call_end_notifies_record_and_every_touched_place():
    files = (PublishedFile(located("/w/new.tif"), 1, ""),)
    moved = (Transfer(located("/w/from"), located("/w/to")),)
    published = Published("undo", files, (located("/w/old.tif"),), (located("/w/gone.tif"),), moved)
    done: Any = SimpleNamespace(published=published)
    events = events_of(changed_by("token:ann", "ab12", done))
    uris = {event.uri for event in events if isinstance(event, ResourceUpdated)}
    files_changed = {f"file:///w/{name}" for name in ("new.tif", "old.tif", "gone.tif", "from", "to")}
    assert uris == files_changed | {"gdal://calls/ab12", "gdal://calls/ab12/provenance"}
    assert ResourcesListChanged() in events


def test_a_call_that_published_nothing_changes_no_list():
    assert ResourcesListChanged() not in events_of(changed_by("token:ann", "ab12", None))
