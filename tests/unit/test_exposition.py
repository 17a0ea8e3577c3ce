import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gdal_mcp.access.admission import Load, QueueDepth
from gdal_mcp.ledger.figures import Now
from gdal_mcp.ledger.metrics import Metrics
from gdal_mcp.ledger.registry import Call, CallEnd, Registry

Shown = Callable[..., str]
KNOWN = frozenset({"info", "convert"})
LOAD = Load(4, 32, 3, 2, 7, {"local:ann": QueueDepth(2, 2), 'eve"} 1\n': QueueDepth(1, 0)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exposition")


@pytest.fixture
def shown(folder: Path) -> Callable[..., str]:
    """`shown(*calls, now=...)`: the text after these calls ended, each a tool, an outcome and more of its end."""

    def text(*calls: tuple[str, str, dict[str, Any]], now: Now | None = None) -> str:
        path = folder / uuid.uuid4().hex
        with closing(Registry(path)) as registry:
            for number, (tool, outcome, more) in enumerate(calls):
                limits = {"memory_bytes": 1 << 29, "cpus": 2.0, "wall_seconds": 60.0}
                registry.begin_call(Call(f"c{number}", "ann", tool, {}, started=10.0, limits=limits))
                registry.finish_call(f"c{number}", CallEnd(outcome, **more))
        metrics = Metrics(path, KNOWN)
        metrics.refresh()
        return metrics.text(now or Now())

    return text


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


def test_every_figure_is_read_back_as_it_is(shown: Shown):
    receipt = {"pool": "warm", "cpu_seconds": 0.5, "peak_memory_bytes": 30_000_000}
    files = ({"bytes": 12}, {"bytes": 30})
    one = ("info", "OK", {"receipt": receipt, "files": files, "durations": {"run": 0.2, "queue": 0.0}})
    told = shown(one, ("info", "TIMEOUT", {}), ("convert", "OK", {}))
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


def test_what_is_now_is_shown_where_it_is_known(shown: Shown):
    now = Now(
        unfinished=2,
        containers={("alive", "running"): 3, ("dead", "stopped"): 1},
        load=LOAD,
        slots={"waiting": 2, "starting": 1},
    )
    told = shown(now=now)
    assert value(told, "gdal_mcp_calls_unfinished") == 2
    assert value(told, "gdal_mcp_containers", server="dead", state="stopped") == 1
    assert value(told, "gdal_mcp_slots", state="waiting") == 2
    assert value(told, "gdal_mcp_places") == 4
    assert value(told, "gdal_mcp_places_taken") == 3
    assert value(told, "gdal_mcp_queue_waiting") == 2
    assert value(told, "gdal_mcp_queue_places") == 32
    assert value(told, "gdal_mcp_turned_away_total") == 7
    assert value(told, "gdal_mcp_principals") == 2


def test_what_is_not_known_is_left_out_and_not_shown_as_nothing(shown: Shown):
    names = {name for name, _ in samples(shown())}
    assert names.isdisjoint({"gdal_mcp_containers", "gdal_mcp_slots", "gdal_mcp_places"})


def test_nobody_is_named(shown: Shown):
    told = shown(("info", "OK", {}), now=Now(load=LOAD))
    assert not any(name in told for name in ("ann", "eve"))


HOSTILE = ['info"} 99\ngdal_mcp_evil 1', "info\n", "\x00", "\ud800", "a" * 100_000, "FINE", ""]


def test_whatever_clients_call_there_are_no_more_rows_than_tools_and_outcomes(shown: Shown):
    told = shown(*((name, "OK", {}) for name in HOSTILE), *(("info", name, {}) for name in HOSTILE))
    rows = {key: count for key, count in samples(told).items() if key[0] == "gdal_mcp_calls_total"}
    assert sum(rows.values()) == 2 * len(HOSTILE)
    assert {tuple(sorted(dict(labels).items())) for _, labels in rows} == {
        (("outcome", "OK"), ("tool", "other")),
        (("outcome", "other"), ("tool", "info")),
    }
    assert not any(name in told for name in HOSTILE if name and name != "info\n")


def test_names_keep_to_the_conventions(shown: Shown):
    now = Now(containers={("alive", "running"): 1}, load=LOAD, slots={"waiting": 1})
    for family in text_string_to_metric_families(shown(("info", "OK", {}), now=now)):
        assert family.name.startswith("gdal_mcp_")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
