"""The table of hosts in docs/platforms.md: each row is a recorded run, or a host that nobody has tried.

`gdal-mcp doctor --report --workspace FOLDER > report.json` makes the report of a host, and `python -m docs.hosts
report.json` adds its row to docs/hosts.toml.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("hosts.toml")
COLUMNS: Final = ("host", "engine", "workspace on", "user", "result", "tried")
_RESULTS: Final = ("works", "refused", "not tried")
_WHAT: Final = ("system", "engine", "file_system", "user", "result")
_RECORD: Final = ("date", "version")  # fields of a run; a host that nobody tried has none of them
_ORDER: Final = (*_WHAT, "message", *_RECORD, "by")  # `by`: the test that repeats the run, or "" for a report
_MESSAGE: Final = 300


def rows(file: Path = FILE) -> Iterator[tuple[str, ...]]:
    """The cells of each row. Raises ValueError for an incomplete row or a run without a date."""
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["host"]:
        _check(row)
        result = f"{row['result']}: {row['message']}" if row.get("message") else row["result"]
        recorded = f"{row['date']}, {row['version']}" if row["result"] != "not tried" else ""
        by = f" (`{row['by']}`)" if row.get("by") else ""
        yield row["system"], row["engine"], row["file_system"], row["user"], result, f"{recorded}{by}".strip()


def _check(row: Mapping[str, Any]) -> None:
    needed = _WHAT if row.get("result") == "not tried" else (*_WHAT, *_RECORD)
    missing = [name for name in needed if not row.get(name)]
    unknown = sorted(set(row) - set(_ORDER))
    if missing or unknown or row["result"] not in _RESULTS:
        raise ValueError(
            f"a row of hosts.toml lacks {missing}, has {unknown}, or another result: {dict(row)}"
        )
    if row["result"] == "refused" and not row.get("message"):
        raise ValueError(f"a row of hosts.toml says refused and not the message: {dict(row)}")


def add(report: Mapping[str, Any], file: Path = FILE, by: str = "") -> None:
    """Appends the row of a report. Raises KeyError for another file, ValueError for an incomplete row."""
    host = {**report["host"], **({"by": by} if by else {})}
    row = {name: " ".join(str(host[name]).split())[:_MESSAGE] for name in _ORDER if host.get(name)}
    _check(row)
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in row.items())
    with file.open("a", encoding="utf-8") as out:
        out.write("\n".join(["", "[[host]]", *lines, ""]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.hosts", description="Adds reports to docs/hosts.toml."
    )
    parser.add_argument("report", nargs="+", type=Path, help="what `gdal-mcp doctor --report` printed")
    parser.add_argument("--by", default="", help="the test that repeats the run")
    options = parser.parse_args(arguments)
    for path in options.report:
        add(json.loads(path.read_text(encoding="utf-8")), by=options.by)
    sys.stdout.write("added; now run `python -m docs`\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
