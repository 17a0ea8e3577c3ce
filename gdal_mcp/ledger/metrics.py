"""The figures as Prometheus reads them. The only importer of its library."""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gdal_mcp import __version__
from gdal_mcp.ledger.figures import POOLS, Now, ended_calls

# from a warm call to the longest that a default limit allows, and hours beyond
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
BYTES: Final = (25e6, 50e6, 100e6, 200e6, 400e6, 800e6, 1.6e9, 3.2e9, 6.4e9, 12.8e9)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside each counter, which nobody asked for


class Metrics:
    """Counts what a registry holds. Counters go on over restarts, since the registry does. Not for several threads at once."""

    def __init__(self, path: Path, known: Container[str]) -> None:
        """`known` are the tools that are told apart."""
        self._path, self._known = path, known
        self._after = 0  # all rows up to this one ended and are counted
        self._counted: set[int] = set()  # rows behind it that are counted
        self._registry = registry = CollectorRegistry(auto_describe=False)
        Info("gdal_mcp_build", "This program.", registry=registry).info({"version": __version__})

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"gdal_mcp_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"gdal_mcp_{name}", about, labels, buckets=buckets, registry=registry)

        self._calls = counter("calls", "Calls that ended, by tool and outcome.", "tool", "outcome")
        self._pool = counter("pool_calls", "Calls by whether a started container waited for them.", "pool")
        self._seconds = histogram("call_seconds", "Seconds that calls spent in each phase.", SECONDS, "phase")
        about = "Most memory that a call's container said it used."
        self._memory = histogram("call_peak_memory_bytes", about, BYTES)
        self._cpu = counter("cpu_seconds", "Processor time of the containers of calls.")
        self._bytes = counter("output_bytes", "Bytes that calls published.")
        self._files = counter("output_files", "Files that calls published.")
        for pool in POOLS:
            self._pool.labels(pool)

    def refresh(self) -> int:
        """Counts the calls that ended since it was last called; returns how many have not. Raises RegistryUnavailable."""
        unfinished, settled = 0, True
        for number, call in ended_calls(self._path, self._known, self._after):
            if call is None:
                unfinished, settled = unfinished + 1, False
                continue
            if number not in self._counted:
                self._counted.add(number)
                self._calls.labels(call.tool, call.outcome).inc()
                for phase, seconds in call.seconds.items():
                    self._seconds.labels(phase).observe(seconds)
                if call.pool is not None:
                    self._pool.labels(call.pool).inc()
                if call.peak_memory:
                    self._memory.observe(call.peak_memory)
                self._cpu.inc(call.cpu_seconds)
                self._bytes.inc(call.output_bytes)
                self._files.inc(call.output_files)
            if settled:
                self._after = number
                self._counted.remove(number)
        return unfinished

    def text(self, now: Now) -> str:
        """Every figure in the text format; `refresh` first."""
        present = CollectorRegistry(auto_describe=False)
        present.register(_Present(now))
        return (generate_latest(self._registry) + generate_latest(present)).decode()


class _Present(Collector):
    """What there is at one moment; what is not known is left out."""

    def __init__(self, now: Now) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        now = self._now
        yield GaugeMetricFamily("gdal_mcp_calls_unfinished", "Calls that have not ended.", now.unfinished)
        if now.containers is not None:
            about = "Containers, by their server's life and state."
            yield _labelled("gdal_mcp_containers", about, ("server", "state"), now.containers)
        if now.slots is not None:
            about = "Containers of this server's pool, by what they do."
            slots = {(state,): count for state, count in now.slots.items()}
            yield _labelled("gdal_mcp_slots", about, ("state",), slots)
        if (load := now.load) is not None:
            # principals are not told apart: their names are nobody's business, and there may be many
            for name, about, value in (
                ("places", "Calls that may run at once.", load.concurrent),
                ("places_taken", "Calls that have a place.", load.running),
                ("queue_places", "Calls that may wait for a place.", load.queue_length),
                ("queue_waiting", "Calls that wait for a place.", load.waiting),
                ("principals", "Principals with a call that runs or waits.", len(load.principals)),
            ):
                yield GaugeMetricFamily(f"gdal_mcp_{name}", about, value)
            about = "Calls that found the queue full or waited too long."
            yield CounterMetricFamily("gdal_mcp_turned_away", about, load.turned_away)


def _labelled(name: str, about: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=labels)
    for given, count in sorted(values.items()):
        family.add_metric(given, count)
    return family
