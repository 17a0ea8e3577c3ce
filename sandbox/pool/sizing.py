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


def peak(times: deque[float], now: float, window: float) -> int:
    """The most claims within any `window` seconds of the last minute; forgets the older ones. Times are in seconds."""
    while times and times[0] < now - MEMORY_SECONDS:
        times.popleft()
    within: deque[float] = deque()
    most = 0
    for time in times:
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
    claims: list[tuple[Kind, deque[float]]] = field(default_factory=list)  # a kind holds a mapping: no hash

    def note_claim(self, kind: Kind, now: float) -> None:
        times = next((times for known, times in self.claims if known == kind), None)
        if times is None:
            times = deque(maxlen=MOST_NOTED)
            self.claims.append((kind, times))
        times.append(now)

    def note_refill(self, seconds: float) -> None:
        self.refill_seconds += (seconds - self.refill_seconds) / _SMOOTH

    def targets(self, standing: Sequence[Kind], now: float, fitting: int) -> list[tuple[Kind, int]]:
        """How many of each kind should wait: what was asked for at once lately, and at least the standing ones.

        `fitting` is how many slots the machine has memory for, those that there are included.
        """
        asked = [(kind, peak(times, now, self.refill_seconds)) for kind, times in self.claims]
        self.claims = [(kind, times) for kind, times in self.claims if times]
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
