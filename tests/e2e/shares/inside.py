"""Runs inside the kernel on each of the mounts: publication as the server does it, on file systems that may lack
features of ext4.

A user's file is unchanged, replaced at once, or in the undo store, as far as the file system allows it.
"""

import contextlib
import itertools
import os
import secrets
from pathlib import Path

import pytest

from sandbox.errors import OutputRejected, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.store import Publication
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED, Workspaces
from tests.e2e.shares.mounts import CLOSED_TO_ROOT, FILE_SYSTEMS
from tests.unit.sandbox.staging_kit import USER, area_at, leftovers, place, plan, publish, rearrange, tree

SHARES = os.environ.get("SHARES", "").split()


@pytest.fixture(params=SHARES)
def share(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workspace(share: str) -> Path:
    folder = Path(FILE_SYSTEMS[share].place) / secrets.token_hex(8)
    folder.mkdir()
    return folder


@pytest.fixture
def second_mount(share: str, workspace: Path) -> Path:
    """The workspace as another machine sees it, if there is a second mount."""
    return Path(FILE_SYSTEMS[share].other or FILE_SYSTEMS[share].place) / workspace.name


def contents(workspace: Path) -> set[bytes]:
    """The contents of the files in the workspace and its undo store."""
    stored = (workspace / RESERVED / "undo").rglob("*")
    return {*tree(workspace).values(), *(path.read_bytes() for path in stored if path.is_file())}


def test_new_outputs_are_published_and_undone(workspace):
    area = area_at(workspace)
    publish(area, {"dem.tif": b"1" * 100_000, "cube.zarr/a/0": b"2"})
    assert tree(workspace) == {"cube.zarr/a/0": b"2", "dem.tif": b"1" * 100_000}
    assert leftovers(workspace) == []
    area.undo("call-0001")
    assert tree(workspace) == {}


def test_file_is_replaced_and_restored_or_nothing_changes(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    area = area_at(workspace)
    if area.replaces():
        publish(area, {"dem.tif": b"new"})
        assert tree(workspace) == {"dem.tif": b"new"}
        area.undo("call-0001")
    else:
        with pytest.raises(OutputRejected):
            publish(area, {"dem.tif": b"new"})
    assert tree(workspace) == {"dem.tif": b"old"}
    assert leftovers(workspace) == []


def test_file_is_renamed_removed_and_both_are_undone(workspace):
    for name in ("a.tif", "b.tif"):
        (workspace / name).write_bytes(name.encode())
    area = area_at(workspace)
    rearrange(area, {"a.tif": "c.tif"}, ["b.tif"])
    assert tree(workspace) == {"c.tif": b"a.tif"}
    area.undo("call-0001")
    assert tree(workspace) == {"a.tif": b"a.tif", "b.tif": b"b.tif"}


@pytest.mark.parametrize("point", ["swap.create.before", "record.sync.after"])
def test_a_file_that_takes_the_name_meanwhile_stays(workspace, point):
    def checkpoint(where: str) -> None:
        if where == point:
            (workspace / "dem.tif").write_bytes(b"theirs")

    area = area_at(workspace, DirOps(checkpoint))
    with pytest.raises(SandboxError):
        publish(area, {"dem.tif": b"ours"})
    assert tree(workspace) == {"dem.tif": b"theirs"}


def test_file_differing_only_in_case_is_not_lost(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    with contextlib.suppress(SandboxError):
        publish(area_at(workspace), {"DEM.TIF": b"new"})
    assert b"old" in contents(workspace)


def test_outputs_differing_only_in_case_lose_no_file(workspace):
    (workspace / "old.tif").write_bytes(b"old")
    area = area_at(workspace)
    outputs = {"one.tif": place(area, "A.tif"), "two.tif": place(area, "a.tif")}
    with area.open("staging-1", USER) as staging:
        for name in outputs:
            (staging.path / name).write_bytes(name.encode())
        staging.collect()
        with contextlib.suppress(SandboxError):
            staging.publish(
                "call-0001", [Publication(*pair) for pair in outputs.items()], [place(area, "old.tif")]
            )
    both = {"A.tif": b"one.tif", "a.tif": b"two.tif"}
    assert tree(workspace) in (both, {"old.tif": b"old"})
    assert b"old" in contents(workspace)


def test_a_rename_in_case_alone_loses_nothing(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    with contextlib.suppress(SandboxError):
        rearrange(area_at(workspace), {"dem.tif": "DEM.tif"})
    assert list(tree(workspace).values()) == [b"old"]


def test_only_folders_of_dead_servers_are_removed(workspace, second_mount):
    dead = area_at(workspace).open("staging-2", USER)
    (dead.path / "half.tif").write_bytes(b"1")
    assert area_at(second_mount).recover() == ()
    assert leftovers(second_mount) == ["staging-2"]
    dead._locked.close()
    assert [recovery.staging_id for recovery in area_at(second_mount).recover()] == ["staging-2"]
    assert leftovers(second_mount) == []


def test_file_edited_since_the_plan_is_kept(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    area = area_at(workspace)
    planned = plan(area, {"dem.tif": b"ours"})
    (workspace / "dem.tif").write_bytes(b"new")  # of the same size, within the same second
    with area.open("staging-1", USER) as staging:
        (staging.path / "dem.tif").write_bytes(b"ours")
        staging.collect()
        with contextlib.suppress(SandboxError):
            staging.publish("call-0001", planned.publications)
    assert b"new" in contents(workspace)


def test_fresh_file_does_not_change_by_being_closed(workspace):
    for number in range(12):  # an SMB client estimates the time of some of them
        file = workspace / f"{number}.tif"
        file.write_bytes(b"old")
        planned = Workspaces((area_at(workspace).workspace,)).input(str(file))
        with file.open("rb") as opened:  # which fetches the server's time
            os.fsync(opened.fileno())
        assert Workspaces((area_at(workspace).workspace,)).input(str(file)).identity == planned.identity


def test_undo_entries_beyond_the_retention_are_removed(workspace):
    area = area_at(workspace, keep=Retention(calls=1))
    for number in range(3):
        publish(area, {f"{number}.tif": b"1"}, f"call-000{number}")
    assert leftovers(workspace, "undo") == ["call-0002"]


def test_files_from_another_machine_are_collected_completely(workspace, second_mount):
    with area_at(workspace).open("staging-1", USER) as staging:
        out = second_mount / staging.path.relative_to(workspace)
        staging.usage()  # so that this machine caches an empty folder
        for number in itertools.count(1):
            (out / f"{number}.tif").write_bytes(b"1" * number)
            (out / "cube.zarr" / str(number)).mkdir(parents=True)
            assert staging.usage().files == 2 * number + 1
            if number == 4:
                break
        (out / "1.tif").write_bytes(b"longer")
        sizes = {output.name: output.size for output in staging.collect()}
        assert sizes == {"1.tif": 6, "2.tif": 2, "3.tif": 3, "4.tif": 4, "cube.zarr": 0}


def test_a_name_that_another_machine_took_meanwhile_stays(workspace, second_mount):
    area = area_at(workspace)
    planned = plan(area, {"dem.tif": b"ours"})  # caches that this name does not exist
    with area.open("staging-1", USER) as staging:
        (staging.path / "dem.tif").write_bytes(b"ours")
        staging.collect()
        (second_mount / "dem.tif").write_bytes(b"theirs")
        with pytest.raises(OutputRejected):
            staging.publish("call-0001", planned.publications)
    assert tree(second_mount) == {"dem.tif": b"theirs"}


def test_file_replaced_by_another_machine_is_not_removed(workspace, second_mount):
    area = area_at(workspace)
    (workspace / "dem.tif").write_bytes(b"old")
    gone = [place(area, "dem.tif")]
    with area.open("staging-1", USER) as staging:
        (staging.path / "new.tif").write_bytes(b"1")
        staging.collect()
        (second_mount / "other").write_bytes(b"theirs")
        (second_mount / "other").rename(second_mount / "dem.tif")
        with pytest.raises(OutputRejected):
            staging.publish("call-0001", [Publication("new.tif", place(area, "new.tif"))], gone)
    assert tree(second_mount) == {"dem.tif": b"theirs"}


@pytest.mark.parametrize("share", CLOSED_TO_ROOT, indirect=True)
def test_server_as_root_is_refused_leaving_nothing(workspace):
    assert os.geteuid() == 0
    with pytest.raises(StagingFailed):
        area_at(workspace).open("staging-1", USER)
    assert tree(workspace) == {}
    assert not (workspace / RESERVED / "staging/staging-1").exists()


@pytest.mark.parametrize("share", ["wsl"], indirect=True)
def test_folder_open_to_everybody_is_refused_at_start(workspace):
    with pytest.raises(StagingFailed, match="metadata,umask=022"):
        area_at(workspace).prepare()
