"""`gdal-mcp doctor`: what this host has of what calls need, as a table or as JSON."""

from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json
from gdal_mcp.operations.examine import Report, examine
from gdal_mcp.settings import Settings


def show(settings: Settings, *, as_json: bool) -> Exit:
    """Prints what was found on this host."""
    report = examine(settings)
    if as_json:
        out_json(report.as_dict())
    else:
        out(render(report))
    return Exit.DONE if report.ok else Exit.NOT_READY


def render(report: Report) -> str:
    """The table for people."""
    marks = {"ok": "ok  ", "warning": "WARN", "failed": "FAIL"}
    lines = []
    for row in report.rows:
        lines.append(f"{marks[row.state]}  {row.group:<11}  {row.name:<28}  {row.found}")
        if row.fix and row.state != "ok":
            lines.append(f"{'':>21}-> {row.fix}")
    lines.append("")
    lines.append("Ready." if report.ok else "Not ready: see the rows marked FAIL.")
    return "\n".join(lines)
