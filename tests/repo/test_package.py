"""The contents of the installed package, and the behaviour if another package has the name of one of ours."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from gdal_mcp import invoked
from tests.wheel import build_wheel

ROOT = Path(__file__).parents[2]


def test_wheel_installs_only_the_program_and_the_sandbox(tmp_path: Path):
    wheel = build_wheel(tmp_path / "dist")
    top = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"gdal_mcp", "sandbox"}


def test_foreign_package_in_place_of_sandbox_is_refused(tmp_path: Path):
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox" / "__init__.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "gdal_mcp", "--version"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert str(tmp_path) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_messages_cite_commands_that_work_where_read(tmp_path: Path, monkeypatch):
    text = "Run `gdal-mcp setup`; gdal-mcp is a name."
    for where, expected in (
        (tmp_path, tmp_path / "gdal-mcp"),
        (None, Path(sys.executable).with_name("gdal-mcp")),
    ):
        monkeypatch.setenv("PATH", str(tmp_path) if where else "")
        (tmp_path / "gdal-mcp").write_text("#!/bin/sh\n")
        (tmp_path / "gdal-mcp").chmod(0o755)
        invoked.command.cache_clear()
        cited = invoked.cite(text)
        assert cited == (text if where else text.replace("`gdal-mcp", f"`{expected}"))
        assert cited.endswith("gdal-mcp is a name.")


def test_messages_under_uvx_cite_uvx_whatever_the_path_has(tmp_path: Path, monkeypatch):
    bin_folder = tmp_path / "archive-v0" / "x" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "gdal-mcp").write_text("#!/bin/sh\n")
    (bin_folder / "gdal-mcp").chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(bin_folder.parent))
    for source, words in (("", ()), ("file:///clone", ("--from", "file:///clone"))):
        monkeypatch.setattr(invoked, "uvx_source", lambda source=source: source)
        for path in ("", str(bin_folder)):
            monkeypatch.setenv("PATH", path)
            invoked.command.cache_clear()
            assert invoked.command() == ("uvx", *words, "gdal-sandbox-mcp")
    invoked.command.cache_clear()
