"""Keeps started containers ready, so that a call need not wait for one. Each serves one call and is then destroyed.

Invariants:
* a slot is claimed once and never returns; its output folder was made for it and is removed with it;
* a claim gets an idle slot or a new container, never one that is still being started as a refill;
* a slot matches only its own template, on the same folders with the same mounts below them;
* idle slots leave memory for one more call, and are removed if a call needs theirs.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog

from sandbox.capacity import MemoryReservation, machine_memory
from sandbox.errors import CapacityExhausted, LaunchCancelled, PathReplaced, SandboxError
from sandbox.mounted import mount_fingerprint
from sandbox.outcome import Usage
from sandbox.pool.inventory import FIRST_PAUSE, REFILLS, REST_SECONDS, Inventory
from sandbox.pool.lease import IdleSlot, Lease, PoolFigures, SlotKey
from sandbox.pool.sizing import Sizes, Sizing
from sandbox.runner import MEMORY_SECONDS, Runner
from sandbox.waiting import Cancellation, HasDescriptor, Wakeup, readable, refuse_cancelled

# seconds that a worker waits longer than its slot is idle, because inputs are copied in for a claimed slot; so only an
# orphan ends by itself
IDLE_MARGIN = 600.0
_SLOT_BYTES = 64 << 20  # bytes of memory that an idle slot really uses, rounded up
_SPARE_BYTES = 512 << 20  # bytes of the machine's memory that stay free
_MANY = 1000  # more slots than any setting allows
_LOOK_SECONDS = 5.0  # maximum seconds between two checks of demand, age of slots and free memory
_SHORTEST_LOOK = 0.005  # seconds; waits for times that are nearly due would spin

_log = structlog.get_logger()


class WarmPool:
    """The slots of one host. Safe to use from several threads.

    A separate thread starts and removes slots until they match the demand. Without `keep`, every claim starts a new
    container.
    """

    def __init__(
        self,
        runner: Runner,
        sizes: Sizes,
        standing: Callable[[], Sequence[SlotKey]],
        others: Callable[[], Iterable["WarmPool"]] = lambda: (),
    ) -> None:
        """`standing` are the kinds of which `sizes.least` slots always wait. `others` are pools that share the memory
        with this one.
        """
        self.runner = runner
        self._sizes = sizes
        self._standing = standing
        self._others = others
        self._lock = threading.Lock()  # for all fields below except the two executors
        self._inventory = Inventory()
        self._sizing: Sizing[SlotKey] = Sizing(sizes)
        self._cancel, self._wakeup = Cancellation(), Wakeup()
        self._claims = Wakeup()  # set when a slot is claimed, because claimed slots must not be watched
        self._closed = False
        self._abandoned = False
        self._users = 0  # calls that have a lease, or are getting one
        self._unused = threading.Condition(self._lock)
        self._reconciler: threading.Thread | None = None
        self._refilling = ThreadPoolExecutor(REFILLS, "refill")
        self._removing = ThreadPoolExecutor(runner.engine.info().removals, "removal")

    def keep(self) -> None:
        """Starts to keep slots ready, if the sizes request any."""
        with self._lock:
            if self._reconciler is None and self._sizes.most and not self._closed:
                self._reconciler = threading.Thread(
                    target=self._reconcile_until_closed, name="pool", daemon=True
                )
                self._reconciler.start()

    def claim(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        """An idle slot of this kind, or a new container.

        Raises:
            LaunchCancelled: `cancel` was set.
            SandboxError: an error of `Runner.launch` or `StagingArea.open`.
        """
        with self._using():
            return self._claimed(kind, call, cancel)

    def _claimed(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        fingerprint, now = mount_fingerprint(kind.template), time.monotonic()
        with self._lock:
            self._sizing.note(now, kind)
        while True:
            with self._lock:
                idle_slot = self._inventory.claim(kind, fingerprint, now)
            if idle_slot is None or idle_slot.slot.is_idle:
                break
            self._discard_lost(idle_slot)
        if idle_slot is None:
            return self._start(kind, call, cancel)
        idle_slot.slot.usage = Usage("warm")
        self._claims.wake()
        return self._lease(idle_slot)

    def start(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        """A new container, for a kind that no other call is likely to need. Raises the errors of `claim`."""
        with self._using():
            return self._start(kind, call, cancel)

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """Counts a call until its lease ends, or until it fails to get one."""
        with self._lock:
            self._users += 1
        try:
            yield
        except BaseException:  # re-raised: a call without a lease must not count, even if it was cancelled
            self._end_use()
            raise

    def _end_use(self) -> None:
        with self._lock:
            self._users -= 1
            self._unused.notify_all()

    def wait_until_unused(self) -> None:
        """Returns when no call has a lease or is getting one, or after `abandon` is called."""
        with self._lock:
            self._unused.wait_for(lambda: self._abandoned or not self._users)

    def abandon(self) -> None:
        """Ends `wait_until_unused`."""
        with self._lock:
            self._abandoned = True
            self._unused.notify_all()

    def _start(self, kind: SlotKey, call: str, cancel: Cancellation) -> Lease:
        end = time.monotonic() + MEMORY_SECONDS
        capacity, size, reservation = self.runner.capacity, kind.template.limits.memory_bytes, None
        while True:
            if capacity is not None:
                reservation = capacity.wait(
                    size, MEMORY_SECONDS, self._make_room, partial(refuse_cancelled, cancel)
                )
            try:
                return self._lease(self._launch(kind, call, call, cancel, reservation))
            except CapacityExhausted:  # a cluster's own quota or nodes; idle slots use part of it
                refuse_cancelled(cancel)
                if not self._make_room() and time.monotonic() > end:
                    raise

    def figures(self) -> PoolFigures:
        with self._lock:
            return PoolFigures(len(self._inventory.idle), len(self._inventory.starting))

    def close(self) -> None:
        """Removes all its containers. Returns when none is left, or if the engine does not answer."""
        with self._lock:
            self._closed = True
        self._cancel.set()
        self._wakeup.wake()
        if self._reconciler is not None:
            self._reconciler.join()
        self._refilling.shutdown()
        with self._lock:
            left, self._inventory.idle = self._inventory.idle, []
        for idle_slot in left:
            self._remove_later(idle_slot.discard)
        self._removing.shutdown()
        for descriptor in (self._wakeup, self._claims, self._cancel):
            descriptor.close()

    def _lease(self, claimed: IdleSlot) -> Lease:
        return Lease(
            self.runner, claimed, lambda slot: self._remove_later(slot.remove, REST_SECONDS), self._done
        )

    def _done(self, claimed: IdleSlot) -> None:
        self._end_use()
        with self._lock:
            self._inventory.finish(claimed, time.monotonic())
        self._wakeup.wake()

    def _make_room(self) -> bool:
        """Removes an idle slot, of this pool first. False if there is none."""
        return self.evict_one() or any(pool.evict_one() for pool in self._others() if pool is not self)

    def evict_one(self) -> bool:
        """Removes the newest idle slot. False if there is none."""
        with self._lock:
            newest = self._inventory.idle.pop() if self._inventory.idle else None
        if newest is not None:
            self._remove(newest.discard)
        return newest is not None

    def _launch(
        self, kind: SlotKey, name: str, call: str, cancel: Cancellation, reservation: MemoryReservation | None
    ) -> IdleSlot:
        """Starts a slot with its output folder. If this raises, nothing is left behind.

        Raises PathReplaced if a mounted or masked folder was replaced during the start, and the errors of
        `Runner.launch` and `StagingArea.open`.
        """
        with contextlib.ExitStack() as undo:
            if reservation is not None:
                undo.callback(reservation.release)
            fingerprint = mount_fingerprint(kind.template)
            staging = kind.area.open(name, kind.template.user) if kind.area is not None else None
            if staging is not None:
                undo.callback(staging.discard)
            idle = self._sizes.age_seconds + IDLE_MARGIN
            slot = self.runner.launch(kind.writing_to(staging), call, cancel, reservation, idle)
            undo.callback(slot.remove)
            if mount_fingerprint(kind.template) != fingerprint:
                raise PathReplaced("a workspace was replaced while its container started; nothing was run.")
            undo.pop_all()
        return IdleSlot(kind, slot, staging, fingerprint)

    def _discard_lost(self, idle_slot: IdleSlot) -> None:
        with self._lock:
            self._inventory.refill_times.pop(idle_slot, None)
        self._remove_later(idle_slot.discard)

    def _remove_later(self, removal: Callable[[], object], rest: float = 0.0) -> None:
        try:
            self._removing.submit(self._remove, removal, rest)
        except RuntimeError:  # the pool is closed, and so are its threads
            self._remove(removal)

    @staticmethod
    def _remove(removal: Callable[[], object], rest: float = 0.0) -> None:
        time.sleep(rest)
        try:
            removal()
        # left to the reaper, after its owner is dead or its deadline has passed
        except SandboxError as error:
            _log.warning("not_removed", reason=str(error))

    def _reconcile_until_closed(self) -> None:
        while not self._closed:
            try:
                self._reconcile(time.monotonic())
                while not self._wait(time.monotonic()):
                    pass
            except Exception:  # noqa: BLE001 - the outermost handler of a thread whose end would make every call cold
                _log.exception("pool_failed")
                readable([self._cancel], FIRST_PAUSE)

    def _reconcile(self, now: float) -> None:
        """Removes idle slots that are no longer wanted and starts missing ones."""
        try:
            standing = list(self._standing())
        # a workspace cannot be used now, so no container can be created for it
        except (OSError, SandboxError):
            standing = []
        with self._lock:
            idle = tuple(self._inventory.idle)
        unusable = {idle_slot for idle_slot in idle if self._is_unusable(idle_slot, now)}
        free = machine_memory().get("MemAvailable")
        more = _MANY if free is None else max(0, (free - _SPARE_BYTES) // _SLOT_BYTES)
        with self._lock:
            fitting = len(self._inventory.idle) + len(self._inventory.starting) + more
            targets = self._sizing.targets(standing, now, fitting)
            retired = self._inventory.retire(targets, unusable)
            lacking = self._inventory.begin_refills(targets, now)
        for idle_slot in retired:
            self._remove_later(idle_slot.discard)
        for kind in lacking:
            self._refilling.submit(self._refill, kind)

    def _is_unusable(self, idle_slot: IdleSlot, now: float) -> bool:
        too_old = now - idle_slot.born > self._sizes.age_seconds
        return too_old or idle_slot.fingerprint != mount_fingerprint(idle_slot.kind.template)

    def _wait(self, now: float) -> bool:
        """Waits until the pool is woken, a slot is claimed, an idle slot ends or sends something, or the next check
        is due.

        Returns False if only a slot was claimed: the pool checks nothing while that call needs the processors.
        """
        with self._lock:
            delay = self._inventory.next_change(now, self._sizes.age_seconds) or _LOOK_SECONDS
            watched: list[HasDescriptor] = [self._wakeup, self._claims, *self._inventory.idle]
        ready = readable(watched, max(_SHORTEST_LOOK, min(delay, _LOOK_SECONDS)))
        self._claims.clear()
        if ready == (self._claims,):
            return False
        if self._wakeup in ready and not self._closed:
            # the thread that woke this one goes first: it may be in the middle of a call
            time.sleep(REST_SECONDS)
        self._wakeup.clear()
        for source in ready:
            if isinstance(source, IdleSlot):
                with self._lock:
                    lost = self._inventory.forget(source)
                if lost:
                    self._discard_lost(source)
        return True

    def _refill(self, kind: SlotKey) -> None:
        """Starts an idle slot if there is memory for it and for one more container."""
        idle_slot = None
        capacity, size, reservation = self.runner.capacity, kind.template.limits.memory_bytes, None
        try:
            if capacity is None or (reservation := capacity.take(size, leaving=size)) is not None:
                name = f"slot-{secrets.token_hex(8)}"
                idle_slot = self._launch(kind, name, name, self._cancel, reservation)
            else:
                with self._lock:
                    self._inventory.postpone(time.monotonic() + FIRST_PAUSE)
        except LaunchCancelled:
            pass
        except Exception as error:  # noqa: BLE001 - the outermost handler of its thread; the next attempt comes after a pause
            with self._lock:
                self._inventory.refill_failed(time.monotonic())
            _log.warning("not_refilled", reason=str(error), exc_info=not isinstance(error, SandboxError))
        finally:
            with self._lock:
                self._inventory.refilled(kind, idle_slot)
            self._wakeup.wake()
