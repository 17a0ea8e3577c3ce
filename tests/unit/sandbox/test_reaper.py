"""Which containers are leftovers, on an engine that is a list. The real engine is in test_reaper_real."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdal_mcp.runtime import leftovers as leftovers_module
from gdal_mcp.runtime.leftovers import Leftovers
from sandbox.engine import Leftover
from sandbox.errors import EngineUnavailable
from sandbox.labels import DEADLINE, OWNER, STARTED, UPTIME_DEADLINE, Moment, labels
from sandbox.owner import Owner
from sandbox.reaper import GRACE_SECONDS, is_leftover, reap
from tests.waiting import until

NOW = time.time()  # when tests are collected, which may be hours before they run
BOOT = "11111111-2222-3333-4444-555555555555"


def at(wall, uptime=1000.0, boot=BOOT):
    return Moment(wall, boot, uptime)


class ListEngine:
    """Containers by name. Those in `stuck` cannot be removed."""

    def __init__(self, **containers):
        self.containers, self.stuck = containers, set()

    def leftovers(self):
        return tuple(Leftover(name, marks) for name, marks in self.containers.items())

    def container(self, name):
        return ListContainer(self, name)


class ListContainer:
    def __init__(self, engine, name):
        self.engine, self.id = engine, name

    def remove(self):
        if self.id in self.engine.stuck:
            raise EngineUnavailable("cannot be removed")
        self.engine.containers.pop(self.id, None)


@pytest.fixture
def owner(tmp_path):
    new_owner = Owner(tmp_path)
    yield new_owner
    new_owner.close()


@pytest.fixture
def dead(owner):
    """The id of a dead server: its lock file exists and is free."""
    (owner.folder / "dead0000.lock").touch()
    return "dead0000"


@pytest.fixture
def living(owner):
    new_owner = Owner(owner.folder)
    yield new_owner.id
    new_owner.close()


def marks(maker, deadline=NOW + 86_400):
    return {OWNER: maker, DEADLINE: f"{deadline:.3f}"}


def test_labels_say_who_and_until_when():
    container_labels = labels("me", "call-1", 10.0)
    assert container_labels[OWNER] == "me"
    assert float(container_labels[DEADLINE]) - float(container_labels[STARTED]) == pytest.approx(10.0)
    boot, uptime = container_labels[UPTIME_DEADLINE].split()
    now = Moment.now()
    assert boot == now.boot
    assert now.uptime < float(uptime) <= now.uptime + 10.001  # labels have milliseconds


def test_only_containers_of_dead_servers_are_removed(owner, dead, living):
    engine = ListEngine(a=marks(dead), b=marks(living), c=marks(owner.id), d=marks("unknown"), e=marks(dead))
    assert sorted(reap(engine, owner)) == ["a", "e"]
    assert sorted(engine.containers) == ["b", "c", "d"]


def test_containers_of_unreachable_servers_stay_until_long_overdue(owner):
    for late in (-1e9, -1.0, 0.0, GRACE_SECONDS - 1):
        assert not is_leftover(marks("unknown", NOW), owner, at(NOW + late))


def test_long_overdue_container_is_removed_whoever_made_it(owner, living):
    for maker in ("unknown", living, owner.id, ""):
        assert is_leftover(marks(maker, NOW), owner, at(NOW + GRACE_SECONDS + 1))


@pytest.mark.claim("faults.clock-jump-ends-no-call")
def test_clock_jump_neither_makes_nor_saves_leftovers(owner, living):
    """For a container that was created since the host started."""
    marked = {**marks(living, NOW), UPTIME_DEADLINE: f"{BOOT} 1000.000"}
    for jump in (-1e9, 1e9):
        assert not is_leftover(marked, owner, at(NOW + jump, 1000.0 + GRACE_SECONDS - 1))
        assert is_leftover(marked, owner, at(NOW + jump, 1000.0 + GRACE_SECONDS + 1))
    marked = {
        **marks("unknown", NOW),
        UPTIME_DEADLINE: "another 5.000",
    }  # of another boot: the wall clock decides
    assert not is_leftover(marked, owner, at(NOW, 1e9))
    assert is_leftover(marked, owner, at(NOW + GRACE_SECONDS + 1, 0.0))


def test_invalid_or_missing_deadline_or_uptime_removes_nothing(owner):
    for deadline in ("", "soon", "nan", "inf", "1e999", "--1"):
        assert not is_leftover({OWNER: "unknown", DEADLINE: deadline}, owner, at(NOW + 1e9))
    for text in ("", "soon", "nan"):
        marked = {**marks("unknown", NOW - 1e9), UPTIME_DEADLINE: f"{BOOT} {text}"}
        assert not is_leftover(marked, owner, at(NOW, 1e9))
    assert not is_leftover({}, owner, at(NOW + 1e9))


def test_unremovable_container_delays_nobody_and_is_retried(owner, dead):
    (owner.folder / "dead1111.lock").touch()
    engine = ListEngine(a=marks(dead), b=marks("dead1111"), c=marks(dead))
    engine.stuck = {"a"}
    assert sorted(reap(engine, owner)) == ["b", "c"]
    assert owner.dead() == (dead,)
    engine.stuck = set()
    assert reap(engine, owner) == ("a",)
    assert owner.dead() == ()


def test_server_dying_during_listing_is_handled_next_time(owner, dead):
    """A listing may not include its last container yet."""

    class Engine(ListEngine):
        def leftovers(self):
            listed = super().leftovers()
            (owner.folder / "dead2222.lock").touch()
            return listed

    reap(Engine(), owner)
    assert owner.dead() == ("dead2222",)


class Cluster(ListEngine):
    def info(self):
        return SimpleNamespace(other_hosts=True)


def test_staging_of_dead_server_goes_after_its_pod(owner, dead, cancel, monkeypatch):
    monkeypatch.setattr(leftovers_module, "REAP_SECONDS", 0.0)
    monkeypatch.setattr(leftovers_module, "PAUSE_SECONDS", 0.0)
    recovered: list[str] = []
    engine = Cluster(slow=marks(dead))
    engine.stuck = {"slow"}
    Leftovers(owner, lambda: recovered.append("staging"), cancel).remove_for_a_while(cast("Any", engine))
    assert recovered == []
    engine.stuck = set()
    until(lambda: recovered == ["staging"])
    assert engine.containers == {}
    assert owner.dead() == ()


def test_removal_of_remaining_pods_ends_with_server(owner, dead, cancel):
    engine = Cluster(stays=marks(dead))
    engine.stuck = {"stays"}
    cancel.set()
    Leftovers(owner, lambda: None, cancel).remove_for_a_while(cast("Any", engine))
    until(lambda: "reaping" not in {thread.name for thread in threading.enumerate()})
    assert "stays" in engine.containers


def test_staging_of_dead_servers_stays_while_pods_run(owner, dead, living, cancel):
    recovered: list[str] = []
    leftovers = Leftovers(owner, lambda: recovered.append("staging"), cancel)
    foreign = {DEADLINE: f"{NOW + 86_400:.3f}"}  # of another machine's server, which has no name in a cluster
    engine = Cluster(gone=marks(dead), frozen=marks(dead), elsewhere=foreign, other=marks(living))
    engine.stuck = {"frozen"}
    cluster = cast("Any", engine)
    assert leftovers.remove(cluster) == ("gone",)
    assert leftovers.remove(cluster) == ()
    engine.stuck = set()
    assert leftovers.remove(cluster) == ("frozen",)
    assert recovered == []
    engine.containers.pop("elsewhere")
    assert leftovers.remove(cluster) == ()
    assert leftovers.remove(cluster) == ()
    assert recovered == ["staging"]
