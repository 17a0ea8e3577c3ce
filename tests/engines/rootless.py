"""Tests that run as an ordinary user on a separate kernel; `test_rootless.py` starts them."""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest

from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.opening import OCI_FOLDER_OF_USER
from sandbox.engines.trial import IMAGE
from tests.e2e.mcp.talk import Person, Place, talking
from tests.engines import bench as bench_module
from tests.engines import test_oci
from tests.engines.bench import COMPUTE, LIMITS, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on
from tests.engines.known import OCI_ROOTLESS
from tests.engines.test_oci import (
    groups_of,
    test_another_server_sees_container_states_and_ends_them,
    test_container_leaves_no_host_mount_or_image_folder,
    test_containers_of_killed_server_are_removed_by_next,
    test_missing_filter_is_noticed_by_the_first_job,
    test_runtime_killed_at_any_moment_leaves_nothing,
    test_runtime_omissions_are_noticed_before_the_first_instruction,
    test_what_a_killed_runtime_left_frozen_is_removed,
)

__all__ = [
    "test_another_server_sees_container_states_and_ends_them",
    "test_container_leaves_no_host_mount_or_image_folder",
    "test_containers_of_killed_server_are_removed_by_next",
    "test_missing_filter_is_noticed_by_the_first_job",
    "test_runtime_killed_at_any_moment_leaves_nothing",
    "test_runtime_omissions_are_noticed_before_the_first_instruction",
    "test_what_a_killed_runtime_left_frozen_is_removed",
]
FOLDER = Path(OCI_FOLDER_OF_USER).expanduser()
# an emulated processor needs a hundred times as long for the first access to a page; and less memory for a job that
# this kernel does not end at its memory limit
SMALL = replace(LIMITS, memory_bytes=96 << 20, wall_seconds=30.0)
bench_module.PATIENCE = 300.0
# a server and a container take seconds here; test_oci.py tries more moments on a kernel without an emulated processor
test_oci.MOMENTS, test_oci.SERVERS = 6, 3


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    stored = [json.loads(path.read_bytes()) for path in (FOLDER / "images").glob("*/image.json")]
    (about,) = [description for description in stored if not description["names"][0].startswith(IMAGE)]
    engine = OciEngine(FOLDER).prepared()
    gone = OciEngine(Path("/nonexistent/engine"))
    with bench_on(engine, about["id"], lambda: gone, "crun", SMALL) as new_bench:
        yield new_bench
    engine.close()


def test_processor_time_is_throttled(bench: Bench) -> None:
    """Measured by the kernel, because the length of a second on an emulated processor depends on the machine's load."""
    with bench.created(bench.template(COMPUTE, limits=replace(bench.limits, cpus=0.25))) as container:
        container.start()
        container.wait(300.0)
        (group,) = groups_of(container.id)
        statistics = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        assert int(statistics["nr_throttled"]) > 0


def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    """Two checks are omitted, because User Mode Linux cannot show them: `OCI_ROOTLESS` names them with the reasons."""
    assert os.geteuid() != 0
    assert bench.engine.info().rootless
    conforms(bench, subtests, OCI_ROOTLESS.exemptions)


def test_a_client_is_served(tmp_path: Path) -> None:
    # the state folder of the doctor, with its attestation
    place = replace(Place.made(tmp_path), state=Path("~/.local/state/gdal-mcp").expanduser())
    place.path("hill.asc").write_text(
        "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n", encoding="ascii"
    )
    place.path("towns.csv").write_text("name,people\nUlm,3\nBonn,4\n", encoding="ascii")
    outside = tmp_path / "outside.asc"
    outside.write_bytes(place.path("hill.asc").read_bytes())
    command, person = place.command("--engine", "oci", "--memory", "256MiB"), Person()
    with talking(command, tmp_path / "log", person=person) as talk:

        def called(tool: str, **arguments: Any) -> t.CallToolResult:
            return talk.start(tool, **arguments).result(bench_module.PATIENCE)

        result = called("convert", input="hill.asc", output="hill.tif")
        assert not result.is_error, result.structured_content
        assert len(person.asked) == 1
        assert talk.record(result.structured_content)["receipt"]["engine"].startswith("crun")
        assert place.path("hill.tif").stat().st_uid == os.geteuid() != 0
        assert called("info", path="hill.tif").structured_content["size"] == [2, 2]
        counted = called("query", inputs=["towns.csv"], sql="SELECT count(*) AS n FROM towns")
        assert counted.structured_content["untrusted"]["report"]["rows"] == [{"n": 2}]
        (picture,) = (block for block in called("preview", path="hill.tif").content if block.type == "image")
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")
        refused = called("info", path=str(outside)).structured_content
        assert refused["error"]["code"] == "PATH_NOT_ALLOWED"
