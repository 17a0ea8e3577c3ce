"""Measured series: several contenders in turn, so that what else the machine does hits all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LEAST_ROUNDS = 3  # fewer say nothing; the budget of time gives way to them


@dataclass(frozen=True, slots=True)
class Series:
    """What one contender took, in seconds, one value for each round."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The nearest rank: with fewer than 20 rounds it is the slowest one."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]

    def over(self, other: "Series") -> float:
        """How many times as long as the other: the median over the rounds, each of which ran both."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one comparison may take: as many rounds as fit, up to `rounds`."""

    rounds: int
    budget: float  # seconds


def in_turn(contenders: Mapping[str, Callable[[], float]], effort: Effort) -> dict[str, Series]:
    """Runs every contender once in each round, each round beginning with the next one; a first round is not counted.

    A contender returns the seconds that it measured itself.
    """
    names = list(contenders)
    for name in names:
        contenders[name]()
    taken: dict[str, list[float]] = {name: [] for name in names}
    begun = time.monotonic()
    for number in range(effort.rounds):
        if number >= LEAST_ROUNDS and time.monotonic() - begun > effort.budget:
            break
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(contenders[name]())
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


def timed(work: Callable[[], object]) -> float:
    """The seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
