"""Runs Argleton from PyPI with both adapters and prints its two numbers for each.

Exit code 1: an adapter missed its limits, or the suite did not run.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from platformdirs import user_cache_path

VERSION: Final = "0.6.0"  # version of the suite on PyPI
CHECKOUT: Final = Path(__file__).parent.parent.parent
_ENVIRONMENT: Final = user_cache_path("gdal-mcp-bench", appauthor=False) / f"argleton-{VERSION}"
# largest fraction of traps with wrong answers that look right; every clean question must be answered
LIMITS: Final[Mapping[str, float]] = {"careful": 0.0, "plain": 0.15}


def main() -> int:
    options = _options()
    try:
        python = _environment()
        results = {name: _run(python, name, options.keep) for name in options.only or tuple(LIMITS)}
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Argleton {VERSION} did not run: {error}", file=sys.stderr)
        return 1
    print("\n".join(_table(results)))
    return 0 if all(within_limits(name, result) for name, result in results.items()) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.argleton", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(LIMITS), help="this adapter; repeatable")
    parser.add_argument(
        "--keep", type=Path, default=Path("/var/tmp"), help="folder for the result files (%(default)s)"
    )
    return parser.parse_args()


def _environment() -> Path:
    """The Python of an environment that has the suite, the libraries that create its files, and the client's SDK."""
    python, complete = _ENVIRONMENT / "bin" / "python", _ENVIRONMENT / "complete"
    if not complete.exists():
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
        packages = [f"argleton[fixtures]=={VERSION}", f"mcp=={version('mcp')}"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        complete.touch()
    return python


def _run(python: Path, name: str, folder: Path) -> dict[str, Any]:
    """The suite's own result file. Raises CalledProcessError."""
    output = folder / f"argleton-{name}.json"
    words = [str(python), "-m", "argleton.run"]
    words += ["--adapter", f"bench.argleton.{name}:Adapter", "--out", str(output)]
    server = f"{sys.executable} -m gdal_mcp"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "ARGLETON_SERVER": server}
    subprocess.run(words, check=True, cwd=CHECKOUT, env=environment)
    result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return result


def within_limits(name: str, result: Mapping[str, Any]) -> bool:
    answered = result["completion_rate"] == 1 and not result["unsupported"]
    return bool(result["silent_error_rate"] <= LIMITS[name] and answered)


def _table(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The rows for docs/performance.md."""
    rows = [f"Argleton {VERSION}, gdal-mcp {version('gdal-sandbox-mcp')}, {_dates(results)}", ""]
    rows += ["| adapter | silent errors | completed | traps | clean |", "| --- | --- | --- | --- | --- |"]
    return rows + [
        f"| {name} | {result['silent_error_rate']:.2f} | {result['completion_rate']:.2f} "
        f"| {result['traps_run']} | {result['clean_run']} |"
        for name, result in results.items()
    ]


def _dates(results: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(sorted({result["date"] for result in results.values()}))


if __name__ == "__main__":
    sys.exit(main())
