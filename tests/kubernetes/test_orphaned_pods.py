"""kill -9 of the client or the server during a call that is a Pod: after the next start, nothing of the call is left.

`docs/engines.md` has the table that the test prints. The engine itself is killed in test_faults.py.
"""

import contextlib
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import Place
from tests.kubernetes.conftest import Ground
from tests.security.faults.orphans import Host, kill_calls, row
from tests.waiting import until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.claim("faults.server-killed-at-any-step", "sandbox.leftovers"),
]

KILLS = 6


def cannot_be_killed(_host: Host, _owners: set[str]) -> None:
    raise AssertionError("a cluster is no process of this test")


@pytest.mark.parametrize("victim", ["client", "server"])
def test_kill_during_a_call_leaves_no_pod(ground: Ground, place: Place, tmp_path: Path, victim: str) -> None:
    with contextlib.closing(ground.engine()) as engine:
        host = Host(("--approval", "never"), engine, cannot_be_killed, environment=ground.environment())
        tally = kill_calls(place, host, victim, KILLS, tmp_path / "log")
    print(row("Kubernetes", victim, tally))
    until(lambda: ground.pods() == {}, 180)
