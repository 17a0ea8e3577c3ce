"""A server, or its engine, is killed while a call reads remote data: nothing is half-written or left, and the next
call works.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdal_mcp.records.audit_verification import verify
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.remote.origin import Origin
from tests.e2e.vsihost.conftest import stalling
from tests.private_engine import private_engine

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


@pytest.fixture
def origin(server: Origin, data: Path) -> Origin:
    server.files = {"a.tif": (data / "a.tif").read_bytes()}
    return server


@contextmanager
def reading(place: Place, origin: Origin, ca: Path, *options: str) -> Iterator[tuple[Pipes, int]]:
    """A server with a call that waits for the origin in the middle of a read."""
    stalled = stalling(origin)
    with serving(place, origin, ca, *options) as pipes:
        identifier = pipes.send("tools/call", {"name": "convert", "arguments": arguments(origin)})
        assert stalled.wait(120)
        yield pipes, identifier
    origin.special.clear()


def arguments(origin: Origin) -> dict[str, str]:
    return {"input": origin.url("/ok/a.tif", "localhost"), "output": "out.tif"}


@contextmanager
def serving(place: Place, origin: Origin, ca: Path, *options: str) -> Iterator[Pipes]:
    file = place.state.parent / "settings.toml"
    source = f'[[remote.source]]\nat = "localhost:{origin.port}"\nnetworks = ["127.0.0.0/8", "::1/128"]\n'
    file.write_text(f'[remote]\nca = "{ca}"\nsilence_seconds = 60\n{source}')
    command = place.command("--config", str(file), "--approval", "never", *options)
    with piped(command, place.state.parent / "log", era=ERAS[1]) as pipes:
        yield pipes


def serves_again(place: Place, origin: Origin, ca: Path, *options: str) -> None:
    """Checks that nothing was published, that a new server can make the same call, and that then nothing is left of
    either.
    """
    assert not place.path("out.tif").exists()
    with serving(place, origin, ca, *options) as pipes:
        result = pipes.call("convert", arguments(origin))
        assert not result.get("isError"), result
    assert place.path("out.tif").stat().st_size > 0
    assert place.staged == []
    assert place.owners == set()
    assert list((place.state / "remote").iterdir()) == []
    assert verify(place.state / "audit.jsonl").ok


@pytest.mark.claim("faults.server-killed")
def test_server_killed_during_a_read_leaves_nothing(place, origin, shared_server, containers):
    with reading(place, origin, shared_server[1]) as (pipes, _):
        killed = place.owners
        assert containers.of_owners(killed)
        pipes.process.kill()
    serves_again(place, origin, shared_server[1])
    assert containers.of_owners(killed) == []


@pytest.mark.claim("faults.engine-fails-typed")
def test_engine_killed_during_a_read_ends_and_recovers(place, origin, shared_server, client, image):
    ca = shared_server[1]
    with private_engine() as engine:
        engine.load(client, image.reference)
        options = ("--engine", engine.address, "--image", image.reference)
        with reading(place, origin, ca, *options) as (pipes, identifier):
            engine.kill()
            result = pipes.answer(identifier)["result"]
            assert result["isError"]
            assert json.loads(result["content"][0]["text"])["error"]["code"] == "ENGINE_UNAVAILABLE"
            engine.start()
        serves_again(place, origin, ca, *options)
        with engine.client() as own:
            assert own.containers.list(all=True) == []
