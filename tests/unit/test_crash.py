"""The process dies, or the disk fails, at every single step: no user file is lost or half-written.

Each test walks through every checkpoint that its scenario passes, in a fresh workspace each time.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from crash_kit import EVERY, NATIVE, each_step, in_child, killed, settled
from crash_scenarios import (
    ALL_AT_ONCE,
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


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """A dead process loses nothing that it wrote; only a power cut would, and that is not played here."""
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.mark.claim("outputs.all-or-nothing")
@EVERY
def test_a_kill_at_any_step_of_a_publication_leaves_all_old_or_all_new(tmp_path, scenario, native):
    seen = set()
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        killed(root, number, scenario.run, native=native)
        _refuse_half_written(scenario, tree(root), point)
        area = area_at(root, DirOps(native=native))
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


@pytest.mark.claim("outputs.all-or-nothing")
@EVERY
def test_a_kill_at_any_step_of_an_undo_leaves_all_old_or_all_new(tmp_path, scenario, native):
    def setup(root: Path) -> None:
        write(root, scenario.before)
        scenario.run(area_at(root, DirOps(native=native)))

    seen = set()
    for number, point, root in each_step(tmp_path, setup, undo, native=native):
        killed(root, number, undo, native=native)
        area = area_at(root, DirOps(native=native))
        found = settled(area)
        assert found in (scenario.before, scenario.after), point
        if found == scenario.after:
            area.undo(CALL)
            assert tree(root) == scenario.before, point
        seen.add(found == scenario.after)
    assert seen == {True, False}


@pytest.mark.claim("outputs.all-or-nothing")
@NATIVE
@pytest.mark.parametrize(
    "scenario",
    [
        replaces({"b.tif": b"old"}, {"a.tif": b"new", "b.tif": b"new"}),
        rearranges(
            {"a.tif": b"new", "b.tif": b"old", "c/0": b"1"}, {"b.tif": b"new"}, {"a.tif": "b.tif"}, "c"
        ),
    ],
    ids=["outputs", "a rename over another and a removal"],
)
def test_a_kill_at_any_step_of_the_recovery_from_a_kill_at_any_step_loses_nothing(tmp_path, scenario, native):
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        killed(root, number, scenario.run, native=native)
        again = 0
        while True:
            code = in_child(Dying(recover, root, again, native))
            if code == 0:
                break
            assert code == KILLED, point
            again += 1
        assert settled(area_at(root, DirOps(native=native))) in (scenario.before, scenario.after), point


@NATIVE
def test_a_failure_at_any_step_is_taken_back_at_once(tmp_path, native):
    scenario = ALL_AT_ONCE
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=native
    ):
        area = area_at(root, DirOps(Trail(fail, number), native=native))
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
    ALL_AT_ONCE.run(area_at(tmp_path / "first", DirOps(trail, native=native)))
    failing = len(trail.points) - 1 - trail.points[::-1].index(point)
    for later in range(1, 200):
        root = tmp_path / str(later)
        write(root, ALL_AT_ONCE.before)
        if in_child(FailingThenDying(ALL_AT_ONCE.run, root, failing, native, later)) != KILLED:
            break
        assert settled(area_at(root, DirOps(native=native))) in (ALL_AT_ONCE.before, ALL_AT_ONCE.after), later
    assert later > len(ALL_AT_ONCE.staged) * 2


@pytest.mark.claim("outputs.all-or-nothing")
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
                fail(where)

        with suppress(SandboxError):
            scenario.run(area_at(root, DirOps(checkpoint, native=native)))
        assert settled(area_at(root, DirOps(native=native))) in (scenario.before, scenario.after), point


@NATIVE
def test_a_failure_at_any_step_of_an_undo_is_taken_back_at_once(tmp_path, native):
    scenario = ALL_AT_ONCE

    def setup(root: Path) -> None:
        write(root, scenario.before)
        scenario.run(area_at(root, DirOps(native=native)))

    for number, point, root in each_step(tmp_path, setup, undo, native=native):
        with pytest.raises(SandboxError):
            area_at(root, DirOps(Trail(fail, number), native=native)).undo(CALL)
        assert tree(root) == scenario.after, point
        area_at(root).undo(CALL)
        assert tree(root) == scenario.before, point


def test_a_kill_while_old_calls_are_pruned_spares_the_newest(tmp_path):
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
    for native in (True, False):
        root = tmp_path / str(native)
        root.mkdir()
        write(root, ALL_AT_ONCE.before)
        trail = Trail()
        area = area_at(root, DirOps(trail, native=native), Retention(calls=1))
        ALL_AT_ONCE.run(area)
        area.undo(CALL)
        publish(area, {"another.tif": b""}, "call-0002")
        passed |= set(trail.points)
    assert passed == set(POINTS)
