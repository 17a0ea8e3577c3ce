"""The process dies, or the disk fails, at every single step: no user file is lost or half-written.

Each test walks through every checkpoint that its scenario passes, in a fresh workspace each time.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from staging_kit import CALL, Trail, Tree, area_at, carry_out, leftovers, plan, publish, tree, write

from sandbox.errors import SandboxError
from sandbox.moves import POINTS, Moves
from sandbox.staging import StagingArea
from sandbox.undo import Finding, Retention

_KILLED = 9
_SHAPEFILE = ("roads.shp", "roads.shx", "roads.dbf")


@dataclass(frozen=True)
class Scenario:
    """A workspace, something done in it, and the workspace that should come of it."""

    before: Tree
    staged: Tree
    after: Tree

    def run(self, area: StagingArea) -> None:
        publish(area, self.staged)


def _replaces(old: Tree, new: Tree) -> Scenario:
    beside = {"keep.tif": b"somebody else's"}
    return Scenario({**beside, **old}, new, {**beside, **new})


PUBLICATIONS = {
    "a new file": _replaces({}, {"dem.tif": b"new"}),
    "a new folder": _replaces({}, {"cube.zarr/zarr.json": b"new", "cube.zarr/a/0": b"0"}),
    "a replaced file": _replaces({"dem.tif": b"old"}, {"dem.tif": b"new and longer"}),
    "a database with a stale log": _replaces({"a.gpkg": b"old", "a.gpkg-wal": b"log"}, {"a.gpkg": b"new"}),
    "a shapefile over one with an index": _replaces(
        {**dict.fromkeys(_SHAPEFILE, b"old"), "roads.sbn": b"stale"}, dict.fromkeys(_SHAPEFILE, b"new")
    ),
    "a folder over a folder": _replaces(
        {"cube.zarr/zarr.json": b"old", "cube.zarr/a/0": b"0", "cube.zarr/b/0": b"0"},
        {"cube.zarr/zarr.json": b"new", "cube.zarr/c/0": b"1"},
    ),
}
ALL_AT_ONCE = _replaces(
    {"a.shp": b"old", "a.sbn": b"stale", "cube.zarr/0": b"old"},
    {"a.shp": b"new", "b.tif": b"new", "cube.zarr/1": b"new"},
)
NATIVE = pytest.mark.parametrize("native", [True, False], ids=["renameat2", "links"])
EVERY = pytest.mark.parametrize(
    ("scenario", "native"),
    [*((scenario, True) for scenario in PUBLICATIONS.values()), (ALL_AT_ONCE, False)],
    ids=[*PUBLICATIONS, "all at once with links"],
)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """A dead process loses nothing that it wrote; only a power cut would, and that is not played here."""
    monkeypatch.setattr(os, "fsync", lambda _file: None)


def _die(_point: str) -> None:
    os._exit(_KILLED)


def _fail(_point: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a child process that does some work; 0 when it came to the end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent must see that something else went wrong
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def each_step(
    tmp_path: Path, setup: Callable[[Path], None], work: Callable[[StagingArea], object], *, native: bool
) -> Iterator[tuple[int, str, Path]]:
    """For every checkpoint that some work passes: its number, its name and a fresh workspace."""
    trail = Trail()
    first = tmp_path / "first"
    first.mkdir()
    setup(first)
    work(area_at(first, Moves(trail, native=native)))
    assert set(trail.points) <= set(POINTS)
    for number, point in enumerate(trail.points):
        root = tmp_path / f"at-{number}"
        root.mkdir()
        setup(root)
        yield number, point, root


def killed(root: Path, number: int, work: Callable[[StagingArea], object], *, native: bool) -> None:
    area = area_at(root, Moves(Trail(_die, number), native=native))
    assert in_child(lambda: work(area)) == _KILLED


def settled(area: StagingArea) -> dict[str, bytes]:
    """The workspace after recovery, which must be complete in one go and leave nothing behind."""
    area.recover()
    found = tree(area.workspace.root)
    assert leftovers(area.workspace.root) == []
    assert area.recover() == ()
    assert tree(area.workspace.root) == found
    return found


@EVERY
def test_a_kill_at_any_step_of_a_publication_leaves_all_old_or_all_new(tmp_path, scenario, native):
    seen = set()
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        killed(root, number, scenario.run, native=native)
        _refuse_half_written(scenario, tree(root), point)
        area = area_at(root, Moves(native=native))
        found = settled(area)
        assert found in (scenario.before, scenario.after), point
        if found == scenario.after:
            area.undo(CALL)
            assert tree(root) == scenario.before, point
        else:
            assert leftovers(root, "undo") == [], point
        seen.add(found == scenario.after)
    assert seen == {True, False}


def _refuse_half_written(scenario: Scenario, found: Tree, point: str) -> None:
    """Even before recovery a file is old or new, and a file that is replaced is never missing."""
    for name, contents in found.items():
        assert contents in (scenario.before.get(name), scenario.after.get(name)), (point, name)
    stay = {name for name in scenario.before if name in scenario.after and "/" not in name}
    assert stay <= set(found), point


def test_a_replaced_folder_never_vanishes_where_names_can_be_exchanged(tmp_path):
    scenario = PUBLICATIONS["a folder over a folder"]
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=True
    ):
        killed(root, number, scenario.run, native=True)
        assert tree(root) in (scenario.before, scenario.after), point


@EVERY
def test_a_kill_at_any_step_of_an_undo_leaves_all_old_or_all_new(tmp_path, scenario, native):
    def setup(root: Path) -> None:
        write(root, scenario.before)
        scenario.run(area_at(root, Moves(native=native)))

    def undo(area: StagingArea) -> None:
        area.undo(CALL)

    seen = set()
    for number, point, root in each_step(tmp_path, setup, undo, native=native):
        killed(root, number, undo, native=native)
        area = area_at(root, Moves(native=native))
        found = settled(area)
        assert found in (scenario.before, scenario.after), point
        if found == scenario.after:
            area.undo(CALL)
            assert tree(root) == scenario.before, point
        seen.add(found == scenario.after)
    assert seen == {True, False}


@NATIVE
def test_a_kill_at_any_step_of_the_recovery_from_a_kill_at_any_step_loses_nothing(tmp_path, native):
    scenario = _replaces({"b.tif": b"old"}, {"a.tif": b"new", "b.tif": b"new"})
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        killed(root, number, scenario.run, native=native)
        again = 0
        while True:
            area = area_at(root, Moves(Trail(_die, again), native=native))
            if in_child(lambda area=area: area.recover()) == 0:
                break
            again += 1
        assert settled(area_at(root, Moves(native=native))) in (scenario.before, scenario.after), point


@NATIVE
def test_a_failure_at_any_step_is_taken_back_at_once(tmp_path, native):
    scenario = ALL_AT_ONCE
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        area = area_at(root, Moves(Trail(_fail, number), native=native))
        if point.startswith("discard"):  # published; that rubbish stays is no reason to say otherwise
            scenario.run(area)
            assert tree(root) == scenario.after, point
        else:
            with pytest.raises(SandboxError):
                scenario.run(area)
            assert tree(root) == scenario.before, point
            assert leftovers(root, "undo") == [], point
        settled(area_at(root))


@NATIVE
@pytest.mark.parametrize("point", ["swap.sync.before", "record.sync.after"])
def test_a_kill_while_a_failure_is_taken_back_leaves_all_old_or_all_new(tmp_path, point, native):
    trail = Trail()
    write(tmp_path / "first", ALL_AT_ONCE.before)
    ALL_AT_ONCE.run(area_at(tmp_path / "first", Moves(trail, native=native)))
    failing = len(trail.points) - 1 - trail.points[::-1].index(point)
    for later in range(1, 200):
        root = tmp_path / str(later)
        write(root, ALL_AT_ONCE.before)
        calls = Trail()

        def checkpoint(where: str, calls: Trail = calls, later: int = later) -> None:
            calls(where)
            if len(calls.points) - 1 == failing:
                _fail(where)
            if len(calls.points) - 1 == failing + later:
                _die(where)

        area = area_at(root, Moves(checkpoint, native=native))
        if in_child(lambda area=area: ALL_AT_ONCE.run(area)) != _KILLED:
            break
        assert settled(area_at(root, Moves(native=native))) in (ALL_AT_ONCE.before, ALL_AT_ONCE.after), later
    assert later > len(ALL_AT_ONCE.staged) * 2


@NATIVE
def test_a_disk_that_fails_from_any_step_on_is_put_right_when_it_works_again(tmp_path, native):
    scenario = ALL_AT_ONCE
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        calls = Trail()

        def checkpoint(where: str, calls: Trail = calls, number: int = number) -> None:
            calls(where)
            if len(calls.points) > number:
                _fail(where)

        with suppress(SandboxError):
            scenario.run(area_at(root, Moves(checkpoint, native=native)))
        assert settled(area_at(root, Moves(native=native))) in (scenario.before, scenario.after), point


@NATIVE
def test_a_failure_at_any_step_of_an_undo_is_taken_back_at_once(tmp_path, native):
    scenario = ALL_AT_ONCE

    def setup(root: Path) -> None:
        write(root, scenario.before)
        scenario.run(area_at(root, Moves(native=native)))

    for number, point, root in each_step(tmp_path, setup, lambda area: area.undo(CALL), native=native):
        with pytest.raises(SandboxError):
            area_at(root, Moves(Trail(_fail, number), native=native)).undo(CALL)
        assert tree(root) == scenario.after, point
        area_at(root).undo(CALL)
        assert tree(root) == scenario.before, point


def test_a_kill_while_old_calls_are_pruned_spares_the_newest(tmp_path):
    def setup(root: Path) -> None:
        area = area_at(root)
        for call in ("call-0001", "call-0002", "call-0003"):
            publish(area, {"dem.tif": call.encode()}, call)

    def prune(area: StagingArea) -> None:
        StagingArea(area.workspace, Retention(calls=1), area.moves).prune()

    for number, point, root in each_step(tmp_path, setup, prune, native=True):
        killed(root, number, prune, native=True)
        area = area_at(root, keep=Retention(calls=1))
        assert settled(area) == {"dem.tif": b"call-0003"}, point
        area.prune()
        assert leftovers(root, "undo") == ["call-0003"], point
        area.undo("call-0003")
        assert tree(root) == {"dem.tif": b"call-0002"}, point


def test_every_checkpoint_is_passed_by_these_scenarios(tmp_path):
    passed = set()
    for native in (True, False):
        root = tmp_path / str(native)
        root.mkdir()
        write(root, ALL_AT_ONCE.before)
        trail = Trail()
        area = area_at(root, Moves(trail, native=native), Retention(calls=1))
        ALL_AT_ONCE.run(area)
        area.undo(CALL)
        publish(area, {"another.tif": b""}, "call-0002")
        passed |= set(trail.points)
    assert passed == set(POINTS)


def test_recovery_says_what_became_of_each_call(tmp_path):
    scenario = PUBLICATIONS["a shapefile over one with an index"]
    findings = set()
    for number, _, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=True
    ):
        killed(root, number, scenario.run, native=True)
        told = area_at(root).recover()
        done = tree(root) == scenario.after
        assert all(one.finding is (Finding.PUBLISHED if done else Finding.DISCARDED) for one in told)
        if done and told:
            assert {target.name for one in told for target in one.targets} == {*_SHAPEFILE, "roads.sbn"}
            assert [one.call_id for one in told] == [CALL]
            assert [one.call_id for one in area_at(root).kept()] == [CALL]
        findings |= {one.finding for one in told}
    assert findings == {Finding.PUBLISHED, Finding.DISCARDED}


@NATIVE
def test_a_target_changed_after_the_crash_is_never_overwritten(tmp_path, native):
    scenario = PUBLICATIONS["a shapefile over one with an index"]
    conflicts = 0
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        killed(root, number, scenario.run, native=native)
        for name in _SHAPEFILE:
            (root / name).unlink()
            (root / name).write_bytes(b"edited since")
        told = area_at(root, Moves(native=native)).recover()
        assert {tree(root)[name] for name in _SHAPEFILE} == {b"edited since"}, point
        if any(one.finding is Finding.CONFLICT for one in told):
            conflicts += 1
            kept = [path.read_bytes() for path in Path(told[0].kept_in).iterdir()]
            assert b"new" in kept or b"old" in kept, point
    assert conflicts > 0


def test_two_servers_that_start_at_once_do_not_recover_the_same_call(tmp_path):
    write(tmp_path, {"dem.tif": b"old"})
    area = area_at(tmp_path)
    planned = plan(area, {"dem.tif": b"new"})
    at = _number_of(tmp_path, planned.staged, "swap.exchange.after")
    killed(tmp_path, at, lambda area: carry_out(area, planned), native=True)
    inner: list[tuple[object, ...]] = []

    def meanwhile(point: str) -> None:
        if point == "record.write.before":
            inner.append(area_at(tmp_path).recover())

    outer = area_at(tmp_path, Moves(meanwhile)).recover()
    assert [one.finding for one in outer] == [Finding.PUBLISHED]
    assert inner == [()]
    assert tree(tmp_path) == {"dem.tif": b"new"}


def _number_of(root: Path, staged: Tree, point: str) -> int:
    """The number of a checkpoint, counted in a workspace of its own."""
    twin = root.parent / "twin"
    twin.mkdir()
    write(twin, dict.fromkeys(staged, b"old"))
    trail = Trail()
    publish(area_at(twin, Moves(trail)), staged)
    return trail.points.index(point)
