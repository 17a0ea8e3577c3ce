"""`gdal-mcp doctor`: checks what calls need on this host; `--escape` tries to escape from a container."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Final

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import out_either, out_json
from gdal_mcp.invoked import cite
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.registry import RegistryUnavailable
from gdal_mcp.server.app import running
from gdal_mcp.server.operations.examine import DoctorReport, examine, some_workspace
from gdal_mcp.server.operations.examine import DoctorRow as HostRow
from gdal_mcp.server.operations.sharing import shareable
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from sandbox.errors import SandboxError
from sandbox.escape.cis import BENCHMARK
from sandbox.isolation.rows import Row

_ROW_MARKS: Final = {"ok": "ok  ", "warning": "WARN", "failed": "FAIL"}
_MARKS: Final = {"held": "ok  ", "failed": "OUT ", "warning": "WARN", "note": "note", "n/a": "n/a "}
_TITLES: Final = {
    "escape": "Ways out, each tried",
    "sight": "What a job sees of the host",
    "container": "The container, as it measures itself",
    "limits": "Limits in force, as this host was attested",
    BENCHMARK: f"{BENCHMARK}, section 5, as docker-bench-security checks it",
}
_ALWAYS_SHOWN: Final = frozenset({"engine", "image", "digest", "audit"})
_CIS_WIDTH: Final = 30  # width of the longest list of numbers of a row


def show(
    settings: Settings, *, every: bool = False, escape: bool = False, send: bool = False, as_json: bool
) -> Exit:
    """Prints the state of this host. The exit code is NOT_READY if a call would not run.

    Groups without a problem are shown as one row, unless `every` is set. `send` prints JSON without the names of folders, which can
    be sent to others. `escape` tries to escape from a container: the exit code is FAILED if an attempt succeeded, and NOT_READY if
    none could be made.
    """
    if not escape:
        report = examine(settings)
        if send:
            out_json(shareable(settings, report))
            return Exit.DONE
        out_either(report.as_dict(), cite("\n".join(_rows(report, every=every))), as_json=as_json)
        return Exit.DONE if report.ok else Exit.NOT_READY
    try:
        # tried in a container like those of calls with these settings
        with some_workspace(settings) as (complete, _), running(complete) as app:
            rows = app.hosting.try_to_escape()
    except (SandboxError, AuditUnavailable, CatalogueBroken, RegistryUnavailable) as error:
        text = f"Nothing was tried: {error}"
        out_either({"ok": False, "error": text, "rows": []}, text, as_json=as_json)
        return Exit.NOT_READY
    ok = all(row.ok for row in rows)
    answer = {"ok": ok, "rows": [asdict(row) for row in rows]}
    out_either(answer, "\n".join(table(rows)), as_json=as_json)
    return Exit.DONE if ok else Exit.FAILED


def _rows(report: DoctorReport, *, every: bool) -> Iterator[str]:
    rows = report.rows if every else tuple(_summary(report))
    for row in rows:
        yield f"{_ROW_MARKS[row.state]}  {row.group:<11}  {row.name:<28}  {row.found}"
        if row.fix and row.state != "ok":
            yield f"{'':>21}-> {row.fix}"
    yield ""
    yield report.verdict if report.ok else "Not ready: correct the rows marked FAIL, then run doctor again."
    if len(rows) < len(report.rows):
        yield f"`gdal-mcp doctor --all` shows all {len(report.rows)} rows."


def _summary(report: DoctorReport) -> Iterator[HostRow]:
    """All rows with a problem, and one row for each group without one: its first row, or the number of its rows.

    The image and the workspaces are always shown.
    """
    for group, members in groupby(report.rows, key=lambda row: row.group):
        rows = list(members)
        fine = [row for row in rows if row.state == "ok"]
        if fine:
            counted = group.startswith("attestation")
            shown = [row for row in fine if row.name in _ALWAYS_SHOWN or row.name.startswith("/")] or fine[:1]
            yield from (
                [HostRow(group, "isolation", "ok", f"{len(fine)} properties hold")] if counted else shown
            )
        yield from (row for row in rows if row.state != "ok")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of text: verdict, CIS numbers, attempt, result."""
    width = max(len(row.name) for row in rows)
    for group, title in _TITLES.items():
        yield f"{title}:"
        for row in rows:
            if row.group == group:
                yield f"  {_MARKS[row.verdict]}  {row.cis:<{_CIS_WIDTH}}  {row.name:<{width}}  {row.found}"
        yield ""
    out = [row.name for row in rows if row.verdict == "failed"]
    yield (
        f"Something got out: {'; '.join(out)}. Do not run calls on this host." if out else "Nothing got out."
    )
