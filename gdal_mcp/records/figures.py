"""Figures about calls that ended, as SQL aggregates over narrow rows: fast with a million of them.

They count every call that reached a container or was refused on the way, also those whose record was removed since.
Calls answered without a container (a search, a description, the check of a call) are only in the audit log.

Invariant: whatever names clients invent, there are no more rows than the product has tools and outcomes; all others
count as `other`.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping
from typing import Any, Final

from gdal_mcp.records.ended import OTHER, OUTCOMES, PHASES, POOLS, TOTAL
from gdal_mcp.records.registry import Registry

__all__ = ["OUTCOMES", "figures"]

_POOLS: Final = "SELECT pool, count(*) AS n FROM ended"
_SUMS: Final = (
    "SELECT sum(cpu_seconds) AS cpu, sum(output_files) AS files, sum(output_bytes) AS bytes FROM ended"
)


def figures(registry: Registry, known: Container[str], since: float) -> dict[str, Any]:
    """The figures of calls that ended since a time (seconds since the epoch), of all calls, and the number of
    unfinished ones, as JSON.

    Raises RegistryUnavailable.
    """
    [unfinished] = registry.figures("SELECT count(*) AS n FROM calls WHERE finished IS NULL")
    last_day = _summary(registry, known, " WHERE finished >= :since", {"since": since})
    return {"lately": last_day, "total": _summary(registry, known, "", {}), "unfinished": unfinished["n"]}


def _summary(
    registry: Registry, known: Container[str], where: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The figures of the calls that `where` selects.

    `hit_rate` is the share of the calls with a container that found a waiting one; None without such calls.
    """

    def rows(query: str) -> list[dict[str, Any]]:
        return registry.figures(query, **values)

    counts = "SELECT tool, outcome, count(*) AS n FROM ended"
    by_name = rows(f"{counts}{where} GROUP BY {'+tool, +outcome' if where else 'tool, outcome'}")
    calls: Counter[tuple[str, str]] = Counter()
    for row in by_name:
        calls[row["tool"] if row["tool"] in known else OTHER, row["outcome"]] += row["n"]
    # rows of a period are found by their time: `+` keeps SQLite from using the index of the grouped columns for it
    also, by = (f"{where} AND", "+") if where else (" WHERE", "")
    pools = rows(f"{_POOLS}{also} {by}pool IS NOT NULL GROUP BY {by}pool")
    pool = dict.fromkeys(POOLS, 0) | {row["pool"]: row["n"] for row in pools}
    served = sum(pool.values())
    [sums] = rows(f"{_SUMS}{where}")

    def spread(column: str) -> dict[str, Any]:
        """Count, nearest-rank quantiles and maximum."""
        some = f"FROM ended{also} {by}{column} IS NOT NULL"
        count, most = rows(f"SELECT count(*) AS n, max({column}) AS most {some}")[0].values()
        if not count:
            return {"count": 0, "p50": None, "p95": None, "max": 0.0}
        # counted from the largest, which is nearer to the 95th percentile
        ranks = {name: count - math.ceil(part * count) for name, part in (("p50", 0.5), ("p95", 0.95))}
        ordered = f"SELECT {column} AS amount {some} ORDER BY {by}{column} DESC LIMIT 1 OFFSET "
        quantiles = {name: rows(f"{ordered}{rank}")[0]["amount"] for name, rank in ranks.items()}
        return {"count": count, **quantiles, "max": round(most, 6)}

    return {
        "calls": calls.total(),
        "by_tool_and_outcome": [
            {"tool": tool, "outcome": outcome, "count": n} for (tool, outcome), n in sorted(calls.items())
        ],
        "pool": {**pool, "hit_rate": pool["warm"] / served if served else None},
        "seconds": {phase: spread(phase) for phase in (*PHASES, TOTAL)},
        "peak_memory_bytes": spread("peak_memory"),
        "cpu_seconds": round(sums["cpu"] or 0.0, 3),
        "output": {"files": sums["files"] or 0, "bytes": sums["bytes"] or 0},
    }
