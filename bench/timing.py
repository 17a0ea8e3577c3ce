"""Measured series: contenders run in turn, so that whatever else the machine does slows all of them alike."""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

QUIET = 0.1  # share of the processors that may be busy with other things in a quiet moment
LEAST_ROUNDS = 3  # fewer say nothing, so these are run even when the time budget is spent
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Series:
    """What one contender took, in seconds, one value for each round."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """By nearest rank: with fewer than 20 rounds it is the slowest one."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]

    def over(self, other: "Series") -> float:
        """How many times as long as the other: the median of the rounds' ratios, as each round ran both."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one comparison may take: as many rounds as fit into `budget` seconds, up to `rounds`.

    `patience` is how many seconds it may wait in all for quiet moments before its rounds.
    """

    rounds: int
    budget: float
    patience: float = 0.0


def in_turn(contenders: Mapping[str, Callable[[], float]], effort: Effort) -> dict[str, Series]:
    """Runs every contender once in each round, and begins each round with the next one. The first round is not counted.

    A contender returns the seconds that it measured itself.
    """
    names = list(contenders)
    for name in names:
        contenders[name]()
    taken: dict[str, list[float]] = {name: [] for name in names}
    patience, spent = effort.patience, 0.0
    for number in range(effort.rounds):
        if number >= LEAST_ROUNDS and spent > effort.budget:
            break
        waiting = time.monotonic()
        while time.monotonic() < waiting + patience and _busy_share() > QUIET:
            pass
        patience -= time.monotonic() - waiting
        turn, begun = number % len(names), time.monotonic()
        for name in names[turn:] + names[:turn]:
            taken[name].append(contenders[name]())
        spent += time.monotonic() - begun
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


def timed(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def processor_seconds() -> float:
    """Seconds of all processors that anything on this machine has used since boot; moves in steps of 10 ms."""
    whole, idle = _jiffies()
    return (whole - idle) / os.sysconf("SC_CLK_TCK")


def _busy_share() -> float:
    before = _jiffies()
    time.sleep(_LOOK_SECONDS)
    after = _jiffies()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def _jiffies() -> tuple[int, int]:
    """All of them, and the idle ones, by proc(5)."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    fields = [int(word) for word in first.split()[1:9]]
    return sum(fields), fields[3] + fields[4]
