import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gdal_mcp.access.admission import Load, QueueDepth
from gdal_mcp.errors import Code
from gdal_mcp.ledger.figures import (
    Now,
    Summary,
    containers,
    ended_calls,
    figures,
)
from gdal_mcp.ledger.metrics import Metrics
from gdal_mcp.ledger.registry import Call, CallEnd, Registry, RegistryUnavailable
from gdal_mcp.ledger.schema import MIGRATIONS
from sandbox.engine import ContainerState, Leftover
from sandbox.labels import labels
from sandbox.owner import Owner

MIB = 1 << 20
KNOWN = frozenset({"info", "convert"})
LIMITS = {"memory_bytes": 512 * MIB, "cpus": 2.0, "wall_seconds": 60.0}
AMOUNTS = st.floats(0, 1e12, allow_nan=False)


@dataclass
class Book:
    """A registry in which calls are written by hand."""

    path: Path
    now: float = 1_000.0
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.registry = Registry(self.path, lambda: self.now)

    def begin(self, tool: str = "info", limits: dict[str, Any] | None = None) -> str:
        call = Call(f"c{next(self.numbers)}", "ann", tool, {}, limits=LIMITS if limits is None else limits)
        return self.registry.begin_call(call).id

    def end(self, call: str, outcome: str = "OK", **more: Any) -> None:
        self.registry.finish_call(call, CallEnd(outcome, **more))

    def run(self, tool: str = "info", outcome: str = "OK", **more: Any) -> None:
        self.end(self.begin(tool), outcome, **more)

    def all(self) -> dict[str, Any]:
        told: dict[str, Any] = figures(self.path, KNOWN, 0)["total"]
        return told

    def counts(self) -> dict[tuple[str, str], int]:
        rows = self.all()["by_tool_and_outcome"]
        return {(one["tool"], one["outcome"]): one["count"] for one in rows}


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(tmp_path / "state" / "registry.sqlite")
    yield made
    made.registry.close()


def ran(pool: str = "warm", cpu: Any = 0.5, memory: Any = 64 * MIB) -> dict[str, Any]:
    return {"pool": pool, "cpu_seconds": cpu, "peak_memory_bytes": memory}


# What is counted


def test_a_call_that_was_refused_before_it_ran_is_counted_too(book: Book):
    book.registry.add_refused(Call("r1", "ann", "info", {}, outcome=str(Code.BUSY)))
    assert book.counts() == {("info", "BUSY"): 1}
    assert book.all()["seconds"]["total"]["count"] == 0  # it has no time of its own


def test_only_calls_that_ended_and_in_time_are_in_the_window(book: Book):
    book.run()
    late, _ = book.begin(), book.begin()
    book.now = 2_000.0
    book.run("convert")
    book.end(late)  # it began before
    told = figures(book.path, KNOWN, 2_000.0)
    assert (told["lately"]["calls"], told["total"]["calls"], told["unfinished"]) == (2, 3, 1)
    assert figures(book.path, KNOWN, 2_000.5)["lately"]["calls"] == 0


def test_the_hit_rate_is_of_calls_that_had_a_container(book: Book):
    assert book.all()["pool"]["hit_rate"] is None
    for pool in ("warm", "warm", "warm", "cold"):
        book.run(receipt=ran(pool))
    book.run(outcome="NOT_FOUND")
    assert book.all()["pool"]["hit_rate"] == 0.75


def test_seconds_are_of_each_phase_and_of_the_whole(book: Book):
    call = book.begin()
    book.now += 9
    book.end(call, durations={"queue": 1.0, "claim": 2.0, "run": 3.0, "publish": 0.5, "approval": 99.0})
    seconds = book.all()["seconds"]
    assert {phase: one["max"] for phase, one in seconds.items()} == {
        "queue": 1.0, "start": 2.0, "run": 3.0, "publish": 0.5, "total": 9.0,
    }  # fmt: skip


def test_a_clock_that_went_back_makes_no_negative_time(book: Book):
    call = book.begin()
    book.now -= 500
    book.end(call, durations={"run": 1.0})
    assert book.all()["seconds"]["total"]["max"] == 0


# What is not believed


def test_a_container_is_believed_up_to_its_limits_and_never_without(book: Book):
    for said in (1e300, 1 << 80, 601 * MIB):
        book.run(receipt=ran(cpu=said, memory=said))
    assert book.all()["peak_memory_bytes"]["max"] == LIMITS["memory_bytes"]
    assert book.all()["cpu_seconds"] == 3 * 2.0 * 60.0
    book.end(book.begin(limits={}), receipt=ran())
    assert book.all()["peak_memory_bytes"]["count"] == 3


@pytest.mark.parametrize("said", [-1, math.nan, math.inf, "9", True, None, [1], {"a": 1}])
def test_what_is_no_amount_is_left_out(book: Book, said: Any):
    book.run(receipt=ran(pool=said, cpu=said, memory=said), durations={"run": said})
    told = book.all()
    assert (told["cpu_seconds"], told["peak_memory_bytes"]["count"], told["pool"]["hit_rate"]) == (0, 0, None)
    assert told["seconds"]["run"]["count"] == 0


