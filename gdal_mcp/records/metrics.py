"""The metrics that Prometheus reads from one server, since its start. The only importer of its library."""

from collections.abc import Container, Mapping
from functools import partial
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

from gdal_mcp import __version__
from gdal_mcp.policy.admission import Admission
from gdal_mcp.records.ended import POOLS, EndedCall
from gdal_mcp.records.registry import Call

# bounds of the histograms: from a warm call to the longest that a default limit allows, and hours beyond
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
BYTES: Final = (25e6, 50e6, 100e6, 200e6, 400e6, 800e6, 1.6e9, 3.2e9, 6.4e9, 12.8e9)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside each counter, which nobody asked for


class Metrics:
    """Counts calls as they end. For several threads."""

    def __init__(self, known: Container[str]) -> None:
        """`known` are the tools that get their own label."""
        self._known = known
        self._registry = registry = CollectorRegistry(auto_describe=False)
        Info("gdal_mcp_build", "This program.", registry=registry).info({"version": __version__})

        counter = partial(Counter, namespace="gdal_mcp", registry=registry)
        gauge = partial(Gauge, namespace="gdal_mcp", registry=registry)
        histogram = partial(Histogram, namespace="gdal_mcp", registry=registry)
        self._calls = counter("calls", "Calls that ended, by tool and outcome.", ("tool", "outcome"))
        self._pool = counter("pool_calls", "Calls by whether a started container waited for them.", ("pool",))
        about = "Seconds that calls spent in each phase."
        self._seconds = histogram("call_seconds", about, ("phase",), buckets=SECONDS)
        about = "Most memory that a call's container reported."
        self._memory = histogram("call_peak_memory_bytes", about, buckets=BYTES)
        self._cpu = counter("cpu_seconds", "Processor time of the containers of calls.")
        self._bytes = counter("output_bytes", "Bytes that calls published.")
        self._files = counter("output_files", "Files that calls published.")
        # no label for principals: their names are private, and there may be many
        self._places = gauge("places", "Calls that may run at once.")
        self._taken = gauge("places_taken", "Calls that have a place.")
        self._waiting = gauge("queue_waiting", "Calls that wait for a place.")
        self._slots = gauge("slots", "Containers of this server's pool, by what they do.", ("state",))
        for pool in POOLS:
            self._pool.labels(pool)

    def count(self, call: Call) -> None:
        ended = EndedCall.of(call, self._known)
        self._calls.labels(ended.tool, ended.outcome).inc()
        for phase, seconds in ended.seconds.items():
            self._seconds.labels(phase).observe(seconds)
        if ended.pool is not None:
            self._pool.labels(ended.pool).inc()
        if ended.peak_memory:
            self._memory.observe(ended.peak_memory)
        self._cpu.inc(ended.cpu_seconds)
        self._bytes.inc(ended.output_bytes)
        self._files.inc(ended.output_files)

    def text(self, admission: Admission, slots: Mapping[str, int] | None) -> str:
        """All metrics in the text format. `slots` are the pool's by state; None if there is no pool yet."""
        self._places.set(admission.concurrent)
        self._taken.set(admission.running)
        self._waiting.set(admission.waiting)
        self._slots.clear()
        for state, number in (slots or {}).items():
            self._slots.labels(state).set(number)
        return generate_latest(self._registry).decode()
