"""The registry with a million calls: figures, pages of the history, searches, and the records of one more call."""

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final

from bench.report import Finding, Section, milliseconds, timed
from gdal_mcp.records.figures import figures
from gdal_mcp.records.registry import Call, Registry

_DAY: Final = 86_400.0  # seconds
_INTERVAL: Final = 10.0  # seconds between two calls; a million are four months
_TOOLS: Final = ("info", "convert", "gdal_read", "gdal_write", "raster_reproject", "vector_sql", "gdal_query")
_PEOPLE: Final = 20
# what differs between the calls, as SQL with the number `n` of a call
_BOTH: Final = {
    "id": "printf('%016x', n)",
    "tool": "json_extract(:tools, '$[' || (n % 7) || ']')",
    "outcome": "CASE n % 10 WHEN 8 THEN 'GDAL_FAILED' WHEN 9 THEN 'INPUT_INVALID' ELSE 'OK' END",
    "finished": f":begin + n * {_INTERVAL} + 0.2",
}
_CALLS: Final = _BOTH | {
    "principal": f"'person-' || (n % {_PEOPLE})",
    "started": f":begin + n * {_INTERVAL}",
    **{
        name: f"replace({name}, 'scene-0', 'scene-' || (n % 1000))"
        for name in ("arguments", "argv", "files", "inputs")
    },
}
_ENDED: Final = _BOTH | {
    "pool": "iif(n % 5, 'warm', 'cold')",
    # thousands of different times, in no order
    **{
        name: f"{name} * (1 + n * 7919 % 10007 / 1000.0)"
        for name in ("queue", "start", "run", "publish", "total")
    },
}


def records(number: int, rounds: int, folder: Path) -> Section:
    """Fills a registry with `number` calls and times what the server and the console do with it."""
    with tempfile.TemporaryDirectory(prefix="records-", dir=folder) as place:
        path = Path(place) / "registry.sqlite"
        with closing(Registry(path)) as registry:
            _one_call(registry, "first")
        _fill(path, number)
        size = path.stat().st_size / (1 << 30)
        with closing(Registry(path)) as registry:
            taken = {name: _measured(work, rounds) for name, work in _works(registry).items()}
    rows = [(name, milliseconds(wall), milliseconds(cpu)) for name, (wall, cpu) in taken.items()]
    figure, *pages, call = (wall for wall, _ in taken.values())
    findings = (
        Finding("records-figures", figure),
        Finding("records-search", max(pages)),
        Finding("records-call", call * 1000),
    )
    note = f"Of {_PEOPLE} principals, in {size:.1f} GiB; the medians of {rounds} rounds."
    header = ("what", "p50 ms", "processor ms")
    return Section(f"Registry with {number:,} calls", note, header, rows, findings)


def _measured(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Seconds of wall time and of this process's processor time, which other work on the machine affects less."""
    cpu = time.process_time()
    wall = statistics.median(timed(work) for _ in range(rounds))
    return wall, (time.process_time() - cpu) / rounds


def _works(registry: Registry) -> Mapping[str, Callable[[], object]]:
    numbers = count()
    return {
        "figures": lambda: figures(registry, _TOOLS, time.time() - _DAY),
        "first page of the history": registry.search,
        "first page of one principal": lambda: registry.search(principal="person-7"),
        "search for a file of many calls": lambda: registry.search(["scene-77"]),
        "search that finds nothing": lambda: registry.search(["no such text"]),
        "search of a principal without calls": lambda: registry.search(principal="nobody"),
        "records of one more call": lambda: _one_call(registry, f"more-{next(numbers)}"),
    }


def _one_call(registry: Registry, call_id: str) -> None:
    """The start and the end of a call, with as much text as most have."""
    argv = ("gdal", "raster", "convert", "/data/maps/scene-0.tif", "/data/maps/out/scene-0.cog.tif")
    file = {"path": "/data/maps/out/scene-0.cog.tif", "bytes": 1_048_576, "sha256": "0" * 64}
    limits = {"cpus": 2, "memory_bytes": 1 << 31, "wall_seconds": 300}
    receipt = {"pool": "warm", "peak_memory_bytes": 80_000_000, "cpu_seconds": 0.2, "image": "0" * 64}
    durations = {"queue": 0.001, "claim": 0.01, "run": 0.1, "publish": 0.02}
    started = Call(call_id, "person-0", "convert", {"input": argv[3]}, argv=argv, limits=limits)
    registry.begin_call(started)
    ended = Call(
        call_id, "", "", {}, outcome="OK", durations=durations, receipt=receipt, files=(file,), inputs=(file,)
    )
    registry.finish_call(ended)


def _fill(path: Path, number: int) -> None:
    """Variants of the one call that is recorded, in one transaction."""
    values = {"number": number, "begin": time.time() - number * _INTERVAL, "tools": json.dumps(_TOOLS)}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA cache_size = -1000000")  # 1 GB: each page is written once
        for table, varied in (("calls", _CALLS), ("ended", _ENDED)):
            database.execute(f"CREATE TEMP TABLE one_{table} AS SELECT * FROM {table}")
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            database.execute(
                f"WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :number) "
                f"INSERT INTO {table} ({', '.join(columns)}) "
                f"SELECT {', '.join(varied.get(name, name) for name in columns)} FROM numbers, one_{table}",
                values,
            )
