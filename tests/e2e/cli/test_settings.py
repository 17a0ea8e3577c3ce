"""The settings that the program reads from options, variables and the settings file, and its messages without any."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gdal_mcp import __version__
from gdal_mcp.records.audit import AuditLog
from tests.e2e.cli.conftest import gdal_mcp, launched


def test_version_is_the_packages():
    ended = launched((), "--version")
    assert (ended.code, ended.stdout.split()[-1]) == (0, __version__)


@pytest.mark.claim("paths.nothing-by-default")
@pytest.mark.parametrize("words", [("call", "info", "{}"), ("serve",), ("undo", "0000000000000000")])
def test_command_without_needed_workspace_ends_with_2(new: Callable[[], Path], words: tuple[str, ...]):
    state = new()
    ended = gdal_mcp(*words, "--state-dir", str(state))
    assert (ended.code, ended.stdout) == (2, "")
    assert not state.exists()


@pytest.fixture
def audited(tmp_path: Path) -> Callable[[str], Path]:
    """`audited("name")`: a state folder whose audit log has one event with that name."""

    def make(name: str) -> Path:
        AuditLog(tmp_path / name / "audit.jsonl").append({"type": name})
        return tmp_path / name

    return make


def test_option_precedes_variable_file_and_default(audited, tmp_path):
    states = {name: audited(name) for name in ("gdal-mcp", "file", "variable", "option")}
    config = tmp_path / "settings.toml"
    # relative to the file, regardless of where the program is started
    config.write_text('state_dir = "file"\n')
    config.chmod(0o644)

    def used(*options: str, **variables: str) -> str:
        home = {"XDG_STATE_HOME": str(tmp_path)}
        ended = gdal_mcp("audit", "tail", "--json", *options, variables={**home, **variables})
        assert ended.code == 0, ended.stderr
        return json.loads(ended.stdout)["type"]

    variable = {"GDAL_MCP_STATE_DIR": str(states["variable"])}
    by_file = ("--config", str(config))
    assert used() == "gdal-mcp"
    assert used(*by_file) == "file"
    assert used(GDAL_MCP_CONFIG=str(config)) == "file"
    assert used(*by_file, **variable) == "variable"
    assert used(*by_file, "--state-dir", str(states["option"]), **variable) == "option"


def test_workspace_option_replaces_the_variables(audited: Callable[[str], Path], tmp_path: Path):
    state = audited("state")
    ended = gdal_mcp(
        *("audit", "tail", "--workspace", str(tmp_path / "elsewhere"), "--state-dir", str(state)),
        # overlaps the state folder: it would be refused if it were used
        variables={"GDAL_MCP_WORKSPACES": str(tmp_path)},
    )
    assert ended.code == 0


def test_grants_without_an_action_lists_them(tmp_path: Path):
    state = ("--state-dir", str(tmp_path / "state"))
    new = gdal_mcp("grants", *state, "new", "convert", str(tmp_path))
    assert new.code == 0, new.stderr
    assert gdal_mcp("grants", *state).stdout == gdal_mcp("grants", "list", *state).stdout != ""


def test_grant_for_an_unknown_tool_warns(tmp_path: Path):
    state = ("--state-dir", str(tmp_path / "state"))
    known = gdal_mcp("grants", "new", "raster_hillshade", str(tmp_path), *state)
    unknown = gdal_mcp("grants", "new", "raster_hilshade", str(tmp_path), *state)
    assert (known.code, unknown.code) == (0, 0)
    assert "raster_hillshade" not in known.stderr
    assert "raster_hillshade" in unknown.stderr
