"""Where the time of a cold call goes, and the processor time of a container's whole life."""

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.arena import Arena
from bench.cold import Case, Field, arguments
from bench.inprocess import InProcess
from bench.report import Section, milliseconds
from bench.series import used_seconds

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
    "publish": "outputs inspected, hashed, synced to the disk and renamed into place",
    "the rest": "staging folder, closing record, result held to its schema",
    "all": "what the caller waits for",
    "remove": "removal, and the question whether it is gone; after the answer where the call does not wait for it",
}
# step: what it is
STEPS = {
    "before": "the server: plan, policy, records",
    "create": "the engine makes the container, and is asked what it made",
    "attach": "the standard streams",
    "start": "the engine's start",
    "load and run": "in the container: Python, GDAL, the job; the kernel maps 290 libraries",
    "remove": "the kernel takes the namespaces and mounts apart, the engine forgets the container",
}


def measure(place: Field, cases: Sequence[Case], rounds: int) -> tuple[Section, Section]:
    """Parts of the time, one column for each case, and the processors' time of the first case's cycle."""
    direct, arena = place.direct, place.arena
    columns = [_medians(direct, arena, case, rounds) for case in cases]
    rows = [(name, *(milliseconds(one[name]) for one in columns), text) for name, text in PARTS.items()]
    header = ("part", *(f"{case.tool} ms" for case in cases), "what it is")
    note = f"In process, p50 of {rounds} calls; medians, so that they need not add up to `all` exactly."
    parts = Section("Where a cold call's time goes", note, header, rows)
    return parts, _cycle(direct, arena, cases[0], rounds)


def _medians(direct: InProcess, arena: Arena, case: Case, rounds: int) -> dict[str, float]:
    _once(direct, arena, case)
    calls = [_parts(direct, arena, case) for _ in range(rounds)]
    return {name: statistics.median(one[name] for one in calls) for name in calls[0]}


def _once(direct: InProcess, arena: Arena, case: Case) -> tuple[float, Mapping[str, Any]]:
    """What the caller waited for and its receipt, once its container is gone."""
    begun = time.monotonic()
    result = direct.call(case.tool, arguments(arena, case))
    whole = time.monotonic() - begun
    direct.engine.all_removed()
    return whole, result["receipt"]["seconds"]


def _parts(direct: InProcess, arena: Arena, case: Case) -> dict[str, float]:
    begun = time.monotonic()
    whole, seconds = _once(direct, arena, case)
    engine = {one.name: one.seconds for one in direct.engine.operations}
    removed_after = any(
        one.name == "remove" and one.ended > begun + whole for one in direct.engine.operations
    )
    parts = {
        "plan": seconds["plan"] + seconds["approval"],
        "audit before": seconds["audit"],
        "create": seconds["create"],
        "attach": engine["attach"],
        "start": engine["start"],
        "load": seconds["start"] - engine["attach"] - engine["start"],
        "run": seconds["run"],
        "exit": engine.get("exit", 0.0),
        "publish": seconds.get("publish", 0.0),
    }
    rest = whole - sum(parts.values()) - (0.0 if removed_after else engine["remove"])
    return {**parts, "the rest": rest, "all": whole, "remove": engine["remove"]}


def _cycle(direct: InProcess, arena: Arena, case: Case, rounds: int) -> Section:
    """What one container costs from nothing to nothing, one after the other, in time and in that of the processors."""
    cycles = [_steps(direct, arena, case) for _ in range(rounds)]

    def mean(name: str, which: int) -> float:
        return statistics.mean(one[name][which] for one in cycles)

    rows: list[tuple[str, ...]] = [
        (name, milliseconds(mean(name, 0)), milliseconds(mean(name, 1)), text) for name, text in STEPS.items()
    ]
    whole = [sum(mean(name, which) for name in STEPS) for which in (0, 1)]
    rows.append(("all", *(milliseconds(one) for one in whole), "one cycle"))
    note = (
        f"`{case.tool}` in process, the mean of {rounds} cycles that do not overlap. The processors' time is that of the "
        "whole machine, engine and kernel included, so anything else that runs is in it."
    )
    return Section(
        "What one container costs", note, ("step", "ms", "ms of the processors", "what it is"), rows
    )


def _steps(direct: InProcess, arena: Arena, case: Case) -> dict[str, tuple[float, float]]:
    """Seconds, and those of the processors, by step."""
    begun, used = time.monotonic(), used_seconds()
    _once(direct, arena, case)
    done = {one.name: one for one in direct.engine.operations}
    create, start, remove = done["create"], done["start"], done["remove"]
    return {
        "before": (create.begun - begun, create.used_before - used),
        **{name: (done[name].seconds, done[name].used) for name in ("create", "attach", "start", "remove")},
        "load and run": (remove.begun - start.ended, remove.used_before - start.used_after),
    }
