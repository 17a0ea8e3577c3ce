"""The table of hosts: a report gives a row of it, and no row claims a run that was not recorded."""

import json
from pathlib import Path

import pytest

from docs import hosts
from gdal_mcp.server.operations.examine import DoctorReport, DoctorRow
from gdal_mcp.server.operations.sharing import shareable
from gdal_mcp.settings import load_settings

ENGINE = {"engine": {"name": "Docker", "version": "27.1", "api": "1.46"}}


def reported(folder: Path, rows: tuple[DoctorRow, ...], facts: dict) -> dict:
    (folder / "maps").mkdir(exist_ok=True)
    settings = load_settings(workspaces=(folder / "maps",), state_dir=folder / "state")
    return json.loads(json.dumps(shareable(settings, DoctorReport(rows, facts))))


def test_a_report_becomes_a_row(tmp_path):
    table = tmp_path / "hosts.toml"
    fine, failed = (
        DoctorRow("engine", "ready", "ok", "yes"),
        DoctorRow("engine", "ready", "failed", 'no "limits" |\nhere'),
    )
    hosts.add(reported(tmp_path, (fine,), ENGINE), table)
    hosts.add(reported(tmp_path, (fine, failed), {}), table, by="tests/x.py")
    works, refused = hosts.rows(table)
    assert len(works) == len(refused) == len(hosts.COLUMNS)
    assert works[1] == "Docker 27.1"
    assert works[4] == "works"
    assert refused[4] == 'refused: no "limits" | here'
    assert "tests/x.py" in refused[5]


@pytest.mark.parametrize(
    "row",
    [
        {"result": "works", "date": "", "version": "1"},
        {"result": "works", "date": "2026-01-01", "version": ""},
        {"result": "fine", "date": "2026-01-01", "version": "1"},
        {"result": "refused", "date": "2026-01-01", "version": "1"},
        {"result": "not tried", "user": ""},
    ],
)
def test_a_row_without_its_record_is_refused(tmp_path, row):
    complete = {"system": "s", "engine": "e", "file_system": "f", "user": "u", **row}
    with pytest.raises(ValueError):
        hosts.add({"host": complete}, tmp_path / "hosts.toml")


def test_the_packaged_rows_are_complete():
    assert {row[4].partition(":")[0] for row in hosts.rows()} == {"works", "refused", "not tried"}
