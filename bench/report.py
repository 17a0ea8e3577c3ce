"""Measured series, their goals, and the report as Markdown.

Contenders run in turn, so that other work of the machine slows all of them equally.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

QUIET = 0.1  # largest fraction of the processors that other work may use in a quiet moment
LEAST_ROUNDS = 3  # fewer rounds mean nothing, so these are run even if the time budget is used up
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Series:
    """The times of one contender in seconds, one for each round."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """By nearest rank: with fewer than 20 rounds, the slowest one."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]

    def over(self, other: "Series") -> float:
        """The factor to the other series: the median of the ratios of the rounds, each of which ran both."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


@dataclass(frozen=True, slots=True)
class Effort:
    """The permitted duration of one comparison: as many rounds as fit into `budget` seconds, up to `rounds`.

    `patience` is the largest number of seconds, in total, to wait for quiet moments before the rounds.
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
        turn, started = number % len(names), time.monotonic()
        for name in names[turn:] + names[:turn]:
            taken[name].append(contenders[name]())
        spent += time.monotonic() - started
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


def timed(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def processor_seconds() -> float:
    """Processor seconds that all processes of this machine have used since boot; increases in steps of 10 ms."""
    total, idle = _jiffies()
    return (total - idle) / os.sysconf("SC_CLK_TCK")


def _busy_share() -> float:
    before = _jiffies()
    time.sleep(_LOOK_SECONDS)
    after = _jiffies()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def _jiffies() -> tuple[int, int]:
    """All jiffies and the idle ones, by proc(5)."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    fields = [int(word) for word in first.split()[1:9]]
    return sum(fields), fields[3] + fields[4]


BEGIN, END = "<!-- measured: results -->", "<!-- end -->"
_DIGITS: Final = {"": 0, "ms": 0, "kB": 2, "MB": 2, "s": 2, "x": 3}  # after the point; ratios go down to 0.07
_PLAIN = "the plain process"
_DOCKER = "`docker run`, the same argv and hardening"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that may be at most `limit`, or must be at least `limit`; `oci` replaces it for the engine without a
    daemon.
    """

    what: str
    limit: float
    unit: str = "x"
    at_least: bool = False
    oci: float | None = None


GOALS: Final = {
    "tools-list": Goal("`tools/list` of the default toolset", 20, "kB"),
    "warm-docker": Goal(f"warm `info`, against {_DOCKER}", 0.07),
    "warm-plain": Goal(f"warm `info`, against {_PLAIN}", 0.2),
    "warm-peer": Goal("warm `info`, against the in-process server gdal-mcp 1.1.3 over stdio", 1.0),
    "warm-even": Goal("warm `info`, its p95 against its own p50", 2.0),
    "convert-plain": Goal(f"warm `convert` to COG, against {_PLAIN}", 0.5),
    "cold-docker": Goal(f"cold `info`, against {_DOCKER}", 0.7, oci=0.45),
    "cold-plain": Goal(f"cold `info`, against {_PLAIN}", 3.4, oci=1.5),
    "cold-runtime": Goal("cold `info`, against the same container by the runtime alone", 1.25),
    "cold-convert": Goal(f"cold `convert` to COG, against {_DOCKER}", 1.0),
    "cycle": Goal("processor time of the whole cycle of one container", 0.26, "s", oci=0.16),
    "sustained-2": Goal(
        f"single-use calls a second, 2 at once, against {_DOCKER}", 1.4, at_least=True, oci=2.5
    ),
    "sustained-4": Goal(
        f"single-use calls a second, 4 at once, against {_DOCKER}", 1.4, at_least=True, oci=2.5
    ),
    "busy-ping": Goal("slowest `ping` while every place is taken", 25, "ms"),
    "busy-list": Goal("slowest `tools/list` while every place is taken", 50, "ms"),
    "start": Goal("start of the server to its first answers, p50", 0.6, "s"),
    "approvals": Goal("approvals under contention, decided once each", 100, "", at_least=True),
    "console": Goal("console page with 10,000 records opens, p50", 1, "s"),
    "records-figures": Goal("figures with 1,000,000 recorded calls, p50", 1, "s"),
    "records-search": Goal("a page of their history or of a search, p50 of the slowest kind", 0.5, "s"),
    "records-call": Goal("records of one more call, p50", 30, "ms"),
    "memory": Goal("memory of the server after all calls", 120, "MB"),
    # the allocator's own memory varies by this much from call to call; a leak of 4 kB a call would be 2 MB
    "growth": Goal("growth of that memory over the second half of the calls", 1.0, "MB"),
    "containers": Goal("containers more after the calls than before", 0, ""),
    "staging": Goal("staging folders more after the calls than before", 0, ""),
    "descriptors": Goal("open file descriptors more after the calls than before", 0, ""),
    "remote-info": Goal("`info` of a remote COG at 30 ms, against /vsicurl", 0.7),
    "remote-clip": Goal("a window of it, likewise", 0.7),
    "remote-overview": Goal("an overview of it, likewise", 0.7),
    "remote-box": Goal("a box of a remote FlatGeobuf, likewise", 0.7),
    "remote-zarr": Goal("a window of a remote Zarr, likewise", 0.7),
    "remote-whole": Goal("conversion of the whole COG, likewise", 1.1),
    "large-reproject": Goal(f"large reprojection, against {_PLAIN}", 1.05),
    "large-cog": Goal(f"large COG, against {_PLAIN}", 1.05),
    "large-points": Goal(f"a million points, against {_PLAIN}", 1.05),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one goal; None if it could not be measured. `reason` explains a miss."""

    goal: str
    value: float | None
    reason: str = ""

    def row(self, *, without_daemon: bool) -> tuple[str, ...]:
        goal = GOALS[self.goal]
        limit = goal.oci if without_daemon and goal.oci is not None else goal.limit
        bound = f"at {'least' if goal.at_least else 'most'} {limit:g} {goal.unit}".strip()
        if self.value is None:
            return goal.what, bound, "", f"not measured: {self.reason}"
        is_met = self.value >= limit if goal.at_least else self.value <= limit
        verdict = "met" if is_met else f"missed: {self.reason}".removesuffix(": ")
        return goal.what, bound, f"{self.value:.{_DIGITS[goal.unit]}f} {goal.unit}".strip(), verdict


@dataclass(frozen=True, slots=True)
class Section:
    """One table with a sentence before it, and its findings on the goals."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    findings: Sequence[Finding] = field(default=())

    def markdown(self) -> str:
        return f"### {self.title}\n\n{self.note}\n\n{_table(self.header, self.rows)}"


def document(machine: Section, sections: Sequence[Section], *, without_daemon: bool) -> str:
    """The report of one run: the machine, every goal as met, missed or not measured, and the tables."""
    findings = {finding.goal: finding for section in sections for finding in section.findings}
    missing = (Finding(name, None, "not in this run") for name in GOALS)
    rows = [findings.get(finding.goal, finding).row(without_daemon=without_daemon) for finding in missing]
    goals = Section("Goals", "Limits, and what was found.", ("what", "goal", "found", ""), rows)
    return "\n".join(section.markdown() for section in (machine, goals, *sections))


def write(path: Path, text: str) -> None:
    """Puts the text between the marks of the file. Raises ValueError if the marks are missing."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no region between {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def milliseconds(seconds: float) -> str:
    """Whole milliseconds; below ten, with one decimal."""
    return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
