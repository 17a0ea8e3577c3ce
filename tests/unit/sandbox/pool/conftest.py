"""Fixtures for tests of the pool on an in-memory engine."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.capacity import LockFileCapacity
from sandbox.outputs.staging import StagingArea
from sandbox.pool import pool as pool_module
from sandbox.pool.lease import SlotKey
from sandbox.pool.pool import WarmPool
from sandbox.pool.sizing import Sizes
from sandbox.runner import Runner
from sandbox.workspace import Workspace
from tests.engines.memory import MemoryEngine
from tests.unit.sandbox.pool_kit import LIMITS, READS, Clock, Making, measure_nothing, promised, worker
from tests.waiting import until


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_nothing(monkeypatch)


@pytest.fixture(autouse=True)
def _nothing_is_left(engine: MemoryEngine, _machine: None) -> Iterator[None]:
    """Asserts that no container, descriptor or thread is left."""
    before = {*os.listdir("/proc/self/fd"), *threading.enumerate()}
    yield
    assert engine.boxes == {}
    until(lambda: {*os.listdir("/proc/self/fd"), *threading.enumerate()} <= before)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr(time, "monotonic", fake_clock)
    return fake_clock


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine(worker)


@pytest.fixture
def area(workspace: Path) -> StagingArea:
    return StagingArea(Workspace.at(workspace, writable=True))


@pytest.fixture
def ended() -> threading.Event:
    """Set when a test is over."""
    return threading.Event()


@pytest.fixture
def make(engine: MemoryEngine, ended: threading.Event, room: LockFileCapacity) -> Iterator[Making]:
    """`make(least=, most=, age=, standing=[kinds], capacity=)` is a pool with waiting slots, closed at the end,
    before `room`.
    """
    pools = []

    def new_pool(
        least: int = 1,
        most: int = 4,
        age: float = 600.0,
        standing: list[SlotKey] | None = None,
        capacity: LockFileCapacity | None = None,
    ) -> WarmPool:
        kinds = [READS] if standing is None else standing
        pool = WarmPool(Runner(engine, "me", capacity), Sizes(least, most, age), lambda: kinds, lambda: pools)
        pools.append(pool)
        pool.keep()
        return pool

    yield new_pool
    ended.set()
    for pool in pools:
        pool.close()


@pytest.fixture
def room(tmp_path: Path, _nothing_is_left: None) -> Iterator[LockFileCapacity]:
    """Memory for two containers."""
    capacity = LockFileCapacity(tmp_path / "memory.lock", 2 * LIMITS.memory_bytes)
    yield capacity
    assert promised(capacity) == 0
    capacity.close()


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch, ended: threading.Event) -> None:
    """The pool looks once and gets no events afterwards: only a claim can notice a change."""
    monkeypatch.setattr(pool_module, "readable", lambda *_: ended.wait() and ())