# Spreads


@given(st.lists(AMOUNTS, min_size=1, max_size=200))
def test_a_quantile_is_an_amount_that_its_part_is_not_above(amounts: list[float]):
    summary = Summary()
    summary.peak_memory.extend(amounts)
    told = summary.as_dict()["peak_memory_bytes"]
    for name, part in (("p50", 0.5), ("p95", 0.95)):
        assert told[name] == sorted(amounts)[math.ceil(part * len(amounts)) - 1]
    assert told["count"] == len(amounts)
    assert told["max"] == pytest.approx(max(amounts), abs=1e-6)


# Reading again and again


def counted(metrics: Metrics) -> float:
    return sum(n for (name, _), n in samples(metrics.text(Now())).items() if name == "gdal_mcp_calls_total")


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["begin", "end", "end newest", "read"]), max_size=25))
def test_however_often_it_is_read_each_call_is_counted_once(tmp_path_factory, plan):
    book = Book(tmp_path_factory.mktemp("book") / "registry.sqlite")
    metrics = Metrics(book.path, KNOWN)
    open_calls: list[str] = []
    ended = 0
    try:
        for step in [*plan, "read", "read"]:
            if step == "begin":
                open_calls.append(book.begin())
            elif step == "read":
                assert metrics.refresh() == len(open_calls)
                assert counted(metrics) == ended
            elif open_calls:
                book.end(open_calls.pop(-1 if "newest" in step else 0), durations={"run": 1.0})
                ended += 1
    finally:
        book.registry.close()


def test_what_has_ended_for_good_is_not_read_again(book: Book):
    metrics = Metrics(book.path, KNOWN)
    book.run()
    metrics.refresh()
    with sqlite3.connect(book.path) as database:
        database.execute("UPDATE calls SET durations = 'damaged'")
    book.run()
    metrics.refresh()
    assert counted(metrics) == 2


def test_an_absent_registry_is_an_empty_one_and_is_not_made(tmp_path: Path):
    path = tmp_path / "none" / "registry.sqlite"
    told = figures(path, KNOWN, 0)
    assert (told["total"]["calls"], told["unfinished"]) == (0, 0)
    assert not path.parent.exists()


# Reading changes nothing


def test_a_registry_of_another_version_is_refused_and_left_as_it_is(book: Book):
    book.run()
    for version in (0, 1, len(MIGRATIONS) + 1):
        with sqlite3.connect(book.path) as database:
            database.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(RegistryUnavailable):
            book.all()
        with sqlite3.connect(book.path) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (version,)


def test_nothing_can_be_written_where_it_is_read(book: Book, monkeypatch: pytest.MonkeyPatch):
    book.run()
    opened, connect = [], sqlite3.connect
    with monkeypatch.context() as patched:
        patched.setattr(
            sqlite3, "connect", lambda *a, **more: opened.append(connect(*a, **more)) or opened[-1]
        )
        with closing(ended_calls(book.path, KNOWN)) as calls:
            next(calls)
            with pytest.raises(sqlite3.OperationalError):
                opened[-1].execute("DELETE FROM calls")
    assert book.all()["calls"] == 1


def test_a_folder_of_any_name_is_found(tmp_path: Path):
    for name in ("a?mode=rwc", "a#b", "a%20b", "ü b"):
        book = Book(tmp_path / name / "registry.sqlite")
        book.run()
        book.registry.close()
        assert book.all()["calls"] == 1


# What is on this host


class Engine:
    """An engine of which only what exists is asked."""

    def __init__(self, **running: tuple[str, bool | None]) -> None:
        self.running = running

    def leftovers(self) -> tuple[Leftover, ...]:
        return tuple(Leftover(name, labels(owner, "call", 60)) for name, (owner, _) in self.running.items())

    def state(self, container: str) -> ContainerState | None:
        running = self.running[container][1]
        return None if running is None else ContainerState(running, 0, out_of_memory=False)


def test_containers_are_counted_by_whose_they_are(tmp_path: Path):
    own, other, gone = (Owner(tmp_path / "servers") for _ in range(3))
    gone.close()
    (tmp_path / "servers" / f"{gone.id}.lock").touch()  # as a server leaves it that is killed
    (tmp_path / "x.lock").touch()
    engine = Engine(
        a=(own.id, True),
        b=(other.id, True),
        c=(gone.id, True),
        d=(gone.id, False),
        e=("0" * 16, True),
        f=("../x", True),
        g=(own.id, None),  # removed meanwhile
        h=("", True),
    )
    try:
        assert dict(containers(engine, own)) == {
            ("alive", "running"): 2,
            ("dead", "running"): 1,
            ("dead", "stopped"): 1,
            ("foreign", "running"): 3,
        }
    finally:
        own.close()
        other.close()


