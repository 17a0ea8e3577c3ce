"""Decides how many idle slots to keep. Pure.

As many of a kind as were requested at once at the busiest moment of the last minute: with that many, every call of
that moment would have found one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MEMORY_SECONDS = 60.0  # seconds for which the same demand is expected again
MOST_NOTED = 64  # claims considered; more within a minute ask for more slots than any host keeps


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many slots wait, and for how long. None if `most` is 0."""

    least: int = 1  # of each standing kind
    most: int = 4  # of all kinds together
    age_seconds: float = 600.0


Kind = TypeVar("Kind")


@dataclass(slots=True)
class Sizing(Generic[Kind]):
    """The demand for each kind, and the targets computed from it."""

    sizes: Sizes
    at_once_seconds: float = 1.0  # seconds; about the time that starting a slot takes on a busy machine
    claims: deque[tuple[float, Kind]] = field(default_factory=lambda: deque(maxlen=MOST_NOTED))

    def targets(self, standing: Sequence[Kind], now: float, fitting: int) -> list[tuple[Kind, int]]:
        """How many of each kind should wait: the standing ones, then as many as were recently requested at once.

        `fitting` is how many slots fit into the machine's memory, including those that exist.
        """
        while self.claims and self.claims[0][0] < now - MEMORY_SECONDS:
            self.claims.popleft()
        kinds = [*standing]
        for _, kind in self.claims:
            kinds += [kind] if kind not in kinds else []
        left = min(self.sizes.most, fitting)
        counts = []
        for kind in kinds:
            counts.append(min(self.sizes.least if kind in standing else 0, left))
            left -= counts[-1]
        for number, kind in enumerate(kinds):
            times = [time for time, one in self.claims if one == kind]
            together = [sum(end - self.at_once_seconds <= time <= end for time in times) for end in times]
            more = min(max(max(together, default=0) - counts[number], 0), left)
            counts[number] += more
            left -= more
        return list(zip(kinds, counts, strict=True))
