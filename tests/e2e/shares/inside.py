"""What runs inside, on one mount: publication as the server does it, where the file system may lack what ext4 has.

A user's file is unchanged, replaced at once, or kept in the undo store; whichever of them the file system allows.
"""

import contextlib
import os
import secrets
from pathlib import Path

import pytest

from sandbox.errors import OutputRejected, SandboxError
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.store import Publication
from sandbox.workspace import RESERVED
from tests.unit.sandbox.staging_kit import USER, area_at, leftovers, place, plan, publish, rearrange, tree

SHARE = Path(os.environ["SHARE"]) if "SHARE" in os.environ else Path("/nonexistent")


@pytest.fixture
def workspace() -> Path:
    folder = SHARE / secrets.token_hex(8)
    folder.mkdir()
    return folder


def contents(workspace: Path) -> set[bytes]:
    """What the files of the workspace and of its undo store contain."""
    kept = (workspace / RESERVED / "undo").rglob("*")
    return {*tree(workspace).values(), *(one.read_bytes() for one in kept if one.is_file())}


def test_new_outputs_are_published_and_undone(workspace):
    area = area_at(workspace)
    publish(area, {"dem.tif": b"1" * 100_000, "cube.zarr/a/0": b"2"})
    assert tree(workspace) == {"cube.zarr/a/0": b"2", "dem.tif": b"1" * 100_000}
    assert leftovers(workspace) == []
    area.undo("call-0001")
    assert tree(workspace) == {}


def test_a_file_is_replaced_and_brought_back_or_nothing_changes(workspace):
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


def test_a_file_is_renamed_removed_and_both_are_undone(workspace):
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


def test_a_file_whose_name_differs_in_case_alone_is_not_lost(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    with contextlib.suppress(SandboxError):
        publish(area_at(workspace), {"DEM.TIF": b"new"})
    assert b"old" in contents(workspace)


def test_two_outputs_whose_names_differ_in_case_alone_lose_no_file(workspace):
    (workspace / "old.tif").write_bytes(b"old")
    area = area_at(workspace)
    outputs = {"one.tif": place(area, "A.tif"), "two.tif": place(area, "a.tif")}
    with area.open("staging-1", USER) as staging:
        for name in outputs:
            (staging.path / name).write_bytes(name.encode())
        staging.collect()
        with contextlib.suppress(SandboxError):
            staging.publish(
                "call-0001", [Publication(*one) for one in outputs.items()], [place(area, "old.tif")]
            )
    both = {"A.tif": b"one.tif", "a.tif": b"two.tif"}
    assert tree(workspace) in (both, {"old.tif": b"old"})
    assert b"old" in contents(workspace)


def test_a_rename_in_case_alone_loses_nothing(workspace):
    (workspace / "dem.tif").write_bytes(b"old")
    with contextlib.suppress(SandboxError):
        rearrange(area_at(workspace), {"dem.tif": "DEM.tif"})
    assert list(tree(workspace).values()) == [b"old"]


def test_what_a_dead_server_left_is_removed(workspace):
    dead = area_at(workspace).open("staging-2", USER)
    (dead.path / "half.tif").write_bytes(b"1")
    assert area_at(workspace).recover() == ()
    dead._locked.close()
    assert [one.staging_id for one in area_at(workspace).recover()] == ["staging-2"]
    assert leftovers(workspace) == []


def test_a_file_that_was_edited_since_the_plan_is_kept(workspace):
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
