"""Many simultaneous calls and many calls in total: single-use calls in a stream, answers meanwhile, and leftovers of
a thousand calls.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.calls import HARDENED, INFO, LARGE, SMALL, Rivals
from bench.clients import BareClient, docker_run
from bench.place import NotMeasurable, Place
from bench.report import Effort, Finding, Section, Series, in_turn, milliseconds, processor_seconds

SERVER = "gdal-mcp over stdio"
METHODS = {"ping": "busy-ping", "tools/list": "busy-list"}
# a pool that does not adapt to recent requests, so that the last readings can be compared with the first
STEADY_POOL = ("--pool-min", "2", "--pool-max", "4")
SLOTS, AT_ONCE = 4, 2
# calls, more at once than later, so that every thread and connection that the server keeps exists then
WARM_UP = 40
WRITES = 5  # every fifth call writes, so that staging, publication and undo are included
GAP = 0.05  # seconds between two requests beside calls, so that calls start, compute and publish meanwhile
READINGS = 20  # readings of the memory before a mark, whose median counts


@dataclass(frozen=True, slots=True)
class Stream:
    """Calls in a row, several at once, for a time. `used` are processor seconds of each call, by round."""

    rivals: Rivals
    client: BareClient
    argv: list[str]
    at_once: int
    lead: float  # seconds at the start that do not count, in which waiting slots are used up
    seconds: float
    used: dict[str, list[float]] = field(default_factory=lambda: {SERVER: [], HARDENED: []})

    def by_server(self) -> float:
        ends: list[tuple[float, float]] = []
        over = time.monotonic() + self.lead + self.seconds
        under_way = {self.client.call(INFO.tool, INFO.arguments) for _ in range(self.at_once)}
        while under_way:
            under_way.discard(self.client.next_answer()[0])
            ends.append((time.monotonic(), processor_seconds()))
            if ends[-1][0] < over:
                under_way.add(self.client.call(INFO.tool, INFO.arguments))
        self.rivals.place.rest()
        return self._each(SERVER, ends, over)

    def by_docker(self) -> float:
        ends: list[tuple[float, float]] = []
        over = time.monotonic() + self.lead + self.seconds

        def loop(_number: int) -> None:
            while time.monotonic() < over:
                docker_run(self.rivals.place, self.rivals.hardened, self.argv)
                ends.append((time.monotonic(), processor_seconds()))

        with ThreadPoolExecutor(self.at_once) as threads:
            list(threads.map(loop, range(self.at_once)))
        return self._each(HARDENED, ends, over)

    def _each(self, name: str, ends: list[tuple[float, float]], over: float) -> float:
        """Seconds per call, from the first end after the lead to the last end in time."""
        counted = [end for end in sorted(ends) if over - self.seconds <= end[0] <= over]
        if len(counted) < 2:
            raise NotMeasurable(f"fewer than two calls ended within {self.seconds:g} s")
        taken, used = (last - first for first, last in zip(counted[0], counted[-1], strict=True))
        self.used[name].append(used / (len(counted) - 1))
        return taken / (len(counted) - 1)


def sustained(rivals: Rivals, lead: float, seconds: float, effort: Effort) -> Section:
    """Calls per second of this server and of `docker run` in loops, with the same concurrency."""
    rows, findings = [], []
    with BareClient(rivals.place) as client:
        result = client.ask("tools/call", {"name": INFO.tool, "arguments": INFO.arguments})
        argv = list(rivals.place.receipt(result["structuredContent"]["receipt"]["call_id"])["argv"])
        for at_once in (2, 4):
            stream = Stream(rivals, client, argv, at_once, lead, seconds)
            rivals.place.rest()
            series = in_turn({SERVER: stream.by_server, HARDENED: stream.by_docker}, effort)
            costs = {name: statistics.median(each[1:]) for name, each in stream.used.items()}
            for name, times in series.items():
                rows.append((name, str(at_once), f"{1 / times.p50:.2f}", f"{costs[name]:.2f}"))
            reason = f"each takes {costs[SERVER]:.2f} s of the processors, `docker run` {costs[HARDENED]:.2f}"
            findings.append(Finding(f"sustained-{at_once}", series[HARDENED].over(series[SERVER]), reason))
    note = (
        f"{INFO.title}; {effort.rounds} rounds of {seconds:g} s for each, after {lead:g} s that do not count. Every call has a "
        "container of its own in both. The processors' time is that of the whole machine, clients and engine included."
    )
    header = ("contender", "at once", "calls / s", "s of the processors for each")
    return Section("Sustained single-use calls", note, header, rows, findings)


def busy(rivals: Rivals, count: int) -> Section:
    """The time until requests that need no container are answered, while the largest number of calls runs."""
    place, calls = rivals.place, rivals.place.app.hosting.ready().concurrent
    under_way: dict[int, Path] = {}
    measured: dict[tuple[str, int], list[float]] = {}
    with BareClient(place) as client:

        def add() -> None:
            name = place.new_name(".tif")
            arguments = {"input": LARGE, "output": name, "dst_crs": "EPSG:3857"}
            under_way[client.call("reproject", arguments)] = place.workspace / name

        def time_of(method: str) -> float:
            time.sleep(GAP)
            seconds, ended = _time_to_answer(client, method)
            for call in ended:  # only now, because removing a large file takes a while
                under_way.pop(call).unlink()
                add()
            return seconds

        client.ask("tools/call", {"name": INFO.tool, "arguments": {"path": LARGE}})
        place.rest()
        for meanwhile in (0, calls):
            for _ in range(meanwhile):
                add()
            for method in METHODS:
                measured[method, meanwhile] = [time_of(method) for _ in range(count)]
        while under_way:
            under_way.pop(client.next_answer()[0]).unlink()
    rows, findings = [], []
    for (method, meanwhile), seconds in measured.items():
        times = Series(tuple(seconds))
        p50, p95, slowest = map(milliseconds, (times.p50, times.p95, max(seconds)))
        rows.append((f"`{method}`", str(meanwhile), p50, p95, slowest))
        if meanwhile:
            reason = f"p50 {p50} ms, p95 {p95} ms while {calls} calls run"
            findings.append(Finding(METHODS[method], max(seconds) * 1000, reason))
    note = f"{count} of each, every {GAP * 1000:.0f} ms. The calls reproject a large raster, each with all the processors that one may have."
    header = ("request", "calls meanwhile", "p50 ms", "p95 ms", "slowest ms")
    return Section("Answers while every place is taken", note, header, rows, findings)


def _time_to_answer(client: BareClient, method: str) -> tuple[float, list[int]]:
    """The seconds until a request is answered, and the calls that ended meanwhile."""
    started, ended = time.perf_counter(), []
    number = client.begin(method, {})
    while (answered := client.next_answer()[0]) != number:
        ended.append(answered)
    return time.perf_counter() - started, ended


def lasting(rivals: Rivals, calls: int) -> Section:
    """The leftovers of many calls: memory, descriptors, threads, containers and staging folders."""
    place = rivals.place
    with BareClient(place, *STEADY_POOL) as client:
        client.ask("tools/list", {})
        listed = client.resident_megabytes()
        _calls(place, client, WARM_UP, 2 * AT_ONCE)
        start = _held_resources(place, client)
        half = _calls(place, client, calls // 2, AT_ONCE)
        full = _calls(place, client, calls - calls // 2, AT_ONCE)
        end = _held_resources(place, client)
    rows = [("MB of a server that has listed its tools", f"{listed:.1f}", "")]
    rows += [(f"MB around call {calls // 2} and {calls}", f"{half:.1f}", f"{full:.1f}")]
    rows += [(name, f"{start[name]}", f"{end[name]}") for name in start]
    findings = [Finding("memory", full), Finding("growth", full - half)]
    findings += [Finding(name, end[name] - start[name]) for name in ("containers", "staging", "descriptors")]
    note = (
        f"Over stdio, {AT_ONCE} calls at once, every {WRITES}th one writes; the pool is told to keep its size. Between start and "
        f"end lie {calls:,} calls; both are read at rest. Memory around a call is the median of {READINGS} readings."
    )
    return Section(f"What {calls:,} calls leave behind", note, ("what", "start", "end"), rows, findings)


def _calls(place: Place, client: BareClient, count: int, at_once: int) -> float:
    """Makes this number of calls; returns the megabytes of the server during the last of them."""
    under_way: dict[int, Path | None] = {}
    readings: list[float] = []

    def end() -> None:
        if written := under_way.pop(client.next_answer()[0]):
            written.unlink()

    for number in range(1, count + 1):
        if number % WRITES:
            under_way[client.call("info", {"path": SMALL})] = None
        else:
            name = place.new_name(".tif")
            under_way[client.call("convert", {"input": SMALL, "output": name})] = place.workspace / name
        if len(under_way) == at_once:
            end()
        if number > count - READINGS:
            readings.append(client.resident_megabytes())
    while under_way:
        end()
    return statistics.median(readings)


def _held_resources(place: Place, client: BareClient) -> dict[str, int]:
    """The resources that the server holds once its pool is at rest."""
    containers, staging = place.rest(SLOTS), place.workspace / ".gdal-mcp" / "staging"
    return {
        "descriptors": client.count("fd"),
        "threads": client.count("task"),
        "containers": containers,
        "staging": len(list(staging.iterdir())) if staging.is_dir() else 0,
    }
