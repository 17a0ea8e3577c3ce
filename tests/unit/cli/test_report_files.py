"""Files that commands write outside the workspaces replace only reports."""

import os
from pathlib import Path
from typing import Any, cast

import pytest

from gdal_mcp.calls.workflows.junit import START, junit
from gdal_mcp.cli import catalogue
from gdal_mcp.cli.report_files import require_replaceable, write_report
from gdal_mcp.cli.workflows import run_workflow
from gdal_mcp.settings import Settings, SettingsError

_KIND = START.encode()
_REPORT = junit("terrain", [{"id": "slope"}], None)


def test_report_replaces_an_earlier_report_atomically(tmp_path: Path):
    path = tmp_path / "report.xml"
    for _ in range(2):
        require_replaceable(path, _KIND, "--junit")
        write_report(path, _REPORT)
        assert path.read_text() == _REPORT
        assert path.stat().st_mode & 0o777 == 0o644
    path.write_bytes(b"")  # as created by `mktemp`
    require_replaceable(path, _KIND, "--junit")
    assert os.listdir(tmp_path) == ["report.xml"]


@pytest.mark.timeout(20)
def test_a_report_replaces_no_other_file(tmp_path: Path):
    (tmp_path / "audit.jsonl").write_text('{"seq": 1}\n')
    (tmp_path / "drawing.svg").write_text(START.removesuffix("<testsuite ") + "<svg/>")
    (tmp_path / "report.xml").write_text(_REPORT)
    (tmp_path / "link.xml").symlink_to("report.xml")
    (tmp_path / "nowhere.xml").symlink_to("not-there.xml")
    (tmp_path / "folder.xml").mkdir()
    os.mkfifo(tmp_path / "pipe.xml")
    names = (
        "audit.jsonl",
        "drawing.svg",
        "link.xml",
        "nowhere.xml",
        "folder.xml",
        "pipe.xml",
        "none/report.xml",
    )
    for name in names:
        with pytest.raises(SettingsError):
            require_replaceable(tmp_path / name, _KIND, "--junit")


def test_link_in_place_of_report_is_not_followed(tmp_path: Path):
    (tmp_path / "records").write_text("kept")
    (tmp_path / "report.xml").symlink_to("records")
    write_report(tmp_path / "report.xml", _REPORT)
    assert (tmp_path / "records").read_text() == "kept"


def test_report_over_its_workflow_is_refused_before_running(tmp_path: Path):
    file = tmp_path / "terrain.yaml"
    file.write_text("workflow: 1\n")
    no_app = cast(Any, None)
    options: dict[str, Any] = {
        "params": (),
        "check": True,
        "fresh": False,
        "manifest": None,
        "assume_yes": True,
    }
    with pytest.raises(SettingsError):
        run_workflow(no_app, file, report=file, **options)
    assert file.read_text() == "workflow: 1\n"


def test_a_catalogue_replaces_no_other_file(tmp_path: Path):
    output = tmp_path / "settings.json"
    output.write_text("{}")
    for command in (catalogue.build, catalogue.refresh):
        with pytest.raises(SettingsError):
            command(Settings(state_dir=tmp_path / "state", engine="oci:///nowhere"), output)
    assert output.read_text() == "{}"
