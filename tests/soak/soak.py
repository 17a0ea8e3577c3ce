"""A bounded soak: several clients, each with a server of its own, on one workspace and one state folder.

So the servers share what servers of one user share: the audit log, the registry, approvals, locks, staging, undo, the memory
that containers are promised. Each client makes several calls at once; every answer is held to what an independent GDAL says.
"""

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
import mcp_types as t

from gdal_mcp.runtime.image import resolve
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from sandbox.engines.discovery import connect
from sandbox.engines.images import DockerImages
from tests.e2e.mcp.talk import ERAS, Person, Place, Talk, talking
from tests.oracle.container import Oracle, oracle_over
from tests.soak import traces
from tests.soak.cases import DEADLINE, DECK, GOOD, READS, WRITES, Answers, Case, answers, lay
from tests.soak.traces import COUNTED, Held, Servers
from tests.waiting import until

CANCELLED_SHARE = 0.12  # of the good calls are cancelled at a random moment, most of them before they end
LATEST_CANCEL = 1.5  # seconds after its start
ANSWER_SECONDS = 180.0  # far above every deadline: a call that takes longer hangs
CANCELLED = "cancelled"


@dataclass(frozen=True)
class Noted:
    """One call. `wrong` says what is wrong with its answer."""

    case: str
    outcome: str  # OK, an error code, or that the client cancelled it
    pool: str = ""
    wrong: str = ""


@dataclass
class Lane:
    """One call after the other through one client, the same ones in the same order for the same name."""

    name: str
    talk: Talk
    place: Place
    answers: Answers
    calls: list[Noted]  # of all lanes

    def __post_init__(self) -> None:
        self._random = random.Random(self.name)
        self._numbers = itertools.count(1)

    def run(self, hand: Sequence[Case], until: float) -> None:
        """Those cases, and then any until that moment of the monotonic clock."""
        for case in hand:
            self.calls.append(self._one(case))
        while time.monotonic() < until:
            self.calls.append(self._one(self._random.choice(DECK)))

    def _one(self, case: Case) -> Noted:
        output = f"{self.name}-{next(self._numbers)}{case.suffix or '.tif'}"
        chance, moment = self._random.random(), self._random.uniform(0.001, LATEST_CANCEL)
        cancels = case.cancelled or (case in GOOD and chance < CANCELLED_SHARE)
        future = self.talk.start(case.tool, **case.given(output))
        try:
            return self._judged(case, future.result(moment if cancels else ANSWER_SECONDS), output)
        except (TimeoutError, CancelledError):
            future.cancel()
            wrong = "" if cancels else f"no answer within {ANSWER_SECONDS:.0f} s"
            return Noted(case.name, CANCELLED, wrong=wrong)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is counted as broken, and the soak goes on
            return Noted(case.name, "broken", wrong=repr(error)[:300])

    def _judged(self, case: Case, result: t.CallToolResult, output: str) -> Noted:
        said: Mapping[str, Any] = result.structured_content or {}
        if result.is_error:
            code = said.get("error", {}).get("code", "no code")
            return Noted(case.name, code, wrong="" if code in case.codes else f"it ended with {said}"[:400])
        pool = said.get("receipt", {}).get("pool", "")
        if case.fails:
            return Noted(case.name, "OK", pool, f"it succeeded: {said}"[:400])
        return Noted(case.name, "OK", pool, self.answers.wrong(case, said, self.place.path(output)))


