"""Many calls at once and many in all: single-use calls in a stream, answers meanwhile, and what a thousand calls leave behind."""

import statistics
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.calls import HARDENED, INFO, LARGE, SMALL, Rivals
from bench.clients import BareClient
from bench.place import Place
from bench.report import Finding, Section, milliseconds
from bench.rivals import docker_run
from bench.timing import Effort, Series, in_turn, processor_seconds, timed

SERVER = "gdal-mcp over stdio"
METHODS = {"ping": "busy-ping", "tools/list": "busy-list"}
# a pool that does not adapt to what was asked lately, so that the readings at the end can be held to those at the start
STEADY_POOL = ("--pool-min", "2", "--pool-max", "4")
SLOTS = 4
AT_ONCE = 2
WARM_UP = 40  # calls, more at once than later: every thread and connection that will be kept is there then
WRITES = 5  # every fifth call writes, so that staging, publication and undo are in it
READINGS = 20  # of the memory before a mark, of which the median counts


@dataclass(slots=True)
class Window:
    """Counts calls between the first end after `lead` seconds and the first end `seconds` later. For several threads."""

    lead: float
    seconds: float
    calls: int = 0
    over: bool = False
    _begun: tuple[float, float] | None = None
    _ended: tuple[float, float] = (0.0, 0.0)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _opens: float = field(default_factory=time.monotonic)

    def note(self) -> None:
        """One more call has ended."""
        now = (time.monotonic(), processor_seconds())
        with self._lock:
            if self.over or now[0] < self._opens + self.lead:
                return
            if self._begun is None:
                self._begun = now
                return
            self.calls += 1
            if now[0] >= self._begun[0] + self.seconds:
                self._ended, self.over = now, True

    def each(self) -> tuple[float, float]:
        """Seconds, and those of all processors, for each call."""
        assert self._begun is not None
        taken, used = (after - before for before, after in zip(self._begun, self._ended, strict=True))
        return taken / self.calls, used / self.calls


def sustained(  # noqa: C901 - two contenders, side by side
    rivals: Rivals, lead: float, seconds: float, effort: Effort
) -> Section:
    """Calls a second by our server and by `docker run` in loops, at the same concurrency."""
    rows, findings = [], []
    with BareClient(rivals.place) as client:
        receipt = client.ask("tools/call", {"name": INFO.tool, "arguments": INFO.arguments})[
            "structuredContent"
        ]
        argv = list(receipt["receipt"]["argv"])
        for at_once in (2, 4):
            used: dict[str, list[float]] = {SERVER: [], HARDENED: []}

            def by_server(at_once: int = at_once, used: dict[str, list[float]] = used) -> float:
                window = Window(lead, seconds)
                for _ in range(at_once):
                    client.call(INFO.tool, INFO.arguments)
                under_way = at_once
                while under_way:
                    client.next_answer()
                    window.note()
                    under_way -= 1
                    if not window.over:
                        client.call(INFO.tool, INFO.arguments)
                        under_way += 1
                rivals.place.rest()
                used[SERVER].append(window.each()[1])
                return window.each()[0]

            def by_docker(at_once: int = at_once, used: dict[str, list[float]] = used) -> float:
                window = Window(lead, seconds)

                def loop() -> None:
                    while not window.over:
                        docker_run(rivals.place, rivals.hardened, argv)
                        window.note()

                with ThreadPoolExecutor(at_once) as threads:
                    for one in [threads.submit(loop) for _ in range(at_once)]:
                        one.result()
                used[HARDENED].append(window.each()[1])
                return window.each()[0]

            rivals.place.rest()
            found = in_turn({SERVER: by_server, HARDENED: by_docker}, effort)
            gain = found[HARDENED].over(found[SERVER])
            costs = {
                name: statistics.median(each[1:]) for name, each in used.items()
            }  # the first round is not counted
            for name, one in found.items():
                rows.append((name, str(at_once), f"{1 / one.p50:.2f}", f"{costs[name]:.2f}"))
            reason = (
                f"a cycle takes {costs[SERVER]:.2f} s of the processors, `docker run` {costs[HARDENED]:.2f}"
            )
            findings.append(Finding(f"sustained-{at_once}", gain, reason))
    note = (
        f"{INFO.title}; {effort.rounds} rounds of {seconds:g} s for each, after {lead:g} s in which waiting slots are used up. "
        "Every call has a container of its own in both. The processors' time is that of the whole machine."
    )
    header = ("contender", "at once", "calls / s", "s of the processors for each")
    return Section("Sustained single-use calls", note, header, rows, findings)


