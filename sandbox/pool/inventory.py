"""The slots that exist, their states, and the next actions on them. Pure. Times are seconds of one monotonic clock.

Invariants:
* a slot is idle or claimed, never both, and a claimed slot never becomes idle again;
* no refill begins while the call whose slot it replaces needs the processors, nor during the pause after a failure.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from sandbox.pool.lease import IdleSlot, SlotKey

REFILLS = 2  # slots that are started at once; more only makes each slower
# seconds that a refill leaves the processors to the call before it: if that call is alone, and if there are others
ALONE_SECONDS, AMONG_OTHERS_SECONDS = 5.0, 0.1
REST_SECONDS = 0.02  # seconds after a call's container has ended, in which its answer is sent
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the next refill after a failed one

Targets = Sequence[tuple[SlotKey, int]]


@dataclass(slots=True)
class Inventory:
    """The slots of a pool. Not thread-safe: the pool holds a lock."""

    idle: list[IdleSlot] = field(default_factory=list)  # oldest first
    starting: list[SlotKey] = field(default_factory=list)
    # claimed slots, with the time from which a refill may follow
    refill_times: dict[IdleSlot, float] = field(default_factory=dict)
    resume: float = 0.0  # no refill before this time
    pause: float = FIRST_PAUSE

    def claim(self, kind: SlotKey, fingerprint: object, now: float) -> IdleSlot | None:
        """Claims the oldest idle slot of the kind, which had the most time to warm up. None if there is none."""
        self.refill_times = {
            idle_slot: min(due, now + AMONG_OTHERS_SECONDS) for idle_slot, due in self.refill_times.items()
        }
        for idle_slot in self.idle:
            if idle_slot.kind == kind and idle_slot.fingerprint == fingerprint:
                self.idle.remove(idle_slot)
                self.refill_times[idle_slot] = now + (
                    AMONG_OTHERS_SECONDS if self.refill_times else ALONE_SECONDS
                )
                return idle_slot
        return None

    def finish(self, claimed: IdleSlot, now: float) -> None:
        """Records the end of a call. A slot may soon be started in its place."""
        if claimed in self.refill_times:
            self.refill_times[claimed] = min(self.refill_times[claimed], now + REST_SECONDS)

    def forget(self, slot: IdleSlot) -> bool:
        """Removes an idle slot that ended. False if a call has claimed it, which will notice the end itself."""
        if slot not in self.idle:
            return False
        self.idle.remove(slot)
        return True

    def retire(self, targets: Targets, unusable: Container[IdleSlot]) -> list[IdleSlot]:
        """Removes and returns idle slots that are unusable, of a kind without demand, or more than needed."""
        remaining: list[IdleSlot] = []
        retired: list[IdleSlot] = []
        for idle_slot in self.idle:
            wanted = next((count for kind, count in targets if kind == idle_slot.kind), 0)
            same_kind = sum(slot.kind == idle_slot.kind for slot in remaining)
            (retired if idle_slot in unusable or same_kind >= wanted else remaining).append(idle_slot)
        self.idle = remaining
        return retired

    def begin_refills(self, targets: Targets, now: float) -> list[SlotKey]:
        """The kinds of slots to start now, one entry for each slot. They count as starting."""
        if now < self.resume:
            return []
        self.refill_times = {idle_slot: due for idle_slot, due in self.refill_times.items() if due > now}
        lacking: list[SlotKey] = []
        for kind, wanted in targets:
            have = sum(idle_slot.kind == kind for idle_slot in self.idle) + self.starting.count(kind)
            lacking += [kind] * (wanted - have)
        room = min(REFILLS - len(self.starting), len(lacking) - len(self.refill_times))
        started = lacking[: max(0, room)]
        self.starting += started
        return started

    def refilled(self, kind: SlotKey, slot: IdleSlot | None) -> None:
        """Records the end of a refill: with a slot, or without one if it was cancelled or found no memory."""
        self.starting.remove(kind)
        if slot is not None:
            self.pause = FIRST_PAUSE
            self.idle.append(slot)

    def postpone(self, until: float) -> None:
        self.resume = until

    def refill_failed(self, now: float) -> None:
        """Delays the next refill; the delay doubles with each failure."""
        self.postpone(now + self.pause)
        self.pause = min(self.pause * 2, LONGEST_PAUSE)

    def next_change(self, now: float, age_seconds: float) -> float | None:
        """Seconds until the next change that no call triggers; None if there is none."""
        times: Iterable[float] = (
            *(due - now for due in self.refill_times.values()),
            *(idle_slot.born + age_seconds - now for idle_slot in self.idle),
            self.resume - now,
        )
        return min((seconds for seconds in times if seconds > 0), default=None)