# As Prometheus reads it

LOAD = Load(4, 32, 3, 2, 7, {"local:ann": QueueDepth(2, 2), 'eve"} 1\n': QueueDepth(1, 0)})


def shown(book: Book, *calls: tuple[str, str, dict[str, Any]], now: Now | None = None) -> str:
    """The text after these calls ended, each a tool, an outcome and more of its end."""
    for tool, outcome, more in calls:
        book.run(tool, outcome, **more)
    metrics = Metrics(book.path, KNOWN)
    metrics.refresh()
    return metrics.text(now or Now())


def samples(shown: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample as Prometheus itself would read it; each is there once."""
    found: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
    values = {}
    for family in text_string_to_metric_families(shown):
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            found[key] += 1
            values[key] = sample.value
    assert set(found.values()) == {1}
    return values


def value(shown: str, metric: str, **labels: str) -> float:
    return samples(shown)[metric, frozenset(labels.items())]


def test_every_figure_is_read_back_as_it_is(book: Book):
    receipt = {"pool": "warm", "cpu_seconds": 0.5, "peak_memory_bytes": 30_000_000}
    files = ({"bytes": 12}, {"bytes": 30})
    one = ("info", "OK", {"receipt": receipt, "files": files, "durations": {"run": 0.2, "queue": 0.0}})
    told = shown(book, one, ("info", "TIMEOUT", {}), ("convert", "OK", {}))
    assert value(told, "gdal_mcp_calls_total", tool="info", outcome="OK") == 1
    assert value(told, "gdal_mcp_calls_total", tool="info", outcome="TIMEOUT") == 1
    assert value(told, "gdal_mcp_calls_total", tool="convert", outcome="OK") == 1
    assert value(told, "gdal_mcp_pool_calls_total", pool="warm") == 1
    assert value(told, "gdal_mcp_pool_calls_total", pool="cold") == 0
    assert value(told, "gdal_mcp_call_seconds_sum", phase="run") == 0.2
    assert value(told, "gdal_mcp_call_seconds_count", phase="total") == 1
    assert value(told, "gdal_mcp_call_peak_memory_bytes_bucket", le="5e+07") == 1
    assert value(told, "gdal_mcp_call_peak_memory_bytes_bucket", le="2.5e+07") == 0
    assert value(told, "gdal_mcp_cpu_seconds_total") == 0.5
    assert value(told, "gdal_mcp_output_bytes_total") == 42
    assert value(told, "gdal_mcp_output_files_total") == 2


def test_what_is_now_is_shown_where_it_is_known(book: Book):
    now = Now(
        unfinished=2,
        containers={("alive", "running"): 3, ("dead", "stopped"): 1},
        load=LOAD,
        slots={"waiting": 2, "starting": 1},
    )
    told = shown(book, now=now)
    assert value(told, "gdal_mcp_calls_unfinished") == 2
    assert value(told, "gdal_mcp_containers", server="dead", state="stopped") == 1
    assert value(told, "gdal_mcp_slots", state="waiting") == 2
    assert value(told, "gdal_mcp_places") == 4
    assert value(told, "gdal_mcp_places_taken") == 3
    assert value(told, "gdal_mcp_queue_waiting") == 2
    assert value(told, "gdal_mcp_queue_places") == 32
    assert value(told, "gdal_mcp_turned_away_total") == 7
    assert value(told, "gdal_mcp_principals") == 2


def test_what_is_not_known_is_left_out_and_not_shown_as_nothing(book: Book):
    names = {name for name, _ in samples(shown(book))}
    assert names.isdisjoint({"gdal_mcp_containers", "gdal_mcp_slots", "gdal_mcp_places"})


def test_nobody_is_named(book: Book):
    told = shown(book, ("info", "OK", {}), now=Now(load=LOAD))
    assert not any(name in told for name in ("ann", "eve"))


HOSTILE = ['info"} 99\ngdal_mcp_evil 1', "info\n", "\x00", "\ud800", "a" * 100_000, "FINE", ""]


def test_whatever_clients_call_there_are_no_more_rows_than_tools_and_outcomes(book: Book):
    told = shown(book, *((name, "OK", {}) for name in HOSTILE), *(("info", name, {}) for name in HOSTILE))
    rows = {key: count for key, count in samples(told).items() if key[0] == "gdal_mcp_calls_total"}
    assert sum(rows.values()) == 2 * len(HOSTILE)
    assert {tuple(sorted(dict(labels).items())) for _, labels in rows} == {
        (("outcome", "OK"), ("tool", "other")),
        (("outcome", "other"), ("tool", "info")),
    }
    assert not any(name in told for name in HOSTILE if name and name != "info\n")


def test_names_keep_to_the_conventions(book: Book):
    now = Now(containers={("alive", "running"): 1}, load=LOAD, slots={"waiting": 1})
    for family in text_string_to_metric_families(shown(book, ("info", "OK", {}), now=now)):
        assert family.name.startswith("gdal_mcp_")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
