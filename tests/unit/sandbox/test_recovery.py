"""The next server's recovery of an interrupted call, and its report about it."""

import os
from pathlib import Path

import pytest
from crash_kit import each_step, first_point, killed
from crash_scenarios import PUBLICATIONS, SHAPEFILE
from staging_kit import CALL, area_at, tree, write

from sandbox.outputs.dirops import DirOps
from sandbox.outputs.store import RecoveryOutcome


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """A killed process loses nothing that it wrote; only a power cut would, which is not simulated here."""
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.mark.claim("faults.server-killed")
def test_recovery_says_what_became_of_each_call(tmp_path):
    scenario = PUBLICATIONS["a shapefile over one with an index"]
    findings = set()
    for number, _, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=True
    ):
        killed(root, number, scenario.run, native=True)
        recovered = area_at(root).recover()
        done = tree(root) == scenario.after
        assert all(
            finding.outcome is (RecoveryOutcome.PUBLISHED if done else RecoveryOutcome.DISCARDED)
            for finding in recovered
        )
        if done and recovered:
            assert {target.name for finding in recovered for target in finding.targets} == {
                *SHAPEFILE,
                "roads.sbn",
            }
            assert [finding.call_id for finding in recovered] == [CALL]
            assert [record.call_id for record in area_at(root).publications()] == [CALL]
        findings |= {finding.outcome for finding in recovered}
    assert findings == {RecoveryOutcome.PUBLISHED, RecoveryOutcome.DISCARDED}


def test_target_changed_after_the_crash_is_never_overwritten(tmp_path):
    scenario = PUBLICATIONS["a shapefile over one with an index"]
    conflicts = 0
    for number, point, root in each_step(
        tmp_path, lambda root: write(root, scenario.before), scenario.run, native=True
    ):
        killed(root, number, scenario.run, native=True)
        for name in SHAPEFILE:
            (root / name).unlink()
            (root / name).write_bytes(b"edited since")
        recovered = area_at(root, DirOps(native=True)).recover()
        assert {tree(root)[name] for name in SHAPEFILE} == {b"edited since"}, point
        if any(finding.outcome is RecoveryOutcome.CONFLICT for finding in recovered):
            conflicts += 1
            stored = [path.read_bytes() for path in Path(recovered[0].kept_in).iterdir()]
            assert b"new" in stored or b"old" in stored, point
    assert conflicts > 0


def test_simultaneous_servers_do_not_recover_the_same_call(tmp_path):
    root = tmp_path / "workspace"
    scenario = PUBLICATIONS["a replaced file"]
    write(root, scenario.before)
    half = first_point(
        tmp_path, "swap.exchange.after", scenario.run, lambda twin: write(twin, scenario.before), native=True
    )
    killed(root, half, scenario.run, native=True)
    inner: list[tuple[object, ...]] = []

    def meanwhile(point: str) -> None:
        if point == "record.write.before":
            inner.append(area_at(root).recover())

    outer = area_at(root, DirOps(meanwhile)).recover()
    assert [finding.outcome for finding in outer] == [RecoveryOutcome.PUBLISHED]
    assert inner == [()]
    assert tree(root) == scenario.after
