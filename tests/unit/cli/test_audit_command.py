"""`gdal-mcp audit` without a log."""

from pathlib import Path

import pytest

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.main import main


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_a_missing_log_is_a_failure_that_names_its_place(command: str, tmp_path: Path, capsys):
    assert main(["audit", command, "--state-dir", str(tmp_path / "other")]) == Exit.FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert str(tmp_path / "other" / "audit.jsonl") in printed.err
    assert not (tmp_path / "other").exists()


def test_closed_files_without_their_log_are_broken(tmp_path: Path, capsys):
    (tmp_path / f"audit-{1:012}-{9:012}.jsonl").write_text("")
    assert main(["audit", "verify", "--state-dir", str(tmp_path)]) == Exit.FAILED
    assert "BROKEN" in capsys.readouterr().out
