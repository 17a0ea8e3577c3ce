"""An undo restores exactly the previous files, or refuses; and the files stored for undo stay within bounds."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staging_kit import CALL, area_at, leftovers, place, publish, tree, write

from sandbox.errors import StagingFailed
from sandbox.outputs import undo as undo_module
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.journal import Content, Mark, Record, State, Step, load, save
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import RecoveryOutcome
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED, Workspace

OLD = {"a.shp": b"old", "a.dbf": b"old", "a.sbn": b"stale", "z.zarr/0": b"old", "keep": b"1"}
NEW = {"a.shp": b"new", "a.dbf": b"new", "b.tif": b"new", "z.zarr/1": b"new"}


def entry(workspace: Path, call_id: str = CALL) -> Path:
    return workspace / RESERVED / "undo" / call_id


def undo_contents(workspace: Path, call_id: str = CALL) -> set[bytes]:
    return {path.read_bytes() for path in entry(workspace, call_id).rglob("*") if path.is_file()}


# --- undoing


@pytest.mark.claim("outputs.undo")
def test_undo_restores_replaced_and_removed_and_deletes_new(workspace):
    write(workspace, OLD)
    area = area_at(workspace)
    before = {name: (workspace / name).stat().st_ino for name in OLD}
    publish(area, NEW)
    undone = area.undo(CALL)
    assert tree(workspace) == OLD
    assert {name: (workspace / name).stat().st_ino for name in OLD} == before
    assert {path.name for path in undone.restored} == {"a.shp", "a.dbf", "a.sbn", "z.zarr"}
    assert {path.name for path in undone.taken_away} == {"b.tif"}
    assert b"new" in undo_contents(workspace)  # what the undo removed
    with pytest.raises(StagingFailed):
        area.undo(CALL)
    assert tree(workspace) == OLD


def test_calls_on_one_file_are_undone_backwards(workspace):
    area = area_at(workspace)
    for call in ("call-0001", "call-0002", "call-0003"):
        publish(area, {"a.tif": call.encode()}, call)
    with pytest.raises(StagingFailed):
        area.undo("call-0002")
    assert tree(workspace) == {"a.tif": b"call-0003"}
    area.undo("call-0003")
    assert tree(workspace) == {"a.tif": b"call-0002"}
    area.undo("call-0002")
    area.undo("call-0001")
    assert tree(workspace) == {}


def _put(path: Path, contents: bytes) -> Path:
    path.write_bytes(contents)
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "an output was edited": lambda root: (root / "a.shp").write_bytes(b"edited"),
    "an output was edited to the same size": lambda root: (
        _put(root / "a.shp", b"NEW"),
        os.utime(root / "a.shp", (1, 1)),
    ),
    "an output was replaced by its equal": lambda root: _put(root / "copy", b"new").rename(root / "a.shp"),
    "an output was deleted": lambda root: (root / "b.tif").unlink(),
    "an output became a link": lambda root: (
        (root / "b.tif").rename(root / "c"),
        (root / "b.tif").symlink_to("c"),
    ),
    "a file of a folder was edited": lambda root: (root / "z.zarr/1").write_bytes(b"edited"),
    "a file came into a folder": lambda root: (root / "z.zarr/2").write_bytes(b"2"),
    "a file left a folder": lambda root: (root / "z.zarr/1").unlink(),
    "the companion is there again": lambda root: (root / "a.sbn").write_bytes(b"theirs"),
    "what was kept is gone": lambda root: [
        path.unlink() for path in entry(root).iterdir() if path.is_file() and path.read_bytes() == b"stale"
    ],
}


@pytest.mark.claim("outputs.undo")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_undo_that_would_lose_a_change_does_nothing(workspace, change):
    write(workspace, OLD)
    area = area_at(workspace)
    publish(area, NEW)
    change(workspace)
    before, before_kept = tree(workspace), undo_contents(workspace)
    for _ in range(2):
        with pytest.raises(StagingFailed):
            area.undo(CALL)
        assert tree(workspace) == before
        assert undo_contents(workspace) == before_kept


def test_change_just_before_undo_is_kept(workspace):
    write(workspace, {"a.tif": b"old", "b.tif": b"old"})
    publish(area_at(workspace), {"a.tif": b"new", "b.tif": b"new"})
    acted = []

    def race(point: str) -> None:
        if point == "swap.exchange.before" and not acted and (workspace / "b.tif").read_bytes() == b"old":
            write(workspace, {"theirs": b"theirs"})
            (workspace / "theirs").rename(workspace / "a.tif")
            acted.append(point)

    with pytest.raises(StagingFailed):
        area_at(workspace, DirOps(race)).undo(CALL)
    assert acted
    assert tree(workspace) == {"a.tif": b"theirs", "b.tif": b"new"}


def test_unknown_call_cannot_be_undone(workspace):
    for call in ("call-none", "../staging", "", CALL):
        with pytest.raises(StagingFailed):
            area_at(workspace).undo(call)


def test_call_is_not_undone_twice_at_once(workspace):
    write(workspace, OLD)
    publish(area_at(workspace), NEW)
    refusals = []

    def meanwhile(point: str) -> None:
        if point == "swap.sync.before" and not refusals:
            with pytest.raises(StagingFailed) as refusal:
                area_at(workspace).undo(CALL)
            refusals.append(refusal)
            assert area_at(workspace).recover() == ()
            area_at(workspace, keep=Retention(calls=0, bytes=0)).prune()

    area_at(workspace, DirOps(meanwhile)).undo(CALL)
    assert refusals
    assert tree(workspace) == OLD


# --- retention


def test_call_count_is_bounded_and_oldest_go_first(workspace):
    area = area_at(workspace, keep=Retention(calls=3))
    for number in range(6):
        publish(area, {"a.tif": b"%d" % number}, f"call-000{number}")
    assert leftovers(workspace, "undo") == ["call-0003", "call-0004", "call-0005"]
    assert [record.call_id for record in area.publications()] == ["call-0005", "call-0004", "call-0003"]
    with pytest.raises(StagingFailed):
        area.undo("call-0002")
    for number in (5, 4, 3):
        area.undo(f"call-000{number}")
    assert tree(workspace) == {"a.tif": b"2"}


def test_publication_does_not_wait_for_pruning(workspace):
    postponed: list[Callable[[], None]] = []
    area = StagingArea(
        Workspace.at(workspace, writable=True), Retention(calls=1), run_in_background=postponed.append
    )
    for number in range(3):
        publish(area, {"a.tif": b"%d" % number}, f"call-000{number}")
    assert leftovers(workspace, "undo") == ["call-0000", "call-0001", "call-0002"]
    for work in postponed:
        work()
    assert leftovers(workspace, "undo") == ["call-0002"]
    assert tree(workspace) == {"a.tif": b"2"}


def test_call_with_interrupted_undo_is_not_pruned(workspace, monkeypatch):
    """Its entry may then contain the only copy of a file."""
    publish(area_at(workspace), {"a.tif": b"0"}, CALL)
    publish(area_at(workspace), {"a.tif": b"1"}, "call-0002")
    read = undo_module._finished

    def meanwhile(layout):
        finished = read(layout)
        manifest = entry(workspace) / "manifest.json"
        journal = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**journal, "state": State.UNDOING.value}))
        return finished

    monkeypatch.setattr(undo_module, "_finished", meanwhile)
    assert area_at(workspace, keep=Retention(calls=1)).prune() == ()
    assert entry(workspace).is_dir()


def test_publication_stands_without_pruning(workspace):
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    area = StagingArea(
        Workspace.at(workspace, writable=True), Retention(calls=1), run_in_background=closed.submit
    )
    for number in range(2):
        assert publish(area, {"a.tif": b"%d" % number}, f"call-000{number}").files
    assert tree(workspace) == {"a.tif": b"1"}
    (workspace / RESERVED / "undo").chmod(0o777)  # others may write to it, so no file in it is trusted
    area.prune_quietly()
    with pytest.raises(StagingFailed):
        area.prune()
    (workspace / RESERVED / "undo").chmod(0o700)
    assert area.prune() == ("call-0000",)


def test_bytes_of_replaced_files_are_bounded(workspace):
    area = area_at(workspace, keep=Retention(bytes=2_500_000))
    for number in range(5):
        publish(area, {"a.tif": b"%d" % number * 1_000_000}, f"call-000{number}")
    # each stores a million bytes of the one before
    assert leftovers(workspace, "undo") == ["call-0003", "call-0004"]


def test_new_files_are_free_and_newest_call_stays(workspace):
    area = area_at(workspace, keep=Retention(bytes=1_500_000))
    write(workspace, {"z.zarr/0": b"o" * 5_000_000})
    for number in range(4):
        publish(area, {f"{number}.tif": b"n" * 1_000_000}, f"call-000{number}")
    assert len(leftovers(workspace, "undo")) == 4
    publish(area, {"z.zarr/1": b"n"}, "call-0004")
    assert leftovers(workspace, "undo") == ["call-0004"]
    area.undo("call-0004")
    assert (workspace / "z.zarr/0").stat().st_size == 5_000_000


# --- journals that no server of ours wrote


def forged(workspace: Path, **changes: object) -> None:
    """The journal of a publication, with changes."""
    write(workspace, {"a.tif": b"old"})
    publish(area_at(workspace), {"a.tif": b"new"})
    manifest = entry(workspace) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **changes}))


@pytest.mark.claim("outputs.journals-not-trusted")
@pytest.mark.parametrize(
    "target",
    ["../outside.tif", "/etc/passwd", "a/../../outside.tif", ".", "", f"{RESERVED}/x", "a//b", "a\0b"],
)
def test_a_journal_that_points_outside_is_not_followed(workspace, tmp_path, target):
    write(tmp_path, {"outside.tif": b"precious"})
    step = {"slot": "0", "target": target, "new": None, "old": [1, 2, 3, 0]}
    forged(workspace, state="prepared", steps=[step])
    (finding,) = area_at(workspace).recover()
    assert finding.outcome is RecoveryOutcome.DAMAGED
    assert tree(tmp_path / "workspace") == {"a.tif": b"new"}
    assert (tmp_path / "outside.tif").read_bytes() == b"precious"
    assert b"old" in undo_contents(workspace)


def test_journal_with_foreign_slot_is_not_followed(tmp_path):
    for number, slot in enumerate(("../../../a.tif", "lock", "", "0/1", "manifest.json")):
        root = tmp_path / str(number)
        step = {"slot": slot, "target": "a.tif", "new": [1, 2, 3, 0], "old": None}
        forged(root, state="prepared", steps=[step])
        assert [finding.outcome for finding in area_at(root).recover()] == [RecoveryOutcome.DAMAGED]
        assert tree(root) == {"a.tif": b"new"}


@pytest.mark.claim("outputs.journals-not-trusted")
def test_forged_journal_cannot_move_unknown_files(workspace):
    """A downloaded folder may contain a `.gdal-mcp`, but not the right inodes."""
    write(workspace, {"precious.tif": b"precious"})
    step = {"slot": "7", "target": "precious.tif", "new": None, "old": [1, 8, 0, 0]}
    forged(workspace, state="undoing", steps=[step])
    area_at(workspace).recover()
    assert tree(workspace) == {"a.tif": b"new", "precious.tif": b"precious"}


@pytest.mark.parametrize(
    "contents", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 99}']
)
def test_unreadable_journal_is_reported_and_its_files_stay(workspace, contents):
    forged(workspace)
    (entry(workspace) / "manifest.json").write_bytes(contents)
    area = area_at(workspace)
    assert [finding.outcome for finding in area.recover()] == [RecoveryOutcome.DAMAGED]
    assert b"old" in undo_contents(workspace)
    with pytest.raises(StagingFailed):
        area.undo(CALL)
    publish(area, {"a.tif": b"newer"}, "call-0002")
    assert tree(workspace) == {"a.tif": b"newer"}


def test_a_journal_of_another_call_is_not_believed(workspace):
    forged(workspace, call="call-9999")
    with pytest.raises(StagingFailed):
        area_at(workspace).undo(CALL)
    assert tree(workspace) == {"a.tif": b"new"}


MARKS = st.none() | st.builds(
    Mark, st.integers(0, 2**64), st.integers(0, 2**63), st.integers(-(2**63), 2**63), st.booleans()
)
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..", RESERVED)
)
TARGETS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: PurePosixPath(*names))
SLOTS, CHANGED = st.integers(0, 999).map(str), st.tuples(MARKS, MARKS).filter(any)
STEPS = st.builds(lambda slot, target, marks: Step(slot, target, *marks), SLOTS, TARGETS, CHANGED)
PARTS = st.builds(Content, TARGETS, st.integers(0), st.text("0123456789abcdef"), st.text("ab"))
RECORDS = st.builds(
    Record,
    *(st.just(CALL), st.just("staging-0"), st.sampled_from(State), st.integers(0, 2**63)),
    *(st.lists(STEPS).map(tuple), st.lists(PARTS).map(tuple), st.integers(0)),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[int]:
    with TemporaryDirectory() as path:
        opened = os.open(path, os.O_RDONLY)
        yield opened
        os.close(opened)


@settings(deadline=None, max_examples=60)
@given(record=RECORDS)
def test_a_journal_is_read_as_it_was_written(folder, record):
    save(record, folder, DirOps())
    assert load(folder, CALL) == record


# --- any history

CONTENTS = st.binary(max_size=3)
OUTPUTS = st.dictionaries(
    st.sampled_from(["a.shp", "a.dbf", "a.sbn", "b.tif", "b.tif.ovr", "z.zarr/0", "z.zarr/1/2"]),
    CONTENTS,
    min_size=1,
)


@settings(deadline=None, max_examples=25)
@given(first=OUTPUTS, history=st.lists(st.tuples(OUTPUTS, st.booleans()), max_size=5))
def test_any_history_can_be_undone_step_by_step(first, history):
    with TemporaryDirectory() as path:
        root = Path(path)
        write(root, first)
        area = area_at(root)
        states = [tree(root)]
        for number, (staged, undo_at_once) in enumerate(history):
            publish(area, staged, f"call-{number:04}")
            contents = tree(root)
            assert {name: contents[name] for name in staged} == staged
            states.append(contents)
            if undo_at_once:
                area.undo(f"call-{number:04}")
                states.pop()
                assert tree(root) == states[-1]
        for record in area.publications():
            if not record.is_undone:
                area.undo(record.call_id)
                states.pop()
                assert tree(root) == states[-1]
        assert len(states) == 1
        assert place(area, "x.tif").identity is None
