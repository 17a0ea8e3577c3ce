"""After any end of a call or the server over HTTP, no container is left, and the records say how it ended."""

import signal
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.mcp.test_endings import LONG
from tests.e2e.web.hosted import bearer, hosting
from tests.e2e.web.raw import Raw
from tests.waiting import until

pytestmark = pytest.mark.engine


def outcomes(place: Place) -> list[str]:
    return sorted(event["outcome"] for event in place.audited if event["type"] == "call.finished")


@pytest.mark.claim("faults.client-gone")
def test_client_disconnection_removes_its_call_container(http_server, ann, containers):
    place, raw = http_server.place, Raw(http_server, ann)
    with raw.running_call("reproject", **{**LONG, "output": "hung-up.tif"}):
        call = place.audited[-1]["call"]
        assert call in containers.of_owners(place.owners)
    until(lambda: call not in containers.of_owners(place.owners))
    until(lambda: (call, "CANCELLED") in [(event.get("call"), event["outcome"]) for event in place.audited])
    assert not place.path("hung-up.tif").exists()
    assert call not in place.staged


def test_task_outlives_its_request_but_not_its_server(make_place, containers, grounds):
    place = make_place("rgb.tif")
    with hosting(place, grounds / "ending.log", "--approval", "never", "--task-after", "0") as hosted:
        raw = Raw(hosted, hosted.token("ann"), tasks=True)
        task = {"taskId": raw.call("reproject", **LONG).json()["result"]["taskId"]}
        until(lambda: "%" in raw.ask("tasks/get", task)["result"].get("statusMessage", ""))
        owners = place.owners
        assert hosted.end() == 143
    assert containers.of_owners(owners) == []
    assert outcomes(place) == ["CANCELLED"]


def test_an_idle_server_ends_with_open_streams(make_place: Callable[..., Place], grounds: Path):
    with hosting(make_place(), grounds / "ending.log", "--engine", "unix:///nonexistent.sock") as hosted:
        raw = Raw(hosted, hosted.token("ann"), ERAS[0]).hello()
        headers = {**bearer(raw.token), "Accept": "text/event-stream", "Mcp-Session-Id": str(raw.session)}
        with httpx2.stream("GET", hosted.url, headers=headers) as stream:
            assert stream.status_code == 200
            assert hosted.end(signal.SIGINT) == 130
