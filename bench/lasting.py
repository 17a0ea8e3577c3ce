"""What many calls leave behind: the server's memory, descriptors, containers and staging folders; and what a slot that waits takes."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, fields

from bench.arena import NotMeasurable
from bench.clients import BareClient
from bench.cold import Field
from bench.report import Goal, Section, milliseconds
from bench.series import Series, timed

MEMORY_GOAL = 120  # MB
# MB that count as no growth: what the allocator keeps moves by as much from call to call, while a leak of 4 kB in each
# call would be 2 MB
STEADY = 1.0
AT_ONCE = 2
WARM_UP = 40  # calls, more at once than later: every thread and connection to the engine that will be kept is there then
# a pool that does not adapt to what was asked lately, so that what is read at the end can be held to what was at the start
STEADY_POOL = ("--pool-min", "2", "--pool-max", "4")
WRITES = 5  # every fifth call writes, so that staging, publication and undo are in it
AROUND = 20  # readings of the memory before a mark, of which the median counts
REFILLS = 10


@dataclass(frozen=True, slots=True)
class Held:
    """What a server holds while no call runs."""

    memory: float  # MB
    descriptors: int
    threads: int
    containers: int
    staging: int


def measure(place: Field, source: str, calls: int) -> tuple[Section, Section]:
    with BareClient(place.arena.serving(*STEADY_POOL), modern=False) as client:
        server = _Server(place, client, source)
        client.ask("tools/list", {})
        at_first = client.resident_bytes() / 1e6
        server.calls(WARM_UP, at_once=2 * AT_ONCE)
        start = server.held()
        half = server.calls(calls // 2)
        whole = server.calls(calls - calls // 2)
        end = server.held()
        slots = _slots(server)
    rows = [("memory of a server that has listed its tools, MB", f"{at_first:.1f}", "")]
    rows += [
        (_WORDS[one.name], f"{getattr(start, one.name):g}", f"{getattr(end, one.name):g}")
        for one in fields(Held)
    ]
    rows.append((f"memory around call {calls // 2} and {calls}, MB", f"{half:.1f}", f"{whole:.1f}"))
    note = (
        f"Over stdio, {AT_ONCE} calls at once, every {WRITES}th one writes; the pool is told to keep its size. Between start "
        f"and end lie {calls:,} calls; both are read once it is at rest. The last row is the median of {AROUND} readings each."
    )
    goals = _goals(start, end, calls, (half, whole))
    table = Section(f"What {calls:,} calls leave behind", note, ("what", "start", "end"), rows, goals)
    return table, slots


_WORDS: Mapping[str, str] = {
    "memory": "memory of the server, MB",
    "descriptors": "open file descriptors",
    "threads": "threads",
    "containers": "containers, waiting slots included",
    "staging": "staging folders, those of waiting slots included",
}


def _goals(start: Held, end: Held, calls: int, around: tuple[float, float]) -> tuple[Goal, ...]:
    gone = [
        Goal(
            f"{_WORDS[name]}: more after {calls:,} calls than before",
            0,
            getattr(end, name) - getattr(start, name),
            "",
        )
        for name in ("containers", "staging", "descriptors")
    ]
    return (
        Goal(f"memory of the server after {calls:,} calls", MEMORY_GOAL, around[1], "MB"),
        Goal(f"its growth from call {calls // 2:,} to {calls:,}", STEADY, around[1] - around[0], "MB"),
        *gone,
    )


@dataclass(slots=True)
class _Server:
    """One server and the calls that it is given."""

    place: Field
    client: BareClient
    source: str
    done: int = 0

    def calls(self, count: int, at_once: int = AT_ONCE) -> float:
        """So many calls; the memory during the last of them in MB."""
        under_way: dict[int, str] = {}
        readings: list[int] = []
        for number in range(count):
            self._begin(under_way)
            if len(under_way) == at_once:
                self._end(under_way)
            if number >= count - AROUND:
                readings.append(self.client.resident_bytes())
        while under_way:
            self._end(under_way)
        return statistics.median(readings) / 1e6

    def _begin(self, under_way: dict[int, str]) -> None:
        self.done += 1
        if self.done % WRITES:
            name, given = "", {"name": "info", "arguments": {"path": self.source}}
        else:
            name = self.place.arena.new_name()
            given = {"name": "convert", "arguments": {"input": self.source, "output": name}}
        under_way[self.client.begin("tools/call", given)] = name

    def _end(self, under_way: dict[int, str]) -> None:
        name = under_way.pop(self.client.next_answer()[0])
        if name:
            (self.place.arena.workspace / name).unlink()

    def held(self) -> Held:
        """Once the pool is at rest."""
        seen = self.place.containers.at_rest(int(STEADY_POOL[-1]))
        folder = self.place.arena.workspace / ".gdal-mcp" / "staging"
        return Held(
            memory=round(self.client.resident_bytes() / 1e6, 1),
            descriptors=self.client.descriptors(),
            threads=self.client.threads(),
            containers=seen,
            staging=len(list(folder.iterdir())) if folder.is_dir() else 0,
        )


def _slots(server: _Server) -> Section:
    """The memory of the slots that wait, and how soon a used one is replaced."""
    seen = server.place.containers
    idle = seen.at_rest(int(STEADY_POOL[-1]))
    memory = [size / 1e6 for size in seen.memory()]
    if not memory:
        raise NotMeasurable("no slot waits on a server that has just been used")
    waited = Series(tuple(timed(lambda: _used_and_replaced(server, idle)) for _ in range(REFILLS)))
    rows = (
        ("slots that wait", str(idle)),
        ("memory of one, p50 MB", f"{statistics.median(memory):.1f}"),
        ("the largest", f"{max(memory):.1f}"),
        ("from a call until the pool is full and at rest again, p50 ms", milliseconds(waited.p50)),
    )
    note = "What the control group of each holds, without file pages that the kernel may drop. It takes no processor time."
    return Section("A slot that waits", note, ("", ""), rows)


def _used_and_replaced(server: _Server, idle: int) -> None:
    server.calls(1)
    server.place.containers.at_rest(idle)
