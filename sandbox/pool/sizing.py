"""Decides how many idle slots to keep. Pure.

For each kind, it keeps as many as were requested at once at the busiest moment of the last minute: with that many,
every call of that moment would have found one.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MEMORY_SECONDS = 60.0  # seconds for which the same demand is expected again
MOST_NOTED = 64  # claims considered; more within a minute ask for more slots than any host keeps


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of slots that wait, and their longest wait. If `most` is 0, no slot waits."""

    least: int = 1  # slots of each standing kind
    most: int = 4  # slots of all kinds together
    age_seconds: float = 600.0


Kind = TypeVar("Kind")


@dataclass(slots=True)
class Sizing(Generic[Kind]):
    """The demand for each kind, and the targets computed from it."""

    sizes: Sizes
    at_once_seconds: float = 1.0  # seconds; about the time that starting a slot takes on a busy machine
    # times of the claims of each kind: comparing two kinds takes long, and claims are examined often
    demand: list[tuple[Kind, deque[float]]] = field(default_factory=list)

    def note(self, now: float, kind: Kind) -> None:
        """Records that a call requested a slot of this kind."""
        times = next((times for known, times in self.demand if known == kind), None)
        if times is None:
            times = deque(maxlen=MOST_NOTED)
            self.demand.append((kind, times))
        times.append(now)

    def targets(self, standing: Sequence[Kind], now: float, fitting: int) -> list[tuple[Kind, int]]:
        """The number of slots of each kind that should wait: standing kinds first, then those requested recently.

        `fitting` is the number of slots that fit into the machine's memory, including those that exist.
        """
        for _, times in self.demand:
            while times and times[0] < now - MEMORY_SECONDS:
                times.popleft()
        self.demand = [(kind, times) for kind, times in self.demand if times]
        wanted = [(kind, self.sizes.least, self._at_once(kind)) for kind in standing]
        wanted += [(kind, 0, self._at_once(kind)) for kind, _ in self.demand if kind not in standing]
        left = min(self.sizes.most, fitting)
        counts = []
        for _, least, _ in wanted:
            counts.append(min(least, left))
            left -= counts[-1]
        for number, (_, _, at_once) in enumerate(wanted):
            more = min(max(at_once - counts[number], 0), left)
            counts[number] += more
            left -= more
        return [(kind, count) for (kind, _, _), count in zip(wanted, counts, strict=True)]

    def _at_once(self, kind: Kind) -> int:
        """The number of slots of a kind that were requested at once at its busiest moment."""
        times = sorted(next((times for known, times in self.demand if known == kind), ()))
        ends = enumerate(times, 1)
        return max((count - bisect_left(times, end - self.at_once_seconds) for count, end in ends), default=0)
