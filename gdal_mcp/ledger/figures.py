"""Figures about calls that ended.

They count every call that reached a container or was refused on the way there. What is answered without one (a search, a
description, the check of a call) is in the audit log alone.

Invariants:
* whatever names clients invent, there are no more rows than the product has tools and outcomes: the rest is `other`;
* what a container says of its own use is believed up to the limits that it ran under.
"""

import math
from array import array
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gdal_mcp.errors import Code
from gdal_mcp.ledger.registry import WAITING, Call, Registry

OTHER: Final = "other"
OUTCOMES: Final = frozenset({"OK", WAITING, *map(str, Code)})
POOLS: Final = ("warm", "cold")
# as it is shown, and as it is recorded; to start is to be given a container, whether one waits or has to be made
PHASES: Final[Mapping[str, str]] = {"queue": "queue", "start": "claim", "run": "run", "publish": "publish"}
TOTAL: Final = "total"  # of a call that ran: from its first record to its last
_PAGE: Final = 1000  # calls that are read at once


@dataclass(frozen=True, slots=True)
class EndedCall:
    """What is counted of a call that ended. `seconds` by phase; None where nothing sensible is recorded."""

    tool: str
    outcome: str
    finished: float  # seconds since the epoch
    seconds: Mapping[str, float] = field(default_factory=dict)
    pool: str | None = None
    peak_memory: float | None = None  # bytes
    cpu_seconds: float = 0.0
    output_files: int = 0
    output_bytes: int = 0

    @classmethod
    def of(cls, call: Call, known: Container[str]) -> "EndedCall":
        """A tool that is not `known` is counted as OTHER."""
        limits, told = call.limits, call.receipt
        seconds = {phase: _amount(call.durations.get(name)) for phase, name in PHASES.items()}
        if "run" in call.durations and call.started and call.finished is not None:
            seconds[TOTAL] = max(call.finished - call.started, 0.0)
        most_cpu = (_amount(limits.get("cpus")) or 0) * (_amount(limits.get("wall_seconds")) or 0)
        return cls(
            call.tool if call.tool in known else OTHER,
            call.outcome if call.outcome in OUTCOMES else OTHER,
            call.finished or 0.0,
            {phase: one for phase, one in seconds.items() if one is not None},
            told.get("pool") if told.get("pool") in POOLS else None,
            _amount(told.get("peak_memory_bytes"), limits.get("memory_bytes", 0)),
            _amount(told.get("cpu_seconds"), most_cpu) or 0.0,
            len(call.files),
            sum(int(_amount(one.get("bytes")) or 0) for one in call.files),
        )


@dataclass(slots=True)
class Summary:
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)  # by tool and outcome
    pool: Counter[str] = field(default_factory=Counter)  # by how their container was found
    # arrays, as there may be millions of calls
    seconds: dict[str, "array[float]"] = field(
        default_factory=lambda: {name: array("d") for name in (*PHASES, TOTAL)}
    )
    peak_memory: "array[float]" = field(default_factory=lambda: array("d"))  # bytes
    cpu_seconds: float = 0.0
    output_files: int = 0
    output_bytes: int = 0

    def add(self, call: EndedCall) -> None:
        self.calls[call.tool, call.outcome] += 1
        for phase, seconds in call.seconds.items():
            self.seconds[phase].append(seconds)
        if call.pool is not None:
            self.pool[call.pool] += 1
        if call.peak_memory:
            self.peak_memory.append(call.peak_memory)
        self.cpu_seconds += call.cpu_seconds
        self.output_files += call.output_files
        self.output_bytes += call.output_bytes

    def as_dict(self) -> dict[str, Any]:
        """As JSON. `hit_rate` is the share of the calls with a container that found one waiting; None without such calls."""
        served = self.pool.total()
        return {
            "calls": self.calls.total(),
            "by_tool_and_outcome": [
                {"tool": tool, "outcome": outcome, "count": n}
                for (tool, outcome), n in sorted(self.calls.items())
            ],
            "pool": {
                **{name: self.pool[name] for name in POOLS},
                "hit_rate": self.pool["warm"] / served if served else None,
            },
            "seconds": {phase: _spread(amounts) for phase, amounts in self.seconds.items()},
            "peak_memory_bytes": _spread(self.peak_memory),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "output": {"files": self.output_files, "bytes": self.output_bytes},
        }


def figures(registry: Registry, known: Container[str], since: float) -> dict[str, Any]:
    """The calls that ended since a time (seconds since the epoch), all of them, and how many have not ended, as JSON.

    Raises RegistryUnavailable.
    """
    lately, total, unfinished = Summary(), Summary(), 0
    cursor: str | None = None
    while True:
        page = registry.search(cursor=cursor, limit=_PAGE)
        for call in page.items:
            if call.finished is None:
                unfinished += 1
                continue
            ended = EndedCall.of(call, known)
            for summary in (total, lately) if ended.finished >= since else (total,):
                summary.add(ended)
        if (cursor := page.next_cursor) is None:
            return {"lately": lately.as_dict(), "total": total.as_dict(), "unfinished": unfinished}


def _amount(value: object, most: object = None) -> float | None:
    """The value, at most `most` if that is a number too; None for anything that is no number from 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        return None
    bound = _amount(most) if most is not None else None
    return value if bound is None else min(value, bound)


def _spread(amounts: "array[float]") -> dict[str, Any]:
    """Count, nearest-rank quantiles and maximum."""
    ordered = sorted(amounts)
    if not ordered:
        return {"count": 0, "p50": None, "p95": None, "max": 0.0}
    p50, p95 = (ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.95))
    return {"count": len(ordered), "p50": p50, "p95": p95, "max": round(ordered[-1], 6)}
