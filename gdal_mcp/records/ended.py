"""The figures of a call that ended: one narrow row, for statistics and metrics. Pure.

Invariant: a container's report of its own use is accepted up to the limits that it ran under.
"""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gdal_mcp.errors import Code

if TYPE_CHECKING:
    from gdal_mcp.records.registry import Call

WAITING: Final = (
    "WAITING"  # the outcome of a call that nobody had approved yet; it is sent again after approval
)
OTHER: Final = "other"
OUTCOMES: Final = frozenset({"OK", WAITING, *map(str, Code)})
POOLS: Final = ("warm", "cold")
# phase in the figures -> phase in the records; `start` is the time to get a container, waiting or new
PHASES: Final[Mapping[str, str]] = {"queue": "queue", "start": "claim", "run": "run", "publish": "publish"}
TOTAL: Final = "total"  # the time of a call that ran, from its first record to its last


@dataclass(frozen=True, slots=True)
class EndedCall:
    """The figures of a call that ended. `seconds` by phase; None if nothing valid is recorded."""

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
    def of(cls, call: "Call", known: Container[str] | None = None) -> "EndedCall":
        """The figures of a call. If `known` is given, other tools are counted as OTHER."""
        limits, receipt = call.limits, call.receipt
        seconds = {phase: _amount(call.durations.get(name)) for phase, name in PHASES.items()}
        if "run" in call.durations and call.started and call.finished is not None:
            seconds[TOTAL] = max(call.finished - call.started, 0.0)
        most_cpu = (_amount(limits.get("cpus")) or 0) * (_amount(limits.get("wall_seconds")) or 0)
        return cls(
            call.tool if known is None or call.tool in known else OTHER,
            call.outcome if call.outcome in OUTCOMES else OTHER,
            call.finished or 0.0,
            {phase: amount for phase, amount in seconds.items() if amount is not None},
            receipt.get("pool") if receipt.get("pool") in POOLS else None,
            _amount(receipt.get("peak_memory_bytes"), limits.get("memory_bytes", 0)),
            _amount(receipt.get("cpu_seconds"), most_cpu) or 0.0,
            len(call.files),
            sum(int(_amount(file.get("bytes")) or 0) for file in call.files),
        )

    def row(self, call_id: str) -> dict[str, Any]:
        """The row of the table `ended`."""
        phases = {phase: self.seconds.get(phase) for phase in (*PHASES, TOTAL)}
        return {
            "id": call_id,
            "tool": self.tool,
            "outcome": self.outcome,
            "finished": self.finished,
            **phases,
            "pool": self.pool,
            "peak_memory": self.peak_memory or None,
            "cpu_seconds": self.cpu_seconds,
            "output_files": self.output_files,
            "output_bytes": min(self.output_bytes, (1 << 63) - 1),  # SQLite's integers
        }


def _amount(value: object, most: object = None) -> float | None:
    """The value, at most `most` if that is a number too. None for anything that is not a number of at least 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        return None
    bound = _amount(most) if most is not None else None
    return value if bound is None else min(value, bound)
