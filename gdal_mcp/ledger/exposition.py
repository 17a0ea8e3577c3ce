"""The figures as Prometheus reads them. The only importer of its library."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gdal_mcp import __version__
from gdal_mcp.access.admission import Load
from gdal_mcp.ledger.metrics import POOLS, Now, Spread, Tally

# from a warm call to the longest that a default limit allows, and hours beyond; at most three digits each, as counted
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
BYTES: Final = (25e6, 50e6, 100e6, 200e6, 400e6, 800e6, 1.6e9, 3.2e9, 6.4e9, 12.8e9)


def text(total: Tally, now: Now) -> str:
    """Every figure in the text format. Counters go on over restarts, since the registry does."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(total, now))
    return generate_latest(registry).decode()


class _Figures(Collector):
    def __init__(self, total: Tally, now: Now) -> None:
        self._total = total
        self._now = now

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("gdal_mcp_build", "This program.", {"version": __version__})
        yield from _calls(self._total)
        yield from _use(self._total)
        yield from _present(self._now)
        if self._now.load is not None:
            yield from _places(self._now.load)


def _calls(total: Tally) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "gdal_mcp_calls", "Calls that ended, by tool and outcome.", labels=("tool", "outcome")
    )
    for labels, count in sorted(total.calls.items()):
        calls.add_metric(labels, count)
    yield calls
    pool = CounterMetricFamily(
        "gdal_mcp_pool_calls", "Calls by whether a started container waited for them.", labels=("pool",)
    )
    for name in POOLS:
        pool.add_metric((name,), total.pool[name])
    yield pool
    seconds = HistogramMetricFamily(
        "gdal_mcp_call_seconds", "Seconds that calls spent in each phase.", labels=("phase",)
    )
    for phase, spread in total.seconds.items():
        seconds.add_metric((phase,), _buckets(spread, SECONDS), spread.total)
    yield seconds


def _use(total: Tally) -> Iterator[Metric]:
    memory = HistogramMetricFamily(
        "gdal_mcp_call_peak_memory_bytes", "Most memory that a call's container said it used."
    )
    memory.add_metric((), _buckets(total.peak_memory, BYTES), total.peak_memory.total)
    yield memory
    yield CounterMetricFamily(
        "gdal_mcp_cpu_seconds", "Processor time of the containers of calls.", total.cpu_seconds
    )
    yield CounterMetricFamily("gdal_mcp_output_bytes", "Bytes that calls published.", total.output_bytes)
    yield CounterMetricFamily("gdal_mcp_output_files", "Files that calls published.", total.output_files)


def _present(now: Now) -> Iterator[Metric]:
    yield GaugeMetricFamily("gdal_mcp_calls_unfinished", "Calls that have not ended.", now.running)
    if now.containers is not None:
        containers = GaugeMetricFamily(
            "gdal_mcp_containers", "Containers, by their server's life and state.", labels=("server", "state")
        )
        for labels, count in sorted(now.containers.items()):
            containers.add_metric(labels, count)
        yield containers
    folders = sum(count for count in now.staging.values() if count)
    yield GaugeMetricFamily("gdal_mcp_staging_folders", "Staging folders in all workspaces.", folders)
    if now.slots is not None:
        slots = GaugeMetricFamily(
            "gdal_mcp_slots", "Containers of this server's pool, by what they do.", labels=("state",)
        )
        for name, count in sorted(now.slots.items()):
            slots.add_metric((name,), count)
        yield slots


def _places(load: Load) -> Iterator[Metric]:
    """Principals are not told apart: their names are nobody's business, and there may be many."""
    yield GaugeMetricFamily("gdal_mcp_places", "Calls that may run at once.", load.concurrent)
    yield GaugeMetricFamily("gdal_mcp_places_taken", "Calls that have a place.", load.running)
    yield GaugeMetricFamily("gdal_mcp_queue_places", "Calls that may wait for a place.", load.queue_length)
    yield GaugeMetricFamily("gdal_mcp_queue_waiting", "Calls that wait for a place.", load.waiting)
    yield GaugeMetricFamily(
        "gdal_mcp_principals", "Principals with a call that runs or waits.", len(load.principals)
    )
    yield CounterMetricFamily(
        "gdal_mcp_turned_away", "Calls that found the queue full or waited too long.", load.turned_away
    )


def _buckets(spread: Spread, bounds: Iterable[float]) -> list[tuple[str, float]]:
    rows = [(str(float(bound)), float(spread.up_to(bound))) for bound in bounds]
    return [*rows, ("+Inf", float(spread.number))]
