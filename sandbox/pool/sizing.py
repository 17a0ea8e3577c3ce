"""How many idle slots are worth keeping: pure.

As many of a kind as were asked for within the time that starting one takes, at the busiest moment of the last minute: with
that many, every call of that moment would have found one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MEMORY_SECONDS = 60.0  # for so long a burst is expected to come back
MOST_NOTED = 256  # claims that are looked at; more within a minute ask for more slots than any host keeps
_FIRST_REFILL = 0.5  # seconds that starting a slot takes, until the first one was measured
_SMOOTH = 4  # refills that the measured time is averaged over


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many slots wait, and for how long. None with `most` 0."""

    least: int = 1  # of each standing kind
    most: int = 4  # of all kinds together
    age_seconds: float = 600.0


@dataclass(slots=True)
class Demand:
    """When slots of one kind were asked for. Times are of one monotonic clock, in seconds."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_NOTED))

    def peak(self, now: float, window: float) -> int:
        """The most claims within any `window` seconds of the last minute."""
        while self.times and self.times[0] < now - MEMORY_SECONDS:
            self.times.popleft()
        within: deque[float] = deque()
        most = 0
        for time in self.times:
            within.append(time)
            while within[0] < time - window:
                within.popleft()
            most = max(most, len(within))
        return most


Kind = TypeVar("Kind")


@dataclass(slots=True)
class Sizing(Generic[Kind]):
    """The demand for each kind, and the targets that follow from it."""

    sizes: Sizes
    refill_seconds: float = _FIRST_REFILL  # how long starting a slot takes, smoothed
    demands: list[tuple[Kind, Demand]] = field(default_factory=list)  # a kind holds a mapping: no hash

    def note_claim(self, kind: Kind, now: float) -> None:
        demand = next((demand for known, demand in self.demands if known == kind), None)
        if demand is None:
            demand = Demand()
            self.demands.append((kind, demand))
        demand.times.append(now)

    def note_refill(self, seconds: float) -> None:
        self.refill_seconds += (seconds - self.refill_seconds) / _SMOOTH

    def targets(self, standing: Sequence[Kind], now: float, fitting: int) -> list[tuple[Kind, int]]:
        """How many of each kind should wait: what was asked for at once lately, and at least the standing ones.

        `fitting` is how many slots the machine has memory for, those that there are included.
        """
        asked = [(kind, demand.peak(now, self.refill_seconds)) for kind, demand in self.demands]
        self.demands = [(kind, demand) for kind, demand in self.demands if demand.times]
        kinds = [*standing, *(kind for kind, _ in asked if kind not in standing)]
        wanted = [next((count for kind, count in asked if kind == one), 0) for one in kinds]
        least = [self.sizes.least if one in standing else 0 for one in kinds]
        return list(zip(kinds, shares(wanted, least, min(self.sizes.most, fitting)), strict=True))


def shares(wanted: Sequence[int], least: Sequence[int], most: int) -> tuple[int, ...]:
    """How many of each kind to keep: `least` of each first, in order, then one at a time to whoever lacks most.

    The sum is never above `most`.
    """
    given = [0] * len(wanted)
    for number, floor in enumerate(least):
        given[number] = min(floor, most - sum(given))
    while sum(given) < most:
        lacking = [asked - has for asked, has in zip(wanted, given, strict=True)]
        if not lacking or max(lacking) <= 0:
            break
        given[lacking.index(max(lacking))] += 1
    return tuple(given)
