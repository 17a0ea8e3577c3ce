"""`make demo` shows only the main task, without log lines of the server, and ends with suggestions."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp.cli.parsers import build_parser

pytestmark = pytest.mark.engine
ROOT = Path(__file__).parents[2]


def test_demo_ends_as_expected_without_other_output() -> None:
    command = [sys.executable, "-m", "scripts.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line.startswith("{")] == []
    commands = re.findall(r"\.venv/bin/gdal-mcp (.*)", done.stdout.partition("\nAll as expected")[2])
    assert len(commands) == 3
    for command in commands:
        build_parser().parse_args(shlex.split(command))
