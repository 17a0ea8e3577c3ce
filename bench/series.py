"""Measured series: several contenders in turn, so that what else the machine does hits all of them alike."""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

QUIET = 0.1  # share of the processors that may be busy with other things in a quiet moment
GLANCE = 0.5  # seconds
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
    budget: float  # seconds, without those of waiting
    patience: float = 0.0  # seconds in all to wait for a quiet moment before a round


def in_turn(contenders: Mapping[str, Callable[[], float]], effort: Effort) -> dict[str, Series]:
    """Runs every contender once in each round, each round beginning with the next one; a first round is not counted.

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
        _settle(patience)
        patience -= time.monotonic() - waiting
        turn = number % len(names)
        begun = time.monotonic()
        for name in names[turn:] + names[:turn]:
            taken[name].append(contenders[name]())
        spent += time.monotonic() - begun
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


def _settle(limit: float) -> None:
    """Waits until the processors are nearly idle, or so many seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end and _busy() > QUIET:
        pass


def _busy() -> float:
    """The share of processor time that anything took in the last half second."""
    before = _jiffies()
    time.sleep(GLANCE)
    after = _jiffies()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def _jiffies() -> tuple[int, int]:
    """All, and the idle ones, by proc(5)."""
    fields = [
        int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    ]
    return sum(fields), fields[3] + fields[4]


def used_seconds() -> float:
    """Those of all processors that anything on this machine has used; it moves in steps of 10 ms."""
    whole, idle = _jiffies()
    return (whole - idle) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> float:
    """The seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
