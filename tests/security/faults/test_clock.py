"""The wall clock of a server jumps: deadlines do not follow it, and no approval is valid outside its time."""

import contextlib
import json
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import Grant
from gdal_mcp.approvals.store import Approvals
from tests.e2e.mcp.talk import Place
from tests.security.faults.kit import SEND, USED, held_call, serves_again, tells, writes
from tests.security.faults.nursery import Nursery
from tests.security.faults.scenes import Scene, outcome_of, user_files
from tests.unit.clock import Clock

_DAY = 86_400.0
_READS = Scene("", "info", {"path": "in.tif"})


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    path = tmp_path / "clock"
    path.write_text("0")
    return path


@pytest.mark.engine
@pytest.mark.claim("faults.clock-jump-ends-no-call")
@pytest.mark.parametrize("jump", [_DAY, -_DAY], ids=["forward", "back"])
def test_a_jump_ends_no_call_that_runs(place: Place, servers: Nursery, clock: Path, jump: float):
    scene = writes(f"jump{jump:.0f}.tif")
    with held_call(servers, place, scene, SEND, clock=clock) as call:
        clock.write_text(str(jump))
        tells("clock-jumps-during-run", call.go_on)
        assert outcome_of(_READS.call(call.pipes)) == "OK"
    assert place.staged == []


@pytest.mark.engine
@pytest.mark.claim("approval.no-yes-outlives-its-time")
@pytest.mark.parametrize(
    ("row", "jump"), [("clock-forward-after-yes", _DAY), ("clock-back-after-yes", -_DAY)]
)
def test_a_yes_of_another_time_lets_nothing_run(place, servers, clock, row, jump):
    scene = writes(f"{row}.tif", approval="writes")
    with held_call(servers, place, scene, USED, clock=clock) as call:
        clock.write_text(str(jump))
        tells(row, call.go_on)
        assert f"{row}.tif" not in user_files(place)
        clock.write_text("0")
        assert outcome_of(scene.call(call.pipes)) == "OK"  # with a new approval


@pytest.mark.engine
@pytest.mark.claim("faults.attestation-of-another-time-is-not-believed")
def test_an_attestation_of_the_future_is_not_believed(place: Place, servers: Nursery):
    path = place.state / "attestation-gdal.json"
    attested = json.loads(path.read_text())
    forged = json.dumps({**attested, "time": attested["time"] + 2 * _DAY})
    path.write_text(forged)
    serves_again(servers, place, writes("after.tif"))
    assert path.read_text() != forged


@pytest.mark.claim("approval.no-yes-outlives-its-time")
def test_a_grant_of_the_future_lets_nothing_through(tmp_path: Path):
    clock = Clock()
    grant = Grant("alice", "convert", "/data", "bob", "terminal")
    with contextlib.closing(Approvals(tmp_path / "registry.sqlite", clock)) as approvals:
        approvals.grant(grant, 3600)
        assert approvals.granted("alice", "convert", "/data")
        clock.now -= _DAY
        assert approvals.granted("alice", "convert", "/data") is None
        clock.now += _DAY
        assert approvals.granted("alice", "convert", "/data")
