"""Settings that a release removed are accepted for one more minor version, with a warning; misspelt ones never are."""

import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp import __version__
from gdal_mcp.cli.options import settings_of
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.settings import Settings, SettingsError, load_settings, removed
from gdal_mcp.settings.removed import REMOVED, Removed

OLD = Removed("--old-way", "old_way", True, (99, 0), "Leave it out.")


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Removed:
    """A removed setting that is an option, a variable and a key."""
    monkeypatch.setattr(removed, "REMOVED", (OLD,))
    return OLD


def test_removed_option_still_works_with_a_notice() -> None:
    arguments = build_parser().parse_args(["doctor", "--allow-sql", "--json"])
    settings = settings_of(arguments)
    assert settings.allow_sql
    assert any("--allow-sql" in notice for notice in settings.notices)
    assert settings_of(build_parser().parse_args(["doctor"])).notices == ()


def test_server_starts_with_removed_option_and_logs_it(tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir()
    command = [
        sys.executable,
        "-m",
        "gdal_mcp",
        "serve",
        "--allow-sql",
        "--workspace",
        str(tmp_path / "maps"),
    ]
    command += ["--state-dir", str(tmp_path / "state"), "--engine", f"unix://{tmp_path}/absent.sock"]
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    done = subprocess.run(command, input=hello, capture_output=True, text=True, check=False)
    assert '"serverInfo"' in done.stdout, done.stderr
    assert "setting_removed" in done.stderr


@pytest.mark.parametrize("way", ["variable", "key", "option"])
def test_every_form_of_removed_setting_gives_a_notice(old, way, tmp_path, monkeypatch):
    keywords: dict[str, object] = {}
    options: tuple[str, ...] = ()
    if way == "variable":
        monkeypatch.setenv("GDAL_MCP_OLD_WAY", "1")
    elif way == "key":
        file = tmp_path / "settings.toml"
        file.write_text("old_way = 1\n")
        keywords["config"] = file
    else:
        options = ("--old-way",)
    settings = load_settings(options, **keywords)
    (notice,) = settings.notices
    assert old.instead in notice
    assert settings.model_copy(update={"pids": 9}).notices == settings.notices


def test_unknown_setting_is_still_an_error(old: Removed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_OLD_WAYS", "1")
    with pytest.raises(SettingsError):
        load_settings()


def test_removed_rows_expire_and_collide_with_no_setting() -> None:
    current = tuple(int(part) for part in __version__.split(".")[:2])
    for row in REMOVED:
        assert current < row.until, f"{row.option or row.setting} is refused from now on: take the row away"
        assert row.setting not in Settings.model_fields
        assert row.option or row.setting
