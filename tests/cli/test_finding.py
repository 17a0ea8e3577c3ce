"""Commands that are given an id alone find the state folder and the workspace of its call."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, gdal_mcp
from tests.mcp.talk import Place

pytestmark = pytest.mark.engine


@pytest.mark.nightly
def test_undo_and_replay_find_the_server_of_a_call(desk: Desk, grounds: Path, tmp_path: Path):
    home = {"XDG_STATE_HOME": str(tmp_path / "home")}
    place = Place.made(grounds / "found")
    workspace, state = place.workspace, place.state
    shutil.copyfile(desk.path("rgb.tif"), workspace / "rgb.tif")
    arguments = json.dumps({"input": "rgb.tif", "output": "made.tif"})
    options = ("--workspace", str(workspace), "--state-dir", str(state))
    made = gdal_mcp("call", "convert", arguments, "--yes", *options, variables=home)
    assert made.code == 0, made.stdout
    call = made.json["receipt"]["call_id"]

    again = gdal_mcp("replay", call, "--json", variables=home)
    assert (again.code, again.json["same"]) == (0, True)
    assert gdal_mcp("undo", call, variables=home).code == 0
    assert not (workspace / "made.tif").exists()
    # one that nobody knows is not found, and one that is named elsewhere is not looked for
    assert gdal_mcp("undo", "0" * 16, variables=home).code != 0
    assert gdal_mcp("replay", call, "--state-dir", str(tmp_path / "none"), variables=home).code != 0


def test_grants_without_an_action_lists_them(tmp_path: Path):
    state = ("--state-dir", str(tmp_path / "state"))
    new = gdal_mcp("grants", *state, "new", "convert", str(tmp_path))
    assert new.code == 0, new.stderr
    assert gdal_mcp("grants", *state).stdout == gdal_mcp("grants", "list", *state).stdout != ""
