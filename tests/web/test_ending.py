"""However a call or the server ends over HTTP, no container stays, and the records say how it ended."""

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from gdal_mcp.ledger.audit import verify
from tests.mcp.conftest import Containers
from tests.mcp.talk import ERAS, Place
from tests.mcp.test_endings import LONG
from tests.waiting import until
from tests.web.hosted import Hosted, hosting
from tests.web.raw import Raw

pytestmark = pytest.mark.engine


def outcomes(place: Place) -> list[str]:
    return sorted(event["outcome"] for event in place.audited if event["type"] == "call.finished")


@pytest.mark.claim("faults.client-gone")
def test_a_client_that_hangs_up_takes_the_container_of_its_call_along(
    http_server: Hosted, ann: str, containers: Containers
):
    place, raw = http_server.place, Raw(http_server, ann)
    with raw.begun("reproject", **{**LONG, "output": "hung-up.tif"}):
        call = place.audited[-1]["call"]
        assert call in containers.of_owners(place.owners)
    until(lambda: call not in containers.of_owners(place.owners))
    until(
        lambda: any(event.get("call") == call and event["outcome"] == "CANCELLED" for event in place.audited)
    )
    assert not place.path("hung-up.tif").exists()
    assert call not in place.staged


@pytest.mark.nightly
@pytest.mark.claim("faults.client-gone")
def test_a_signal_under_load_cancels_every_call_and_leaves_nothing(
    make_place: Callable[..., Place], containers: Containers, grounds: Path
):
    place = make_place("rgb.tif")
    options = ("--approval", "never", "--concurrent", "2", "--memory", "512MiB")
    with hosting(place, grounds / "ending.log", *options) as hosted, ExitStack() as stack:
        token = hosted.token("ann")
        for era in ERAS:
            # ends with an error, as the server goes away in the middle of it
            stack.enter_context(suppress(httpx2.HTTPError))
            stack.enter_context(
                Raw(hosted, token, era).hello().begun("reproject", **{**LONG, "output": f"{era}.tif"})
            )
        waiting = threading.Thread(target=_quietly, args=(hosted, token))
        waiting.start()
        owners = place.owners
        until(lambda: len(containers.of_owners(owners)) >= 2)
        assert hosted.end() == 143
        waiting.join(30)
    assert containers.of_owners(owners) == []
    assert place.staged == []
    assert place.owners == set()
    assert set(outcomes(place)) == {"CANCELLED"}
    assert len(outcomes(place)) >= 2
    assert sorted(path.name for path in place.workspace.iterdir()) == [".gdal-mcp", "rgb.tif"]
    assert verify(place.state / "audit.jsonl").ok


def _quietly(hosted: Hosted, token: str) -> None:
    """A call that waits for a place when the server ends."""
    with suppress(httpx2.HTTPError):
        Raw(hosted, token).call("info", path="rgb.tif")


def test_a_task_outlives_its_request_and_not_its_server(
    make_place: Callable[..., Place], containers: Containers, grounds: Path
):
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
        headers = {
            "Accept": "text/event-stream",
            "Mcp-Session-Id": str(raw.session),
            "Authorization": f"Bearer {raw.token}",
        }
        with httpx2.stream("GET", hosted.url, headers=headers) as stream:
            assert stream.status_code == 200
            assert hosted.end(signal.SIGINT) == 130
