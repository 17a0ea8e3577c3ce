"""Inputs on a file system that answers containers, but on which every read of the server itself hangs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.testing.samples import write_samples
from tests.e2e.mcp.talk import Place, talking
from tests.oracle.fixtures import grounds
from tests.security.faults.hung_disk import HungDisk, hung_disk

__all__ = ["grounds"]

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.claim("resources.deadline")]

CALLS = 4
SECONDS = 60  # limit of waiting: after the end of each call, 10 s for digests and 2 s of grace are promised


def of_a_server(pid: int) -> bool:
    """True if a thread belongs to a process of this host that is neither this test nor in a container."""
    if os.path.exists(f"/proc/self/task/{pid}"):
        return False
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


@pytest.fixture
def place(grounds: Path) -> Place:
    return Place.made(grounds / "hung")


@pytest.fixture
def disk(grounds: Path, tmp_path: Path) -> Iterator[tuple[Path, HungDisk]]:
    write_samples(tmp_path)
    names = [f"dem{number}.tif" for number in range(CALLS)]
    content = (tmp_path / "dem.tif").read_bytes()
    with hung_disk(grounds / "mounted", dict.fromkeys(names, content), of_a_server) as hung:
        yield grounds / "mounted", hung


@pytest.mark.claim("resources.deadline", "resources.drafts-hold-nobody")
def test_hanging_digest_delays_neither_its_call_nor_others(place: Place, disk, grounds: Path):
    folder, hung = disk
    options = ("--workspace-ro", str(folder), "--timeout-seconds", "20", "--approval", "never")
    with talking(place.command(*options), grounds / "hung.log") as talk:
        calls = [
            talk.start("convert", input=str(folder / f"dem{n}.tif"), output=f"out{n}.tif")
            for n in range(CALLS)
        ]
        assert not talk.call("list_workspace").is_error  # the server answers meanwhile
        results = [call.result(SECONDS) for call in calls]
        assert [result.is_error for result in results] == [False] * CALLS
        assert hung.waiting >= CALLS
        ended = [
            event
            for event in place.audited
            if event["type"] == "call.finished" and event["tool"] == "convert"
        ]
        assert [event["materials"][0]["sha256"] for event in ended] == [
            None
        ] * CALLS  # the digest is unknown, and recorded as unknown
        assert all(event["materials"][0]["reason"] for event in ended)
