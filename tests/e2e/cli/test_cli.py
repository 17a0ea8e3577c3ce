"""Calls, the list of tools, doctor, the audit log and undo, judged by the program's exit codes, output and files."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.faults import faults
from gdal_mcp.tools.listing import core
from tests.e2e.cli.conftest import DEAD, Desk, Ended, at_terminal, gdal_mcp, launched
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

READERS = {tool.name for tool in core(packaged()) if not tool.writes}
WRITERS = {tool.name for tool in core(packaged()) if tool.writes}
NAMES = READERS | WRITERS
RGB = {"src_dataset": "rgb.tif"}


@pytest.fixture(scope="session")
def described(desk: Desk) -> Ended:
    return desk.call("info", {"path": "dem.tif"})


def test_successful_call_prints_json_and_ends_with_0(described: Ended, desk: Desk, oracle: Oracle):
    assert described.code == 0
    assert described.json["size"] == oracle.raster(desk.path("dem.tif"))["size"]


def test_wrong_call_prints_a_json_error_and_4(desk: Desk):
    for tool, arguments, code in [
        ("info", {"path": "missing.tif"}, "NOT_FOUND"),
        ("info", {"path": "/etc/passwd"}, "PATH_NOT_ALLOWED"),
        ("rm", {}, "NOT_FOUND"),
    ]:
        ended = desk.call(tool, arguments)
        assert (ended.code, ended.error) == (4, code)


def test_arguments_outside_json_objects_are_a_wrong_command(desk: Desk):
    for text in ["dem.tif", "[1]", "[" * 100_000]:
        ended = desk.run("call", "info", "-", stdin=text)
        assert (ended.code, ended.stdout) == (2, "")
        assert ended.stderr


def test_arguments_can_come_from_standard_input(desk: Desk):
    ended = desk.run("call", "info", "-", stdin='{"path": "rgb.tif"}')
    assert (ended.code, ended.json["size"]) == (0, [40, 30])


@pytest.mark.claim("approval.asked")
def test_without_terminal_or_yes_nothing_is_written(desk: Desk):
    for stdin in ["", "y\n"]:
        before = desk.files()
        ended = desk.call("gdal_translate", {**RGB, "dst_dataset": "denied.tif"}, stdin=stdin)
        assert (ended.code, ended.error) == (5, "DENIED")
        assert ended.json["error"]["requiresConfirmation"]["command"] in ended.stderr
        assert "--yes" in ended.stderr
        assert desk.files() == before


@pytest.mark.parametrize(("typed", "writes"), [("y\n", True), ("n\n", False), ("\x04", False)])
def test_the_person_at_the_terminal_decides(desk: Desk, typed: str, writes: bool):
    arguments = json.dumps({**RGB, "dst_dataset": "terminal.tif"})
    before = desk.files()
    ended = at_terminal(typed, "call", "gdal_translate", arguments, *desk.options)
    assert str(desk.path("terminal.tif")) in ended.stderr  # the question names what would be written
    if writes:
        assert ended.code == 0
        assert {"terminal.tif": desk.path("terminal.tif").read_bytes(), **before} == desk.files()
        desk.path("terminal.tif").unlink()
    else:
        assert (ended.code, ended.error) == (5, "DENIED")
        assert desk.files() == before


@pytest.mark.parametrize(("words", "code"), [(("-",), 2), (('{"src_dataset": "rgb.tif"}',), 5)])
def test_a_closed_standard_input_is_nobody_to_ask(desk: Desk, words: tuple[str, ...], code: int):
    closing = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    before = desk.files()
    ended = launched(("-c", closing), "call", "gdal_translate", *words, *desk.options)
    assert ended.code == code
    assert code == 2 or ended.error == "DENIED"
    assert desk.files() == before


def test_a_dead_engine_ends_a_call_with_3(desk: Desk):
    before = desk.files()
    ended = desk.call("convert", {"input": "rgb.tif", "output": "dead.png"}, "--yes", *DEAD)
    assert (ended.code, ended.error) == (3, "ENGINE_UNAVAILABLE")
    assert desk.files() == before


def test_the_tools_are_those_picked_by_hand():
    listed = gdal_mcp("tools", "--json").json
    assert len(listed) == len(NAMES)
    assert {row["name"] for row in listed} == NAMES
    assert {row["name"] for row in listed if row["writes"]} == WRITERS
    names = {line.split()[0] for line in gdal_mcp("tools", "--all", "--read-only").stdout.splitlines()}
    assert READERS | {"gdalinfo", "raster_info"} <= names
    assert names.isdisjoint(WRITERS | {"vsi_delete"})


def rows(report: dict[str, Any], state: str) -> list[dict[str, Any]]:
    return [row for row in report["rows"] if row["state"] == state]


def test_doctor_reports_engine_and_image_and_attests_isolation(desk, client, image, oracle):
    ended = desk.run("doctor", "--json")
    report = ended.json
    assert (ended.code, report["ok"], rows(report, "failed")) == (0, True, [])
    assert report["engine"]["version"] == client.version()["Version"]
    assert (report["image"]["id"], report["image"]["digest"]) == (image.id, image.digest)
    assert report["gdal_version"] in oracle.must("gdalinfo", "--version")
    assert report["tier"] == "runc"
    # a workspace below /tmp, like that of the tests, is inside a folder that a job may write to
    pipes = "writing to named pipes"
    attested = [row for row in report["rows"] if row["group"] == "attestation" and row["name"] != pipes]
    assert attested
    assert {row["state"] for row in attested} == {"ok"}
    assert str(desk.workspace) in {row["name"] for row in rows(report, "ok")}
    # each known fault was tested in the image in use
    assert {row["name"] for row in report["rows"] if row["group"] == "fault"} == faults().keys()
    (path,) = (desk.state / "faults").iterdir()
    assert json.loads(path.read_text()).keys() == {name for name, fault in faults().items() if fault.probe}


def test_doctor_on_unready_host_ends_with_3_advising(desk, log_copy, new):
    change_a_byte(log_copy / "audit.jsonl")
    nowhere = ("--workspace", str(new()), "--state-dir", str(new()))
    for words in ((*desk.options, *DEAD), nowhere, ("--state-dir", str(log_copy))):
        ended = gdal_mcp("doctor", "--json", *words)
        failed = rows(ended.json, "failed")
        assert (ended.code, ended.json["ok"]) == (3, False), words
        assert failed
        assert all(row["fix"] for row in failed)
        assert (DEAD[0] in words) is ({row["group"] for row in failed} == {"engine"})
    assert desk.run("doctor", *DEAD).code == 3


def test_doctor_names_the_command_that_gets_the_named_image(desk):
    [row] = rows(desk.run("doctor", "--json", "--image", "no.example/none:1").json, "failed")
    assert row["fix"].endswith("setup --image no.example/none:1")


def test_doctor_warns_of_writers_and_callers_without_approval(desk, new):
    policy = new().with_suffix(".toml")
    policy.write_text('[[rule]]\ndecision = "allow"\neffects = ["create"]')
    words = ("--policy", str(policy), "--approval", "never")
    report = desk.run("doctor", "--json", *words, variables={"GDAL_MCP_NO_AUTH": "true"}).json
    named = {row["name"] for row in rows(report, "warning") if row["group"] == "policy"}
    assert named == {"approval", "writes", "authentication"}


@pytest.fixture
def log_copy(desk: Desk, described: Ended, new: Callable[[], Path]) -> Path:
    """A state folder with a copy of the audit log, which a test may damage."""
    folder = new()
    folder.mkdir()
    for path in desk.state.glob("audit.*"):
        shutil.copy(path, folder)
    return folder


def verified(state: Path, *options: str) -> Ended:
    return gdal_mcp("audit", "verify", "--state-dir", str(state), *options)


def change_a_byte(log: Path) -> None:
    """In the middle of the log, so that every line is still a record."""
    data = bytearray(log.read_bytes())
    at = data.index(b'"seq":1,') + len(b'"seq":1,"time":"2')
    data[at] ^= 1
    log.write_bytes(data)


@pytest.mark.claim("audit.tamper-evident")
def test_log_verification_fails_after_one_changed_byte(log_copy: Path):
    assert verified(log_copy).code == 0
    change_a_byte(log_copy / "audit.jsonl")
    assert verified(log_copy).code == 1


@pytest.mark.parametrize("text", ["", "1:12"])
def test_what_is_no_checkpoint_is_a_wrong_command(log_copy: Path, text: str):
    assert verified(log_copy, f"--checkpoint={text}").code == 2


def test_tail_shows_the_last_records_as_json_lines(desk: Desk, described: Ended):
    ended = desk.run("audit", "tail", "-n", "2", "--json")
    shown = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.code == 0
    assert [
        {name: row[name] for name in row if name not in ("seq", "time")} for row in shown
    ] == desk.audited[-2:]
    assert [row["seq"] for row in shown] == [len(desk.audited) - 1, len(desk.audited)]
    lines = desk.run("audit", "tail", "-n", "2").stdout.splitlines()
    assert len(lines) == 2
    assert all(row["call"] in line and row["type"] in line for row, line in zip(shown, lines, strict=True))


def call_id(result: dict[str, Any]) -> str:
    return result["receipt"]["call_id"]


def test_undo_restores_the_replaced_bytes(desk: Desk):
    before = desk.path("dem.tif").read_bytes()
    desk.path("replaced.tif").write_bytes(before)
    result = desk.translate("replaced.tif")
    assert desk.path("replaced.tif").read_bytes() != before
    ended = desk.run("undo", call_id(result))
    assert (ended.code, ended.json["call"]) == (0, call_id(result))
    assert ended.json["restored"] == [str(desk.path("replaced.tif"))]
    assert desk.path("replaced.tif").read_bytes() == before
    assert [event["type"] for event in desk.audited[-2:]] == ["undo.started", "undo.finished"]


def test_undo_of_an_unknown_call_changes_nothing(desk: Desk):
    for unknown in ["0000000000000000", "../../undo", os.fsdecode(b"\xff" * 16)]:
        before = desk.files()
        ended = desk.run("undo", unknown)
        assert (ended.code, ended.stdout) == (2, "")
        assert desk.files() == before


def test_algorithm_is_called_by_name_in_any_spelling(desk: Desk):
    for number, name in enumerate(("raster_hillshade", "raster hillshade", "raster-hillshade")):
        arguments = {"input": "dem.tif", "output": f"shade-{number}.tif"}
        ended = desk.call(name, arguments, "--yes")
        assert ended.code == 0, ended
        assert desk.path(f"shade-{number}.tif").is_file()
    refused = desk.call("raster_hillshade", {"input": "dem.tif", "output": "no.tif"}, "--yes", "--read-only")
    assert (refused.code, refused.error) == (4, "NOT_FOUND")
    excluded = desk.call("raster_hillshade", {"input": "dem.tif"}, "--exclude-tools", "raster_hillshade")
    assert (excluded.code, excluded.error) == (4, "NOT_FOUND")


def test_preview_is_saved_only_to_a_new_file(desk: Desk, tmp_path: Path):
    picture = tmp_path / "dem.png"
    ended = desk.call("preview", {"path": "dem.tif"}, "--save", str(picture))
    assert ended.code == 0, ended
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    before = picture.read_bytes()
    assert desk.call("preview", {"path": "rgb.tif"}, "--save", str(picture)).code == 2
    assert picture.read_bytes() == before
    assert desk.call("list_workspace", {}, "--save", str(tmp_path / "none.png")).code == 1
    assert not (tmp_path / "none.png").exists()


def test_undoable_calls_are_listed_and_blocking_call_named(desk: Desk):
    first = desk.translate("twice.tif")["receipt"]["call_id"]
    second = desk.translate("twice.tif")["receipt"]["call_id"]
    rows = {row["call"]: row for row in desk.run("undo", "--json").json}
    assert rows[first]["after"] == [second]
    assert rows[second]["after"] == []
    assert rows[second]["paths"] == [str(desk.path("twice.tif"))]
    listed = desk.run("undo").stdout.splitlines()
    assert listed[0].startswith(second)
    refused = desk.run("undo", first)
    assert (refused.code, second in refused.stderr) == (1, True)
    assert desk.path("twice.tif").is_file()
    for call in (second, first):
        assert desk.run("undo", call).code == 0
    assert not desk.path("twice.tif").exists()
    assert not {first, second} & {row["call"] for row in desk.run("undo", "--json").json}


def test_doctor_prints_one_screen_or_all_rows(desk: Desk):
    shown = desk.run("doctor")
    full = desk.run("doctor", "--all")
    rows = [line for line in shown.stdout.splitlines() if line[:4] in ("ok  ", "WARN", "FAIL")]
    every = [line for line in full.stdout.splitlines() if line[:4] in ("ok  ", "WARN", "FAIL")]
    assert (shown.code, full.code) == (0, 0)
    assert len(rows) <= 14
    assert len(every) == len(desk.run("doctor", "--json").json["rows"]) > 40
    # no row that is not in order is omitted
    assert [line for line in rows if not line.startswith("ok")] == [
        line for line in every if not line.startswith("ok")
    ]
