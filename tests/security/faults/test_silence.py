"""An engine that accepts requests and answers none, for each kind of request that a call makes."""

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from sandbox.engines import docker
from sandbox.engines.discovery import DOCKER_SOCKET, connect, discover
from tests.e2e.mcp.pipes import Pipes
from tests.integration.engine_proxy import EngineProxy
from tests.oci_store import docker_address
from tests.security.faults.kit import PATIENCE, ROWS, serves_again, tells, writes
from tests.security.faults.scenes import Scene, outcome_of, user_files

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.engine-silent-typed")]

# part of the request's first line, and the row with the promised result if it is not answered
REQUESTS = {
    "making": (b"/containers/create", "engine-silent"),
    "reading back": (b"/json HTTP", "engine-silent"),
    "attaching": (b"/attach?", "engine-silent"),
    "starting": (b"/start HTTP", "engine-silent"),
    "removing": (b"DELETE ", "engine-silent-at-removal"),
    "anything": (b"", "engine-silent"),
}


@dataclass(frozen=True)
class Behind:
    """A server that reaches the engine through a separate proxy."""

    proxy: EngineProxy
    pipes: Pipes
    scene: Scene


@contextlib.contextmanager
def proxied(path: Path) -> Iterator[EngineProxy]:
    endpoint, client = discover(docker_address())
    client.close()
    proxy = EngineProxy(path, str(endpoint.socket or DOCKER_SOCKET))
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.nightly
def test_a_silent_engine_is_reported_within_its_deadline(place, servers, containers, tmp_path):
    with contextlib.ExitStack() as stack:
        behind = {}
        for number, kind in enumerate(REQUESTS):
            proxy = stack.enter_context(proxied(tmp_path / f"{number}.sock"))
            options = ("--approval", "never", "--engine", proxy.address)
            pipes = stack.enter_context(servers.serving(place, *options, patience=PATIENCE))
            behind[kind] = Behind(proxy, pipes, writes(f"{number}.tif"))
        assert _all_at_once(behind, Scene("", "info", {"path": "in.tif"})) == ["OK"] * len(behind)
        for kind, server in behind.items():
            server.proxy.meet("silence", REQUESTS[kind][0])
        identifiers = {kind: server.scene.begin(server.pipes) for kind, server in behind.items()}
        for kind, server in behind.items():
            result = tells(REQUESTS[kind][1], partial(server.scene.finish, server.pipes, identifiers[kind]))
            assert server.proxy.met.is_set(), kind
            assert (server.scene.name in user_files(place)) is ("error" not in result)
            server.proxy.restore()
        assert _all_at_once(behind) == ["OK"] * len(behind)
        owners = place.owners
    serves_again(servers, place, writes("last.tif"))
    assert containers.of_owners(owners) == []


def _all_at_once(behind: dict[str, Behind], scene: Scene | None = None) -> list[str]:
    """The outcome of one call on each server."""
    started = [(server, (scene or server.scene).begin(server.pipes)) for server in behind.values()]
    return [outcome_of(server.scene.finish(server.pipes, identifier)) for server, identifier in started]


def test_documented_seconds_cover_the_patience_of_a_server():
    answer = inspect.signature(connect).parameters["timeout"].default
    # one request that is not answered, and the removal of earlier containers, whose last attempt may take as long again
    assert ROWS["engine-silent"].seconds >= 2 * answer + docker.DockerEngine.removal_seconds
    assert ROWS["engine-silent-at-removal"].seconds >= answer + docker.DockerEngine.removal_seconds
