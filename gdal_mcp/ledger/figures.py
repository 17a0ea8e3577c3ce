"""Figures about calls, from the registry alone, and about what is on this host now.

They count every call that reached a container or was refused on the way there. What is answered without one (a search, a
description, the check of a call) is in the audit log alone.

Invariants:
* reading changes nothing: the database is opened for reading, and an absent one is an empty one;
* whatever names clients invent, there are no more rows than the product has tools and outcomes: the rest is `other`;
* what a container says of its own use is believed up to the limits that it ran under.
"""

import json
import math
import sqlite3
from array import array
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gdal_mcp.access.admission import Load
from gdal_mcp.errors import Code
from gdal_mcp.ledger.registry import WAITING
from gdal_mcp.ledger.schema import MIGRATIONS, RegistryUnavailable, explained
from sandbox.engine import Engine
from sandbox.labels import OWNER
from sandbox.owner import Owner

OTHER: Final = "other"
OUTCOMES: Final = frozenset({"OK", WAITING, *map(str, Code)})
POOLS: Final = ("warm", "cold")
# as it is shown, and as it is recorded; to start is to be given a container, whether one waits or has to be made
PHASES: Final[Mapping[str, str]] = {"queue": "queue", "start": "claim", "run": "run", "publish": "publish"}
TOTAL: Final = "total"  # of a call that ran: from its first record to its last
_OLDEST: Final = 2  # the format from which on calls say which files they wrote
_BUSY_SECONDS: Final = 5.0


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


@dataclass(frozen=True, slots=True)
class Now:
    """The present state; None for what cannot be seen from here."""

    unfinished: int = 0  # calls that have not ended, of all servers of one state folder
    containers: Mapping[tuple[str, str], int] | None = None  # as `containers` counts them
    load: Load | None = None
    slots: Mapping[str, int] | None = None  # of this server's pool, by what they do


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
        rows = [
            {"tool": tool, "outcome": outcome, "count": n}
            for (tool, outcome), n in sorted(self.calls.items())
        ]
        served = self.pool.total()
        return {
            "calls": self.calls.total(),
            "by_tool_and_outcome": rows,
            "pool": {
                **{name: self.pool[name] for name in POOLS},
                "hit_rate": self.pool["warm"] / served if served else None,
            },
            "seconds": {phase: _spread(amounts) for phase, amounts in self.seconds.items()},
            "peak_memory_bytes": _spread(self.peak_memory),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "output": {"files": self.output_files, "bytes": self.output_bytes},
        }


def figures(path: Path, known: Container[str], since: float) -> dict[str, Any]:
    """The calls that ended since a time (seconds since the epoch), all of them, and how many have not ended, as JSON.

    Raises RegistryUnavailable.
    """
    lately, total, unfinished = Summary(), Summary(), 0
    for _, call in ended_calls(path, known):
        if call is None:
            unfinished += 1
            continue
        total.add(call)
        if call.finished >= since:
            lately.add(call)
    return {"lately": lately.as_dict(), "total": total.as_dict(), "unfinished": unfinished}


def ended_calls(path: Path, known: Container[str], after: int = 0) -> Iterator[tuple[int, EndedCall | None]]:
    """The calls after row `after` in order, with their row numbers; None for one that has not ended.

    A tool that is not `known` is counted as OTHER. Raises RegistryUnavailable.
    """
    if not path.exists():
        return
    query = "SELECT rowid, * FROM calls WHERE rowid > ? ORDER BY rowid"
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with explained(path), closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as database:
        database.row_factory = sqlite3.Row
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if not _OLDEST <= version <= len(MIGRATIONS):
            wrong = "a newer" if version > len(MIGRATIONS) else "an older"
            raise RegistryUnavailable(
                f"the registry {path} was written by {wrong} version of this program (its format is {version}). "
                "Use the version whose server runs on it."
            )
        for row in database.execute(query, [after]):
            yield row["rowid"], _ended(row, known) if row["finished"] is not None else None


def _ended(row: sqlite3.Row, known: Container[str]) -> EndedCall:
    durations, receipt, limits = (json.loads(row[name]) for name in ("durations", "receipt", "limits"))
    files = json.loads(row["files"])
    recorded = {phase: _amount(durations.get(name)) for phase, name in PHASES.items()}
    if "run" in durations:
        recorded[TOTAL] = max(row["finished"] - row["started"], 0.0)
    most_cpu = (_amount(limits.get("cpus")) or 0) * (_amount(limits.get("wall_seconds")) or 0)
    return EndedCall(
        row["tool"] if row["tool"] in known else OTHER,
        row["outcome"] if row["outcome"] in OUTCOMES else OTHER,
        row["finished"],
        {phase: seconds for phase, seconds in recorded.items() if seconds is not None},
        receipt.get("pool") if receipt.get("pool") in POOLS else None,
        _amount(receipt.get("peak_memory_bytes"), limits.get("memory_bytes", 0)),
        _amount(receipt.get("cpu_seconds"), most_cpu) or 0.0,
        len(files),
        sum(int(_amount(one.get("bytes")) or 0) for one in files),
    )


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


def containers(engine: Engine, owner: Owner) -> Counter[tuple[str, str]]:
    """Our containers now, by whether their server is `alive`, `dead` or `foreign` (of another state folder or another host)
    and whether they are `running` or `stopped`. Raises EngineUnavailable.
    """
    found: Counter[tuple[str, str]] = Counter()
    for one in engine.leftovers():
        state = engine.state(one.container)
        if state is None:
            continue
        name = one.labels.get(OWNER, "")
        server = "foreign"
        if name.isalnum() and (owner.folder / f"{name}.lock").exists():
            server = "dead" if owner.is_dead(name) else "alive"
        found[server, "running" if state.running else "stopped"] += 1
    return found
