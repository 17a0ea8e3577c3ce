"""`make demo` shows only the main task, without log lines of the server, and ends with suggestions."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp.cli.parsers import build_parser

pytestmark = pytest.mark.engine
DEMO = Path(__file__).parents[2] / "scripts/demo.py"


def test_demo_ends_as_expected_without_other_output() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line.startswith("{")] == []
    commands = re.findall(r"\.venv/bin/gdal-mcp (.*)", done.stdout.partition("\nAll as expected")[2])
    assert len(commands) == 3
    for command in commands:
        build_parser().parse_args(shlex.split(command))
