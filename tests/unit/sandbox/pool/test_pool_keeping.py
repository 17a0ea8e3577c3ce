"""The pool on an in-memory engine: which slots wait, and that closing the pool leaves nothing."""

import threading
import time
from contextlib import suppress

import pytest

from sandbox.errors import EngineUnavailable
from sandbox.outcome import Cancelled, Exited
from sandbox.pool import pool as pool_module
from sandbox.pool.inventory import REFILLS, Inventory
from sandbox.pool.pool import WarmPool
from sandbox.pool.sizing import MEMORY_SECONDS, Sizes
from sandbox.runner import Runner
from tests.engines.memory import Box
from tests.unit.sandbox.pool_kit import (
    READS,
    Making,
    filled,
    jobs,
    kind,
    refuse,
    run,
    served,
    staged,
    together,
    wake,
)
from tests.waiting import until


def test_a_pool_without_slots_starts_nothing(make: Making, engine, cancel):
    pool = make(most=0)
    assert engine.made == []
    assert not [thread for thread in threading.enumerate() if thread.name == "pool"]
    assert [served(pool, READS, cancel)[1] for _ in range(3)] == ["cold"] * 3
    assert len(engine.made) == 3


def test_pool_size_follows_simultaneous_calls(make, engine, clock, cancel):
    pool = make(most=3)
    filled(pool, 1)
    pool._sizing.at_once_seconds = 1000.0  # so that "together" does not depend on the speed of this machine
    together(5, lambda n: served(pool, READS, cancel, f"call-000{n}"))
    filled(pool, 3)  # never more than the maximum
    clock.ahead += MEMORY_SECONDS + 1
    wake(pool)
    filled(pool, 1)
    until(lambda: len(engine.boxes) == 1)


def test_slot_is_replaced_only_when_old(make: Making, engine):
    pool = make(age=100.0)
    filled(pool, 1)
    slot = pool._inventory.idle[0]
    assert not pool._is_unusable(slot, slot.born + 99.0)
    slot.born -= 101.0
    wake(pool)
    until(lambda: list(engine.boxes) == ["box-2"])
    filled(pool, 1)


def test_a_slot_that_spoke_is_heard_once(make: Making, engine, monkeypatch):
    """Otherwise its unread output would wake the pool again and again."""
    looks = []
    real = WarmPool._reconcile
    monkeypatch.setattr(WarmPool, "_reconcile", lambda pool, now: (looks.append(now), real(pool, now)))
    released = threading.Event()
    pool = make()
    filled(pool, 1)
    engine.before = lambda what, _about: released.wait() if what == "remove" else None
    engine.boxes["box-1"].complain(b"once")
    until(lambda: len(engine.made) == 2)
    filled(pool, 1)
    before = len(looks)
    released.set()
    until(lambda: "box-1" not in engine.boxes)
    assert len(looks) - before <= 3


def test_slots_are_checked_after_calls_not_at_claim(make, cancel):
    pool = make(most=0)  # without its thread, whose part the test plays
    pool._inventory.starting.append(READS)
    pool._refill(READS)
    assert pool._wait(time.monotonic())
    with pool.claim(READS, "call-0001", cancel) as lease:
        assert not pool._wait(time.monotonic())
        assert run(lease, cancel).usage.pool == "warm"
    assert pool._wait(time.monotonic())


@pytest.mark.parametrize(
    "error", [EngineUnavailable("not now"), RuntimeError("a fault"), OSError(24, "too many files")]
)
def test_failed_refill_is_retried_and_recovers(make: Making, engine, clock, error):
    tries, broken = [], [True]

    def before(what, _about):
        if what == "create" and broken:
            tries.append(clock())
            raise error

    engine.before = before
    pool = make(least=2)
    until(lambda: tries and not pool.figures().starting)
    assert len(tries) <= REFILLS
    assert pool._inventory.resume > clock()
    tries_before = len(tries)
    clock.ahead += 2.0
    wake(pool)
    until(lambda: len(tries) > tries_before and not pool.figures().starting)
    broken.clear()
    clock.ahead += 61.0
    wake(pool)
    filled(pool, 2)


def test_refills_change_shared_state_only_under_lock(engine, room, monkeypatch):
    """Both ways in which a refill ends without a slot, and the way with one."""
    changed = []

    def watched(name):
        real = getattr(Inventory, name)

        def call(inventory, *args):
            changed.append((name, pool._lock.locked()))
            return real(inventory, *args)

        monkeypatch.setattr(Inventory, name, call)

    for name in ("refilled", "refill_failed", "postpone"):
        watched(name)
    pool = WarmPool(Runner(engine, "me", room), Sizes(1, 4, 600.0), lambda: [READS])

    def refill():
        pool._inventory.starting.append(READS)
        pool._refill(READS)

    with room.take(room.total_bytes):
        refill()
    engine.before = lambda what, _about: refuse() if what == "create" else None
    refill()
    engine.before = lambda *_: None
    refill()
    pool.close()
    assert {name for name, _ in changed} == {"refilled", "refill_failed", "postpone"}
    assert all(locked for _, locked in changed)


