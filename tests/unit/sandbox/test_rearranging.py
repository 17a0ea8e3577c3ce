"""Renamed and removed files are moved completely, match the plan, and return with an undo; nothing is copied or
followed.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from staging_kit import (
    CALL,
    USER,
    act,
    area_at,
    fill,
    leftovers,
    place,
    plan,
    publish,
    rearrange,
    tree,
    write,
)  # fmt: skip

from sandbox.errors import OutputRejected, PathRefused, SandboxError, StagingFailed
from sandbox.outputs import inspection as outputs
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.inspection import listing_of
from sandbox.outputs.journal import JournalDamaged, load
from sandbox.outputs.store import RecoveryOutcome, Transfer
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED, WorkspacePath

# --- renaming


@pytest.mark.claim("outputs.undo")
@pytest.mark.parametrize("native", [True, False])
def test_rename_moves_same_file_and_undo_returns_it(workspace, native):
    write(workspace, {"a.tif": b"pixels", "sub/keep": b"1"})
    (workspace / "a.tif").chmod(0o640)
    before = (workspace / "a.tif").stat()
    area = area_at(workspace, DirOps(native=native))
    published = rearrange(area, {"a.tif": "sub/b.tif"})
    after = (workspace / "sub/b.tif").stat()
    assert not (workspace / "a.tif").exists()
    same = ("st_ino", "st_mode", "st_mtime_ns")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    (moved,) = published.moved
    assert (moved.source.path, moved.target.path) == (workspace / "a.tif", workspace / "sub/b.tif")
    assert moved.target.identity == place(area, "sub/b.tif").identity
    undone = area.undo(CALL)
    assert [located.path for located in undone.restored] == [workspace / "a.tif"]
    assert undone.taken_away == ()
    assert tree(workspace) == {"a.tif": b"pixels", "sub/keep": b"1"}
    assert (workspace / "a.tif").stat().st_ino == before.st_ino


# --- refusals


CHANGES: dict[str, Callable[[Path], object]] = {
    "the source was edited": lambda root: (root / "a.tif").write_bytes(b"edited"),
    "the source is gone": lambda root: (root / "a.tif").unlink(),
    "the source is a link": lambda root: ((root / "a.tif").unlink(), (root / "a.tif").symlink_to("b.tif")),
    "the target was edited": lambda root: (root / "b.tif").write_bytes(b"edited"),
    "the target is gone": lambda root: (root / "b.tif").unlink(),
    "the free name is taken": lambda root: (root / "free.tif").write_bytes(b""),
    "a removed file was edited": lambda root: (root / "gone.tif").write_bytes(b"edited"),
    "deep in a removed folder": lambda root: (root / "gone.gdb/x/y").write_bytes(b"edited"),
    "a new file deep in a removed folder": lambda root: (root / "gone.gdb/x/z").write_bytes(b""),
    "deep in a renamed folder": lambda root: (root / "a.zarr/x/0").write_bytes(b"edited"),
    "deep in a folder that is renamed over": lambda root: (root / "b.zarr/x/0").write_bytes(b"edited"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_since_plan_stops_the_whole_rename(workspace, change):
    names = ("a.tif", "b.tif", "c.tif", "gone.tif", "gone.gdb/x/y", "a.zarr/x/0", "b.zarr/x/0")
    write(workspace, dict.fromkeys(names, b"1"))
    area = area_at(workspace)
    moves = {"a.tif": "b.tif", "c.tif": "free.tif", "a.zarr": "b.zarr"}
    transfers = [Transfer(place(area, source), place(area, target)) for source, target in moves.items()]
    gone = [place(area, "gone.tif"), place(area, "gone.gdb")]
    states: list[dict[str, bytes]] = []

    def between() -> None:
        change(workspace)
        states.append(tree(workspace))

    with pytest.raises(OutputRejected):
        act(area, plan(area, {"new.tif": b"n"}), transfers, gone, between=between)
    assert tree(workspace) == states[0]
    assert leftovers(workspace, "undo") == []


def test_a_folder_whose_contents_nobody_looked_at_stays(workspace):
    write(workspace, {"a.zarr/0": b"0"})
    area = area_at(workspace)
    folder = place(area, "a.zarr")
    for gone, transfers in (([folder], []), ([], [Transfer(folder, place(area, "b.zarr"))])):
        with area.open(CALL, USER) as staging, pytest.raises(OutputRejected):
            staging.publish(CALL, (), gone, transfers)
        assert tree(workspace) == {"a.zarr/0": b"0"}


def test_replaced_folder_may_be_checked_by_contents(workspace):
    write(workspace, {"a.zarr/x/0": b"0"})
    area = area_at(workspace)
    planned = plan(area, {"a.zarr/x/0": b"new"})
    listings = {PurePosixPath("a.zarr"): listing_of(place(area, "a.zarr"))}
    (workspace / "a.zarr/x/0").write_bytes(b"edited")
    with area.open(CALL, USER) as staging:
        fill(staging, planned.staged)
        staging.collect()
        with pytest.raises(OutputRejected):
            staging.publish(CALL, planned.publications, listings=listings)
    assert tree(workspace) == {"a.zarr/x/0": b"edited"}


@pytest.mark.parametrize(
    ("moves", "removes"),
    [
        ({"a.zarr": "a.zarr/inner"}, ()), ({"a.zarr": "a.zarr"}, ()),
        ({"a.tif": "b.tif", "b.tif": "c.tif"}, ()), ({"a.tif": "c.tif", "b.tif": "c.tif"}, ()),
        ({"a.tif": "c.tif"}, ("a.tif",)), ({"a.tif": "a.zarr/b.tif"}, ("a.zarr",)),
        ({"a.tif": "a.zarr"}, ()), ({"a.tif": "hard.tif"}, ()), ({"none.tif": "c.tif"}, ()),
        ({}, ("a.zarr", "a.zarr/0")),
    ],
    ids=str,
)  # fmt: skip
def test_what_would_collide_is_refused_before_anything_moves(workspace, moves, removes):
    write(workspace, {"a.tif": b"a", "b.tif": b"b", "a.zarr/0": b"0"})
    (workspace / "hard.tif").hardlink_to(workspace / "a.tif")
    before = tree(workspace)
    with pytest.raises(SandboxError):
        rearrange(area_at(workspace), moves, removes)
    assert tree(workspace) == before
    assert leftovers(workspace, "undo") == []


@pytest.mark.claim("outputs.own-files-only")
@pytest.mark.parametrize("relative", ["", RESERVED, f"{RESERVED}/undo", "..", "../other/a.tif"])
def test_workspace_server_folder_and_outside_are_never_moved(workspace, tmp_path, relative):
    write(workspace, {"a.tif": b"a"})
    write(tmp_path, {"other/a.tif": b"not ours"})
    area = area_at(workspace)
    area.prepare()
    path = workspace / relative
    status = path.stat()
    there = WorkspacePath(area.workspace, PurePosixPath(relative), outputs.Identity.of(status), path.is_dir())
    for gone, transfers in (([there], []), ([], [Transfer(there, place(area, "new"))])):
        listings = {there.relative: "0" * 64}
        with area.open(CALL, USER) as staging, pytest.raises(SandboxError):
            staging.publish(CALL, (), gone, transfers, listings)
    assert tree(workspace) == {"a.tif": b"a"}
    assert (tmp_path / "other/a.tif").read_bytes() == b"not ours"


def test_folder_containing_a_mount_is_never_deleted(workspace, monkeypatch):
    write(workspace, {"a.zarr/mounted/precious": b"1"})
    folder = place(area_at(workspace), "a.zarr")
    monkeypatch.setattr(outputs, "submounts", lambda root, _table: (f"{root}/mounted",))
    with pytest.raises(PathRefused):
        listing_of(folder)


def test_folder_too_large_or_deep_to_examine_stays(workspace, monkeypatch):
    write(workspace, {f"a.zarr/{number}": b"" for number in range(5)})
    deep = workspace / "deep"
    for _ in range(70):
        deep.mkdir()
        deep /= "d"
    area = area_at(workspace)
    with pytest.raises(PathRefused):
        listing_of(place(area, "deep"))
    monkeypatch.setattr(outputs, "MAX_LISTED", 4)
    with pytest.raises(PathRefused):
        listing_of(place(area, "a.zarr"))


# --- links


@pytest.mark.claim("outputs.own-files-only")
def test_links_move_with_folders_and_are_never_followed(workspace, tmp_path):
    write(tmp_path, {"outside/precious": b"1"})
    write(workspace, {"gone.gdb/0": b"0", "victim/keep": b"1"})
    (workspace / "gone.gdb/out").symlink_to(tmp_path / "outside")
    (workspace / "gone.gdb/in").symlink_to("../victim")
    area = area_at(workspace, keep=Retention(calls=1))
    rearrange(area, {}, ["gone.gdb"])
    assert tree(workspace) == {"victim/keep": b"1"}
    area.undo(CALL)
    assert (workspace / "gone.gdb/out").readlink() == tmp_path / "outside"
    rearrange(area, {}, ["gone.gdb"], call_id="call-0002")
    publish(area, {"b.tif": b""}, "call-0003")  # deletes the removed files permanently
    assert leftovers(workspace, "undo") == ["call-0003"]
    assert (tmp_path / "outside/precious").read_bytes() == b"1"
    assert (workspace / "victim/keep").read_bytes() == b"1"


# --- changes by others in the last instant


def _theirs(path: Path) -> None:
    path.with_suffix(".tmp").write_bytes(b"theirs")
    path.with_suffix(".tmp").rename(path)


RACES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "another file at the old name": ("swap.fetch.before", "a.tif", _theirs),
    "the file is deleted": ("swap.fetch.before", "a.tif", Path.unlink),
    "the new name is taken": ("swap.create.before", "free.tif", _theirs),
    "the file renamed over is another": ("swap.exchange.before", "b.tif", _theirs),
}


@pytest.mark.claim("outputs.others-changes-kept")
@pytest.mark.parametrize(("point", "name", "doing"), RACES.values(), ids=RACES)
def test_change_by_others_at_last_instant_is_kept(workspace, point, name, doing):
    write(workspace, {"a.tif": b"a", "b.tif": b"b", "c.tif": b"c", "gone.tif": b"g"})
    theirs: list[dict[str, bytes]] = []

    def checkpoint(where: str) -> None:
        ours = {path.name for path in workspace.iterdir()}
        if where == point and not theirs and (name in ours or name == "free.tif"):
            doing(workspace / name)
            theirs.append(tree(workspace))

    area = area_at(workspace, DirOps(checkpoint))
    with pytest.raises(SandboxError):
        rearrange(area, {"a.tif": "b.tif", "c.tif": "free.tif"}, ["gone.tif"])
    expected = {"a.tif": b"a", "b.tif": b"b", "c.tif": b"c", "gone.tif": b"g"}
    if doing is Path.unlink:
        del expected[name]
    else:
        expected[name] = b"theirs"
    assert tree(workspace) == expected
    assert area_at(workspace).recover() == ()
    assert tree(workspace) == expected


def test_file_recognised_as_changed_is_never_moved(workspace):
    write(workspace, {"a.tif": b"a"})
    passed: list[str] = []

    def checkpoint(where: str) -> None:
        passed.append(where)
        if where == "record.sync.after" and passed.count(where) == 1:
            _theirs(workspace / "a.tif")

    with pytest.raises(OutputRejected):
        rearrange(area_at(workspace, DirOps(checkpoint)), {"a.tif": "b.tif"})
    assert tree(workspace) == {"a.tif": b"theirs"}
    assert "swap.fetch.before" not in passed


def test_file_at_old_name_stops_undo_keeping_both(workspace):
    write(workspace, {"a.tif": b"a", "c.tif": b"c"})
    acted = []

    def checkpoint(where: str) -> None:
        if where == "swap.create.before" and not acted:
            acted.append(where)
            _theirs(workspace / "b.tif")  # so that it has to be reverted
            _theirs(workspace / "a.tif")  # and cannot be moved back

    def undo_contents() -> set[bytes]:
        return {
            file.read_bytes() for file in (workspace / RESERVED / "undo" / CALL).iterdir() if file.is_file()
        }

    with pytest.raises(StagingFailed):
        rearrange(area_at(workspace, DirOps(checkpoint)), {"a.tif": "b.tif"})
    assert tree(workspace) == {"a.tif": b"theirs", "b.tif": b"theirs", "c.tif": b"c"}
    assert b"a" in undo_contents()
    assert {finding.outcome for finding in area_at(workspace).recover()} <= {RecoveryOutcome.CONFLICT}
    assert b"a" in undo_contents()


# --- undo


UNDO_CHANGES: dict[str, Callable[[Path], object]] = {
    "the old name is taken again": lambda root: (root / "a.tif").write_bytes(b"another"),
    "deep in the renamed folder": lambda root: (root / "z.zarr/x/0").write_bytes(b"edited"),
    "the removed folder's name is taken": lambda root: (root / "gone.gdb").mkdir(),
    "the folder of the old name is gone": lambda root: (root / "sub").rmdir(),
}


@pytest.mark.parametrize("change", UNDO_CHANGES.values(), ids=UNDO_CHANGES)
def test_undo_that_would_lose_a_change_is_refused(workspace, change):
    write(workspace, {"a.tif": b"a", "y.zarr/x/0": b"0", "gone.gdb/0": b"0", "sub/c.tif": b"c"})
    area = area_at(workspace)
    rearrange(area, {"a.tif": "b.tif", "y.zarr": "z.zarr", "sub/c.tif": "d.tif"}, ["gone.gdb"])
    change(workspace)
    changed = tree(workspace)
    with pytest.raises(StagingFailed):
        area.undo(CALL)
    assert tree(workspace) == changed
    assert [record.is_undone for record in area.publications()] == [False]


# --- the journal


@pytest.mark.claim("outputs.journals-not-trusted")
def test_journal_with_forbidden_rename_is_damaged(workspace):
    write(workspace, {"a.tif": b"a"})
    rearrange(area_at(workspace), {"a.tif": "b.tif"})
    entry = workspace / RESERVED / "undo" / CALL
    written = (entry / "manifest.json").read_text()
    folder = os.open(entry, os.O_RDONLY)
    for changed in (
        *({"origin": name} for name in ("../outside", f"{RESERVED}/undo", "/etc/passwd")),
        {"drain": "b.tif"},
        {"origin": "a.tif", "new": None, "old": [1, 1, 1, 0]},
    ):
        journal = json.loads(written)
        journal["steps"][0] |= changed
        (entry / "manifest.json").write_text(json.dumps(journal))
        with pytest.raises(JournalDamaged):
            load(folder, CALL)
    os.close(folder)
