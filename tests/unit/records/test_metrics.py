import math
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gdal_mcp.errors import Code
from gdal_mcp.policy.admission import Admission
from gdal_mcp.records.figures import figures
from gdal_mcp.records.metrics import Metrics
from gdal_mcp.records.registry import Call, Registry

MIB = 1 << 20
KNOWN = frozenset({"info", "convert"})
LIMITS = {"memory_bytes": 512 * MIB, "cpus": 2.0, "wall_seconds": 60.0}
AMOUNTS = st.floats(0, 1e12, allow_nan=False)
IDLE = Admission(4, 32, 60.0)


@dataclass
class Book:
    """A registry with calls that tests insert."""

    path: Path
    now: float = 1_000.0
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.registry = Registry(self.path, lambda: self.now)

    def begin(self, tool: str = "info", limits: dict[str, Any] | None = None) -> str:
        call = Call(f"c{next(self.numbers)}", "ann", tool, {}, limits=LIMITS if limits is None else limits)
        return self.registry.begin_call(call).id

    def end(self, call: str, outcome: str = "OK", **more: Any) -> None:
        self.registry.finish_call(Call(call, "ann", "", {}, outcome=outcome, **more))

    def run(self, tool: str = "info", outcome: str = "OK", **more: Any) -> None:
        self.end(self.begin(tool), outcome, **more)

    def all(self) -> dict[str, Any]:
        total: dict[str, Any] = figures(self.registry, KNOWN, 0)["total"]
        return total


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    new_book = Book(tmp_path / "state" / "registry.sqlite")
    yield new_book
    new_book.registry.close()


def ran(pool: str = "warm", cpu: Any = 0.5, memory: Any = 64 * MIB) -> dict[str, Any]:
    return {"pool": pool, "cpu_seconds": cpu, "peak_memory_bytes": memory}


def test_refused_call_is_counted_too(book: Book):
    book.registry.add_refused(Call("r1", "ann", "info", {}, outcome=str(Code.BUSY)))
    assert book.all()["by_tool_and_outcome"] == [{"tool": "info", "outcome": "BUSY", "count": 1}]
    assert book.all()["seconds"]["total"]["count"] == 0  # it has no duration


def test_window_holds_only_recently_ended_calls(book: Book):
    book.run()
    late, _ = book.begin(), book.begin()
    book.now = 2_000.0
    book.run("convert")
    book.end(late)  # it began before
    report = figures(book.registry, KNOWN, 2_000.0)
    assert (report["lately"]["calls"], report["total"]["calls"], report["unfinished"]) == (2, 3, 1)
    assert figures(book.registry, KNOWN, 2_000.5)["lately"]["calls"] == 0


def test_hit_rate_counts_calls_with_a_container(book: Book):
    assert book.all()["pool"]["hit_rate"] is None
    for pool in ("warm", "warm", "warm", "cold"):
        book.run(receipt=ran(pool))
    book.run(outcome="NOT_FOUND")
    assert book.all()["pool"]["hit_rate"] == 0.75


def test_seconds_are_given_per_phase_and_in_total(book: Book):
    call = book.begin()
    book.now += 9
    book.end(call, durations={"queue": 1.0, "claim": 2.0, "run": 3.0, "publish": 0.5, "approval": 99.0})
    seconds = book.all()["seconds"]
    assert {phase: figure["max"] for phase, figure in seconds.items()} == {
        "queue": 1.0, "start": 2.0, "run": 3.0, "publish": 0.5, "total": 9.0,
    }  # fmt: skip
    back = book.begin()
    book.now -= 500  # a clock that was set back
    book.end(back, durations={"run": 1.0})
    assert book.all()["seconds"]["total"]["p50"] == 0


def test_container_usage_is_capped_at_its_limits(book: Book):
    for amount in (1e300, 1 << 80, 601 * MIB):
        book.run(receipt=ran(cpu=amount, memory=amount))
    assert book.all()["peak_memory_bytes"]["max"] == LIMITS["memory_bytes"]
    assert book.all()["cpu_seconds"] == 3 * 2.0 * 60.0
    book.end(book.begin(limits={}), receipt=ran())
    assert book.all()["peak_memory_bytes"]["count"] == 3


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, "9", True, None, [1], {"a": 1}])
def test_what_is_no_amount_is_left_out(book: Book, amount: Any):
    book.run(receipt=ran(pool=amount, cpu=amount, memory=amount), durations={"run": amount})
    total = book.all()
    assert (total["cpu_seconds"], total["peak_memory_bytes"]["count"], total["pool"]["hit_rate"]) == (
        0,
        0,
        None,
    )
    assert total["seconds"]["run"]["count"] == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amounts=st.lists(AMOUNTS, min_size=1, max_size=60))
