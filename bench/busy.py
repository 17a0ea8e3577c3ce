"""How soon a server answers what needs no container while as many calls run as may."""

import time
from dataclasses import dataclass, field

from bench.clients import BareClient
from bench.cold import Field
from bench.report import Goal, Section, milliseconds
from bench.series import Series, timed

LIMIT = 50  # ms
METHODS = ("ping", "tools/list")
_IDLE = "no call"


def measure(place: Field, source: str, count: int) -> Section:
    """Each method so many times, on a server that does nothing else and on one whose every place is taken."""
    calls = place.direct.app.hosting.ready().concurrent
    with BareClient(place.arena, modern=False) as client:
        client.ask("tools/list", {})
        client.ask("tools/call", {"name": "info", "arguments": {"path": source}})
        place.containers.at_rest()
        quiet = {method: Series(tuple(_asked(client, method) for _ in range(count))) for method in METHODS}
        busy = _while_busy(place, client, source, count, calls)
    rows = [
        (f"`{method}`", name, milliseconds(one.p50), milliseconds(one.p95), milliseconds(max(one.seconds)))
        for name, found in ((_IDLE, quiet), (f"{calls} calls", busy))
        for method, one in found.items()
    ]
    goals = tuple(
        Goal(
            f"the slowest `{method}` of {count} while {calls} calls run",
            LIMIT,
            max(one.seconds) * 1000,
            "ms",
            f"p50 {milliseconds(one.p50)} ms, p95 {milliseconds(one.p95)} ms; {milliseconds(max(quiet[method].seconds))} ms "
            "at most when nothing runs: the server's process waits for a processor like any other",
        )
        for method, one in busy.items()
    )
    note = (
        f"{count} of each. The calls reproject a large raster, each with all the processors that one may have, so every "
        "slot is busy and every processor wanted more than once."
    )
    return Section(
        "Answers while every slot is busy",
        note,
        ("request", "meanwhile", "p50 ms", "p95 ms", "slowest ms"),
        rows,
        goals,
    )


def _asked(client: BareClient, method: str) -> float:
    return timed(lambda: client.ask(method, {}))


def _while_busy(place: Field, client: BareClient, source: str, count: int, calls: int) -> dict[str, Series]:
    """The same with a new call for each that ends; what they write is removed."""
    load = Load(place, client, source)
    for _ in range(calls):
        load.add()
    found = {method: [load.asked(method) for _ in range(count)] for method in METHODS}
    load.end()
    return {method: Series(tuple(seconds)) for method, seconds in found.items()}


@dataclass(slots=True)
class Load:
    """Long calls that are under way, by id, with the names that they write to."""

    place: Field
    client: BareClient
    source: str
    under_way: dict[int, str] = field(default_factory=dict)

    def add(self) -> None:
        name = self.place.arena.new_name()
        given = {"input": self.source, "output": name, "dst_crs": "EPSG:3857"}
        number = self.client.begin("tools/call", {"name": "reproject", "arguments": given})
        self.under_way[number] = name

    def asked(self, method: str) -> float:
        """Seconds until the answer, while calls that end meanwhile are replaced."""
        begun = time.perf_counter()
        number = self.client.begin(method, {})
        while (answered := self.client.next_answer()[0]) != number:
            self._drop(answered)
            self.add()
        return time.perf_counter() - begun

    def end(self) -> None:
        while self.under_way:
            self._drop(self.client.next_answer()[0])

    def _drop(self, number: int) -> None:
        (self.place.arena.workspace / self.under_way.pop(number)).unlink()
