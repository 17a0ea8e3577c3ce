"""`gdal-mcp stats`: what calls did and what they cost, and what of them is on this host now."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from gdal_mcp.commands.durations import seconds_of
from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json, say
from gdal_mcp.ledger.metrics import Now, Spread, Tally, containers, staging_folders, tallies
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes import toolboxes
from sandbox.engines.discovery import connect
from sandbox.engines.docker import DockerEngine
from sandbox.errors import SandboxError
from sandbox.owner import Owner

Form = Literal["text", "json", "prometheus"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that is shown; `since` is an age such as 24h."""

    since: str
    lately: Tally
    total: Tally
    now: Now

    def as_dict(self) -> dict[str, Any]:
        now = self.now
        found = now.containers
        rows = (
            None
            if found is None
            else [{"server": one, "state": state, "count": n} for (one, state), n in sorted(found.items())]
        )
        return {
            "since": self.since,
            "lately": _told(self.lately),
            "total": _told(self.total),
            "unfinished": now.running,
            "containers": rows,
            "staging_folders": dict(now.staging),
        }


def show(settings: Settings, since: str, form: Form) -> Exit:
    """Prints the figures; without an engine those of the registry alone.

    Raises SettingsError, RegistryUnavailable and CatalogueBroken.
    """
    figures = gather(settings, since)
    if form == "prometheus":
        from gdal_mcp.ledger.exposition import text  # noqa: PLC0415 - its library is loaded where it is asked for

        out(text(figures.total, figures.now).rstrip("\n"))
    elif form == "json":
        out_json(figures.as_dict())
    else:
        out("\n".join(_lines(figures)))
    return Exit.DONE


def gather(settings: Settings, since: str) -> Figures:
    begin = time.time() - seconds_of(since, "--since")
    lately, total, running = tallies(settings.state.registry, toolboxes(settings).tools, begin)
    places = (settings.state_dir, *settings.workspaces)
    staging = {str(place): staging_folders(place.resolve()) for place in places}
    return Figures(since, lately, total, Now(running, _containers(settings), staging))


def _containers(settings: Settings) -> Mapping[tuple[str, str], int] | None:
    servers = settings.state.servers
    try:
        with closing(connect(settings.engine)) as client, closing(Owner(servers)) as owner:
            return containers(DockerEngine(client), owner)
    except (SandboxError, OSError) as error:
        say(f"containers are not shown: {error}")
        return None


def _told(tally: Tally) -> dict[str, Any]:
    calls = [
        {"tool": tool, "outcome": outcome, "count": n} for (tool, outcome), n in sorted(tally.calls.items())
    ]
    return {
        "calls": tally.number,
        "by_tool_and_outcome": calls,
        "pool": {"warm": tally.pool["warm"], "cold": tally.pool["cold"], "hit_rate": tally.hit_rate},
        "seconds": {phase: _spread(one) for phase, one in tally.seconds.items()},
        "peak_memory_bytes": _spread(tally.peak_memory),
        "cpu_seconds": round(tally.cpu_seconds, 3),
        "output": {"files": tally.output_files, "bytes": tally.output_bytes},
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "count": spread.number,
        "p50": spread.quantile(0.5),
        "p95": spread.quantile(0.95),
        "max": round(spread.highest, 6),
    }


def _lines(figures: Figures) -> Iterator[str]:
    """The tables for people: the time that was asked for on the left, everything on the right."""
    lately, total, heads = figures.lately, figures.total, (f"last {figures.since}", "in all")
    yield _row("calls", *heads)
    for tool, outcome in sorted(total.calls):
        yield _row(f"  {tool} {outcome}", lately.calls[tool, outcome], total.calls[tool, outcome])
    yield _row("  sum", lately.number, total.number)
    yield _row("  found a warm slot", _percent(lately.hit_rate), _percent(total.hit_rate))
    yield ""
    yield _row("seconds, p50 / p95", *heads)
    for phase in total.seconds:
        yield _row(f"  {phase}", _pair(lately.seconds[phase]), _pair(total.seconds[phase]))
    yield ""
    yield _row("use", *heads)
    yield _row(
        "  peak memory, MiB, p50 / p95", _pair(lately.peak_memory, 1 << 20), _pair(total.peak_memory, 1 << 20)
    )
    yield _row("  CPU seconds", f"{lately.cpu_seconds:.1f}", f"{total.cpu_seconds:.1f}")
    yield _row("  files published", lately.output_files, total.output_files)
    yield _row("  MiB published", f"{lately.output_bytes / 2**20:.1f}", f"{total.output_bytes / 2**20:.1f}")
    yield ""
    yield from _present(figures.now)


def _present(now: Now) -> Iterator[str]:
    yield _row("now", "")
    yield _row("  calls that have not ended", now.running)
    if now.containers is not None:
        yield _row("  containers", sum(now.containers.values()))
        for (server, state), count in sorted(now.containers.items()):
            yield _row(f"    of a server that is {server}, {state}", count)
    for place, folders in now.staging.items():
        yield _row("  staging folders", "unknown" if folders is None else folders) + f"  {place}"


def _row(name: str, *values: object) -> str:
    return (f"{name:<44}" + "".join(f"{value:>20}" for value in values)).rstrip()


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def _pair(spread: Spread, unit: float = 1.0) -> str:
    found = [spread.quantile(part) for part in (0.5, 0.95)]
    return " / ".join("-" if one is None else f"{one / unit:.4g}" for one in found)