def busy(rivals: Rivals, count: int) -> Section:
    """How soon requests that need no container are answered while as many calls run as may."""
    place, rows, findings = rivals.place, [], []
    calls = place.app.hosting.ready().concurrent
    with BareClient(place) as client:
        client.ask("tools/call", {"name": INFO.tool, "arguments": {"path": LARGE}})
        place.rest()
        found = {
            (method, 0): Series(
                tuple(timed(lambda method=method: client.ask(method, {})) for _ in range(count))
            )
            for method in METHODS
        }
        under_way: dict[int, Path] = {}

        def add() -> None:
            name = place.new_name(".tif")
            given = {"input": LARGE, "output": name, "dst_crs": "EPSG:3857"}
            under_way[client.call("reproject", given)] = place.workspace / name

        def asked(method: str) -> float:
            begun, number = time.perf_counter(), client.begin(method, {})
            while (answered := client.next_answer()[0]) != number:
                under_way.pop(answered).unlink()
                add()
            return time.perf_counter() - begun

        for _ in range(calls):
            add()
        found |= {(method, calls): Series(tuple(asked(method) for _ in range(count))) for method in METHODS}
        while under_way:
            under_way.pop(client.next_answer()[0]).unlink()
    for (method, meanwhile), one in found.items():
        slowest = max(one.seconds)
        rows.append((f"`{method}`", str(meanwhile), *map(milliseconds, (one.p50, one.p95, slowest))))
        if meanwhile:
            reason = f"p50 {milliseconds(one.p50)} ms, p95 {milliseconds(one.p95)} ms while {calls} calls run"
            findings.append(Finding(METHODS[method], slowest * 1000, reason))
    note = f"{count} of each. The calls reproject a large raster, each with all the processors that one may have."
    header = ("request", "calls meanwhile", "p50 ms", "p95 ms", "slowest ms")
    return Section("Answers while every place is taken", note, header, rows, findings)


def lasting(rivals: Rivals, calls: int) -> Section:
    """What many calls leave behind: memory, descriptors, threads, containers and staging folders."""
    place = rivals.place
    with BareClient(place, *STEADY_POOL) as client:
        client.ask("tools/list", {})
        at_first = client.resident_megabytes()
        _stream(place, client, WARM_UP, 2 * AT_ONCE)
        start = _held(place, client)
        half = _stream(place, client, calls // 2, AT_ONCE)
        whole = _stream(place, client, calls - calls // 2, AT_ONCE)
        end = _held(place, client)
        slots = [size for size in map(_slot_megabytes, place.containers().values()) if size]
        refill = Series(tuple(timed(lambda: _refilled(place, client)) for _ in range(5)))
    rows = [
        (name, f"{start[name]:.{name == 'memory, MB':d}f}", f"{end[name]:.{name == 'memory, MB':d}f}")
        for name in start
    ]
    rows += [
        ("memory once its tools are listed, MB", f"{at_first:.1f}", ""),
        (f"memory around call {calls // 2} and {calls}, MB", f"{half:.1f}", f"{whole:.1f}"),
        (
            "memory of a slot that waits, p50 MB",
            "",
            f"{statistics.median(slots):.1f}" if slots else "not told",
        ),
        ("from a call until the pool is full and at rest again, p50 ms", "", milliseconds(refill.p50)),
    ]
    findings = [Finding("memory", whole), Finding("growth", whole - half)]
    findings += [Finding(name, end[name] - start[name]) for name in ("containers", "staging", "descriptors")]
    note = (
        f"Over stdio, {AT_ONCE} calls at once, every {WRITES}th one writes; the pool is told to keep its size. Between start and "
        f"end lie {calls:,} calls; both are read at rest. Memory around a call is the median of {READINGS} readings."
    )
    return Section(f"What {calls:,} calls leave behind", note, ("what", "start", "end"), rows, findings)


def _stream(place: Place, client: BareClient, count: int, at_once: int) -> float:
    """So many calls; the megabytes that the server had during the last of them."""
    under_way: dict[int, str] = {}
    readings: list[float] = []

    def end() -> None:
        if name := under_way.pop(client.next_answer()[0]):
            (place.workspace / name).unlink()

    for number in range(count):
        name = "" if (number + 1) % WRITES else place.new_name(".tif")
        given = {"input": SMALL, "output": name} if name else {"path": SMALL}
        under_way[client.call("convert" if name else "info", given)] = name
        if len(under_way) == at_once:
            end()
        if number >= count - READINGS:
            readings.append(client.resident_megabytes())
    while under_way:
        end()
    return statistics.median(readings)


def _held(place: Place, client: BareClient) -> Mapping[str, float]:
    """What the server holds once its pool is at rest."""
    containers, staging = place.rest(SLOTS), place.workspace / ".gdal-mcp" / "staging"
    return {
        "memory, MB": client.resident_megabytes(),
        "descriptors": client.count("fd"),
        "threads": client.count("task"),
        "containers": containers,
        "staging": len(list(staging.iterdir())) if staging.is_dir() else 0,
    }


def _refilled(place: Place, client: BareClient) -> None:
    client.ask("tools/call", {"name": INFO.tool, "arguments": INFO.arguments})
    place.rest(SLOTS)


def _slot_megabytes(pid: int | None) -> float:
    """The proportional set of a container's first process, which is the only one of a slot that waits."""
    with suppress(OSError):  # another user's, or on another machine
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return (
            int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1]) * 1024 / 1e6
        )
    return 0.0
