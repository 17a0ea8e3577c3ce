"""The server itself: from its start to its first answers, and what its imports cost."""

import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

from bench.arena import Arena
from bench.clients import HANDSHAKE, MODERN, BareClient
from bench.report import Goal, Section, milliseconds
from bench.series import Effort, in_turn, timed

START_GOAL = 0.8  # seconds
_IMPORTS = (
    "import gdal_mcp.cli\nfrom gdal_mcp.mcp.lean import lean_imports\n"
    "with lean_imports():\n    import gdal_mcp.app, gdal_mcp.mcp.stdio"
)
_SDK = "import mcp.server, mcp.server.stdio, mcp_types"
_SHOWN = 10  # packages in the table of imports
_TOOLS_LIST = "tools/list"


def measure(arena: Arena, effort: Effort, import_rounds: int) -> tuple[Section, Section]:
    return _start(arena, effort), imports(arena, import_rounds)


def _start(arena: Arena, effort: Effort) -> Section:
    found = in_turn(
        {
            f"server, {HANDSHAKE}: until `initialize` and `tools/list` are answered": lambda: _first_answers(
                arena, modern=False
            ),
            f"server, {MODERN}: until `server/discover` and `tools/list` are answered": lambda: (
                _first_answers(arena, modern=True)
            ),
            "Python that imports only the MCP SDK": lambda: _python(arena, _SDK),
            "Python that imports nothing": lambda: _python(arena, "pass"),
        },
        effort,
    )
    rows = [(name, milliseconds(one.p50), milliseconds(one.p95)) for name, one in found.items()]
    slowest = max(one.p50 for one in list(found.values())[:2])
    sdk = found["Python that imports only the MCP SDK"].p50
    reason = f"importing the SDK alone takes {milliseconds(sdk)} ms here"
    goals = (Goal("start of the server to its first answers, p50", START_GOAL, slowest, "s", reason),)
    note = f"{effort.rounds} rounds at most, each with a new process on a state folder that knows this host."
    return Section("Start to first answer", note, ("process", "p50 ms", "p95 ms"), rows, goals)


def _first_answers(arena: Arena, *, modern: bool) -> float:
    server = None

    def start_and_ask() -> None:
        nonlocal server
        server = BareClient(arena, modern=modern)
        server.greet()
        server.ask(_TOOLS_LIST, {})

    try:
        return timed(start_and_ask)
    finally:
        if server is not None:
            server.close()


def _python(arena: Arena, code: str) -> float:
    environment = arena.python_environment()
    return timed(lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True))


def imports(arena: Arena, rounds: int) -> Section:
    """The time of the server's imports by package, without what each imports in turn."""
    profiles = [dict(_own_times(arena)) for _ in range(rounds)]
    names = {name for profile in profiles for name in profile}
    medians = {name: statistics.median(profile.get(name, 0.0) for profile in profiles) for name in names}
    ordered = sorted(medians.items(), key=lambda pair: -pair[1])
    rows = [(name, f"{taken * 1000:.0f}") for name, taken in ordered[:_SHOWN]]
    rows.append(("all others", f"{sum(taken for _, taken in ordered[_SHOWN:]) * 1000:.0f}"))
    rows.append(("all", f"{sum(medians.values()) * 1000:.0f}"))
    note = f"`python -X importtime`, p50 of {rounds}, which itself slows imports down. Each package without those it imports."
    return Section("Imports of the server", note, ("package", "own ms"), rows)


def _own_times(arena: Arena) -> Iterator[tuple[str, float]]:
    """Seconds by top-level package."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _IMPORTS],
        env=arena.python_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    own: defaultdict[str, float] = defaultdict(float)
    for line in done.stderr.splitlines():
        taken, _, rest = line.removeprefix("import time:").partition("|")
        if taken.strip().isdigit():
            own[rest.partition("|")[2].strip().partition(".")[0]] += int(taken) / 1e6
    yield from own.items()
