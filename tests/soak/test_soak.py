"""A short soak: every kind of call, from several clients at once, some cancelled, some late, some wrong."""

from pathlib import Path

import docker
import pytest

from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds
from tests.soak.cases import DECK
from tests.soak.soak import Found, Plan, soak

__all__ = ["grounds"]
pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.timeout(600)]

SHORT = Plan(seconds=0, warm_up=0, clients=2)  # every case once


@pytest.fixture(scope="module")
def soak_result(oracle: Oracle, client: docker.DockerClient, grounds: Path) -> Found:
    result = soak(oracle, client, grounds / "soak", SHORT)
    print(result.report())
    return result


def test_nothing_is_wrong_and_nothing_is_left(soak_result: Found) -> None:
    assert soak_result.faults == []


def test_every_call_ending_occurred_in_the_soak(soak_result: Found) -> None:
    ends = {code for case in DECK for code in case.codes}
    assert {"OK", "cancelled", "TIMEOUT", *ends} <= soak_result.outcomes.keys()
    assert len(soak_result.calls) > len(DECK)


def test_calls_were_served_both_ways(soak_result: Found) -> None:
    assert {call.pool for call in soak_result.calls if call.pool} == {"warm", "cold"}
