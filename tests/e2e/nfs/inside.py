"""What runs inside, on the mounts: publication as the server does it, on files that a Pod on another node wrote."""

import itertools
import os
import secrets
from pathlib import Path

import pytest

from sandbox.errors import OutputRejected, StagingFailed
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import Publication
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED
from tests.e2e.nfs.kit import POD, SERVER
from tests.unit.sandbox.staging_kit import USER, area_at, leftovers, place, plan, publish, tree


@pytest.fixture
def workspace() -> Path:
    folder = Path(SERVER) / secrets.token_hex(8)
    folder.mkdir()
    return folder


@pytest.fixture
def pod(workspace: Path) -> Path:
    return Path(POD) / workspace.name


def test_what_is_new_is_published_and_nothing_is_left(workspace):
    area = area_at(workspace)
    publish(area, {"dem.tif": b"1" * 100_000, "cube.zarr/a/0": b"2"})
    assert tree(workspace) == {"cube.zarr/a/0": b"2", "dem.tif": b"1" * 100_000}
    assert leftovers(workspace) == []
    area.undo("call-0001")
    assert tree(workspace) == {}


def test_what_is_forgotten_is_gone(workspace):
    area = area_at(workspace, keep=Retention(calls=1))
    for number in range(3):
        publish(area, {f"{number}.tif": b"1"}, f"call-000{number}")
    assert leftovers(workspace, "undo") == ["call-0002"]


def test_nothing_is_replaced_and_the_reason_is_told(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    with pytest.raises(OutputRejected, match="cannot swap two names atomically"):
        publish(area_at(workspace), {"dem.tif": b"new"})
    assert tree(workspace) == {"dem.tif": b"old"}
    assert leftovers(workspace) == leftovers(workspace, "undo") == []


def test_what_a_pod_wrote_on_another_node_is_collected_whole_and_at_once(workspace, pod):
    with area_at(workspace).open("staging-1", USER) as staging:
        out = pod / staging.path.relative_to(workspace)
        staging.usage()  # so that this node remembers an empty folder
        for number in itertools.count(1):
            (out / f"{number}.tif").write_bytes(b"1" * number)
            (out / "cube.zarr" / str(number)).mkdir(parents=True)
            assert staging.usage().files == 2 * number + 1
            if number == 4:
                break
        (out / "1.tif").write_bytes(b"longer")
        found = {one.name: one.size for one in staging.collect()}
        assert found == {"1.tif": 6, "2.tif": 2, "3.tif": 3, "4.tif": 4, "cube.zarr": 0}


def test_a_name_that_another_node_took_meanwhile_is_kept(workspace, pod):
    area = area_at(workspace)
    planned = plan(area, {"dem.tif": b"ours"})  # remembers that there is no such name
    with area.open("staging-1", USER) as staging:
        (staging.path / "dem.tif").write_bytes(b"ours")
        staging.collect()
        (pod / "dem.tif").write_bytes(b"theirs")
        with pytest.raises(OutputRejected):
            staging.publish("call-0001", planned.publications)
    assert tree(pod) == {"dem.tif": b"theirs"}


def test_a_file_that_another_node_put_in_place_of_one_is_not_taken_away(workspace, pod):
    area = area_at(workspace)
    (workspace / "dem.tif").write_bytes(b"old")
    gone = [place(area, "dem.tif")]
    with area.open("staging-1", USER) as staging:
        (staging.path / "new.tif").write_bytes(b"1")
        staging.collect()
        (pod / "other").write_bytes(b"theirs")
        (pod / "other").rename(pod / "dem.tif")
        with pytest.raises(OutputRejected):
            staging.publish("call-0001", [Publication("new.tif", place(area, "new.tif"))], gone)
    assert tree(pod) == {"dem.tif": b"theirs"}


def test_what_a_dead_server_left_is_removed_and_the_living_is_left_alone(workspace, pod):
    with area_at(workspace).open("staging-1", USER):
        assert area_at(pod).recover() == ()
        assert leftovers(pod) == ["staging-1"]
    dead = area_at(workspace).open("staging-2", USER)
    (dead.path / "half.tif").write_bytes(b"1")
    dead._locked.close()
    assert [one.staging_id for one in area_at(pod).recover()] == ["staging-2"]
    assert leftovers(pod) == []


def test_root_that_is_squashed_is_refused(workspace):
    assert os.geteuid() == 0
    with pytest.raises(StagingFailed, match="belongs to user"):
        StagingArea(area_at(workspace).workspace).prepare()
    assert sorted(path.name for path in workspace.iterdir()) == [RESERVED]
