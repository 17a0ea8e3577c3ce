"""The pool on an in-memory engine: which call gets which slot, what a call without a slot does, and how memory is
shared.
"""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from sandbox import mounted
from sandbox.capacity import LockFileCapacity
from sandbox.errors import CapacityExhausted, EngineUnavailable, LaunchCancelled, PathReplaced
from sandbox.labels import CALL
from sandbox.outputs.staging import StagingArea
from sandbox.pool import pool as pool_module
from sandbox.pool.inventory import REFILLS
from sandbox.pool.lease import SlotKey
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace
from tests.engines.memory import Box
from tests.unit.sandbox.pool_kit import (
    LIMITS,
    MIB,
    READS,
    Making,
    filled,
    frame,
    jobs,
    kind,
    promised,
    refuse,
    run,
    served,
    staged,
    together,
    wake,
)
from tests.waiting import until


def test_waiting_slot_serves_the_call_and_is_replaced(make: Making, engine, cancel):
    pool = make()
    filled(pool, 1)
    assert served(pool, READS, cancel) == ("box-1", "warm")
    until(lambda: list(engine.boxes) == ["box-2"])
    filled(pool, 1)
    assert served(pool, READS, cancel) == ("box-2", "warm")


@pytest.mark.claim("sandbox.single-use")
def test_no_slot_serves_two_simultaneous_calls(make: Making, engine, cancel):
    pool = make(least=3, most=6)
    filled(pool, 3)
    results = together(24, lambda n: [served(pool, READS, cancel, f"call-{n:04}") for _ in range(8)])
    boxes = [box for rows in results for box, _ in rows]
    assert len(set(boxes)) == len(boxes) == 24 * 8
    assert all(len(jobs(box)) <= 1 for box in engine.made)
    assert "warm" in [how for rows in results for _, how in rows]


@pytest.mark.claim("sandbox.waiting-as-new")
def test_a_slot_of_another_template_is_not_taken(make: Making, cancel):
    pool = make()
    filled(pool, 1)
    for different in (
        kind("other"),
        kind(masks=(Path("/data/.gdal-mcp"),)),
        kind(limits=replace(LIMITS, pids=LIMITS.pids + 1)),
        kind(environment={"A": "1"}),
        kind(runtime="runsc"),
    ):
        box, how = served(pool, different, cancel)
        assert how == "cold"
        assert next(idle for idle in pool._inventory.idle if idle.kind == READS).slot.container.id != box


@pytest.mark.claim("sandbox.waiting-as-new")
def test_slot_with_other_output_is_not_taken(make: Making, area, tmp_path, cancel):
    (tmp_path / "second").mkdir()
    second = StagingArea(Workspace.at(tmp_path / "second", writable=True))
    root = area.workspace.root
    pool = make(standing=[kind("x", root), kind("x", root, area=area)])
    filled(pool, 2)
    assert served(pool, kind("x", root, area=second), cancel)[1] == "cold"
    assert served(pool, kind("x", root, area=area), cancel)[1] == "warm"
    assert served(pool, kind("x", root), cancel)[1] == "warm"


@pytest.mark.claim("sandbox.waiting-as-new")
@pytest.mark.usefixtures("deaf")
def test_replaced_folder_of_same_name_matches_no_slot(make, workspace, cancel):
    reads = kind("reads", workspace)
    pool = make(standing=[reads])
    filled(pool, 1)
    workspace.rename(workspace.parent / "aside")
    workspace.mkdir()
    assert served(pool, reads, cancel)[1] == "cold"
    workspace.rmdir()
    (workspace.parent / "aside").rename(workspace)
    assert served(pool, reads, cancel)[1] == "warm"


def covering(workspace: Path) -> tuple[Path, SlotKey]:
    """A folder to cover in a workspace, and a kind of container that covers it."""
    covered = workspace / "covered"
    covered.mkdir()
    return covered, kind("reads", workspace, masks=(PurePosixPath(covered),))


def exchange(covered: Path) -> None:
    covered.rename(covered.parent / f"aside-{secrets.token_hex(2)}")
    covered.mkdir()


@pytest.mark.claim("files.reserved-covered")
@pytest.mark.usefixtures("deaf")
def test_slot_covering_a_replaced_folder_is_not_taken(make, workspace, cancel):
    covered, reads = covering(workspace)
    pool = make(standing=[reads])
    filled(pool, 1)
    exchange(covered)
    assert served(pool, reads, cancel)[1] == "cold"


