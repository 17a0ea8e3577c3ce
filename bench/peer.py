"""The in-process server that calls are compared with: gdal-mcp of PyPI, installed into an environment of its own."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from bench.arena import Arena, NotMeasurable
from bench.clients import Call, connected

VERSION = "1.1.3"
TOOL = "raster_info"
INSTALL_SECONDS = 900  # it brings its own GDAL, PROJ and NumPy: 400 MB
_WHERE = user_cache_path("gdal-mcp-bench", appauthor=False) / f"gdal-mcp-{VERSION}"


def install() -> Path:
    """Its program; installed at the first time, into the user's cache folder. Raises NotMeasurable with the reason."""
    program, mark = _WHERE / "bin" / "gdal", _WHERE / "complete"
    if mark.exists():
        return program
    sys.stderr.write(f"installing gdal-mcp {VERSION} into {_WHERE}\n")
    pip = [str(_WHERE / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    try:
        venv.create(_WHERE, clear=True, with_pip=True)
        done = subprocess.run(
            [*pip, "--disable-pip-version-check", f"gdal-mcp=={VERSION}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasurable(f"gdal-mcp {VERSION} could not be installed: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NotMeasurable(f"gdal-mcp {VERSION} could not be installed: {last[:200]}")
    mark.touch()
    return program


@contextmanager
def peer_client(arena: Arena) -> Iterator[Call]:
    """Calls of its tools over stdio, by the same client as ours. Raises NotMeasurable."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    quiet = {"FASTMCP_SHOW_CLI_BANNER": "false", "FASTMCP_LOG_LEVEL": "ERROR"}
    command = [str(install()), "--transport", "stdio", "--log-level", "ERROR"]
    environment = {**kept, **quiet, "GDAL_MCP_WORKSPACES": str(arena.workspace)}
    with connected(command, environment, mode="legacy", quiet=True) as call:
        yield call
