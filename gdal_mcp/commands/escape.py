"""`gdal-mcp doctor --escape`: what hostile code could not do in a container of this host, as a table or as JSON."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict

from gdal_mcp.app import running
from gdal_mcp.catalogue.errors import CatalogueBroken
from gdal_mcp.commands.doctor import NOT_READY, some_workspace
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.registry import RegistryUnavailable
from gdal_mcp.settings import Settings
from sandbox.cis import BENCHMARK
from sandbox.errors import SandboxError
from sandbox.escape.rows import Row
from sandbox.escape.trying import Escape

GOT_OUT = 1  # exit code
_MARKS = {"held": "ok  ", "failed": "OUT ", "warning": "WARN", "note": "note", "n/a": "n/a "}
_TITLES = {
    "escape": "Ways out, each tried",
    "sight": "What a job sees of the host",
    "container": "What the container is, as amicontained tells it",
    BENCHMARK: f"{BENCHMARK}, section 5, as docker-bench-security checks it",
}
_CIS_WIDTH = 28  # the most numbers that stand beside one row


def show(settings: Settings, say: Callable[[str], None], *, as_json: bool) -> int:
    """Tries, prints and returns the program's exit code: 0, 1 when something got out, 3 when nothing could be tried."""
    try:
        found = try_to_escape(settings)
    except (SandboxError, AuditUnavailable, CatalogueBroken, RegistryUnavailable) as error:
        said = f"Nothing was tried: {error}"
        say(json.dumps({"ok": False, "error": said, "rows": []}, indent=2) if as_json else said)
        return NOT_READY
    rows = [asdict(row) for row in found.rows]
    say(json.dumps({"ok": found.ok, "rows": rows}, indent=2) if as_json else "\n".join(table(found)))
    return 0 if found.ok else GOT_OUT


def try_to_escape(settings: Settings) -> Escape:
    """Tries in a container as calls with these settings get it. Raises SandboxError and what `running` does."""
    with some_workspace(settings) as (complete, _), running(complete) as app:
        return app.hosting.try_to_escape()


def table(found: Escape) -> Iterator[str]:
    """The lines for people: verdict, CIS numbers, what was tried, what was found."""
    width = max(len(row.tried) for row in found.rows)
    for group, title in _TITLES.items():
        yield f"{title}:"
        yield from (_line(row, width) for row in found.rows if row.group == group)
        yield ""
    out = [row.tried for row in found.rows if row.verdict == "failed"]
    yield (
        f"Something got out: {'; '.join(out)}. Do not run calls on this host." if out else "Nothing got out."
    )


def _line(row: Row, width: int) -> str:
    return f"  {_MARKS[row.verdict]}  {row.cis:<{_CIS_WIDTH}}  {row.tried:<{width}}  {row.found}"
