"""`gdal-mcp stats`: what calls did and what they cost, and what of them is on this host now."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Literal

from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_either, say, seconds_of
from gdal_mcp.ledger.figures import Now, containers, figures, staging_folders
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes import toolboxes
from sandbox.engines.opening import open_engine
from sandbox.errors import SandboxError
from sandbox.owner import Owner

Form = Literal["text", "json", "prometheus"]


def show(settings: Settings, since: str, form: Form) -> Exit:
    """Prints the figures; without an engine those of the registry alone.

    Raises SettingsError, RegistryUnavailable and CatalogueBroken.
    """
    begin = time.time() - seconds_of(since, "--since")
    registry, known = settings.state.registry, toolboxes(settings).tools
    places = (settings.state_dir, *settings.workspaces)
    staging = {str(place): staging_folders(place.resolve()) for place in places}
    found = _containers(settings)
    if form == "prometheus":
        from gdal_mcp.ledger.metrics import Metrics  # noqa: PLC0415 - its library is loaded where it is asked for

        metrics = Metrics(registry, known)
        out(metrics.text(Now(metrics.refresh(), found, staging)).rstrip("\n"))
        return Exit.DONE
    rows = [
        {"server": server, "state": state, "count": n} for (server, state), n in sorted((found or {}).items())
    ]
    facts = {"since": since, **figures(registry, known, begin)}
    facts |= {"containers": None if found is None else rows, "staging_folders": staging}
    out_either(facts, "\n".join(lines(facts)), as_json=form == "json")
    return Exit.DONE


def _containers(settings: Settings) -> Mapping[tuple[str, str], int] | None:
    servers = settings.state.servers
    try:
        with closing(open_engine(settings.engine)) as engine, closing(Owner(servers)) as owner:
            return containers(engine, owner)
    except (SandboxError, OSError) as error:
        say(f"containers are not shown: {error}")
        return None


def lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """The tables for people: the time that was asked for on the left, everything on the right."""
    parts = facts["lately"], facts["total"]
    heads = f"last {facts['since']}", "in all"
    yield _row("calls", *heads)
    counts = [
        {(one["tool"], one["outcome"]): one["count"] for one in part["by_tool_and_outcome"]} for part in parts
    ]
    for tool, outcome in counts[1]:
        yield _row(f"  {tool} {outcome}", *(count.get((tool, outcome), 0) for count in counts))
    yield _row("  sum", *(part["calls"] for part in parts))
    rates = [part["pool"]["hit_rate"] for part in parts]
    yield _row("  found a warm slot", *("-" if rate is None else f"{rate:.1%}" for rate in rates))
    yield ""
    yield _row("seconds, p50 / p95", *heads)
    for phase in facts["total"]["seconds"]:
        yield _row(f"  {phase}", *(_pair(part["seconds"][phase]) for part in parts))
    yield ""
    yield _row("use", *heads)
    memory = (_pair(part["peak_memory_bytes"], 1 << 20) for part in parts)
    yield _row("  peak memory, MiB, p50 / p95", *memory)
    yield _row("  CPU seconds", *(f"{part['cpu_seconds']:.1f}" for part in parts))
    yield _row("  files published", *(part["output"]["files"] for part in parts))
    yield _row("  MiB published", *(f"{part['output']['bytes'] / 2**20:.1f}" for part in parts))
    yield ""
    yield _row("now", "")
    yield _row("  calls that have not ended", facts["unfinished"])
    if facts["containers"] is not None:
        yield _row("  containers", sum(one["count"] for one in facts["containers"]))
        for one in facts["containers"]:
            yield _row(f"    of a server that is {one['server']}, {one['state']}", one["count"])
    for place, folders in facts["staging_folders"].items():
        yield _row("  staging folders", "unknown" if folders is None else folders) + f"  {place}"


def _row(name: str, *values: object) -> str:
    return (f"{name:<44}" + "".join(f"{value:>20}" for value in values)).rstrip()


def _pair(spread: Mapping[str, Any], unit: float = 1.0) -> str:
    found = (spread["p50"], spread["p95"])
    return " / ".join("-" if one is None else f"{one / unit:.4g}" for one in found)
