"""What the catalogue costs: loading it, listing tools, searching, describing and checking calls without a container."""

import json
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from bench.arena import Arena
from bench.clients import BareClient
from bench.report import Goal, Section, milliseconds
from bench.search import QUESTIONS, Asked, ask
from bench.series import Effort, in_turn, timed
from gdal_mcp.gdal.catalogue.load import DATA

LIST_GOAL = 20  # kB of the default tools/list; every client sends it to its model
BYTES_PER_TOKEN = 4  # a rule of thumb for English and JSON; tokenizers differ by a third
TOOLSETS = ("core", "all")
_LOAD = "from gdal_mcp.gdal.catalogue.load import catalogue; import time; a = time.perf_counter(); catalogue(); print(time.perf_counter() - a)"
_SETS = {  # how they came about is said at the head of the file
    "tuned": "written before the search, and looked at since",
    "held_out": "written before the search, by the same person",
    "fresh": "fresh: asked once, nothing was changed for them",
}
_HILLSHADE = {"algorithm": "raster hillshade", "arguments": {"input": "small.tif", "output": "shade.tif"}}


def measure(arena: Arena, effort: Effort) -> tuple[Section, ...]:
    return loading(arena, effort.rounds), listing(arena, effort), answers(arena, effort), quality()


def loading(arena: Arena, rounds: int) -> Section:
    """Each round in a new process, on compiled modules."""
    from gdal_mcp.gdal.catalogue.load import catalogue  # noqa: PLC0415 - only here

    seconds = [_load(arena) for _ in range(rounds + 1)][1:]
    folder = files("gdal_mcp.gdal.catalogue").joinpath("data")
    size = len(folder.joinpath(DATA).read_bytes())
    rules = sum(len(one.read_bytes()) for one in folder.iterdir() if one.name.endswith(".toml"))
    rows = (
        ("what it holds", catalogue().summary),
        ("generated file", f"{size / 1000:.0f} kB"),
        ("hand-written rules", f"{rules / 1000:.0f} kB"),
        ("reading and checking both, p50", f"{milliseconds(statistics.median(seconds))} ms"),
        ("the slowest", f"{milliseconds(max(seconds))} ms"),
    )
    note = (
        f"{rounds} new processes. It is read once, before the first answer; no container is started for it."
    )
    return Section("The catalogue", note, ("", ""), rows)


def _load(arena: Arena) -> float:
    command = [sys.executable, "-c", _LOAD]
    done = subprocess.run(command, env=arena.python_environment(), capture_output=True, text=True, check=True)
    return float(done.stdout)


def listing(arena: Arena, effort: Effort) -> Section:
    """`tools/list` of a server with one toolset: what it weighs, and how long it takes at first and again."""
    rows, sizes = [], {}
    for toolset in TOOLSETS:
        found = [_listed(arena, toolset) for _ in range(max(3, effort.rounds // 4))]
        tools, size = found[0].tools, found[0].size
        sizes[toolset] = size
        rows.append(
            (
                f"`{toolset}`",
                str(tools),
                f"{size:,}",
                f"{size // BYTES_PER_TOKEN:,}",
                milliseconds(statistics.median(one.first for one in found)),
                milliseconds(statistics.median(one.again for one in found)),
            )
        )
    header = ("toolset", "tools", "bytes", "tokens, about", "first ms", "again ms")
    note = f"Over stdio, from a server that is running. Tokens are bytes / {BYTES_PER_TOKEN}; `first` makes the schemas."
    goal = Goal("`tools/list` of the default toolset", LIST_GOAL, sizes[TOOLSETS[0]] / 1000, "kB")
    return Section("`tools/list`", note, header, rows, (goal,))


@dataclass(frozen=True, slots=True)
class Listed:
    """One answer: its size in bytes of compact JSON, and seconds."""

    tools: int
    size: int
    first: float
    again: float


def _listed(arena: Arena, toolset: str) -> Listed:
    with _client(arena, "--toolsets", toolset) as client:
        found: list[Mapping[str, Any]] = []
        first = timed(lambda: found.append(client.ask("tools/list", {})))
        again = min(timed(lambda: client.ask("tools/list", {})) for _ in range(3))
        text = json.dumps(found[0]["tools"], ensure_ascii=False, separators=(",", ":"))
        return Listed(len(found[0]["tools"]), len(text.encode()), first, again)


@contextmanager
def _client(arena: Arena, *options: str) -> Iterator[BareClient]:
    client = BareClient(replace(arena, options=options), modern=False)
    try:
        client.greet()
        yield client
    finally:
        client.close()


def answers(arena: Arena, effort: Effort) -> Section:
    """What is asked before a call, over stdio, audit record and all."""
    with _client(arena) as client:

        def asking(tool: str, arguments: Mapping[str, Any]) -> Callable[[], float]:
            given = {"name": tool, "arguments": arguments}
            return lambda: timed(lambda: client.ask("tools/call", given))

        found = in_turn(
            {
                "`gdal_search`, a plain question": asking("gdal_search", {"query": "shade the mountains"}),
                "`gdal_describe` of `raster hillshade`": asking(
                    "gdal_describe", {"algorithm": "raster hillshade"}
                ),
                "`validate_call` of a hillshade of a GeoTIFF": asking(
                    "validate_call", {"tool": "gdal_write", "arguments": _HILLSHADE}
                ),
                "`formats`, all of them": asking("formats", {}),
            },
            replace(effort, rounds=effort.rounds * 2),
        )
    rows = [(name, milliseconds(one.p50), milliseconds(one.p95)) for name, one in found.items()]
    note = "Over stdio. None of these starts a container, but each is written to the audit log before it is answered."
    return Section("Answers without a container", note, ("call", "p50 ms", "p95 ms"), rows)


def quality() -> Section:
    """How many plain questions find an expected algorithm."""
    groups = {
        name: list(ask(entries)) for name, entries in tomllib.loads(QUESTIONS.read_text("utf-8")).items()
    }
    rows = [_quality(_SETS.get(name, name), asked) for name, asked in groups.items()]
    note = (
        'Plain questions of `tests/data/questions.toml`, such as "shade the mountains", and the place of the first right answer. '
        "The first sixty flatter the search; what a new question meets is the last row. In this process."
    )
    header = ("questions", "of", "first", "in the first 3", "in the first 10", "p50 ms")
    return Section("Search", note, header, rows)


def _quality(name: str, asked: Sequence[Asked]) -> tuple[str, ...]:
    counts = (str(sum(one.within(places) for one in asked)) for places in (1, 3, 10))
    return name, str(len(asked)), *counts, f"{statistics.median(one.milliseconds for one in asked):.2f}"
