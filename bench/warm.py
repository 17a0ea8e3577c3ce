"""Warm calls against `docker run`, the plain process and an in-process server."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from bench.arena import NotMeasurable
from bench.clients import Call, sdk_client
from bench.cold import (
    COMPARED,
    HARDENED,
    PLAIN,
    Case,
    Field,
    arguments,
    compared,
    compared_note,
    rivals,
)
from bench.inprocess import in_process
from bench.peer import TOOL, VERSION, peer_client
from bench.receipts import AFTERWARDS, TRIES, Receipts
from bench.report import Goal, Section, milliseconds
from bench.rest import Resting
from bench.series import Effort, Series, in_turn, timed
from gdal_mcp.settings import Settings

SERVER = "gdal-mcp over stdio, warm"
WITHIN = "gdal-mcp in process, warm, without the protocol"
PEER = f"the in-process server gdal-mcp {VERSION} over stdio"
_LEAST = Settings.model_fields["pool_min"].default  # slots of each kind
KINDS = 2  # slots that read and slots that write to the workspace
_SMALL = "small.tif"


@dataclass(slots=True)
class Warm:
    """One server of ours whose pool is full, and what it answered."""

    place: Field
    ask: Call
    resting: Resting
    receipts: Receipts = field(default_factory=Receipts)

    def call(self, case: Case) -> float:
        """The seconds of one warm call; a cold one does not count and is made again once the pool is full."""
        for _ in range(TRIES):
            given = arguments(self.place.arena, case)
            begun = time.perf_counter()
            result = self.ask(case.tool, given)
            seconds = time.perf_counter() - begun
            if result["receipt"]["pool"] == "warm":
                self.receipts.keep(result, seconds)
                return seconds
            self.receipts.misses += 1
            self.resting.containers.at_rest(self.resting.idle)
        raise NotMeasurable(
            f"{TRIES} calls, one after the other, found no warm slot though the pool was full"
        )


@contextmanager
def warm_server(place: Field, servers: int = 1) -> Iterator[Warm]:
    """A server with its default pool, filled, as are those of so many `servers` in all that run."""
    with sdk_client(place.arena) as ask:
        ask("info", {"path": _SMALL})  # answered after attestation; from then on slots are kept
        idle = place.containers.at_rest(servers * KINDS * _LEAST)
        yield Warm(place, ask, Resting(place.containers, idle))


def measure_info(place: Field, case: Case, effort: Effort) -> tuple[Section, Section]:
    """The table of `info` with its goals, and where the time of our call goes."""
    with ExitStack() as stack:
        within = stack.enter_context(in_process(place.arena, warm=True))
        ours = stack.enter_context(warm_server(place, servers=2))
        bare = replace(ours, ask=within.call, receipts=Receipts())
        without = {WITHIN: ours.resting.after(lambda: bare.call(case))}
        peer, missing = _peer(stack, place)
        found = in_turn({**_ours(ours, case), **without, **rivals(place, case), **peer}, effort)
    here = found[SERVER]
    rest = milliseconds(bare.receipts.parts(warm=True)["the rest"])
    reason = f"of it {ours.receipts.told(warm=True)}; without the protocol, the rest is {rest} ms"

    def against(name: str, limit: float) -> Goal:
        return Goal(f"{case.title}, against {name}", limit, here.over(found[name]), reason=reason)

    goals = (
        against(HARDENED, 0.07),
        against(PLAIN, 0.25),
        against(PEER, 1.0) if peer else Goal(f"{case.title}, against {PEER}", 1.0, None, reason=missing),
        Goal(
            f"{case.title}, p95 against its own p50", 2.0, here.p95 / here.p50, reason=_slowest(ours.receipts)
        ),
    )
    table = Section(case.title, _note(ours, here), COMPARED, compared(found, SERVER), goals)
    return table, _parts(ours.receipts, case)


def measure_convert(place: Field, case: Case, effort: Effort) -> tuple[Section, Section]:
    """The same for a call that writes, which answers once its container has ended."""
    with warm_server(place) as ours:
        found = in_turn({**_ours(ours, case), **rivals(place, case)}, effort)
    reason = f"of it {ours.receipts.told(warm=True)}"
    goal = Goal(f"{case.title}, against {PLAIN}", 0.6, found[SERVER].over(found[PLAIN]), reason=reason)
    table = Section(case.title, _note(ours, found[SERVER]), COMPARED, compared(found, SERVER), (goal,))
    return table, _parts(ours.receipts, case)


def _ours(ours: Warm, case: Case) -> dict[str, Callable[[], float]]:
    return {SERVER: ours.resting.after(lambda: ours.call(case))}


def _peer(stack: ExitStack, place: Field) -> tuple[dict[str, Callable[[], float]], str]:
    """The in-process server as a contender, or why it is not here."""
    try:
        ask = stack.enter_context(peer_client(place.arena))
        given = {"uri": str(place.arena.workspace / _SMALL)}
        ask(TOOL, given)
    except NotMeasurable as error:
        return {}, str(error)
    return {PEER: lambda: timed(lambda: ask(TOOL, given))}, ""


def _note(ours: Warm, series: Series) -> str:
    idle, misses = ours.resting.idle, ours.receipts.misses
    again = f"; {misses} calls were served cold and made again" if misses else ""
    return (
        f"{compared_note(series)} Each of our calls had a warm slot{again}; {idle} slots wait when the pool is at rest, "
        "and nothing is measured before it is."
    )


def _parts(receipts: Receipts, case: Case) -> Section:
    rows = [(name, milliseconds(seconds)) for name, seconds in receipts.parts(warm=True).items()]
    note = (
        f"From the receipts, p50. {', '.join(AFTERWARDS)} are not waited for; `the rest` is the protocol in both "
        "programs, the check of the result, the closing record and what the client does: compare the row without the protocol."
    )
    return Section(f"Where the time of a warm `{case.tool}` goes", note, ("part", "ms"), rows)


def _slowest(receipts: Receipts) -> str:
    """What was longest in the slowest call."""
    waited, receipt = max(zip(receipts.waited, receipts.found, strict=True), key=lambda pair: pair[0])
    parts = {name: taken for name, taken in receipt["seconds"].items() if name not in AFTERWARDS}
    longest = max(parts, key=lambda name: parts[name])
    return f"the slowest took {milliseconds(waited)} ms, {longest} {milliseconds(parts[longest])} ms of it"
