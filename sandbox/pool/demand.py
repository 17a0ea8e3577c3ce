"""How many idle slots are worth keeping: pure.

As many of a kind as were asked for within the time that it takes to start one, at the busiest moment of the last
minute: so many would have been needed for every call of then to find one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MEMORY_SECONDS = 60.0  # a burst is expected to come back for so long
MOST_NOTED = 256  # claims that are looked at; more within a minute ask for more slots than any host keeps


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

    def note(self, now: float) -> None:
        self.times.append(now)

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
