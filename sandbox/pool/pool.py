"""Started containers that wait for a call, so that a call need not wait for one. Each serves one and is destroyed.

Invariants:
* a slot is claimed once and never comes back; its staging folder was made for it and goes with it;
* a claim is answered with a waiting slot or a new container, never with a refill that is under way;
* a slot stands for exactly the template that is asked for, on the same folders with the same mounts below them;
* waiting slots leave room for a call that finds none, and make room when it takes more.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from sandbox.cancel import Cancellation
from sandbox.capacity import Place
from sandbox.errors import PathReplaced, SandboxError
from sandbox.outcome import SandboxResult, Usage
from sandbox.pool.demand import Demand, Sizes, shares
from sandbox.pool.lease import IdleSlot, Lease, SlotKey
from sandbox.pool.machine import ground, memory
from sandbox.runner import PLACE_SECONDS, Job, Runner
from sandbox.slot import LaunchCancelled, Slot
from sandbox.waiting import Bell, HasDescriptor, readable

# how long a refill leaves the processors to the call that it follows: while that call is alone, and when there are others
ALONE_SECONDS, AMONG_OTHERS_SECONDS = 5.0, 0.1
REST_SECONDS = 0.02  # after a call's container has ended: until then its answer is on its way
REFILLS, REMOVALS = 2, 2  # at once; starting more only makes each slower
# a worker waits so much longer than its slot is kept, so that only an orphan ends by itself
IDLE_MARGIN = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds after a refill that failed
_SLOT_BYTES = 64 << 20  # what a waiting slot really takes, rounded up
_SPARE_BYTES = 512 << 20  # free memory of the machine that is left alone
_MANY = 1000  # slots, more than any setting allows
_LOOK_SECONDS = 5.0  # at least so often the demand, the age of slots and the free memory are looked at
_SMOOTH = 4  # refills that decide how long one takes
_FIRST_REFILL = 0.5  # seconds, until the first one was measured

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """What the pool has now, and did since it began."""

    waiting: int
    starting: int
    hits: int
    misses: int
    started: int
    lost: int  # ended while they waited


class WarmPool:
    """The waiting slots of one host. Safe to use from several threads. Without `keep` every claim is cold."""

    def __init__(self, runner: Runner, sizes: Sizes, standing: Callable[[], Sequence[SlotKey]]) -> None:
        """`standing` are the kinds of which `sizes.least` wait even when nobody asks."""
        self.runner = runner
        self._sizes = sizes
        self._standing = standing
        self._lock = threading.Lock()
        self._waiting: list[IdleSlot] = []
        self._starting: list[SlotKey] = []
        self._demands: list[tuple[SlotKey, Demand]] = []
        self._due: dict[int, float] = {}  # claimed slots, and when a refill may follow
        self._cancel = Cancellation()
        self._bell = Bell()
        self._pause, self._resume = _FIRST_PAUSE, 0.0
        self._hits = self._misses = self._started = self._lost = 0
        self._refill_seconds = _FIRST_REFILL
        self._closed = False
        self._keeper: threading.Thread | None = None
        self._refilling = ThreadPoolExecutor(REFILLS, "refill")
        self._removing = ThreadPoolExecutor(REMOVALS, "removal")

    def keep(self) -> None:
        """Begins to keep slots waiting."""
        if self._keeper is None and self._sizes.most:
            self._keeper = threading.Thread(target=self._keep, name="pool", daemon=True)
            self._keeper.start()

    def claim(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        """A waiting slot of this kind, else a container of its own.

        Raises:
            LaunchCancelled: `cancel` was set meanwhile.
            SandboxError: as `Runner.launch` and `StagingArea.open`.
        """
        seen, now = ground(kind.template), time.monotonic()
        with self._lock:
            self._demand(kind).note(now)
            self._due = {key: min(due, now + AMONG_OTHERS_SECONDS) for key, due in self._due.items()}
        while (one := self._pop(kind, seen)) is not None:
            if one.slot.waits:
                self._count(hit=True)
                self._put_off(one)
                one.slot.usage = Usage("warm")
                self._bell.ring()
                return Lease(self, one)
            self._drop_lost(one)
        self._count(hit=False)
        return self.start(kind, call, cancel)

    def start(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        """A container of its own, for a kind that no other call is likely to want. Raises as `claim`."""
        place = self._room(kind.template.limits.memory_bytes, cancel)
        return Lease(self, self._launch(kind, call, call, cancel, place))

    def _put_off(self, one: IdleSlot) -> None:
        with self._lock:
            alone = not self._due
            self._due[id(one)] = time.monotonic() + (ALONE_SECONDS if alone else AMONG_OTHERS_SECONDS)

    def served(self, one: IdleSlot) -> None:
        """The call of a claimed slot is over; another one may be started in its stead."""
        with self._lock:
            if id(one) in self._due:
                self._due[id(one)] = min(self._due[id(one)], time.monotonic() + REST_SECONDS)
        self._bell.ring()

    def serve(self, one: IdleSlot, job: Job, cancel: Cancellation) -> SandboxResult:
        """As `Runner.serve`; a container that ended by itself is removed behind the back of the call."""

        def afterwards(slot: Slot) -> None:
            self._behind(slot.remove, REST_SECONDS)

        return self.runner.serve(one.slot, job, cancel, afterwards)

    def figures(self) -> PoolFigures:
        with self._lock:
            return PoolFigures(
                len(self._waiting),
                len(self._starting),
                self._hits,
                self._misses,
                self._started,
                self._lost,
            )

    def close(self) -> None:
        """Returns when no container of the pool is left, or the engine does not answer."""
        with self._lock:
            self._closed = True
        self._cancel.set()
        self._bell.ring()
        if self._keeper is not None:
            self._keeper.join()
        self._refilling.shutdown()
        for one in self._take_all():
            self._drop(one)
        self._removing.shutdown()
        self._bell.close()
        self._cancel.close()

    def _take_all(self) -> list[IdleSlot]:
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def _count(self, *, hit: bool) -> None:
        with self._lock:
            self._hits += hit
            self._misses += not hit

    def _pop(self, kind: SlotKey, seen: object) -> IdleSlot | None:
        """The oldest, which had most time to get ready."""
        with self._lock:
            for one in self._waiting:
                if one.kind == kind and one.ground == seen:
                    self._waiting.remove(one)
                    return one
        return None

    def _demand(self, kind: SlotKey) -> Demand:
        for known, demand in self._demands:
            if known == kind:
                return demand
        self._demands.append((kind, Demand()))
        return self._demands[-1][1]

    def _room(self, size: int, cancel: Cancellation) -> Place | None:
        """A place for a container that a call waits for. Raises CapacityExhausted and LaunchCancelled."""

        def give_way() -> bool:
            if cancel.is_set:
                raise LaunchCancelled("cancelled before there was memory for a container")
            return self._give_way()

        capacity = self.runner.capacity
        return capacity.wait(size, PLACE_SECONDS, give_way) if capacity is not None else None

    def _give_way(self) -> bool:
        """Whether a waiting slot, the newest, could be removed to make room."""
        with self._lock:
            one = self._waiting.pop() if self._waiting else None
        if one is not None:
            self._remove(one.discard)
        return one is not None

    def _launch(
        self, kind: SlotKey, name: str, call: str, cancel: Cancellation, place: Place | None
    ) -> IdleSlot:
        """A new slot with its staging. Nothing is left behind when this raises: PathReplaced, when what it was to see, or what
        is covered in that, was exchanged as it started, and what `Runner.launch` and `StagingArea.open` raise.
        """
        with contextlib.ExitStack() as undo:
            if place is not None:
                undo.callback(place.release)
            seen = ground(kind.template)
            staging = kind.area.open(name, kind.template.user) if kind.area is not None else None
            if staging is not None:
                undo.callback(staging.discard)
            idle = self._sizes.age_seconds + IDLE_MARGIN
            slot = self.runner.launch(kind.writing_to(staging), call, cancel, place, idle)
            undo.callback(slot.remove)
            if ground(kind.template) != seen:
                raise PathReplaced(
                    "a workspace was replaced as a container was started on it; nothing was run."
                )
            undo.pop_all()
        return IdleSlot(kind, slot, staging, seen)

    def _drop(self, one: IdleSlot) -> None:
        self._behind(one.discard)

    def _drop_lost(self, one: IdleSlot) -> None:
        with self._lock:
            self._lost += 1
        self._drop(one)

    def _behind(self, removal: Callable[[], object], rest: float = 0.0) -> None:
        try:
            self._removing.submit(self._remove, removal, rest)
        except RuntimeError:  # the pool is closed, so that nobody would do it
            self._remove(removal)

    @staticmethod
    def _remove(removal: Callable[[], object], rest: float = 0.0) -> None:
        time.sleep(rest)
        try:
            removal()
        except SandboxError as error:  # the reaper has it, once its owner is dead or its deadline over
            _log.warning("not_removed", reason=str(error))

    def _keep(self) -> None:
        while not self._closed:
            try:
                self._look(time.monotonic())
            except Exception:  # noqa: BLE001 - the outermost handler of a thread whose end would make every call cold
                _log.exception("pool_failed")
                readable([self._cancel], _FIRST_PAUSE)

    def _look(self, now: float) -> None:
        for one in self._outworn(now):
            self._drop(one)
        for kind in self._lacking(now):
            self._refilling.submit(self._refill, kind)
        self._listen(self._until_next(now))

    def _listen(self, seconds: float) -> None:
        """Until somebody rings, a slot ends while it waits, or it is time to look again."""
        with self._lock:
            waiting = {one.slot.wire: one for one in self._waiting}
        watched: list[HasDescriptor] = [self._bell, *waiting]
        found = readable(watched, seconds)
        if self._bell in found and not self._closed:
            time.sleep(REST_SECONDS)  # whoever rang goes on first: it may be in the midst of a call
        self._bell.hush()
        for wire in found:
            if wire is not self._bell and self._forget(waiting[wire]):  # type: ignore[index]
                self._drop_lost(waiting[wire])  # type: ignore[index]

    def _forget(self, one: IdleSlot) -> bool:
        """Whether it was still waiting; else somebody has claimed it meanwhile, and sees to it."""
        with self._lock:
            if one not in self._waiting:
                return False
            self._waiting.remove(one)
            return True

    def _outworn(self, now: float) -> list[IdleSlot]:
        """Those that are too old, stand for what nobody asks for any more, or are too many."""
        targets = self._targets(now)
        kept: list[IdleSlot] = []
        gone: list[IdleSlot] = []
        with self._lock:
            for one in self._waiting:
                wanted = next((count for kind, count in targets if kind == one.kind), 0)
                alike = sum(other.kind == one.kind for other in kept)
                old = now - one.born > self._sizes.age_seconds or one.ground != ground(one.kind.template)
                (gone if old or alike >= wanted else kept).append(one)
            self._waiting = kept
        return gone

    def _lacking(self, now: float) -> list[SlotKey]:
        """One entry for each slot to start now."""
        if now < self._resume:
            return []
        lacking: list[SlotKey] = []
        targets = self._targets(now)
        with self._lock:
            self._due = {key: due for key, due in self._due.items() if due > now}
            held_back = len(self._due)
            room = REFILLS - len(self._starting)
            for kind, wanted in targets:
                have = sum(one.kind == kind for one in self._waiting) + self._starting.count(kind)
                lacking += [kind] * (wanted - have)
            lacking = lacking[: max(0, min(room, len(lacking) - held_back))]
            self._starting += lacking
        return lacking

    def _targets(self, now: float) -> list[tuple[SlotKey, int]]:
        """How many of each kind are to wait: as many as were lately asked for at once, and at least the standing ones."""
        standing = self._stands()
        with self._lock:
            asked = [(kind, one.peak(now, self._refill_seconds)) for kind, one in self._demands]
            self._demands = [(kind, one) for kind, one in self._demands if one.times]
            have = len(self._waiting) + len(self._starting)
        kinds = standing + [kind for kind, _ in asked if kind not in standing]
        wanted = [next((count for kind, count in asked if kind == one), 0) for one in kinds]
        least = [self._sizes.least if one in standing else 0 for one in kinds]
        most = min(self._sizes.most, have + _more_that_fit())
        return list(zip(kinds, shares(wanted, least, most), strict=True))

    def _stands(self) -> list[SlotKey]:
        try:
            return list(self._standing())
        except (OSError, SandboxError):  # a workspace cannot be used now, so no container can be made for it
            return []

    def _until_next(self, now: float) -> float:
        """Seconds until something changes by itself."""
        with self._lock:
            dues = [due - now for due in self._due.values()]
            ages = [one.born + self._sizes.age_seconds - now for one in self._waiting]
        times = [*ages, *dues, self._resume - now, _LOOK_SECONDS]
        return max(0.005, min(seconds for seconds in times if seconds > 0))

    def _refill(self, kind: SlotKey) -> None:
        begun, one = time.monotonic(), None
        try:
            one = self._start_one(kind)
            self._pause = _FIRST_PAUSE
        except LaunchCancelled:
            pass
        except Exception as error:  # noqa: BLE001 - the outermost handler of its thread; whatever it is, it may last
            self._resume = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            _log.warning("not_refilled", reason=str(error))
        finally:
            with self._lock:
                self._starting.remove(kind)
                if one is not None:
                    self._started += 1
                    self._refill_seconds += (time.monotonic() - begun - self._refill_seconds) / _SMOOTH
                    self._waiting.append(one)
            self._bell.ring()

    def _start_one(self, kind: SlotKey) -> IdleSlot | None:
        """A new slot, if memory for it and for one more container is free."""
        capacity, size = self.runner.capacity, kind.template.limits.memory_bytes
        place = None
        if capacity is not None and (place := capacity.take(size, leaving=size)) is None:
            self._resume = time.monotonic() + _FIRST_PAUSE
            return None
        name = f"slot-{secrets.token_hex(8)}"
        return self._launch(kind, name, name, self._cancel, place)


def _more_that_fit() -> int:
    """Slots that fit into the free memory of this machine; many where it does not say."""
    free = memory().get("MemAvailable")
    return _MANY if free is None else max(0, (free - _SPARE_BYTES) // _SLOT_BYTES)
