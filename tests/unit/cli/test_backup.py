"""`gdal-mcp backup`: where it writes, and what it leaves behind if it fails."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.main import main
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.settings.state import StateFolder


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.root.mkdir(mode=0o700)
    AuditLog(folder.audit).append({"type": "call.started"})
    with closing(sqlite3.connect(folder.registry)) as database:
        database.execute("CREATE TABLE calls (id)")
    return folder


def backup(state: StateFolder, folder: Path) -> int:
    return main(["backup", str(folder), "--state-dir", str(state.root)])


def test_a_backup_creates_one_folder_with_all_records(state: StateFolder, tmp_path: Path):
    assert backup(state, tmp_path / "monday") == Exit.DONE
    names = {path.name for path in (tmp_path / "monday").iterdir()}
    assert names == {"audit.jsonl", "audit.head", "registry.sqlite"}


def test_a_missing_folder_above_is_named_and_not_created(state: StateFolder, tmp_path: Path, capsys):
    assert backup(state, tmp_path / "disk" / "backup" / "monday") == Exit.USAGE
    assert f"{tmp_path / 'disk'}." in capsys.readouterr().err
    assert not (tmp_path / "disk").exists()


def test_a_folder_that_cannot_be_created_changes_nothing(state: StateFolder, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "monday", tmp_path / ("x" * 300)):
        assert backup(state, place) == Exit.USAGE
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"state", "file"}


def test_a_backup_whose_log_cannot_be_read_is_removed(state: StateFolder, tmp_path: Path):
    state.audit.unlink()
    state.audit.mkdir()
    assert backup(state, tmp_path / "monday") == Exit.FAILED
    assert not (tmp_path / "monday").exists()
