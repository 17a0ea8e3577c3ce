"""What runs as an ordinary user on a kernel of the tests' own; `test_rootless.py` starts it."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.engines.oci.engine import OciEngine
from sandbox.errors import EngineUnavailable, IsolationRefused
from tests.engines import bench as bench_module
from tests.engines.bench import COMPUTE, LEAVE_A_MARK, LIMITS, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on
from tests.engines.known import OCI_ROOTLESS
from tests.engines.test_oci import (
    groups_of,
    test_a_container_leaves_no_mount_on_the_host_and_no_point_in_the_image,
    test_a_filter_that_is_left_out_is_noticed_by_the_time_of_the_first_job,
    test_a_runtime_that_is_killed_at_any_moment_leaves_nothing,
    test_a_server_that_is_killed_leaves_what_the_next_one_finds_and_removes,
    test_another_server_sees_how_a_container_stands_and_may_end_it,
    test_what_a_killed_runtime_left_frozen_is_removed,
    test_what_a_runtime_leaves_out_is_noticed_before_the_first_instruction,
)

__all__ = [
    "test_a_container_leaves_no_mount_on_the_host_and_no_point_in_the_image",
    "test_a_filter_that_is_left_out_is_noticed_by_the_time_of_the_first_job",
    "test_a_runtime_that_is_killed_at_any_moment_leaves_nothing",
    "test_a_server_that_is_killed_leaves_what_the_next_one_finds_and_removes",
    "test_another_server_sees_how_a_container_stands_and_may_end_it",
    "test_what_a_killed_runtime_left_frozen_is_removed",
    "test_what_a_runtime_leaves_out_is_noticed_before_the_first_instruction",
]
FOLDER = Path("/var/tmp/oci")
# a page that is touched for the first time costs an emulated processor a hundred times as much; and less of it for a job that
# this kernel does not end at its limit of memory
SMALL = replace(LIMITS, memory_bytes=96 << 20, wall_seconds=30.0)
bench_module.PATIENCE = 300.0


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    (about,) = (FOLDER / "images").glob("*/image.json")
    engine = OciEngine(FOLDER).prepared()
    gone = OciEngine(Path("/nonexistent/engine"))
    with bench_on(engine, json.loads(about.read_bytes())["id"], lambda: gone, "crun", SMALL) as made:
        yield made
    engine.close()


def test_an_undelegated_controller_is_named_and_nothing_is_made() -> None:
    with pytest.raises(EngineUnavailable, match="systemd-run --user --scope"):
        OciEngine(FOLDER).prepared()
    assert os.listdir(FOLDER) == ["images"]


def test_groups_that_no_user_namespace_takes_away_are_noticed(bench: Bench) -> None:
    with pytest.raises(IsolationRefused, match="supplementary groups"):
        bench.run(LEAVE_A_MARK)
    assert not (bench.staging / "started").exists()
    assert bench.ours() == {}


def test_processor_time_is_throttled(bench: Bench) -> None:
    """As the kernel counts it: how long a second is for an emulated processor depends on what else its machine does."""
    with bench.created(bench.template(COMPUTE, limits=replace(bench.limits, cpus=0.25))) as container:
        bench.engine.start(container)
        bench.engine.wait(container, 300.0)
        (group,) = groups_of(container)
        told = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        assert int(told["nr_throttled"]) > 0


def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    assert os.geteuid() != 0
    assert bench.engine.info().rootless
    conforms(bench, subtests, OCI_ROOTLESS.exemptions)
