"""Records of long calls: for whom and how long they are stored, and what happens to them when their server is gone."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gdal_mcp.records.tasks import TaskStore

KEPT = 600.0
RESULT = {"content": [{"type": "text", "text": "é \ud800 \x00"}], "isError": False}


@dataclass
class World:
    """The time, and the servers that are alive."""

    now: float = 1_000.0
    living: set[str] = field(default_factory=lambda: {"one", "two"})
    opened: list[TaskStore] = field(default_factory=list)

    def store(self, path: Path, server: str, most: int) -> TaskStore:
        return TaskStore(path, server, lambda other: other in self.living, KEPT, most, lambda: self.now)


@pytest.fixture
def world() -> Iterator[World]:
    new_world = World()
    yield new_world
    for store in new_world.opened:
        store.close()


Open = Callable[..., TaskStore]


@pytest.fixture
def opened(tmp_path: Path, world: World) -> Open:
    """`opened("one", most=...)` is the store of a server; all of them share one file."""

    def make(server: str = "one", most: int = 5) -> TaskStore:
        store = world.store(tmp_path / "registry.sqlite", server, most)
        world.opened.append(store)
        return store

    return make


def test_a_task_is_found_by_its_principal_alone(opened: Open):
    store = opened()
    task = store.create("ann", "warp")
    assert store.get(task.id, "ann") == task
    for stranger in ("bob", "", "ANN", "ann "):
        assert store.get(task.id, stranger) is None
    for task_id in ("", task.id[:-1], task.id + " ", "x", "\ud800", "a" * 100_000):
        assert store.get(task_id, "ann") is None


def test_ids_are_long_and_never_the_same(opened: Open):
    store = opened(most=50)
    ids = {store.create("ann", "warp").id for _ in range(50)}
    assert len(ids) == 50
    assert min(map(len, ids)) >= 32  # 24 bytes from the system's source of randomness


def test_result_is_available_until_it_expires(opened: Open, world: World):
    store = opened()
    task = store.create("ann", "warp")
    world.now += 10 * KEPT  # the task works for a long time
    assert store.get(task.id, "ann").status == "working"
    ended = store.end(task, "completed", "done", RESULT)
    world.now += KEPT - 1
    assert store.get(task.id, "ann") == ended
    assert ended.payload == RESULT
    world.now += 1
    assert store.get(task.id, "ann") is None


def test_the_first_ending_stays(opened: Open):
    store = opened()
    for status in ("completed", "failed", "cancelled"):
        task = store.create("ann", "warp")
        store.end(task, status, "first", {"first": 1})
        store.end(task, "completed", "second", {"second": 2})
        stored = store.get(task.id, "ann")
        assert (stored.status, stored.message, stored.payload) == (status, "first", {"first": 1})


def test_tasks_per_principal_are_bounded_and_never_dropped(opened, world):
    store = opened(most=3)
    mine = [store.create("ann", "warp") for _ in range(3)]
    store.end(mine[0], "completed", "done", RESULT)
    assert store.create("ann", "warp") is None
    assert store.create("bob", "warp") is not None
    assert [store.get(task.id, "ann").id for task in mine] == [task.id for task in mine]
    world.now += KEPT  # the ended task makes room
    assert store.create("ann", "warp") is not None
    assert store.create("ann", "warp") is None


def test_task_of_dead_server_has_failed(opened: Open, world: World):
    running, ended = (opened("one").create("ann", "warp") for _ in range(2))
    later = opened("two")
    assert later.get(ended.id, "ann").status == "working"  # of another living server, which handles it
    assert opened("one").end(ended, "completed", "done", RESULT).ended
    world.living.discard("one")
    world.now += 5
    failed = later.get(running.id, "ann")
    assert (failed.status, failed.message, failed.updated) == ("failed", "server restarted", world.now)
    assert failed.payload["code"] == -32603
    assert later.get(ended.id, "ann").payload == RESULT
    world.living.add("one")
    world.now += 5
    assert later.get(running.id, "ann") == failed
    world.now += KEPT
    assert later.get(running.id, "ann") is None


def test_lost_tasks_do_not_take_room_for_ever(opened: Open, world: World):
    lost = opened("one", most=1).create("ann", "warp")
    assert lost is not None
    world.living.discard("one")
    store = opened("two", most=1)
    assert store.create("ann", "warp") is None  # its end is not announced yet
    world.now += KEPT
    assert store.create("ann", "warp") is not None


def test_created_task_is_on_disk(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_create_and_die, args=(tmp_path / "registry.sqlite", queue))
    process.start()
    task_id = queue.get()
    process.join()
    store = TaskStore(tmp_path / "registry.sqlite", "two", lambda _server: False)
    assert store.get(task_id, "ann").status == "failed"
    store.close()


def _create_and_die(path: Path, queue: "multiprocessing.SimpleQueue[str]") -> None:
    store = TaskStore(path, "one", lambda _server: True)
    queue.put(store.create("ann", "warp").id)
    os._exit(0)


def test_file_is_synced_before_task_is_announced(opened: Open):
    store = opened()
    store.create("ann", "warp")
    assert store._rows._db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL: each commit of a WAL file


def test_threads_create_no_more_than_the_bound_together(opened: Open):
    stores = [opened("one", most=5), opened("two", most=5)]
    with ThreadPoolExecutor(4) as threads:
        tasks = list(threads.map(lambda number: stores[number % 2].create("ann", "warp"), range(20)))
    assert sum(task is not None for task in tasks) == 5