LANES = 2  # calls at once of each client
UNDO_CALLS = 12  # few, so that undo is pruned all the time
SETTLE_SECONDS = 60.0  # for idle threads to end and slots to be there again
GROWTH = 4.0  # MB of all servers together in the second half of a soak, steadily; some 3 kB for each call of a long one
# more of each server than after its first calls: connections to the engine that are kept for the next call, as many as were
# ever used at once; one that is lost with each call is seen all the same
KEPT_CONNECTIONS = 6


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long, and by how many."""

    seconds: float = 600.0
    # seconds before what is held is read for the first time; 0 is a call or two by each
    warm_up: float = 60.0
    clients: int = 4
    timeout: float = 20.0  # seconds, of a call; only those that would take minutes reach it

    def options(self) -> tuple[str, ...]:
        """Of each server. The pool keeps its size, so that what is held at the end can be held to what was at the start."""
        limits = f"--cpus 1 --memory 512MiB --timeout-seconds {self.timeout} --undo-calls {UNDO_CALLS}"
        return (*limits.split(), *"--pool-min 1 --pool-max 2".split())


@dataclass
class Found:
    """What came of a soak. `faults` is empty when all is well."""

    plan: Plan
    calls: list[Noted]
    servers: Servers
    start: Held
    end: Held
    faults: list[str] = field(default_factory=list)

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(call.outcome for call in self.calls)

    def report(self) -> str:
        """The numbers, as text."""
        held = ", ".join(
            f"{name} {getattr(self.start, name):g} -> {getattr(self.end, name):g}"
            for name in ("memory", *COUNTED)
        )
        step = max(1, len(self.servers.curve) // 12)
        lines = (
            f"{len(self.calls)} calls by {self.plan.clients} clients: {dict(self.outcomes.most_common())}",
            f"all servers hold: {held}",
            f"memory over time: {' '.join(f'{size:.0f}' for size in self.servers.curve[::step])} MB",
            f"faults: {len(self.faults)}",
        )
        return "\n".join([*lines, *(f"  {fault}" for fault in self.faults[:20])])


def soak(oracle: Oracle, client: docker.DockerClient, folder: Path, plan: Plan) -> Found:
    """Everything, from empty folders to what is left when every server has ended."""
    place = Place.made(folder)
    lay(oracle, place.workspace)
    expected, servers, calls = answers(oracle, place.workspace), Servers(place, client), list[Noted]()
    deal = random.Random(1)
    with _clients(place, folder, plan) as talks:
        lanes = [
            Lane(f"lane{number}-{lane}", talk, place, expected, calls)
            for number, talk in enumerate(talks)
            for lane in range(LANES)
        ]
        _together(lanes, _dealt(deal) if plan.warm_up else [READS[0], WRITES[0]] * len(lanes), plan.warm_up)
        owners = place.owners
        start = _at_rest(servers, plan)
        with servers.watched():
            _together(lanes, _dealt(deal), plan.seconds)
        end = servers.settled(_allowed(start, plan), SETTLE_SECONDS)
    found = Found(plan, calls, servers, start, end)
    found.faults = [
        *(f"{call.case}: {call.wrong}" for call in calls if call.wrong),
        *_held_more(found),
        *traces.left_behind(place, client, owners),
        *traces.records(place),
    ]
    return found


@contextmanager
def _clients(place: Place, folder: Path, plan: Plan) -> Iterator[list[Talk]]:
    """One server each; the eras take turns."""
    with ExitStack() as stack:
        command = place.command(*plan.options())
        talks = []
        for number in range(plan.clients):
            era, log = ERAS[number % len(ERAS)], folder / f"server{number}.log"
            talks.append(stack.enter_context(talking(command, log, era=era, person=Person())))
        yield talks


def _dealt(deal: random.Random) -> Sequence[Case]:
    """Every case once, a deadline among them."""
    return deal.sample((*DECK, DEADLINE), len(DECK) + 1)


def _together(lanes: Sequence[Lane], cards: Sequence[Case], seconds: float) -> None:
    """Each of those by somebody, and then any until so many seconds have passed."""
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(len(lanes)) as threads:
        begun = [threads.submit(lane.run, cards[n :: len(lanes)], end) for n, lane in enumerate(lanes)]
        for future in begun:
            future.result()


def _at_rest(servers: Servers, plan: Plan) -> Held:
    """After the first calls, once a slot that reads and one that writes wait in each server, and nothing else is there."""
    until(lambda: (len(servers.containers()), len(servers.place.staged)) == (2 * plan.clients, plan.clients))
    return servers.held()


def _allowed(start: Held, plan: Plan) -> Held:
    """The most that may be held at the end."""
    return replace(start, descriptors=start.descriptors + KEPT_CONNECTIONS * plan.clients)


def _held_more(found: Found) -> Iterator[str]:
    most = _allowed(found.start, found.plan)
    for name in COUNTED:
        before, after = getattr(found.start, name), getattr(found.end, name)
        if after > getattr(most, name):
            yield f"{name}: {before} after the first calls, {after} at the end"
    if (growth := traces.steady_growth(found.servers.curve)) > GROWTH:
        yield f"the servers' memory grew steadily, by {growth:.1f} MB in the second half"


def run(folder: Path, plan: Plan) -> Found:
    """A soak on this host's engine and image."""
    with closing(connect()) as client:
        image = resolve(DockerImages(client.api), GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None)
        with oracle_over(image.id, folder) as oracle:
            return soak(oracle, client, folder / "soak", plan)
