"""Clients are told of what calls change, over stdio in both eras and over HTTP, and never of what is somebody else's."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as t
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.pipes import SECONDS, Pipes, piped
from tests.mcp.talk import ERAS, Place
from tests.web.hosted import Hosted, bearer, hosting

pytestmark = pytest.mark.engine

LISTEN = "subscriptions/listen"
ACK = "notifications/subscriptions/acknowledged"
UPDATED, LIST = "notifications/resources/updated", "notifications/resources/list_changed"


@pytest.fixture(scope="module")
def own(grounds: Path, place: Place) -> Place:
    made = Place.made(grounds / "subscriptions")
    for name in ("rgb.tif", "plain.tif"):
        made.path(name).write_bytes(place.path(name).read_bytes())
    return made


@pytest.fixture(params=ERAS, scope="module")
def pipes(request: pytest.FixtureRequest, own: Place) -> Iterator[Pipes]:
    """A client on a server that asks nobody."""
    command = own.command("--approval", "never")
    warm = {"GDAL_MCP_POOL_MAX": "2"}
    with piped(command, own.state.parent / "log", era=request.param, env=warm) as made:
        made.hello()
        yield made


def write(pipes: Pipes, name: str, **more: Any) -> dict[str, Any]:
    """The result of a call that publishes a file."""
    result = pipes.call("convert", {"input": "plain.tif", "output": name, **more})
    assert not result.get("isError"), result
    return result["structuredContent"]


def subscribe(pipes: Pipes, *uris: str) -> int | None:
    """Asks for these and for changes of the list; returns the stream's id, if an era has streams."""
    if pipes.era != ERAS[1]:
        assert all(pipes.ask("resources/subscribe", {"uri": uri})["result"] == {} for uri in uris)
        return None
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": list(uris)}
    stream = pipes.send(LISTEN, {"notifications": wanted})
    pipes.until(lambda message: message.get("method") == ACK)
    return stream


def listed(pipes: Pipes) -> set[str]:
    return {one["uri"] for one in pipes.ask("resources/list")["result"]["resources"]}


def told(pipes: Pipes, uri: str) -> list[str]:
    """What was told of up to the change of this resource; a changed list is an empty text."""
    heard: list[str] = []

    def wanted(message: dict[str, Any]) -> bool:
        if message.get("method") in (UPDATED, LIST):
            heard.append(message["params"].get("uri", "") if message["method"] == UPDATED else "")
        return bool(heard) and heard[-1] == uri

    pipes.until(wanted)
    return heard


def test_a_new_output_changes_the_list_and_a_replaced_one_is_told_to_who_asked_for_it(pipes: Pipes):
    a, b = f"a-{pipes.era}.tif", f"b-{pipes.era}.tif"
    before = listed(pipes)
    stream = subscribe(pipes)
    first = write(pipes, a)["resource_uri"]
    assert told(pipes, "") == [""]
    assert listed(pipes) - before == {first}
    second = write(pipes, b)["resource_uri"]
    assert told(pipes, "") == [""]
    if stream:
        pipes.notify("notifications/cancelled", {"requestId": stream})
    subscribe(pipes, second)
    pipes.call("info", {"path": "plain.tif"})
    write(pipes, a, overwrite=True)
    write(pipes, b, overwrite=True)
    assert told(pipes, second) == ["", second]
    other = [
        one for one in pipes.lines if stream and f'"io.modelcontextprotocol/subscriptionId":{stream}' in one
    ]
    assert len(other) <= 3  # its acknowledgement and two new outputs: nothing since it was cancelled


@pytest.mark.parametrize("pipes", [ERAS[1]], indirect=True)
def test_what_may_not_be_read_is_not_acknowledged(pipes: Pipes, own: Place):
    uri = write(pipes, "mine.tif")["resource_uri"]
    source = own.path("plain.tif").as_uri()
    asked = {
        "resourceSubscriptions": [uri, source, "file:///etc/passwd", "gdal://calls/none", f"{uri}?offset=0"]
    }
    pipes.send(LISTEN, {"notifications": asked})
    ack = pipes.until(lambda message: message.get("method") == ACK)
    assert ack["params"]["notifications"] == {"resourceSubscriptions": [uri]}


@dataclass
class Heard:
    """What a client was told, in order; a changed list is an empty text."""

    events: list[str] = field(default_factory=list)

    async def __call__(self, message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            self.events.append(str(message.params.uri))
        elif isinstance(message, t.ResourceListChangedNotification):
            self.events.append("")


@asynccontextmanager
async def reached(hosted: Hosted, token: str, era: str, heard: Heard) -> AsyncIterator[Client]:
    """The SDK's client with this token over HTTP."""
    async with httpx2.AsyncClient(headers=bearer(token), timeout=SECONDS, trust_env=False) as http:
        transport = streamable_http_client(hosted.url, http_client=http)
        async with Client(transport, mode=era, message_handler=heard) as made:
            yield made


@asynccontextmanager
async def watching(client: Client, heard: Heard, *uris: str) -> AsyncIterator[None]:
    """Everything that this client may be told of these is heard."""
    if client.protocol_version != ERAS[1]:
        for uri in uris:
            await client.subscribe_resource(uri)
        yield
        return
    async with anyio.create_task_group() as group, client.listen(resources_list_changed=True, resource_subscriptions=uris) as stream:  # fmt: skip

        async def hear() -> None:
            async for event in stream:
                heard.events.append(getattr(event, "uri", ""))

        group.start_soon(hear)
        yield
        group.cancel_scope.cancel()


async def put(client: Client, name: str) -> str:
    """Publishes a file, over whatever is there."""
    given = {"input": "plain.tif", "output": name, "overwrite": True}
    result = await client.call_tool("convert", given)
    assert not result.is_error, result.structured_content
    assert result.structured_content is not None
    return str(result.structured_content["resource_uri"])


@pytest.mark.claim("identity.others-unseen")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
def test_nobody_is_told_of_what_is_somebody_elses(hosted: Hosted, era: str):
    """What the other does comes first, so that it would be heard before one's own."""

    async def test() -> None:
        heard = Heard()
        async with (
            reached(hosted, hosted.token(f"ann-{era}"), ERAS[1], Heard()) as ann,
            reached(hosted, hosted.token(f"bob-{era}"), era, heard) as bob,
        ):
            theirs, mine = await put(ann, f"ann-{era}.tif"), await put(bob, f"bob-{era}.tif")
            async with watching(bob, heard, theirs, mine):
                while mine not in heard.events:  # an older client's stream may open later than its session
                    await put(bob, f"bob-{era}.tif")
                while heard.events[-1]:  # noqa: ASYNC110 - the list is told last, by a task of the client's
                    await anyio.sleep(0.01)
                heard.events.clear()
                await put(ann, f"ann-{era}.tif")
                await put(ann, f"ann-more-{era}.tif")
                await put(bob, f"bob-{era}.tif")
                while mine not in heard.events:  # noqa: ASYNC110 - told by a task of the client's
                    await anyio.sleep(0.01)
                assert heard.events[0] == mine
                assert theirs not in heard.events

    anyio.run(test)


@pytest.fixture(scope="module")
def hosted(grounds: Path, place: Place) -> Iterator[Hosted]:
    made = Place.made(grounds / "subscriptions-http")
    made.path("plain.tif").write_bytes(place.path("plain.tif").read_bytes())
    warm = {"GDAL_MCP_POOL_MAX": "2"}
    with hosting(made, grounds / "subscriptions-http.log", "--approval", "never", env=warm) as server:
        yield server
