"""The commands of docs/upkeep.md, as an operator runs them, on the records of real calls."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.make import make_data
from tests.e2e.cli.conftest import Desk, gdal_mcp
from tests.e2e.mcp.talk import environment
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PAGE = Path(__file__).parents[3] / "docs" / "upkeep.md"
BLOCKS = dict(re.findall(r"^```sh upkeep (\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def own(tmp_path: Path, oracle: Oracle) -> Desk:
    desk = Desk.made(tmp_path)
    make_data(oracle, desk.workspace)
    return desk


def run(own: Desk, folder: Path, block: str, checkpoint: str = "") -> str:
    """A block of the page, in a shell that ends at the first command that fails."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "gdal-mcp"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gdal_mcp "$@"\n')
    program.chmod(0o755)
    places = {
        "STATE": own.state,
        "BACKUP": folder / "backup",
        "ARCHIVE": folder / "archive",
        "WORKSPACE": own.workspace,
    }
    for name in ("BACKUP", "ARCHIVE"):
        places[name].mkdir(exist_ok=True)
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CHECKPOINT": checkpoint}
    variables = {**environment(), **path, **{name: str(place) for name, place in places.items()}}
    words = ["sh", "-euc", BLOCKS[block]]
    ended = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (block, ended.stdout, ended.stderr)
    return ended.stdout


def test_operator_maintenance_keeps_the_records(own: Desk, tmp_path: Path):
    first = own.translate("one.tif")["receipt"]["call_id"]
    checkpoint = own.run("audit", "verify").checkpoint
    run(own, tmp_path, "upgrade")
    backed = run(own, tmp_path, "backup")
    assert f"ends at {checkpoint}" in backed
    assert {path.name for path in (tmp_path / "backup/records").iterdir()} >= {
        "audit.jsonl",
        "audit.head",
        "registry.sqlite",
    }
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "backup/records").iterdir()} == {0}
    run(own, tmp_path, "checkpoint", checkpoint)
    run(own, tmp_path, "rotate")
    second = own.translate("two.tif")["receipt"]["call_id"]
    run(own, tmp_path, "archive", checkpoint)
    known = {row["call"] for row in own.run("undo", "--json").json}
    assert known == {first, second}
    run(own, tmp_path, "restore")
    # in the state of the copy: the first call is known, the second is only in the workspace
    assert {row["call"] for row in own.run("undo", "--json").json} == {first}
    assert own.run("undo", first).code == 0
    assert not own.path("one.tif").exists()
    assert own.path("two.tif").is_file()


def test_a_backup_goes_into_a_new_folder_alone(own: Desk, tmp_path: Path):
    own.translate("one.tif")
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine").write_text("x")
    assert own.run("backup", str(there)).code == 2
    assert [path.name for path in there.iterdir()] == ["mine"]
    assert gdal_mcp("backup", str(tmp_path / "new"), "--state-dir", str(tmp_path / "no")).code == 2
    assert not (tmp_path / "new").exists()


def test_every_block_of_the_page_is_run():
    source = Path(__file__).read_text()
    assert BLOCKS
    assert [name for name in BLOCKS if f'tmp_path, "{name}"' not in source] == []
