"""The process dies, or the disk fails, at every single step: no user file is lost or half-written.

Each test visits every checkpoint of its scenarios, each time in a fresh workspace.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from crash_kit import BOTH, EVERY, each_step, in_child, killed, settled
from crash_scenarios import (
    KILLED,
    PUBLICATIONS,
    Dying,
    FailingThenDying,
    Scenario,
    fail,
    prune,
    rearranges,
    recover,
    replaces,
    undo,
)
from staging_kit import CALL, Trail, Tree, area_at, leftovers, publish, tree, write

from sandbox.errors import SandboxError
from sandbox.outputs.dirops import POINTS, DirOps
from sandbox.outputs.undo import Retention

# the first has every operation of a publication, with and without the flags of renameat2
BY_NIGHT_EVERY = pytest.mark.parametrize(
    "scenarios", [BOTH, pytest.param(EVERY, marks=pytest.mark.nightly)], ids=["all at once", "each"]
)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """A killed process loses nothing that it wrote; only a power cut would, which is not simulated here."""
    monkeypatch.setattr(os, "fsync", lambda _file: None)


def publishing(tmp_path: Path, scenario: Scenario, *, native: bool):
    return each_step(tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native)


def undoing(tmp_path: Path, scenario: Scenario, *, native: bool):
    def setup(root: Path) -> None:
        write(root, scenario.before)
        scenario.run(area_at(root, DirOps(native=native)))

    return each_step(tmp_path, setup, undo, native=native)


@BY_NIGHT_EVERY
@pytest.mark.claim("outputs.all-or-nothing")
def test_kill_during_publication_leaves_all_old_or_new(tmp_path, subtests, scenarios):
    for name, (scenario, native) in scenarios.items():
        with subtests.test(name):
            seen = set()
            for number, point, root in publishing(tmp_path / name, scenario, native=native):
                killed(root, number, scenario.run, native=native)
                _refuse_half_written(scenario, tree(root), point)
                new = _is_new(scenario, root, point, native=native)
                assert new or leftovers(root, "undo") == [], point
                seen.add(new)
            assert seen == {True, False}


def _is_new(scenario: Scenario, root: Path, point: str, *, native: bool) -> bool:
    """True if recovery led to the new workspace, which can then be undone; False if it led to the old one."""
    area = area_at(root, DirOps(native=native))
    recovered = settled(area)
    assert recovered in (scenario.before, scenario.after), point
    if recovered == scenario.after:
        area.undo(CALL)
        assert tree(root) == scenario.before, point
    return recovered == scenario.after


def _refuse_half_written(scenario: Scenario, state: Tree, point: str) -> None:
    """Asserts that even before recovery each file is old or new, and a replaced file is never missing."""
    for name, contents in state.items():
        assert contents in (scenario.before.get(name), scenario.after.get(name)), (point, name)
    stay = {name for name in scenario.before if name in scenario.after and "/" not in name}
    assert stay <= set(state), point


def test_a_replaced_folder_never_vanishes(tmp_path):
    scenario = PUBLICATIONS["a folder over a folder"]
    for number, point, root in publishing(tmp_path, scenario, native=True):
        killed(root, number, scenario.run, native=True)
        assert tree(root) in (scenario.before, scenario.after), point


@BY_NIGHT_EVERY
@pytest.mark.claim("outputs.all-or-nothing")
def test_kill_during_undo_leaves_all_old_or_new(tmp_path, subtests, scenarios):
    for name, (scenario, native) in scenarios.items():
        with subtests.test(name):
            seen = set()
            for number, point, root in undoing(tmp_path / name, scenario, native=native):
                killed(root, number, undo, native=native)
                seen.add(_is_new(scenario, root, point, native=native))
            assert seen == {True, False}


@pytest.mark.nightly
@pytest.mark.claim("outputs.all-or-nothing")
def test_repeated_kill_during_recovery_loses_nothing(tmp_path, subtests):
    outputs = replaces({"b.tif": b"old"}, {"a.tif": b"new", "b.tif": b"new"})
    before, after, moves = {"a.tif": b"new", "c/0": b"1"}, {"b.tif": b"new"}, {"a.tif": "b.tif"}
    over_another = rearranges({**before, "b.tif": b"old"}, after, moves, "c")
    runs = {
        "outputs": (outputs, True),
        "a rename over another and a removal": (over_another, True),
        "links": (rearranges(before, after, moves, "c"), False),
    }
    for name, (scenario, native) in runs.items():
        with subtests.test(name):
            for number, point, root in publishing(tmp_path / name, scenario, native=native):
                killed(root, number, scenario.run, native=native)
                again = 0
                while (code := in_child(Dying(recover, root, again, native))) != 0:
                    assert code == KILLED, point
                    again += 1
                recovered = settled(area_at(root, DirOps(native=native)))
                assert recovered in (scenario.before, scenario.after), point


def test_failed_step_is_rolled_back_at_once(tmp_path, subtests):
    for name, (scenario, native) in BOTH.items():
        with subtests.test(name):
            for number, point, root in publishing(tmp_path / name, scenario, native=native):
                area = area_at(root, DirOps(Trail(fail, number), native=native))
                # published; remaining temporary files do not make it a failure
                if point.startswith("discard"):
                    scenario.run(area)
                    assert tree(root) == scenario.after, point
                else:
                    with pytest.raises(SandboxError):
                        scenario.run(area)
                    assert tree(root) == scenario.before, point
                    assert leftovers(root, "undo") == [], point
                settled(area_at(root))


@pytest.mark.nightly
def test_kill_during_rollback_leaves_all_old_or_new(tmp_path, subtests):
    for name, (scenario, native) in BOTH.items():
        trail = Trail()
        write(tmp_path / name / "first", scenario.before)
        scenario.run(area_at(tmp_path / name / "first", DirOps(trail, native=native)))
        for point in ("swap.sync.before", "record.sync.after"):
            with subtests.test(name, point=point):
                failing = len(trail.points) - 1 - trail.points[::-1].index(point)
                for later in range(1, 200):
                    root = tmp_path / name / f"{point}-{later}"
                    write(root, scenario.before)
                    if in_child(FailingThenDying(scenario.run, root, failing, native, later)) != KILLED:
                        break
                    recovered = settled(area_at(root, DirOps(native=native)))
                    assert recovered in (scenario.before, scenario.after), later
                assert later > len(scenario.staged) * 2


@pytest.mark.claim("outputs.all-or-nothing")
def test_failing_disk_is_repaired_when_it_works_again(tmp_path, subtests):
    for name, (scenario, native) in BOTH.items():
        with subtests.test(name):
            for number, point, root in publishing(tmp_path / name, scenario, native=native):
                calls = Trail()

                def checkpoint(where: str, calls: Trail = calls, number: int = number) -> None:
                    calls(where)
                    if len(calls.points) > number:
                        fail(where)

                with suppress(SandboxError):
                    scenario.run(area_at(root, DirOps(checkpoint, native=native)))
                recovered = settled(area_at(root, DirOps(native=native)))
                assert recovered in (scenario.before, scenario.after), point


def test_failed_undo_step_is_rolled_back_at_once(tmp_path, subtests):
    for name, (scenario, native) in BOTH.items():
        with subtests.test(name):
            for number, point, root in undoing(tmp_path / name, scenario, native=native):
                with pytest.raises(SandboxError):
                    area_at(root, DirOps(Trail(fail, number), native=native)).undo(CALL)
                assert tree(root) == scenario.after, point
                area_at(root).undo(CALL)
                assert tree(root) == scenario.before, point


def test_kill_during_pruning_spares_the_newest_calls(tmp_path):
    def setup(root: Path) -> None:
        area = area_at(root)
        for call in ("call-0001", "call-0002", "call-0003"):
            publish(area, {"dem.tif": call.encode()}, call)

    for number, point, root in each_step(tmp_path, setup, prune, native=True):
        killed(root, number, prune, native=True)
        area = area_at(root, keep=Retention(calls=1))
        assert area.recover() == (), point
        assert settled(area) == {"dem.tif": b"call-0003"}, point
        area.prune()
        assert leftovers(root, "undo") == ["call-0003"], point
        area.undo("call-0003")
        assert tree(root) == {"dem.tif": b"call-0002"}, point


def test_every_checkpoint_is_passed_by_these_scenarios(tmp_path):
    passed = set()
    for name, (scenario, native) in BOTH.items():
        root = tmp_path / name
        write(root, scenario.before)
        trail = Trail()
        area = area_at(root, DirOps(trail, native=native), Retention(calls=1))
        scenario.run(area)
        area.undo(CALL)
        publish(area, {"another.tif": b""}, "call-0002")
        passed |= set(trail.points)
    assert passed == set(POINTS)
