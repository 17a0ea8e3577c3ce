"""Single-use calls as fast as they go, for a while, against `docker run` in loops at the same concurrency."""

import statistics
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bench.clients import BareClient
from bench.cold import HARDENED, Case, Field, argv
from bench.receipts import Receipts
from bench.report import Goal, Section, milliseconds
from bench.rivals import docker_run
from bench.series import Effort, Series, in_turn, used_seconds

LEAST = 1.5  # times the calls of `docker run`
AT_ONCE = (2, 4)
SERVER = "gdal-mcp over stdio"


@dataclass(frozen=True, slots=True)
class Span:
    """How long each contender is measured, in seconds; before, slots that were ready are used up."""

    lead: float
    window: float


@dataclass(slots=True)
class Window:
    """Counts what ends between the first end after the lead and the first end after the window. For several threads."""

    span: Span
    calls: int = 0
    over: bool = False
    _opens: float = field(default=0.0)
    _begun: tuple[float, float] | None = None
    _ended: tuple[float, float] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._opens = time.monotonic() + self.span.lead

    def note(self) -> bool:
        """One more has ended; whether it counts."""
        now = (time.monotonic(), used_seconds())
        with self._lock:
            if self.over or now[0] < self._opens:
                return False
            if self._begun is None:
                self._begun = now
                return False
            self.calls += 1
            if now[0] >= self._begun[0] + self.span.window:
                self._ended, self.over = now, True
            return True

    def each(self) -> tuple[float, float]:
        """Seconds, and those of all processors, for each call."""
        assert self._begun is not None
        assert self._ended is not None
        seconds, used = (after - before for before, after in zip(self._begun, self._ended, strict=True))
        return seconds / self.calls, used / self.calls


@dataclass(slots=True)
class Contenders:
    """Both of them at one concurrency, and what they used."""

    place: Field
    client: BareClient
    case: Case
    words: list[str]
    at_once: int
    span: Span
    receipts: Receipts = field(default_factory=Receipts)
    used: dict[str, list[float]] = field(default_factory=dict)

    def by_server(self) -> float:
        window, under_way = Window(self.span), 0
        request = {"name": self.case.tool, "arguments": self.case.arguments}
        for _ in range(self.at_once):
            self.client.begin("tools/call", request)
            under_way += 1
        while under_way:
            _, result = self.client.next_answer()
            under_way -= 1
            if window.note():
                self.receipts.keep(result["structuredContent"], 0.0)
            if not window.over:
                self.client.begin("tools/call", request)
                under_way += 1
        self.place.containers.at_rest()
        return self._each(SERVER, window)

    def by_docker(self) -> float:
        window = Window(self.span)

        def loop() -> None:
            while not window.over:
                docker_run(self.place.arena, self.place.hardened, self.words)
                window.note()

        with ThreadPoolExecutor(self.at_once) as threads:
            for one in [threads.submit(loop) for _ in range(self.at_once)]:
                one.result()
        return self._each(HARDENED, window)

    def _each(self, name: str, window: Window) -> float:
        seconds, used = window.each()
        self.used.setdefault(name, []).append(used)
        return seconds


def measure(place: Field, case: Case, span: Span, effort: Effort) -> Section:
    """A row for each contender and concurrency."""
    rows, goals = [], []
    words = argv(place, case)
    with BareClient(place.arena, modern=False) as client:
        client.ask("tools/call", {"name": case.tool, "arguments": case.arguments})
        for at_once in AT_ONCE:
            both = Contenders(place, client, case, words, at_once, span)
            place.containers.at_rest()
            found = in_turn({SERVER: both.by_server, HARDENED: both.by_docker}, effort)
            rows += _rows(both, found)
            goals.append(_goal(both, found))
    note = (
        f"`{case.tool}` of a small GeoTIFF; {effort.rounds} rounds of {span.window:g} s for each, after {span.lead:g} s that do "
        "not count. Every call has a container of its own in both. The processors' time is that of the whole machine for "
        "each call, clients and engine included."
    )
    header = ("contender", "at once", "calls / s", "s of the processors", "warm", "it / `docker run`")
    return Section("Sustained single-use calls", note, header, rows, tuple(goals))


def _rows(both: Contenders, found: Mapping[str, Series]) -> list[tuple[str, ...]]:
    gain = found[HARDENED].over(found[SERVER])
    shares = {SERVER: (f"{both.receipts.warm_share:.0%}", f"{gain:.2f}"), HARDENED: ("", "")}
    return [
        (name, str(both.at_once), f"{1 / one.p50:.2f}", f"{_used(both, name):.2f}", *shares[name])
        for name, one in found.items()
    ]


def _goal(both: Contenders, found: Mapping[str, Series]) -> Goal:
    what = f"Sustained single-use calls, {both.at_once} at once, against {HARDENED}, calls a second"
    cycle = {
        name: statistics.mean(one["seconds"].get(name, 0.0) for one in both.receipts.found)
        for name in ("create", "start", "run", "remove")
    }
    steps = ", ".join(f"{name} {milliseconds(seconds)} ms" for name, seconds in cycle.items())
    reason = (
        f"a cycle takes {_used(both, SERVER):.2f} s of the processors, `docker run` {_used(both, HARDENED):.2f}; "
        f"under this load {steps}"
    )
    return Goal(what, LEAST, found[HARDENED].over(found[SERVER]), reason=reason, at_least=True)


def _used(both: Contenders, name: str) -> float:
    return statistics.median(both.used[name][1:])  # the first round is not counted
