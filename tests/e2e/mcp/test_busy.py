"""A server without free places: it keeps answering, tells clients that they wait, and ends cancelled calls."""

import json
from typing import Any

import pytest

from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import Place
from tests.e2e.mcp.test_endings import LONG, ends
from tests.waiting import until

pytestmark = pytest.mark.engine

ONE_PLACE = {"GDAL_MCP_CONCURRENT": "1", "GDAL_MCP_POOL_MAX": "2"}


def waiting(pipes: Pipes, tool: str, arguments: dict[str, Any]) -> int:
    """Sends a call that must wait; returns the id of its request once its client has been informed of that."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "waiting"}}
    identifier = pipes.send("tools/call", params)
    notification = pipes.until(lambda message: message.get("params", {}).get("progressToken") == "waiting")
    assert notification["params"]["progress"] == 0
    assert notification["params"]["message"]
    return identifier


def answered(pipes: Pipes) -> set[int]:
    """The requests that have been answered."""
    messages = map(json.loads, list(pipes.lines))
    return {message["id"] for message in messages if "id" in message and "method" not in message}


@pytest.mark.claim("resources.server-goes-on")
def test_full_server_answers_containerless_calls_and_honours_cancellation(make_place, containers, grounds):
    place = make_place("rgb.tif")
    with piped(place.command("--approval", "never"), grounds / "busy.log", env=ONE_PLACE) as pipes:
        pipes.hello()
        running = pipes.begin("reproject", LONG)
        during = set(containers.of_owners(place.owners))
        queued = waiting(pipes, "info", {"path": "rgb.tif"})
        for method in ("ping", "tools/list", "resources/list", "prompts/list", "resources/templates/list"):
            assert "result" in pipes.ask(method)
        assert pipes.call("gdal_search", {"query": "hillshade"})["structuredContent"]
        assert pipes.call("info", {"path": "absent.tif"})["isError"]
        assert answered(pipes).isdisjoint({running, queued})

        pipes.notify("notifications/cancelled", {"requestId": queued})
        until(lambda: last(place, "info") == "CANCELLED")
        assert answered(pipes).isdisjoint({running, queued})
        pipes.notify("notifications/cancelled", {"requestId": running})
        until(lambda: last(place, "reproject") == "CANCELLED")
        # the container of the call is gone; others wait for the next call
        until(lambda: during - set(containers.of_owners(place.owners)))
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")  # the place is free
        owners = place.owners
        assert ends(pipes, "SIGTERM") == 143
    assert containers.of_owners(owners) == []
    assert place.staged == []
    assert not place.path("long.tif").exists()


def last(place: Place, tool: str) -> str | None:
    """The end of the newest recorded call of a tool."""
    outcomes = [event["outcome"] for event in place.audited if event.get("tool") == tool]
    return outcomes[-1] if outcomes else None
