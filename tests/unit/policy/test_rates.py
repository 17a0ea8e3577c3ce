"""Limits of one principal are exact, however many calls arrive at once."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.invocation import Invocation, Outcome, Request
from gdal_mcp.errors import Code, ToolError
from gdal_mcp.policy.identity import local
from gdal_mcp.policy.policy import PolicyEntry
from gdal_mcp.policy.rates import Rates
from sandbox.outcome import Usage
from sandbox.template import Limits
from tests.boxes import planned
from tests.unit.values import draft, plan

DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2


def entry(**limits: float) -> PolicyEntry:
    return PolicyEntry.model_validate({"principals": ("*",), **limits})


@pytest.fixture
def now() -> list[float]:
    return [NOON]


@pytest.fixture
def make(tmp_path: Path, now: list[float]) -> Callable[[], Rates]:
    return lambda: Rates(tmp_path / "usage.sqlite", clock=lambda: now[0])


@pytest.fixture
def rates(make: Callable[[], Rates]) -> Rates:
    return make()


def admitted(rates: Rates, bounds: PolicyEntry, principal: str = "token:ann") -> bool:
    try:
        rates.require_allowance(principal, bounds, writes=True)
        with rates.admit(principal, bounds):
            return True
    except ToolError as error:  # an error other than a refusal with a retry time counts as a pass
        return not (error.code is Code.RATE_LIMITED and error.retry_after)


@pytest.mark.claim("identity.quotas")
def test_hundred_threads_run_exactly_the_allowed_number(rates: Rates):
    everybody, tried = threading.Barrier(100), threading.Barrier(100)
    bounds = entry(concurrent=7)

    def is_admitted(_number: int) -> bool:
        everybody.wait(30)
        try:
            with rates.admit("token:ann", bounds):
                tried.wait(30)
                return True
        except ToolError:
            tried.wait(30)
            return False

    with ThreadPoolExecutor(100) as pool:
        assert sum(pool.map(is_admitted, range(100))) == 7
    assert admitted(rates, bounds)


def test_minute_limit_names_next_time_without_counting_refusals(rates: Rates):
    bounds = entry(calls_per_minute=2, concurrent=1)
    assert [admitted(rates, bounds) for _ in range(3)] == [True, True, False]
    with pytest.raises(ToolError) as refused, rates.admit("token:ann", bounds):
        pass
    assert refused.value.retry_after is not None
    assert 50 <= refused.value.retry_after <= 60
    assert admitted(rates, entry(concurrent=1))


def test_refused_and_failed_calls_use_no_rate(rates):
    bounds = entry(calls_per_minute=2, concurrent=1)
    with pytest.raises(RuntimeError), rates.admit("token:ann", bounds):
        assert not any(admitted(rates, bounds) for _ in range(5))
        raise RuntimeError
    assert admitted(rates, bounds)
    assert not admitted(rates, bounds)


@pytest.mark.claim("identity.quotas")
def test_principals_take_nothing_from_one_another(rates: Rates):
    bounds = entry(calls_per_minute=1, concurrent=1, cpu_seconds_a_day=5.0)
    rates.record_use("token:ann", 50.0, 0)
    assert not admitted(rates, bounds, "token:ann")
    assert admitted(rates, bounds, "token:bob")


def test_daily_quota_resets_at_midnight(rates: Rates, now: list[float]):
    for bounds, cpu, size in (
        (entry(cpu_seconds_a_day=10.0), 10.0, 0),
        (entry(output_bytes_a_day=1 << 40), 0.0, 1 << 40),
    ):
        rates.record_use("token:ann", cpu * 0.99, int(size * 0.99))
        assert admitted(rates, bounds)
        rates.record_use("token:ann", cpu * 0.01, size - int(size * 0.99))  # exactly used up
        with pytest.raises(ToolError) as refused:
            rates.require_allowance("token:ann", bounds, writes=True)
        assert refused.value.retry_after == DAY / 2
        now[0] += DAY / 2 - 1
        assert not admitted(rates, bounds)
        now[0] += 1
        assert admitted(rates, bounds)
        now[0] += DAY / 2


@pytest.mark.claim("identity.quotas")
def test_day_quota_survives_restarts_and_is_shared(make: Callable[[], Rates]):
    first = make()
    first.record_use("token:ann", 8.0, 100)
    first.close()
    servers = [make(), make()]
    for number in range(40):
        servers[number % 2].record_use("token:ann", 1.0, 10)
    assert [server.used("token:ann") for server in servers] == [(48.0, 500)] * 2
    assert not admitted(servers[1], entry(cpu_seconds_a_day=48.0))


@pytest.mark.claim("identity.quotas")
def test_a_disk_that_fails_lets_nobody_spend_unseen(rates: Rates, tmp_path: Path):
    path = tmp_path / "usage.sqlite"
    path.mkdir()
    rates.record_use("token:ann", 30.0, 0)
    with pytest.raises(ToolError) as refused:
        rates.require_allowance("token:ann", entry(cpu_seconds_a_day=10.0), writes=False)
    assert refused.value.code is Code.INTERNAL
    path.rmdir()
    assert rates.used("token:ann") == (30.0, 0)
    assert not admitted(rates, entry(cpu_seconds_a_day=10.0))


def test_old_days_are_dropped_after_a_month(rates: Rates, now: list[float], tmp_path: Path):
    for _ in range(3):
        rates.record_use("token:ann", 1.0, 1)
        now[0] += 20 * DAY
    rates.record_use("token:ann", 1.0, 1)
    rates.close()
    days = sqlite3.connect(tmp_path / "usage.sqlite").execute("SELECT day FROM usage ORDER BY day")
    assert days.fetchall() == [(20_040,), (20_060,)]


def test_without_bounds_nothing_is_refused_and_nothing_written(rates: Rates, tmp_path: Path):
    with rates.admit("token:ann", entry()):
        assert all(admitted(rates, entry()) for _ in range(300))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.claim("identity.quotas")
def test_container_cpu_usage_is_capped_at_its_maximum():
    call = Invocation(Request("convert", {}, local("ann"), "test", NullApprover()))
    call = planned(call, replace(plan(draft()), limits=Limits(cpus=2.0, wall_seconds=60.0)))
    for reported, spent in ((3.0, 3.0), (1e308, 20.0), (None, 20.0)):
        used = Usage("cold", run_seconds=10.0, cpu_seconds=reported)
        assert replace(call, outcome=Outcome(usage=used)).cpu_seconds == spent


def test_reading_calls_run_after_output_quota_is_used(rates: Rates):
    bounds = entry(output_bytes_a_day=100)
    rates.record_use("token:ann", 0.0, 100)
    rates.require_allowance("token:ann", bounds, writes=False)
    assert not admitted(rates, bounds)
