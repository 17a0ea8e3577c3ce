"""Where the time of a cold call goes."""

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.arena import Arena
from bench.cold import Case, arguments
from bench.inprocess import InProcess
from bench.report import Section, milliseconds

# part: what it is
PARTS = {
    "plan": "look up the tool, check and bind the arguments, resolve paths, digest of the plan, policy",
    "audit before": "the record without which nothing runs, and the registry's row",
    "create": "the engine makes the container; read back and compared with what was asked",
    "attach": "the standard streams",
    "start": "the engine's start: namespaces, mounts, cgroups, seccomp",
    "load": "Python, GDAL and its 290 libraries, until the worker is ready; its measurements compared",
    "run": "the job, the description of the output and its preview, until the final frame",
    "exit": "until the engine says how the container ended",
    "remove": "removal, and the question whether it is gone",
    "publish": "outputs inspected, hashed, synced to the disk and renamed into place",
    "the rest": "staging folder, closing record, result held to its schema",
}


def measure(direct: InProcess, arena: Arena, cases: Sequence[Case], rounds: int) -> Section:
    """One column for each case: medians, so that they need not add up to the last row exactly."""
    columns = [_medians(direct, arena, case, rounds) for case in cases]
    rows = [(name, *(milliseconds(one[name]) for one in columns), text) for name, text in PARTS.items()]
    rows.append(("all", *(milliseconds(one["all"]) for one in columns), ""))
    header = ("part", *(f"{case.tool} ms" for case in cases), "what it is")
    return Section("Where a cold call's time goes", f"In process, p50 of {rounds} calls.", header, rows)


def _medians(direct: InProcess, arena: Arena, case: Case, rounds: int) -> dict[str, float]:
    direct.call(case.tool, arguments(arena, case))
    calls = [_parts(direct, arena, case) for _ in range(rounds)]
    return {name: statistics.median(one[name] for one in calls) for name in calls[0]}


def _parts(direct: InProcess, arena: Arena, case: Case) -> dict[str, float]:
    begun = time.perf_counter()
    seconds: Mapping[str, Any] = direct.call(case.tool, arguments(arena, case))["receipt"]["seconds"]
    whole = time.perf_counter() - begun
    engine = direct.engine.seconds
    parts = {
        "plan": seconds["plan"] + seconds["approval"],
        "audit before": seconds["audit"],
        "create": seconds["create"],
        "attach": engine["attach"],
        "start": engine["start"],
        "load": seconds["start"] - engine["attach"] - engine["start"],
        "run": seconds["run"],
        "exit": engine["wait"],
        "remove": engine["remove"],
        "publish": seconds.get("publish", 0.0),
    }
    return {**parts, "the rest": whole - sum(parts.values()), "all": whole}
