"""Whenever a server with waiting containers is killed, they end by themselves, and the next server removes them."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest

from sandbox.labels import CALL, OWNER
from tests.mcp.conftest import Containers
from tests.mcp.pipes import Pipes, piped
from tests.mcp.talk import Place
from tests.mcp.test_endings import LONG, ends
from tests.waiting import until

pytestmark = pytest.mark.engine

KINDS = 2  # that wait unasked: one to read, one to write
WARM = {"GDAL_MCP_POOL_MAX": "4"}


@contextlib.contextmanager
def serving(place: Place) -> Iterator[Pipes]:
    """A server that asks nobody and keeps containers waiting."""
    log = place.state.with_name("warm.log")
    with piped(place.command("--approval", "never"), log, env=WARM) as pipes:
        pipes.hello()
        yield pipes


def waiting(containers: Containers, owners: set[str]) -> list[str]:
    return [name for name in containers.of_owners(owners) if name.startswith("slot-")]


def info(pipes: Pipes) -> int:
    return pipes.send("tools/call", {"name": "info", "arguments": {"path": "dem.tif"}})


def right(message: dict[str, Any]) -> bool:
    result = message.get("result", {})
    return not result.get("isError") and result.get("structuredContent", {}).get("size") == [60, 50]


def refilling(pipes: Pipes, containers: Containers, place: Place) -> None:
    until(lambda: waiting(containers, place.owners))


def claiming(pipes: Pipes, containers: Containers, place: Place) -> None:
    until(lambda: len(waiting(containers, place.owners)) == KINDS)
    for _ in range(6):
        info(pipes)
    until(lambda: len(containers.of_owners(place.owners)) > KINDS)


def removing(pipes: Pipes, containers: Containers, place: Place) -> None:
    until(lambda: len(waiting(containers, place.owners)) == KINDS)
    assert right(pipes.answer(info(pipes)))  # its container is removed now


def writing(pipes: Pipes, containers: Containers, place: Place) -> None:
    until(lambda: len(waiting(containers, place.owners)) == KINDS)
    pipes.begin("reproject", LONG)


@pytest.mark.nightly
@pytest.mark.claim("faults.server-killed")
def test_a_killed_server_s_containers_end_by_themselves_and_the_next_server_removes_them(
    make_place: Callable[..., Place], containers: Containers, client: docker.DockerClient
):
    place, killed = make_place("rgb.tif", "dem.tif"), set()
    for moment in (refilling, claiming, removing, writing):
        with serving(place) as pipes:
            moment(pipes, containers, place)
            assert containers.none_of(killed)
            assert place.owners.isdisjoint(killed)
            owners = place.owners
            assert ends(pipes, "SIGKILL") == -signal.SIGKILL
        killed |= owners
        until(lambda owners=owners: not running(client, owners))
    with serving(place) as pipes:
        assert right(pipes.answer(info(pipes)))
        assert containers.of_owners(killed) == []
        assert place.owners.isdisjoint(killed)
        assert len(place.staged) <= len(containers.of_owners(place.owners))
        assert (
            not (place.state / "views").exists()
            or {path.name for path in (place.state / "views").iterdir()} <= place.owners
        )
    assert place.staged == []
    assert not place.path("long.tif").exists()


def running(client: docker.DockerClient, owners: set[str]) -> list[str]:
    rows = client.api.containers(filters={"label": OWNER})
    return [row["Labels"][CALL] for row in rows if row["Labels"][OWNER] in owners]
