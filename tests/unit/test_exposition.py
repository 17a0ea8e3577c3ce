from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gdal_mcp.access.admission import Load, Standing
from gdal_mcp.errors import Code
from gdal_mcp.ledger.exposition import SECONDS, text
from gdal_mcp.ledger.metrics import Ended, Now, Spread, Tally

KNOWN = frozenset({"info", "convert"})
LOAD = Load(4, 32, 3, 2, 7, {"local:ann": Standing(2, 2), 'eve"} 1\n': Standing(1, 0)})


def ended(tool: str = "info", outcome: str = "OK", **more: Any) -> Ended:
    given_values = {"durations": {}, "receipt": {}, "limits": {}, "files": (), **more}
    return Ended(tool, outcome, 10.0, 12.0, **given_values)


def tally(*calls: Ended) -> Tally:
    made = Tally()
    for call in calls:
        made.add(call, KNOWN)
    return made


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


def test_every_figure_is_read_back_as_it_is():
    limits = {"memory_bytes": 1 << 29, "cpus": 2.0, "wall_seconds": 60.0}
    receipt = {"pool": "warm", "cpu_seconds": 0.5, "peak_memory_bytes": 30_000_000}
    files = ({"bytes": 12}, {"bytes": 30})
    one = ended(receipt=receipt, limits=limits, files=files, durations={"run": 0.2, "queue": 0.0})
    shown = text(tally(one, ended(outcome="TIMEOUT"), ended("convert")), Now())
    assert value(shown, "gdal_mcp_calls_total", tool="info", outcome="OK") == 1
    assert value(shown, "gdal_mcp_calls_total", tool="info", outcome="TIMEOUT") == 1
    assert value(shown, "gdal_mcp_calls_total", tool="convert", outcome="OK") == 1
    assert value(shown, "gdal_mcp_pool_calls_total", pool="warm") == 1
    assert value(shown, "gdal_mcp_pool_calls_total", pool="cold") == 0
    assert value(shown, "gdal_mcp_call_seconds_sum", phase="run") == 0.2
    assert value(shown, "gdal_mcp_call_seconds_count", phase="total") == 1
    assert value(shown, "gdal_mcp_call_peak_memory_bytes_bucket", le="50000000.0") == 1
    assert value(shown, "gdal_mcp_call_peak_memory_bytes_bucket", le="25000000.0") == 0
    assert value(shown, "gdal_mcp_cpu_seconds_total") == 0.5
    assert value(shown, "gdal_mcp_output_bytes_total") == 42
    assert value(shown, "gdal_mcp_output_files_total") == 2


def test_what_is_now_is_shown_where_it_is_known():
    now = Now(
        running=2,
        containers={("alive", "running"): 3, ("dead", "stopped"): 1},
        staging={"/ws": 2, "/state": None, "/other": 1},
        load=LOAD,
        slots={"waiting": 2, "starting": 1},
    )
    shown = text(Tally(), now)
    assert value(shown, "gdal_mcp_calls_unfinished") == 2
    assert value(shown, "gdal_mcp_containers", server="dead", state="stopped") == 1
    assert value(shown, "gdal_mcp_staging_folders") == 3
    assert value(shown, "gdal_mcp_slots", state="waiting") == 2
    assert value(shown, "gdal_mcp_places") == 4
    assert value(shown, "gdal_mcp_places_taken") == 3
    assert value(shown, "gdal_mcp_queue_waiting") == 2
    assert value(shown, "gdal_mcp_queue_places") == 32
    assert value(shown, "gdal_mcp_turned_away_total") == 7
    assert value(shown, "gdal_mcp_principals") == 2


def test_what_is_not_known_is_left_out_and_not_shown_as_nothing():
    names = {name for name, _ in samples(text(Tally(), Now()))}
    assert names.isdisjoint({"gdal_mcp_containers", "gdal_mcp_slots", "gdal_mcp_places"})


def test_nobody_is_named():
    shown = text(tally(ended()), Now(load=LOAD, staging={"/home/ann/ws": 1}))
    assert "ann" not in shown
    assert "eve" not in shown


@given(st.lists(st.tuples(st.text(), st.text()), max_size=40))
def test_whatever_clients_call_there_are_no_more_rows_than_tools_and_outcomes(names: list[tuple[str, str]]):
    shown = text(tally(*(ended(tool, outcome) for tool, outcome in names)), Now())
    rows = {key: count for key, count in samples(shown).items() if key[0] == "gdal_mcp_calls_total"}
    tools = {dict(labels)["tool"] for _, labels in rows}
    outcomes = {dict(labels)["outcome"] for _, labels in rows}
    assert tools <= KNOWN | {"other"}
    assert outcomes <= {"OK", "other", *map(str, Code)}
    assert sum(rows.values()) == len(names)


@pytest.mark.parametrize("hostile", ['info"} 99\ngdal_mcp_evil 1', "info\n", "\x00", "\ud800", "a" * 100_000])
def test_a_hostile_name_reaches_no_line(hostile: str):
    shown = text(tally(ended(hostile), ended(outcome=hostile)), Now())
    assert hostile not in shown
    assert "evil" not in shown
    assert value(shown, "gdal_mcp_calls_total", tool="other", outcome="OK") == 1


@given(st.lists(st.floats(0, 1e5), max_size=60))
def test_buckets_rise_to_the_count_and_a_time_on_a_bound_is_below_it(times: list[float]):
    spread = Spread()
    for one in [*times, *SECONDS]:
        spread.add(one)
    read = samples(text(Tally(seconds={"run": spread}), Now()))
    below = {dict(key[1])["le"]: found for key, found in read.items() if key[0].endswith("seconds_bucket")}
    counts = [below[str(float(bound))] for bound in SECONDS]
    assert counts == sorted(counts)
    assert all(found >= number for number, found in enumerate(counts, 1))
    number = read["gdal_mcp_call_seconds_count", frozenset({("phase", "run")})]
    assert below["+Inf"] == number == len(times) + len(SECONDS)


def test_names_keep_to_the_conventions():
    now = Now(containers={("alive", "running"): 1}, load=LOAD, slots={"waiting": 1})
    for family in text_string_to_metric_families(text(tally(ended()), now)):
        assert family.name.startswith("gdal_mcp_")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