@pytest.mark.claim("files.reserved-covered")
def test_folder_swapped_at_start_stops_the_container(make, engine, workspace, cancel):
    covered, reads = covering(workspace)

    def start(what: str, _about: Any) -> None:
        if what == "start":
            exchange(covered)

    engine.before = start
    pool = make(most=0)
    with pytest.raises(PathReplaced):
        served(pool, reads, cancel)
    assert [jobs(box) for box in engine.made] == [[]]
    assert engine.boxes == {}


@pytest.mark.claim("sandbox.waiting-as-new")
@pytest.mark.usefixtures("deaf")
def test_mount_added_below_later_is_not_in_slots(make, workspace, cancel, monkeypatch):
    reads = kind("reads", workspace)
    pool = make(standing=[reads])
    filled(pool, 1)
    with monkeypatch.context() as changed:
        changed.setattr(mounted, "submounts", lambda root, _text: (f"{root}/late",))
        assert served(pool, reads, cancel)[1] == "cold"
    assert served(pool, reads, cancel)[1] == "warm"


def test_slots_on_a_replaced_folder_are_replaced(make: Making, engine, workspace: Path, cancel):
    reads = kind("reads", workspace)
    pool = make(standing=[reads])
    filled(pool, 1)
    workspace.rename(workspace.parent / "aside")
    workspace.mkdir()
    wake(pool)
    until(lambda: set(engine.boxes) == {"box-2"})
    filled(pool, 1)
    assert served(pool, reads, cancel) == ("box-2", "warm")


@pytest.mark.claim("sandbox.waiting-as-new")
@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize(
    "spoil",
    [
        Box.end,
        lambda box: box.say(frame(b"O", "early")),
        lambda box: box.complain(b"a warning"),
        lambda box: box.say(frame(b"F", {"code": 0})),
    ],
    ids=["dead", "printed", "stderr", "answered"],
)
def test_ended_or_talking_slot_never_gets_a_call(make, engine, cancel, spoil):
    pool = make(least=2)
    filled(pool, 2)
    first = pool._inventory.idle[0].slot.container.id
    spoil(engine.boxes[first])
    assert served(pool, READS, cancel)[1] == "warm"
    until(lambda: first not in engine.boxes)
    assert jobs(engine.made[int(first[4:]) - 1]) == []


# --- calls without a slot


@pytest.mark.parametrize("where", ["create", "start"])
def test_a_miss_is_served_while_every_refill_hangs(make: Making, engine, cancel, where: str):
    stuck, go_on = [], threading.Event()

    def before(what, about):
        if what == where and (threading.current_thread().name.startswith("refill")):
            stuck.append(about)
            go_on.wait()

    engine.before = before
    pool = make(least=4)
    until(lambda: len(stuck) == REFILLS)
    results = together(6, lambda number: served(pool, READS, cancel, f"call-{number:04}")[1])
    assert results == ["cold"] * 6
    assert pool.figures().starting == REFILLS
    go_on.set()
    filled(pool, 4)


def test_cancelled_or_failed_claim_leaves_nothing(make: Making, engine, area, room):
    pool = make(most=0, capacity=room)
    for where, error in (
        ("start", LaunchCancelled),
        ("create", EngineUnavailable),
        ("start", EngineUnavailable),
    ):
        for writes in (area, None):
            cancel = Cancellation()

            def before(what: str, _about: Any, where=where, error=error, cancel=cancel) -> None:
                if what == where:
                    cancel.set() if error is LaunchCancelled else refuse()

            engine.before = before
            with pytest.raises(error):
                pool.claim(kind("x", area=writes), "call-0001", cancel)
            cancel.close()
            assert (engine.boxes, promised(room), staged(area)) == ({}, 0, [])


@pytest.mark.claim("staging.private")
def test_each_slot_has_fresh_staging_removed_with_it(make: Making, engine, area, cancel):
    writes = kind("writes", area=area)
    pool = make(standing=[writes])
    seen = set()
    for _ in range(3):
        until(lambda: pool.figures().waiting)
        with pool.claim(writes, "call-0001", cancel) as lease:
            source = lease.staging.path
            assert list(source.iterdir()) == []
            assert str(source) in [mount.source.path for mount in lease.template.mounts]
            (source / "mine").touch()
            seen.add(source)
            assert run(lease, cancel).usage.pool == "warm"
        assert not source.exists()
    assert len(seen) == 3
    assert {path.parent.name for path in seen}.isdisjoint(staged(area))


