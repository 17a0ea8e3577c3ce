"""A bounded soak: several clients, each with its own server, on one workspace and one state folder.

The servers share what all servers of one user share: the audit log, the registry, approvals, locks, staging, undo,
the memory reserved for containers. Each client makes several calls at once; every answer is compared with that of an
independent GDAL.
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

# share of the good calls that is cancelled at a random moment, most of them before they end
CANCELLED_SHARE = 0.12
LATEST_CANCEL = 1.5  # seconds after its start
ANSWER_SECONDS = 180.0  # far above every deadline: a call that takes longer is stuck
CANCELLED = "cancelled"


@dataclass(frozen=True)
class Noted:
    """One call. `wrong` describes a fault of its answer."""

    case: str
    outcome: str  # OK, an error code, or cancelled by the client
    pool: str = ""
    wrong: str = ""


@dataclass
class Lane:
    """Calls one after the other through one client; the name determines the calls and their order."""

    name: str
    talk: Talk
    place: Place
    answers: Answers
    calls: list[Noted]  # shared by all lanes

    def __post_init__(self) -> None:
        self._random = random.Random(self.name)
        self._numbers = itertools.count(1)

    def run(self, hand: Sequence[Case], until: float) -> None:
        """Runs these cases, and then random ones until that moment of the monotonic clock."""
        for case in hand:
            self.calls.append(self._call(case))
        while time.monotonic() < until:
            self.calls.append(self._call(self._random.choice(DECK)))

    def _call(self, case: Case) -> Noted:
        output = f"{self.name}-{next(self._numbers)}{case.suffix or '.tif'}"
        chance, moment = self._random.random(), self._random.uniform(0.001, LATEST_CANCEL)
        cancels = case.cancelled or (case in GOOD and chance < CANCELLED_SHARE)
        future = self.talk.start(case.tool, **case.arguments_for(output))
        try:
            return self._judged(case, future.result(moment if cancels else ANSWER_SECONDS), output)
        except (TimeoutError, CancelledError):
            future.cancel()
            wrong = "" if cancels else f"no answer within {ANSWER_SECONDS:.0f} s"
            return Noted(case.name, CANCELLED, wrong=wrong)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is counted as broken, and the soak goes on
            return Noted(case.name, "broken", wrong=repr(error)[:300])

    def _judged(self, case: Case, result: t.CallToolResult, output: str) -> Noted:
        content: Mapping[str, Any] = result.structured_content or {}
        if result.is_error:
            code = content.get("error", {}).get("code", "no code")
            return Noted(
                case.name, code, wrong="" if code in case.codes else f"it ended with {content}"[:400]
            )
        pool = content.get("receipt", {}).get("pool", "")
        if case.fails:
            return Noted(case.name, "OK", pool, f"it succeeded: {content}"[:400])
        return Noted(case.name, "OK", pool, self.answers.wrong(case, content, self.place.path(output)))


LANES = 2  # simultaneous calls of each client
UNDO_CALLS = 12  # few, so that undo is pruned continuously
SETTLE_SECONDS = 60.0  # until idle threads have ended and slots exist again
# MB of steady growth of all servers together in the second half of a soak; about 3 kB for each call of a long one
GROWTH = 4.0
# additional descriptors per server compared with the end of its first calls: connections to the engine that are reused, as
# many as were ever needed at once; a loss with each call would still be detected
KEPT_CONNECTIONS = 6


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Duration and number of clients."""

    seconds: float = 600.0
    # seconds before the first measurement; 0 means after one or two calls by each client
    warm_up: float = 60.0
    clients: int = 4
    timeout: float = 20.0  # seconds per call; only calls that would take minutes reach it

    def options(self) -> tuple[str, ...]:
        """The options of each server. The pool has a fixed size, so that the resources at the end can be compared
        with those at the start.
        """
        limits = f"--cpus 1 --memory 512MiB --timeout-seconds {self.timeout} --undo-calls {UNDO_CALLS}"
        return (*limits.split(), *"--pool-min 1 --pool-max 2".split())


@dataclass
class Found:
    """The results of a soak. `faults` is empty after a success."""

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
        measurements = ", ".join(
            f"{name} {getattr(self.start, name):g} -> {getattr(self.end, name):g}"
            for name in ("memory", *COUNTED)
        )
        step = max(1, len(self.servers.curve) // 12)
        lines = (
            f"{len(self.calls)} calls by {self.plan.clients} clients: {dict(self.outcomes.most_common())}",
            f"all servers hold: {measurements}",
            f"memory over time: {' '.join(f'{size:.0f}' for size in self.servers.curve[::step])} MB",
            f"faults: {len(self.faults)}",
        )
        return "\n".join([*lines, *(f"  {fault}" for fault in self.faults[:20])])


def soak(oracle: Oracle, client: docker.DockerClient, folder: Path, plan: Plan) -> Found:
    """The whole soak, from empty folders to leftovers after every server has ended."""
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
    result = Found(plan, calls, servers, start, end)
    result.faults = [
        *(f"{call.case}: {call.wrong}" for call in calls if call.wrong),
        *_growth_faults(result),
        *traces.left_behind(place, client, owners),
        *traces.records(place),
    ]
    return result


@contextmanager
def _clients(place: Place, folder: Path, plan: Plan) -> Iterator[list[Talk]]:
    """One server for each client, with alternating protocol eras."""
    with ExitStack() as stack:
        command = place.command(*plan.options())
        talks = []
        for number in range(plan.clients):
            era, log = ERAS[number % len(ERAS)], folder / f"server{number}.log"
            talks.append(stack.enter_context(talking(command, log, era=era, person=Person())))
        yield talks


def _dealt(deal: random.Random) -> Sequence[Case]:
    """Deals every case once, including one that reaches its deadline."""
    return deal.sample((*DECK, DEADLINE), len(DECK) + 1)


def _together(lanes: Sequence[Lane], cards: Sequence[Case], seconds: float) -> None:
    """Distributes these cases among the clients, then runs random ones until so many seconds have passed."""
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(len(lanes)) as threads:
        futures = [threads.submit(lane.run, cards[n :: len(lanes)], end) for n, lane in enumerate(lanes)]
        for future in futures:
            future.result()


def _at_rest(servers: Servers, plan: Plan) -> Held:
    """Measures after the first calls, when each server has one waiting slot that reads and one that writes, and
    nothing else.
    """
    until(lambda: (len(servers.containers()), len(servers.place.staged)) == (2 * plan.clients, plan.clients))
    return servers.used_resources()


def _allowed(start: Held, plan: Plan) -> Held:
    """The upper limits for the end."""
    return replace(start, descriptors=start.descriptors + KEPT_CONNECTIONS * plan.clients)


def _growth_faults(result: Found) -> Iterator[str]:
    most = _allowed(result.start, result.plan)
    for name in COUNTED:
        before, after = getattr(result.start, name), getattr(result.end, name)
        if after > getattr(most, name):
            yield f"{name}: {before} after the first calls, {after} at the end"
    if (growth := traces.steady_growth(result.servers.curve)) > GROWTH:
        yield f"the servers' memory grew steadily, by {growth:.1f} MB in the second half"


def run(folder: Path, plan: Plan) -> Found:
    """A soak on this host's engine and image."""
    with closing(connect()) as client:
        image = resolve(DockerImages(client.api), GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None)
        with oracle_over(image.id, folder) as oracle:
            return soak(oracle, client, folder / "soak", plan)