def test_quantile_is_the_nearest_rank_amount(tmp_path: Path, amounts: list[float]):
    book = Book(tmp_path / secrets.token_hex(4) / "registry.sqlite")
    for amount in amounts:
        book.end(book.begin(limits={"memory_bytes": 1e13}), durations={"run": amount})
    quantiles = book.all()["seconds"]["run"]
    for name, part in (("p50", 0.5), ("p95", 0.95)):
        assert quantiles[name] == sorted(amounts)[math.ceil(part * len(amounts)) - 1]
    assert quantiles["count"] == len(amounts)
    assert quantiles["max"] == pytest.approx(max(amounts), abs=1e-6)
    book.registry.close()


def shown(*calls: tuple[str, str, dict[str, Any]], slots: dict[str, int] | None = None) -> str:
    """The metrics text after these calls ended, each with a tool, an outcome and further fields of its end."""
    metrics = Metrics(KNOWN)
    for tool, outcome, fields in calls:
        metrics.count(Call("c", "ann", tool, {}, limits=LIMITS, outcome=outcome, **fields))
    return metrics.text(IDLE, slots)


def samples(shown: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample as Prometheus itself would parse it; each occurs once."""
    counts: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
    values = {}
    for family in text_string_to_metric_families(shown):
        assert family.documentation
        assert family.name.startswith("gdal_mcp_")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            key = (sample.name, frozenset(sample.labels.items()))
            counts[key] += 1
            values[key] = sample.value
    assert set(counts.values()) == {1}
    return values


def value(shown: str, metric: str, **labels: str) -> float:
    return samples(shown)[metric, frozenset(labels.items())]


def test_every_figure_is_read_back_as_it_is():
    receipt = {"pool": "warm", "cpu_seconds": 0.5, "peak_memory_bytes": 30_000_000}
    files = ({"bytes": 12}, {"bytes": 30})
    successful = ("info", "OK", {"receipt": receipt, "files": files, "durations": {"run": 0.2, "queue": 0.0}})
    text = shown(
        successful, ("info", "TIMEOUT", {}), ("convert", "OK", {}), slots={"waiting": 2, "starting": 1}
    )
    for tool, outcome in (("info", "OK"), ("info", "TIMEOUT"), ("convert", "OK")):
        assert value(text, "gdal_mcp_calls_total", tool=tool, outcome=outcome) == 1
    assert value(text, "gdal_mcp_pool_calls_total", pool="warm") == 1
    assert value(text, "gdal_mcp_pool_calls_total", pool="cold") == 0
    assert value(text, "gdal_mcp_call_seconds_sum", phase="run") == 0.2
    assert value(text, "gdal_mcp_call_peak_memory_bytes_bucket", le="5e+07") == 1
    assert value(text, "gdal_mcp_call_peak_memory_bytes_bucket", le="2.5e+07") == 0
    assert value(text, "gdal_mcp_cpu_seconds_total") == 0.5
    assert value(text, "gdal_mcp_output_bytes_total") == 42
    assert value(text, "gdal_mcp_output_files_total") == 2
    assert value(text, "gdal_mcp_slots", state="waiting") == 2
    assert value(text, "gdal_mcp_places") == 4
    assert value(text, "gdal_mcp_places_taken") == 0
    assert value(text, "gdal_mcp_queue_waiting") == 0
    assert "ann" not in text
    assert not [name for name, _ in samples(shown()) if name == "gdal_mcp_slots"]


HOSTILE = ['info"} 99\ngdal_mcp_evil 1', "info\n", "\x00", "\ud800", "a" * 100_000, "FINE", ""]


def test_metric_rows_are_bounded_by_tools_and_outcomes():
    text = shown(*((name, "OK", {}) for name in HOSTILE), *(("info", name, {}) for name in HOSTILE))
    rows = {key: count for key, count in samples(text).items() if key[0] == "gdal_mcp_calls_total"}
    assert sum(rows.values()) == 2 * len(HOSTILE)
    series = {(dict(labels)["tool"], dict(labels)["outcome"]) for _, labels in rows}
    assert series == {("other", "OK"), ("info", "other")}
    assert not any(name in text for name in HOSTILE if name and name != "info\n")
