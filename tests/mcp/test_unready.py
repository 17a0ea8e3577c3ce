"""Something that a server needs is missing: each call says so, nothing runs unrecorded, and service comes back."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdal_mcp.ledger.audit import verify
from sandbox.engines.discovery import DOCKER_SOCKET, discover
from tests.mcp.conftest import Containers
from tests.mcp.forward import Forward
from tests.mcp.pipes import piped
from tests.mcp.talk import Place

pytestmark = pytest.mark.engine


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Forward]:
    """The engine's socket, for a test to take away."""
    endpoint, client = discover(os.environ.get("GDAL_MCP_ENGINE"))
    client.close()
    made = Forward(tmp_path / "engine.sock", endpoint.socket or Path(DOCKER_SOCKET))
    yield made
    if made.path.exists():
        made.down()


@pytest.mark.claim("faults.engine-fails")
def test_without_an_engine_each_call_says_so_and_service_comes_back(
    make_place: Callable[..., Place], grounds: Path, gate: Forward
):
    place = make_place("rgb.tif")

    def info() -> str:
        """The outcome of a call."""
        result = pipes.call("info", {"path": "rgb.tif"})["structuredContent"]
        return result.get("error", {"code": "OK"})["code"]

    with piped(
        place.command("--engine", f"unix://{gate.path}", "--approval", "never"), grounds / "unready.log"
    ) as pipes:
        pipes.hello()
        assert [info(), info()] == ["ENGINE_UNAVAILABLE", "ENGINE_UNAVAILABLE"]
        gate.up()
        assert info() == "OK"
        gate.down()
        assert info() == "ENGINE_UNAVAILABLE"
        gate.up()
        assert info() == "OK"
        pipes.process.stdin.close()
        assert pipes.end() == 0


@pytest.mark.claim("faults.engine-fails")
def test_without_the_image_each_call_says_how_to_get_it(make_place: Callable[..., Place], grounds: Path):
    place = make_place("rgb.tif")
    with piped(place.command("--image", "example.invalid/gdal:9"), grounds / "unready.log") as pipes:
        pipes.hello()
        error = pipes.call("info", {"path": "rgb.tif"})["structuredContent"]["error"]
        assert error["code"] == "ENGINE_UNAVAILABLE"
        assert "setup" in error["suggestion"]


@pytest.mark.claim("audit.no-record-no-run")
def test_a_call_that_cannot_be_recorded_is_not_made(
    make_place: Callable[..., Place], containers: Containers, grounds: Path
):
    place = make_place("rgb.tif")
    with piped(place.command("--approval", "never"), grounds / "unready.log") as pipes:
        pipes.hello()
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
        log, head = place.state / "audit.jsonl", place.state / "audit.head"
        kept = log.read_bytes(), head.read_bytes()
        log.write_bytes(kept[0][: len(kept[0]) // 2])  # cut off in the middle, as nobody but an attacker does
        for arguments in (
            {"src_dataset": "rgb.tif", "dst_dataset": "unrecorded.tif"},
            {"src_dataset": "rgb.tif"},
        ):
            error = pipes.call("gdal_translate", arguments)["structuredContent"]["error"]
            assert (error["code"], error["stage"]) == ("INTERNAL", "audit")
        assert not place.path("unrecorded.tif").exists()
        assert not place.path("outputs").exists()
        assert containers.none_of(place.owners)
        assert not verify(log).ok
        log.write_bytes(kept[0])
        head.write_bytes(kept[1])
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
        assert verify(log).ok


def test_a_workspace_that_vanishes_is_said_so_and_comes_back(make_place: Callable[..., Place], grounds: Path):
    place = make_place("rgb.tif")
    with piped(place.command("--approval", "never"), grounds / "unready.log") as pipes:
        pipes.hello()
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
        away = place.workspace.with_name("away")
        shutil.move(place.workspace, away)
        for tool, arguments in (
            ("info", {"path": "rgb.tif"}),
            ("gdal_translate", {"src_dataset": "rgb.tif"}),
        ):
            assert pipes.call(tool, arguments)["structuredContent"]["error"]["code"] == "NOT_FOUND"
        shutil.move(away, place.workspace)
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
