"""The verdict of doctor, its remedies, and the parts of a report that may be shared."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp.cli.doctor import show
from gdal_mcp.cli.exits import Exit
from gdal_mcp.server.operations.examine import DoctorReport, DoctorRow
from gdal_mcp.server.operations.sharing import shareable
from gdal_mcp.settings import load_settings


def test_verdict_is_ready_or_first_remedy():
    fine = DoctorRow("engine", "engine", "ok", "Docker")
    warned = DoctorRow("records", "kept", "warning", "gone with it", "mount a volume")
    reasons = (("engine", "ready", "no engine", "Start it."), ("http", "tokens", "x", "Other."))
    broken = [DoctorRow(part, name, "failed", finding, mend) for part, name, finding, mend in reasons]
    assert DoctorReport((fine, warned), {}).verdict.startswith("Ready")
    assert DoctorReport((fine, *broken), {}).verdict.endswith("Start it.")
    assert "Other" not in DoctorReport((fine, *broken), {}).verdict


def test_the_remedy_of_a_missing_engine_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    settings = load_settings(engine=f"unix://{tmp_path}/none.sock", state_dir=tmp_path / "state")
    assert show(settings, as_json=True) == Exit.NOT_READY
    (row,) = (row for row in json.loads(capsys.readouterr().out)["rows"] if row["state"] == "failed")
    assert show(settings, as_json=False) == Exit.NOT_READY
    assert capsys.readouterr().out.count(row["fix"]) == 1
    assert f"{tmp_path}/none.sock" in row["found"]


@pytest.mark.claim("engine.report-private")
def test_a_report_tells_no_secret_and_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each planted word is in a source of the report's texts."""
    home = tmp_path / "planted-home"
    maps, state = home / "planted-maps", home / "planted-state"
    maps.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "planted-user")
    monkeypatch.setenv("LOGNAME", "planted-user")
    monkeypatch.setenv("DOCKER_HOST", "tcp://me:planted-password@planted-host.example:2375")
    monkeypatch.setenv("GDAL_MCP_ISSUERS", "https://planted-issuer.example")
    settings = load_settings(workspaces=(maps,), state_dir=state)
    silent = f"no answer at {os.environ['DOCKER_HOST']}"
    rows = (
        DoctorRow("engine", "ready", "failed", silent, f"look into {state}/audit.jsonl"),
        DoctorRow(
            "workspace", str(maps), "failed", f"{maps} is closed to planted-user", f"chmod o+rx {maps}"
        ),
    )
    report = shareable(settings, DoctorReport(rows, {}))
    assert "planted" not in json.dumps(report)
    assert "WORKSPACE-1" in json.dumps(report)
    assert {"DOCKER_HOST", "GDAL_MCP_ISSUERS"} <= set(report["set"])


def test_a_report_comes_where_there_is_no_engine(tmp_path: Path):
    (tmp_path / "maps").mkdir()
    command = [sys.executable, "-m", "gdal_mcp", "doctor", "--report", "--workspace", str(tmp_path / "maps")]
    command += ["--state-dir", str(tmp_path / "state"), "--engine", f"unix://{tmp_path}/none.sock"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not json.loads(ran.stdout)["ok"]
    assert str(tmp_path) not in ran.stdout