def test_temporarily_absent_workspace_ends_no_pool(make: Making, engine, cancel):
    """As while its folder is being replaced, or its disk is not mounted."""
    away = threading.Event()

    def standing():
        if away.is_set():
            raise FileNotFoundError("the workspace")
        return [READS]

    pool = WarmPool(Runner(engine, "me"), Sizes(1, 4, 600.0), standing)
    pool.keep()
    filled(pool, 1)
    away.set()
    wake(pool)
    filled(pool, 0)
    away.clear()
    wake(pool)
    filled(pool, 1)
    assert served(pool, READS, cancel)[1] == "warm"
    pool.close()


def test_error_in_one_check_does_not_stop_checking(make: Making, monkeypatch):
    monkeypatch.setattr(pool_module, "FIRST_PAUSE", 0.01)
    with monkeypatch.context() as broken:
        faults = []
        broken.setattr(WarmPool, "_is_unusable", lambda *_: faults.append(1) or 1 / 0)
        pool = make()
        until(lambda: len(faults) > 1)
    filled(pool, 1)


def test_closing_while_slots_start_leaves_none(make: Making, engine, monkeypatch):
    started = threading.Event()
    monkeypatch.setattr(Box, "live", lambda box, _program: (started.set(), box.read(1)))  # never ready
    pool = make(least=2)
    assert started.wait(30)
    pool.close()
    assert engine.boxes == {}
    assert pool.figures().starting == 0


def test_closing_removes_waiting_slots_but_not_running_ones(make, engine, area, cancel):
    pool = make(least=2, standing=[READS, kind("w", area=area)])
    filled(pool, 4)
    with pool.claim(READS, "call-0001", cancel) as lease:
        pool.close()
        assert len(engine.boxes) == 1
        assert staged(area) == []
        assert run(lease, cancel).outcome == Exited(0)
    assert engine.boxes == {}


def test_closed_pool_serves_cold_and_stores_nothing(make: Making, engine, cancel):
    pool = make()
    pool.close()
    assert served(pool, READS, cancel)[1] == "cold"
    pool.keep()
    assert engine.boxes == {}


def test_calls_and_the_end_at_once_leave_nothing(make: Making, engine, cancel):
    for _ in range(10):
        pool = make(least=2)
        results = together(
            5, lambda n, pool=pool: pool.close() if n == 4 else served(pool, READS, cancel, f"call-000{n}")[1]
        )
        assert set(results) <= {"warm", "cold", None}
        assert engine.boxes == {}


def test_unremovable_slot_does_not_delay_closing(make: Making, engine):
    pool = make()
    filled(pool, 1)
    engine.before = lambda what, _about: refuse() if what == "remove" else None
    pool.close()
    engine.before = lambda *_: None
    assert list(engine.boxes) == ["box-1"]  # by the reaper
    engine.container("box-1").remove()


@pytest.mark.claim("sandbox.single-use")
def test_a_slot_serves_one_job_only(make: Making, engine, cancel):
    with make(most=0).claim(READS, "call-0001", cancel) as lease:
        run(lease, cancel)
        with pytest.raises(ValueError, match="one job"):
            run(lease, cancel)
    assert len(jobs(engine.made[0])) == 1


@pytest.mark.parametrize("fault", [False, True])
def test_unused_lease_removes_its_slot(make: Making, engine, area, cancel, fault: bool):
    with suppress(ZeroDivisionError), make(most=0).claim(kind("w", area=area), "call-0001", cancel):
        assert len(staged(area)) == 1
        assert fault is False or 1 / 0
    assert engine.boxes == {}
    assert staged(area) == []
    assert jobs(engine.made[0]) == []


def test_a_call_cancelled_before_its_job_gives_none(make: Making, engine, cancel):
    with make(most=0).claim(READS, "call-0001", cancel) as lease:
        cancel.set()
        assert run(lease, cancel).outcome == Cancelled()
        assert engine.boxes == {}
    assert jobs(engine.made[0]) == []


def test_a_container_goes_before_its_staging(make: Making, engine, area, cancel):
    """Otherwise it could still write after the output was examined."""
    at_removal = []
    engine.before = lambda what, _about: at_removal.append(len(staged(area))) if what == "remove" else None
    pool = make(standing=[kind("w", area=area)])
    filled(pool, 1)
    pool.close()
    assert at_removal == [1]
    assert staged(area) == []
