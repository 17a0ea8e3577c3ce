"""Clients are notified of the changes that calls make, in both eras."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import ERAS, Place

pytestmark = pytest.mark.engine

DATA = ("plain.tif",)
LISTEN = "subscriptions/listen"
ACK = "notifications/subscriptions/acknowledged"
UPDATED, LIST = "notifications/resources/updated", "notifications/resources/list_changed"


@pytest.fixture(params=ERAS, scope="module")
def pipes(request: pytest.FixtureRequest, own: Place) -> Iterator[Pipes]:
    """A client of a server that needs no approval."""
    command = own.command("--approval", "never")
    warm = {"GDAL_MCP_POOL_MAX": "2"}
    with piped(command, own.state.parent / "log", era=request.param, env=warm) as client:
        client.hello()
        yield client


def write(pipes: Pipes, name: str, **more: Any) -> dict[str, Any]:
    """The result of a call that publishes a file."""
    result = pipes.call("convert", {"input": "plain.tif", "output": name, **more})
    assert not result.get("isError"), result
    return result["structuredContent"]


def subscribe(pipes: Pipes, *uris: str) -> int | None:
    """Subscribes to these resources and to changes of the list; returns the id of the stream, in an era with streams."""
    if pipes.era != ERAS[1]:
        assert all(pipes.ask("resources/subscribe", {"uri": uri})["result"] == {} for uri in uris)
        return None
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": list(uris)}
    stream = pipes.send(LISTEN, {"notifications": wanted})
    pipes.until(lambda message: message.get("method") == ACK)
    return stream


def listed(pipes: Pipes) -> set[str]:
    return {resource["uri"] for resource in pipes.ask("resources/list")["result"]["resources"]}


def notified_uris(pipes: Pipes, uri: str) -> list[str]:
    """The notifications up to the change of this resource; a changed list is an empty text."""
    uris: list[str] = []

    def wanted(message: dict[str, Any]) -> bool:
        if message.get("method") in (UPDATED, LIST):
            uris.append(message["params"].get("uri", "") if message["method"] == UPDATED else "")
        return bool(uris) and uris[-1] == uri

    pipes.until(wanted)
    return uris


def test_new_output_changes_list_and_replacement_notifies_subscribers(pipes: Pipes):
    a, b = f"a-{pipes.era}.tif", f"b-{pipes.era}.tif"
    before = listed(pipes)
    stream = subscribe(pipes)
    first = write(pipes, a)["resource_uri"]
    assert notified_uris(pipes, "") == [""]
    assert listed(pipes) - before == {first}
    second = write(pipes, b)["resource_uri"]
    assert notified_uris(pipes, "") == [""]
    if stream:
        pipes.notify("notifications/cancelled", {"requestId": stream})
    subscribe(pipes, second)
    pipes.call("info", {"path": "plain.tif"})
    write(pipes, a, overwrite=True)
    write(pipes, b, overwrite=True)
    assert notified_uris(pipes, second) == ["", second]
    notifications = [
        line
        for line in pipes.lines
        if stream and f'"io.modelcontextprotocol/subscriptionId":{stream}' in line
    ]
    # its acknowledgement and two new outputs, and nothing after it was cancelled
    assert len(notifications) <= 3


@pytest.mark.parametrize("pipes", [ERAS[1]], indirect=True)
def test_what_may_not_be_read_is_not_acknowledged(pipes: Pipes, own: Place):
    uri = write(pipes, "mine.tif")["resource_uri"]
    source = own.path("plain.tif").as_uri()
    notifications = {
        "resourceSubscriptions": [uri, source, "file:///etc/passwd", "gdal://calls/none", f"{uri}?offset=0"]
    }
    pipes.send(LISTEN, {"notifications": notifications})
    ack = pipes.until(lambda message: message.get("method") == ACK)
    assert ack["params"]["notifications"] == {"resourceSubscriptions": [uri]}
