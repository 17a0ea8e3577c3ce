"""What the receipts of measured calls say: which way they went, and where their time went."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report import milliseconds

AFTERWARDS = ("create", "start", "remove")  # of a warm call that reads: before it came, or after its answer
TRIES = 5  # of one call that must be warm


@dataclass(slots=True)
class Receipts:
    """Those of one contender, with what the client itself waited for. `misses` were served cold and measured again."""

    found: list[Mapping[str, Any]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    misses: int = 0

    def keep(self, result: Mapping[str, Any], seconds: float) -> None:
        self.found.append(result["receipt"])
        self.waited.append(seconds)

    def parts(self, *, warm: bool) -> dict[str, float]:
        """Seconds by part, the median over the calls; `the rest` is what no part accounts for."""
        names = list(dict.fromkeys(name for one in self.found for name in one["seconds"]))
        counted = [name for name in names if not (warm and name in AFTERWARDS)]
        found = {name: _median([one["seconds"].get(name, 0.0) for one in self.found]) for name in counted}
        rest = [
            waited - sum(one["seconds"].get(name, 0.0) for name in counted)
            for waited, one in zip(self.waited, self.found, strict=True)
        ]
        return {**found, "the rest": _median(rest)}

    def told(self, *, warm: bool) -> str:
        """The parts that matter, the longest first."""
        parts = sorted(self.parts(warm=warm).items(), key=lambda pair: -pair[1])
        return ", ".join(f"{name} {milliseconds(seconds)} ms" for name, seconds in parts if seconds >= 0.0005)

    @property
    def warm_share(self) -> float:
        warm = [one for one in self.found if one["pool"] == "warm"]
        return len(warm) / max(1, len(self.found))


def _median(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) if seconds else 0.0


def noted(call: Callable[[], Mapping[str, Any]], kept: Receipts) -> float:
    """The seconds that the call took; its receipt is kept."""
    begun = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - begun
    kept.keep(result, seconds)
    return seconds
