"""The program as a person or a script runs it: a new process each time, on one workspace and one state folder for all
tests.
"""

import itertools
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.data.make import make_data
from tests.e2e.mcp.talk import Place, environment, program
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds

__all__ = ["grounds"]

SECONDS = 600  # limit of waiting, far longer than any command takes
DEAD = ("--engine", "unix:///nonexistent.sock")
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a process."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> str:
        """The code of the error, which must be the only content of stdout."""
        assert self.json.keys() == {"error"}
        return self.json["error"]["code"]

    @property
    def checkpoint(self) -> str:
        """The checkpoint that `audit verify` printed."""
        checkpoints = re.findall(r"\b\d+:[0-9a-f]{64}\b", self.stdout)
        assert len(checkpoints) == 1, self.stdout
        return checkpoints[0]


def gdal_mcp(*words: str, stdin: str | int | None = None, variables: dict[str, str] | None = None) -> Ended:
    """Runs the program; `stdin` is a text or a file descriptor."""
    with tempfile.TemporaryFile() as typed:
        if isinstance(stdin, str):
            typed.write(stdin.encode())
            typed.seek(0)
        descriptor = stdin if isinstance(stdin, int) else typed.fileno()
        ended = Ended(*program().run(words, descriptor, environment(**(variables or {}))))
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def launched(launch: tuple[str, ...], *words: str) -> Ended:
    """Runs the program in a new interpreter; `launch` are additional arguments of that interpreter."""
    done = subprocess.run(
        [sys.executable, *launch, "-m", "gdal_mcp", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def at_terminal(typed: str, *words: str, variables: dict[str, str] | None = None) -> Ended:
    """Runs the program at a terminal at which a person has typed this; the terminal keeps it until it is read."""
    master, slave = pty.openpty()
    try:
        os.write(master, typed.encode())
        return gdal_mcp(*words, stdin=slave, variables=variables)
    finally:
        os.close(slave)
        os.close(master)


@dataclass(frozen=True)
class Desk(Place):
    """A workspace, and the program on it."""

    def run(self, *words: str, **more: Any) -> Ended:
        return gdal_mcp(*words, *self.options, **more)

    def call(self, tool: str, arguments: dict[str, Any], *options: str, **more: Any) -> Ended:
        return self.run("call", tool, json.dumps(arguments), *options, **more)

    def translate(self, target: str, *options: str) -> dict[str, Any]:
        """The result of a call that writes the pixels of rgb.tif there."""
        arguments = {"src_dataset": "rgb.tif", "dst_dataset": target}
        ended = self.call("gdal_translate", arguments, "--yes", *options)
        assert ended.code == 0, ended
        return ended.json

    def files(self) -> dict[str, bytes]:
        """All files in the workspace except the program's own."""
        paths = {
            path.relative_to(self.workspace): path for path in self.workspace.rglob("*") if path.is_file()
        }
        theirs = (name for name in paths if name.parts[0] != ".gdal-mcp")
        return {str(name): paths[name].read_bytes() for name in theirs}


@pytest.fixture(scope="session")
def desk(grounds: Path, oracle: Oracle) -> Desk:
    """One workspace and one state folder, so that this host is attested once."""
    created = Desk.made(grounds / "desk")
    make_data(oracle, created.workspace)
    return created


@pytest.fixture
def new(tmp_path: Path) -> Callable[[], Path]:
    """`new()`: the path of a folder that does not exist yet."""
    return lambda: tmp_path / f"new-{next(_NUMBERS)}"