# --- memory


def test_call_without_memory_takes_that_of_a_slot(make: Making, engine, room, cancel):
    pool = make(capacity=room)
    filled(pool, 1)
    with pool.claim(kind("a"), "call-0001", cancel) as first:
        wake(pool)
        with pool.claim(kind("b"), "call-0002", cancel) as second:
            assert "box-1" not in engine.boxes
            assert promised(room) == room.total_bytes
            assert [run(lease, cancel).usage.pool for lease in (first, second)] == ["cold", "cold"]


def test_waiting_slots_leave_room_for_one_call(make: Making, room):
    pool = make(least=4, capacity=room)
    until(lambda: pool.figures().waiting == 1 and not pool.figures().starting)
    wake(pool)
    assert promised(room) == LIMITS.memory_bytes
    with room.take(LIMITS.memory_bytes):
        assert pool.figures().waiting == 1


def test_call_takes_memory_from_another_pool(make, engine, room, cancel, monkeypatch):
    """Two toolboxes have two pools, and the machine has one memory."""
    monkeypatch.setattr(pool_module, "MEMORY_SECONDS", 0.0)
    full, empty = make(capacity=room), make(most=0, capacity=room)
    filled(full, 1)
    with empty.claim(READS, "call-0001", cancel), empty.claim(READS, "call-0002", cancel):
        assert "box-1" not in engine.boxes
        assert promised(room) == room.total_bytes
    assert full.figures().waiting == 0


def test_waiting_call_gets_memory_of_ended_refill(make: Making, engine, room, cancel):
    """Otherwise it would wait for another call to end, next to an idle slot."""
    hangs, go_on = threading.Event(), threading.Event()

    def before(what, about):
        if what == "start" and about.labels[CALL].startswith("slot-"):
            hangs.set()
            go_on.wait()

    engine.before = before
    pool = make(capacity=room)
    assert hangs.wait(30)
    with pool.claim(kind("a"), "call-0001", cancel), ThreadPoolExecutor(1) as threads:
        future = threads.submit(served, pool, kind("b"), cancel)
        until(lambda: room._waiting)
        go_on.set()
        assert future.result()[1] == "cold"


def test_call_waiting_for_memory_can_be_cancelled(make: Making, room, cancel):
    pool = make(most=0, capacity=room)
    with room.take(room.total_bytes):
        threading.Timer(0.0, cancel.set).start()
        with pytest.raises(LaunchCancelled):
            pool.claim(READS, "call-0001", cancel)


def test_call_that_lacks_memory_is_informed(make: Making, room, cancel, monkeypatch):
    monkeypatch.setattr(pool_module, "MEMORY_SECONDS", 0.0)
    pool = make(most=0, capacity=room)
    with room.take(room.total_bytes), pytest.raises(CapacityExhausted):
        pool.claim(READS, "call-0001", cancel)


def test_never_more_containers_than_memory_for_them(make: Making, engine, tmp_path, area, cancel):
    room = LockFileCapacity(tmp_path / "few.lock", 5 * LIMITS.memory_bytes)
    kinds = [kind("a"), kind("b"), kind("c", area=area)]
    pool = make(least=2, most=4, standing=kinds, capacity=room)
    calls = together(
        9,
        lambda number: [served(pool, kinds[number % 3], cancel, f"call-{number}00{n}")[1] for n in range(6)],
    )
    assert {how for rows in calls for how in rows} <= {"warm", "cold"}
    assert engine.most <= 5
    pool.close()
    assert promised(room) == 0
    room.close()


def test_no_slot_starts_without_free_memory(make: Making, engine, monkeypatch, cancel):
    free = {"MemAvailable": 256 * MIB}
    monkeypatch.setattr(pool_module, "machine_memory", lambda: free)
    pool = make()
    assert served(pool, READS, cancel)[1] == "cold"
    assert len(engine.made) == 1  # the call's own
    free["MemAvailable"] = 4096 * MIB
    wake(pool)
    filled(pool, 1)
