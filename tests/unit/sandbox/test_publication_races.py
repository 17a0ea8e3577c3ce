"""Publication during simultaneous changes by others, on file systems with fewer features, and with a power cut.

Others act from inside the checkpoints, just before a step.
"""

import os
from pathlib import Path

import pytest
from staging_kit import CALL, area_at, leftovers, publish, rearrange, tree, write

from sandbox.errors import OutputRejected, StagingFailed
from sandbox.outputs import dirops
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED

# --- races: another program acts just before a step


def _theirs(path: Path) -> None:
    """Puts another file at a name, like a careful program."""
    path.with_suffix(".tmp").write_bytes(b"theirs")
    path.with_suffix(".tmp").rename(path)


def _their_folder(path: Path) -> None:
    path.rename(path.with_name("moved"))
    write(path, {"0": b"theirs"})


RACES = {
    "a file where a new one should go": ("swap.create.before", "new.tif", _theirs),
    "a folder where a new file should go": ("swap.create.before", "new.tif", Path.mkdir),
    "another file over the old one": ("swap.exchange.before", "old.tif", _theirs),
    "the old file is deleted": ("swap.exchange.before", "old.tif", Path.unlink),
    "another folder for the old one": ("swap.exchange.before", "z.zarr", _their_folder),
    "another sidecar": ("swap.remove.before", "with.tif.ovr", _theirs),
}


@pytest.mark.claim("outputs.others-changes-kept")
def test_change_by_others_at_last_instant_is_kept(tmp_path, subtests):
    for what, (point, name, act) in RACES.items():
        with subtests.test(what):
            root = tmp_path / what
            write(root, dict.fromkeys(["first.tif", "old.tif", "with.tif", "with.tif.ovr"], b"old"))
            write(root, {"z.zarr/0": b"cells"})
            theirs: list[dict[str, bytes]] = []

            def race(where: str, root=root, point=point, name=name, act=act, theirs=theirs) -> None:
                turn = name == "with.tif.ovr" or (root / "first.tif").read_bytes() == b"new"
                if where == point and turn and not theirs:
                    act(root / name)
                    theirs.append(tree(root))

            staged = {"z.zarr": "z.zarr/0", "with.tif.ovr": "with.tif"}.get(name, name)
            with pytest.raises(StagingFailed):
                publish(area_at(root, DirOps(race)), {"first.tif": b"new", staged: b"new"})
            (expected,) = theirs
            contents = tree(root)
            assert contents == {**expected, "first.tif": b"old"}
            if name == "z.zarr":
                stored = [
                    path.read_bytes() for path in (root / RESERVED / "undo").rglob("*") if path.is_file()
                ]
                assert b"cells" in [*contents.values(), *stored]


@pytest.mark.claim("outputs.others-changes-kept")
def test_file_at_new_name_survives_without_exclusive_rename(workspace):
    def race(where: str) -> None:
        if where == "swap.create.before" and not (workspace / "new.tif").exists():
            _theirs(workspace / "new.tif")

    with pytest.raises(StagingFailed):
        publish(area_at(workspace, DirOps(race, native=False)), {"new.tif": b"new"})
    assert tree(workspace) == {"new.tif": b"theirs"}


@pytest.mark.claim("outputs.others-changes-kept")
def test_unrestorable_file_with_taken_name_is_kept(workspace):
    write(workspace, {"a.tif": b"old", "a.tif.ovr": b"old"})
    come = iter([b"their first", b"their second"])

    def race(point: str) -> None:
        if point == "swap.remove.before" and (contents := next(come, None)):
            write(workspace, {"theirs": contents})
            (workspace / "theirs").rename(workspace / "a.tif.ovr")

    with pytest.raises(StagingFailed):
        publish(area_at(workspace, DirOps(race)), {"a.tif": b"new"})
    assert tree(workspace) == {"a.tif": b"old", "a.tif.ovr": b"their second"}
    undo_folder = workspace / RESERVED / "undo" / CALL
    assert b"their first" in [path.read_bytes() for path in undo_folder.iterdir()]
    area = area_at(workspace, keep=Retention(calls=1, bytes=0))
    for call in ("call-0002", "call-0003"):  # each prunes the one before
        publish(area, {"b.tif": call.encode()}, call)
    area.recover()
    area.prune()
    assert leftovers(workspace, "undo") == [CALL, "call-0003"]
    assert b"their first" in [path.read_bytes() for path in undo_folder.iterdir()]
    with pytest.raises(StagingFailed):
        area.undo(CALL)


# --- durability and file systems with fewer features


@pytest.fixture
def events(monkeypatch) -> list[object]:
    """Checkpoints that a test records, and the inode of everything that is synced."""
    happened: list[object] = []
    real = os.fsync

    def fsync(file: int) -> None:
        happened.append(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return happened


def test_publication_is_safe_without_linux_specific_c_calls(workspace, events, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    area = area_at(workspace, DirOps(events.append))
    staged = {"dem.tif": b"new", **{f"z.zarr/{n}": b"%d" % n for n in range(40)}}
    publish(area, staged)
    assert tree(workspace) == staged
    inodes = {(workspace / name).stat().st_ino for name in staged}
    assert inodes <= set(events[: events.index("adopt.before")])


@pytest.mark.claim("outputs.all-or-nothing")
def test_data_is_synced_before_each_dependent_step(workspace, events):
    write(workspace, {"dem.tif": b"old"})
    area = area_at(workspace, DirOps(events.append))
    (file,) = publish(area, {"dem.tif": b"new"}).files
    entry = (workspace / RESERVED / "undo" / CALL).stat().st_ino
    undo = (workspace / RESERVED / "undo").stat().st_ino
    assert file.located.identity is not None

    swap = events.index("swap.exchange.before")
    done = len(events) - events[::-1].index("record.rename.before")
    assert events.index(file.located.identity.inode) < events.index("adopt.before")
    assert undo in events[events.index("adopt.after") : swap]
    assert entry in events[events.index("record.rename.after") : swap]
    assert {entry, workspace.stat().st_ino} <= set(events[swap:done])
    assert entry in events[done:]


@pytest.mark.claim("outputs.nfs")
def test_without_exchange_only_new_files_are_published(workspace, monkeypatch, subtests):
    area = area_at(workspace, DirOps(native=False))
    assert (area.replaces(), area_at(workspace).replaces()) == (False, True)
    old = {"a.shp": b"old", "m.tif": b"m", "z.zarr/0": b"old"}
    write(workspace, old)
    for links in (True, False):
        with subtests.test(links=links):
            if not links:
                monkeypatch.setattr(dirops, "_link", lambda _source, _target: False)
            call = f"call-{links}"
            rearrange(area, {"m.tif": "n.tif"}, ["z.zarr"], {"b.tif": b"new", "y.zarr/1": b"new"}, call)
            assert tree(workspace) == {"a.shp": b"old", "b.tif": b"new", "n.tif": b"m", "y.zarr/1": b"new"}
            area.undo(call)
            assert tree(workspace) == old
            for number, (staged, moves) in enumerate([({"a.shp": b"new"}, {}), ({}, {"m.tif": "a.shp"})]):
                with pytest.raises(OutputRejected):
                    rearrange(area, moves, ["z.zarr"], staged, f"refused-{links}-{number}")
                assert tree(workspace) == old
                assert leftovers(workspace, "undo") == [call] if links else [call, "call-True"]
