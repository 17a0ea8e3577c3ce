"""Recorded calls repeated: the same bytes, the same content or other content, and every file of a user unchanged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.conftest import DEAD, Desk, Ended, gdal_mcp
from tests.e2e.mcp.talk import Place

pytestmark = pytest.mark.engine


def call(desk: Desk, tool: str, **arguments: Any) -> str:
    """The id of a call that succeeded."""
    ended = desk.call(tool, arguments, "--yes")
    assert ended.code == 0, ended
    return ended.json["receipt"]["call_id"]


def replay(desk: Desk, call_id: str, *options: str) -> Ended:
    """The replay, which changes no file and leaves nothing in staging or undo."""
    before, stored = desk.files(), undos(desk)
    ended = desk.run("replay", call_id, "--json", *options)
    assert desk.files() == before
    assert desk.staged == []
    assert undos(desk) == stored
    return ended


def undos(desk: Desk) -> set[str]:
    folder = desk.workspace / ".gdal-mcp" / "undo"
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def verdicts(ended: Ended) -> dict[str, str]:
    return {Path(row["path"]).name: row["verdict"] for row in ended.json["outputs"]}


def copied(desk: Desk, source: str, name: str) -> Path:
    target = desk.path(name)
    shutil.copyfile(desk.path(source), target)
    return target


@pytest.fixture(scope="module")
def writing_call(desk: Desk) -> str:
    """A call that wrote again.tif."""
    return call(desk, "gdal_translate", src_dataset="rgb.tif", dst_dataset="again.tif")


def test_replayed_writing_call_gives_the_same_bytes(desk: Desk, writing_call: str):
    ended = replay(desk, writing_call)
    assert (ended.code, verdicts(ended)) == (0, {"again.tif": "same_bytes"})
    assert ended.json["changed"] == []
    assert ended.json["command_same"] is True
    assert [event["type"] for event in desk.audited if event["type"] != "inputs.described"][-5:] == [
        "replay.started", "approval.answered", "call.started", "call.finished", "replay.finished",
    ]  # fmt: skip


@pytest.mark.nightly
def test_folder_and_unnamed_output_can_be_replayed(desk: Desk):
    folder = call(desk, "convert", input="rgb.tif", output="again.zarr", output_format="Zarr")
    unnamed = call(desk, "gdal2xyz", dataset="classes.tif")
    for call_id in (folder, unnamed):
        ended = replay(desk, call_id)
        assert (ended.code, ended.json["same"]) == (0, True), ended
        assert len(ended.json["outputs"]) == 1


def test_changed_input_is_named_and_output_differs(desk: Desk):
    source = copied(desk, "west.tif", "input.tif")
    call_id = call(desk, "gdal_translate", src_dataset="input.tif", dst_dataset="from-input.tif")
    shutil.copyfile(desk.path("east.tif"), source)
    ended = replay(desk, call_id)
    assert (ended.code, verdicts(ended)) == (1, {"from-input.tif": "differs"})
    [row] = ended.json["changed"]
    assert (row["what"], row["path"]) == ("input", str(source))
    assert row["was"]["sha256"] != row["is"]["sha256"]


@pytest.mark.nightly
def test_a_companion_that_came_later_is_a_change(desk: Desk):
    copied(desk, "west.tif", "alone.tif")
    call_id = call(desk, "gdal_translate", src_dataset="alone.tif", dst_dataset="from-alone.tif")
    desk.path("alone.tif.aux.xml").write_text("<PAMDataset/>")
    changed = replay(desk, call_id).json["changed"]
    assert [(Path(row["path"]).name, row["was"]) for row in changed] == [("alone.tif.aux.xml", None)]


def test_an_input_that_is_gone_is_named(desk: Desk):
    source = copied(desk, "west.tif", "gone.tif")
    call_id = call(desk, "gdal_translate", src_dataset="gone.tif", dst_dataset="from-gone.tif")
    source.unlink()
    ended = replay(desk, call_id)
    assert (ended.code, ended.json["error"]["code"]) == (4, "NOT_FOUND")
    assert [(row["path"], row["is"]) for row in ended.json["changed"]] == [(str(source), None)]


@pytest.mark.nightly
def test_equal_bytes_are_recognised_without_the_first_output(desk: Desk):
    call_id = call(desk, "gdal_translate", src_dataset="rgb.tif", dst_dataset="moved-on.tif")
    desk.path("moved-on.tif").write_bytes(b"something of mine")
    assert verdicts(replay(desk, call_id)) == {"moved-on.tif": "same_bytes"}
    desk.path("moved-on.tif").unlink()
    assert verdicts(replay(desk, call_id)) == {"moved-on.tif": "same_bytes"}


@pytest.mark.nightly
def test_different_or_incomparable_outputs_are_not_called_equal(desk: Desk):
    source = copied(desk, "west.tif", "lost-in.tif")
    call_id = call(desk, "gdal_translate", src_dataset="lost-in.tif", dst_dataset="lost.tif")
    shutil.copyfile(desk.path("east.tif"), source)
    desk.path("lost.tif").write_bytes(b"something of mine")
    ended = replay(desk, call_id)
    assert (ended.code, verdicts(ended)) == (1, {"lost.tif": "unknown"})


def test_failed_updating_or_unknown_call_is_not_replayed(desk: Desk):
    failed = desk.call("info", {"path": "missing.tif"}).json["error"]["call_id"]
    copied(desk, "float.tif", "updated.tif")
    changed = call(desk, "raster_overview_add", dataset="updated.tif", levels=[2])
    for call_id in (failed, changed, "0000000000000000", "../../etc", ""):
        ended = replay(desk, call_id)
        assert (ended.code, ended.stdout) == (2, ""), call_id
        assert ended.stderr


def test_without_an_engine_nothing_is_claimed(desk: Desk, writing_call: str):
    ended = replay(desk, writing_call, *DEAD)
    assert (ended.code, ended.stdout) == (3, "")


def test_read_only_server_does_not_rehearse_writing(desk: Desk, writing_call: str):
    ended = replay(desk, writing_call, "--read-only")
    assert ended.code == 4
    assert ended.json["same"] is False


@pytest.mark.nightly
def test_undo_and_replay_find_the_server_of_call(desk: Desk, grounds: Path, tmp_path: Path):
    home = {"XDG_STATE_HOME": str(tmp_path / "home")}
    place = Place.made(grounds / "found")
    shutil.copyfile(desk.path("rgb.tif"), place.path("rgb.tif"))
    arguments = json.dumps({"input": "rgb.tif", "output": "made.tif"})
    ended = gdal_mcp("call", "convert", arguments, "--yes", *place.options, variables=home)
    assert ended.code == 0, ended.stdout
    call = ended.json["receipt"]["call_id"]

    again = gdal_mcp("replay", call, "--json", variables=home)
    assert (again.code, again.json["same"]) == (0, True)
    assert gdal_mcp("undo", call, variables=home).code == 0
    assert not place.path("made.tif").exists()
    # an unknown call is not found, and a file that is named elsewhere is not searched for
    assert gdal_mcp("undo", "0" * 16, variables=home).code != 0
    assert gdal_mcp("replay", call, "--state-dir", str(tmp_path / "none"), variables=home).code != 0
