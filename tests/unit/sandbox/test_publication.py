"""The published files are exactly the staged ones, with the usual owner and mode, and never replace an unexpected
file.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from staging_kit import CALL, USER, area_at, fill, leftovers, place, publish, tree, write

from sandbox.errors import OutputRejected, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import Publication
from sandbox.workspace import RESERVED, Identity, Workspace, Workspaces

ROOT_HOST = os.geteuid() == 0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# --- publishing


def test_published_file_is_reported_with_place_size_digest(workspace):
    contents = b"pixels" * 500_000
    published = publish(area_at(workspace), {"dem.tif": contents})
    (file,) = published.files
    assert (workspace / "dem.tif").read_bytes() == contents
    assert (file.located.path, file.size) == (workspace / "dem.tif", len(contents))
    assert file.sha256 == hashlib.sha256(contents).hexdigest()
    assert file.located.identity == Identity.of((workspace / "dem.tif").lstat())
    assert published.replaced == published.removed == ()
    assert published.undo_id == CALL


def test_published_folder_reports_every_file_and_one_digest(workspace):
    contents = {
        "zarr.json": b"{}", "a/b": b"1", "a.b": b"22", "ü": b"", **{f"c/{n}": b"c" for n in range(40)},
    }  # fmt: skip
    staged = {f"cube.zarr/{name}": data for name, data in contents.items()}
    (folder,) = publish(area_at(workspace), staged).files
    ordered = sorted(contents, key=str.encode)
    lines = [f"{hashlib.sha256(contents[n]).hexdigest()}  {len(contents[n])}  {n}\n" for n in ordered]
    assert tree(workspace / "cube.zarr") == contents
    assert [part.relative for part in folder.parts] == ordered
    assert folder.sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert folder.size == sum(map(len, contents.values()))
    assert folder.located.is_folder


def test_new_file_gets_usual_mode_and_workspace_owner(workspace):
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        fill(staging, {"dem.tif": b"1", "cube.zarr/a/b": b"1"})
        for path in staging.path.rglob("*"):
            path.chmod(0o6777)
        staging.collect()
        old = os.umask(0o027)
        try:
            names = ("dem.tif", "cube.zarr")
            staging.publish(CALL, [Publication(name, place(area, name)) for name in names])
        finally:
            os.umask(old)
    paths = [workspace / name for name in ("dem.tif", "cube.zarr", "cube.zarr/a", "cube.zarr/a/b")]
    assert list(map(mode, paths)) == [0o640, 0o750, 0o750, 0o640]
    assert {path.stat().st_uid for path in paths} == {workspace.stat().st_uid}


def test_replaced_file_passes_on_its_mode_except_execution(workspace):
    write(workspace, {"dem.tif": b"old", "z.zarr/0": b"old"})
    (workspace / "dem.tif").chmod(0o6775)
    (workspace / "z.zarr").chmod(0o2700)
    publish(area_at(workspace), {"dem.tif": b"new", "z.zarr/a/0": b"new"})
    modes = {"dem.tif": 0o664, "z.zarr": 0o700, "z.zarr/a": 0o755, "z.zarr/a/0": 0o644}
    assert {name: mode(workspace / name) for name in modes} == modes


if ROOT_HOST:

    def test_a_replaced_file_hands_down_its_owner(workspace):
        write(workspace, {"dem.tif": b"old", "cube.zarr/a": b"old"})
        for name in ("dem.tif", "cube.zarr", "cube.zarr/a"):
            os.chown(workspace / name, 4321, 1234)
        publish(area_at(workspace), {"dem.tif": b"new", "cube.zarr/b/c": b"new", "other.tif": b""})
        for name in ("dem.tif", "cube.zarr", "cube.zarr/b", "cube.zarr/b/c"):
            status = (workspace / name).stat()
            assert (status.st_uid, status.st_gid) == (4321, 1234)
        assert (workspace / "other.tif").stat().st_uid == workspace.stat().st_uid


def test_several_outputs_and_a_removal_are_published_together(workspace):
    write(workspace, {"a.shp": b"old", "a.dbf": b"old", "a.sbn": b"stale", "sub/keep.tif": b"1"})
    published = publish(area_at(workspace), {"a.shp": b"new", "a.dbf": b"new", "a.cpg": b"new"})
    assert tree(workspace) == {"a.shp": b"new", "a.dbf": b"new", "a.cpg": b"new", "sub/keep.tif": b"1"}
    assert {path.name for path in published.replaced} == {"a.shp", "a.dbf"}
    assert {path.name for path in published.removed} == {"a.sbn"}


def test_output_name_may_differ_from_job_name(workspace):
    write(workspace, {"sub/": b""})
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        fill(staging, {"out.tif": b"1", "unwanted.txt": b"2"})
        staging.collect()
        staging.publish(CALL, [Publication("out.tif", place(area, "sub/dem.tif"))])
    assert tree(workspace) == {"sub/dem.tif": b"1"}


# --- refusals


def refused(area: StagingArea, publications: list[Publication]) -> None:
    """Asserts that publishing fails in this way and changes nothing."""
    before = tree(area.workspace.root)
    with area.open("refused-1", USER) as staging:
        fill(staging, {"a.tif": b"new", "b.tif": b"new", "folder/a": b"new"})
        staging.collect()
        with pytest.raises(OutputRejected):
            staging.publish("refused-1", publications)
    assert tree(area.workspace.root) == before
    assert leftovers(area.workspace.root) == []
    assert "refused-1" not in leftovers(area.workspace.root, "undo")


def test_an_output_that_was_not_collected_is_refused(workspace):
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        fill(staging, {"a.tif": b"1"})
        with pytest.raises(OutputRejected):
            staging.publish(CALL, [Publication("a.tif", place(area, "a.tif"))])
        staging.collect()
        for name in ("b.tif", "../out/a.tif", "./a.tif", ""):
            with pytest.raises(OutputRejected):
                staging.publish(CALL, [Publication(name, place(area, "a.tif"))])
    assert tree(workspace) == {}


def test_output_changed_after_collection_is_refused(workspace):
    area = area_at(workspace)
    for number, change in enumerate([b"longer than before", b"2"]):
        with area.open(f"call-000{number}", USER) as staging:
            fill(staging, {"a.tif": b"1"})
            staging.collect()
            (staging.path / "a.tif").unlink()
            (staging.path / "a.tif").write_bytes(change)
            with pytest.raises(OutputRejected):
                staging.publish(f"call-000{number}", [Publication("a.tif", place(area, "a.tif"))])
    assert tree(workspace) == {}


def test_outputs_with_shared_or_nested_places_are_refused(workspace):
    write(workspace, {"z/old": b"old", "x/inner": b"old", "y": b"old"})
    area = area_at(workspace)
    a, b, x, y, z, inner = (place(area, name) for name in ("a.tif", "b.tif", "x", "y", "z", "z/b.tif"))
    refused(area, [Publication("a.tif", a), Publication("b.tif", a)])
    refused(area, [Publication("a.tif", a), Publication("a.tif", b)])
    refused(area, [Publication("folder", z), Publication("b.tif", inner)])
    refused(area, [Publication("a.tif", x)])
    refused(area, [Publication("folder", y)])
    refused(area, [])


def test_place_that_no_plan_could_name_is_refused(workspace, tmp_path):
    write(tmp_path, {"other/": b""})
    area = area_at(workspace)
    good = place(area, "a.tif")
    outside = Workspaces((Workspace.at(tmp_path / "other", writable=True),)).output("a.tif")
    refused(area, [Publication("a.tif", outside)])
    for bad in ("../other/a.tif", ".", f"{RESERVED}/undo/x"):
        refused(area, [Publication("a.tif", replace(good, relative=good.relative.parent / bad))])
    assert list((tmp_path / "other").iterdir()) == []


def test_a_call_publishes_once(workspace):
    area = area_at(workspace)
    publish(area, {"a.tif": b"1"})
    with pytest.raises(StagingFailed):
        publish(area, {"a.tif": b"2"})
    assert tree(workspace) == {"a.tif": b"1"}
    area.undo(CALL)
    assert tree(workspace) == {}


CHANGES: dict[str, Callable[[Path], object]] = {
    "it has come into being": lambda path: path.with_name("new.tif").write_bytes(b"theirs"),
    "it was edited": lambda path: path.write_bytes(b"theirs!"),
    "it was edited to the same size": lambda path: (path.write_bytes(b"THE"), os.utime(path, (1, 1))),
    "it was replaced": lambda path: (path.rename(path.with_name("moved")), path.write_bytes(b"theirs")),
    "it was deleted": lambda path: path.unlink(),
    "it became a link": lambda path: (path.rename(path.with_name("moved")), path.symlink_to("moved")),
    "it became a folder": lambda path: (path.unlink(), path.mkdir()),
    "a companion was edited": lambda path: path.with_name("old.tif.ovr").write_bytes(b"theirs"),
    "a companion was deleted": lambda path: path.with_name("old.tif.ovr").unlink(),
    "a file came into the folder": lambda path: (path.parent / "old.zarr/1").write_bytes(b"theirs"),
    "its folder was moved": lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
    "its folder became a link": lambda path: (
        path.parent.rename(path.parent.with_name("elsewhere")),
        path.parent.symlink_to("elsewhere"),
    ),
}


@pytest.mark.claim("outputs.others-changes-kept")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_is_published_when_target_changed_since_plan(workspace, change):
    write(workspace, dict.fromkeys(["sub/old.tif", "sub/old.tif.ovr", "sub/old.zarr/0", "first.tif"], b"old"))
    area = area_at(workspace)
    targets = [place(area, name) for name in ("first.tif", "sub/old.tif", "sub/new.tif", "sub/old.zarr")]
    removes = (place(area, "sub/old.tif.ovr"),)
    change(workspace / "sub/old.tif")
    before = tree(workspace)
    with area.open(CALL, USER) as staging:
        fill(staging, {"0": b"new", "1": b"new", "2": b"new", "3/0": b"new"})
        staging.collect()
        publications = [Publication(str(number), target) for number, target in enumerate(targets)]
        with pytest.raises(OutputRejected):
            staging.publish(CALL, publications, removes)
    assert tree(workspace) == before
    assert leftovers(workspace, "undo") == []


@pytest.mark.claim("outputs.links-not-followed")
def test_planted_link_in_path_leads_nowhere_outside(workspace, tmp_path):
    write(tmp_path, {"outside/dem.tif": b"precious"})
    write(workspace, {"sub/": b""})
    planned = place(area_at(workspace), "sub/dem.tif")

    def swap(point: str) -> None:
        if point == "swap.create.before" and not (workspace / "sub").is_symlink():
            (workspace / "sub").rmdir()
            (workspace / "sub").symlink_to(tmp_path / "outside")

    area = area_at(workspace, DirOps(swap))
    with area.open(CALL, USER) as staging:
        fill(staging, {"dem.tif": b"new"})
        staging.collect()
        with pytest.raises(SandboxError):
            staging.publish(CALL, [Publication("dem.tif", planned)])
    assert tree(tmp_path / "outside") == {"dem.tif": b"precious"}
