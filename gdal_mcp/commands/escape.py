"""`gdal-mcp doctor --escape`: what hostile code could not do in a container of this host, as a table or as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from gdal_mcp.app import running
from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json
from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.registry import RegistryUnavailable
from gdal_mcp.operations.examine import some_workspace
from gdal_mcp.settings import Settings
from sandbox.attestation import Escape
from sandbox.errors import SandboxError
from sandbox.isolation.cis import BENCHMARK
from sandbox.isolation.rows import Row

_MARKS = {"held": "ok  ", "failed": "OUT ", "warning": "WARN", "note": "note", "n/a": "n/a "}
_TITLES = {
    "escape": "Ways out, each tried",
    "sight": "What a job sees of the host",
    "container": "What the container is, as it measures itself",
    "limits": "Limits in force, as this host was attested",
    BENCHMARK: f"{BENCHMARK}, section 5, as docker-bench-security checks it",
}
_CIS_WIDTH = 30  # the most numbers that stand beside one row


def show(settings: Settings, *, as_json: bool) -> Exit:
    """Tries and prints: FAILED when something got out, NOT_READY when nothing could be tried."""
    try:
        found = try_to_escape(settings)
    except (SandboxError, AuditUnavailable, CatalogueBroken, RegistryUnavailable) as error:
        _print(
            {"ok": False, "error": f"Nothing was tried: {error}", "rows": []},
            f"Nothing was tried: {error}",
            as_json=as_json,
        )
        return Exit.NOT_READY
    told = {"ok": found.ok, "rows": [asdict(row) for row in found.rows]}
    _print(told, "\n".join(table(found)), as_json=as_json)
    return Exit.DONE if found.ok else Exit.FAILED


def _print(told: Mapping[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        out_json(told)
    else:
        out(text)


def try_to_escape(settings: Settings) -> Escape:
    """Tries in a container as calls with these settings get it. Raises SandboxError and what `running` does."""
    with some_workspace(settings) as (complete, _), running(complete) as app:
        return app.hosting.try_to_escape()


def table(found: Escape) -> Iterator[str]:
    """The lines for people: verdict, CIS numbers, what was tried, what was found."""
    width = max(len(row.name) for row in found.rows)
    for group, title in _TITLES.items():
        yield f"{title}:"
        yield from (_line(row, width) for row in found.rows if row.group == group)
        yield ""
    out = [row.name for row in found.rows if row.verdict == "failed"]
    yield (
        f"Something got out: {'; '.join(out)}. Do not run calls on this host." if out else "Nothing got out."
    )


def _line(row: Row, width: int) -> str:
    return f"  {_MARKS[row.verdict]}  {row.cis:<{_CIS_WIDTH}}  {row.name:<{width}}  {row.found}"
