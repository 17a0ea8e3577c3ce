"""A call that writes runs only after a person has approved exactly this call, and only once."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp.shared.exceptions import MCPError

from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import EITHER_ERA, ERAS, Place, Talk, talking

pytestmark = pytest.mark.engine

TRANSLATE = {"src_dataset": "rgb.tif"}


def write(talk: Talk, name: str) -> t.CallToolResult:
    return talk.call("gdal_translate", src_dataset="rgb.tif", dst_dataset=name)


@pytest.mark.claim("approval.asked")
@pytest.mark.parametrize("action", ["decline", "cancel", "error"])
def test_anything_but_a_yes_runs_nothing(talk: Talk, place: Place, action: str):
    talk.person.action = action
    name = f"{action}-{talk.modern}.tif"
    try:
        code = write(talk, name).structured_content["error"]["code"]
    except MCPError:  # an error of the client itself: in the modern era it gives up if it cannot answer
        assert (action, talk.modern) == ("error", True)
    else:
        assert code == "DENIED"
    assert not place.path(name).exists()


@pytest.mark.claim("approval.asked")
@pytest.mark.parametrize("era", EITHER_ERA)
def test_client_without_elicitation_learns_how_to_allow(place: Place, grounds: Path, era: str):
    with talking(place.command(), grounds / "mute.log", era=era) as mute:
        assert mute.done("info", path="rgb.tif")["size"] == [40, 30]
        error = mute.failed("gdal_translate", src_dataset="rgb.tif", dst_dataset="mute.tif")
    assert (error["code"], error["stage"]) == ("DENIED", "approval")
    confirmation = error["requiresConfirmation"]
    # run unchanged and without the server's environment, the command finds the question
    command = [sys.executable, "-m", "gdal_mcp", *shlex.split(confirmation["command"])[1:], "--no"]
    decided = subprocess.run(command, check=True, capture_output=True)
    assert confirmation["approval"] in decided.stdout.decode()
    assert str(place.path("mute.tif")) in confirmation["summary"]
    assert len(confirmation["digest"]) == 64
    assert not place.path("mute.tif").exists()


@pytest.mark.claim("approval.changes-void-it")
@pytest.mark.parametrize("touched", ["input", "output"])
def test_file_changed_during_the_question_stops_the_call(talk, place, touched):
    source, output = f"given-{touched}-{talk.modern}.tif", f"made-{touched}-{talk.modern}.tif"
    for name in (source, output):
        place.path(name).write_bytes(place.path("rgb.tif").read_bytes())
    changed = place.path(source if touched == "input" else output)
    talk.person.meanwhile = lambda: changed.write_bytes(changed.read_bytes() + b"\0")
    result = talk.call("gdal_translate", src_dataset=source, dst_dataset=output, bands=["1"])
    assert result.structured_content["error"]["code"] == "APPROVAL_EXPIRED"
    expected = place.path("rgb.tif").read_bytes() + (b"\0" if touched == "output" else b"")
    assert place.path(output).read_bytes() == expected


@pytest.mark.claim("approval.changes-void-it")
def test_what_appears_where_nothing_was_is_not_replaced(talk: Talk, place: Place, grounds: Path):
    victim = grounds / "victim.txt"
    victim.write_bytes(b"outside")
    appears = {"file": lambda path: path.write_bytes(b"theirs"), "link": lambda path: path.symlink_to(victim)}
    for kind, appear in appears.items():
        path = place.path(f"appears-{kind}-{talk.modern}.tif")
        talk.person.meanwhile = lambda appear=appear, path=path: appear(path)
        error = talk.failed("gdal_translate", src_dataset="rgb.tif", dst_dataset=path.name)
        assert error["code"] in ("APPROVAL_EXPIRED", "PATH_NOT_ALLOWED")
        assert path.is_symlink() if kind == "link" else path.read_bytes() == b"theirs"
    assert victim.read_bytes() == b"outside"


@pytest.fixture(scope="module")
def pipes(place: Place, grounds: Path) -> Iterator[Pipes]:
    with piped(place.command(), grounds / "approval-pipes.log", era=ERAS[1]) as client:
        yield client


def question(pipes: Pipes, arguments: dict[str, Any]) -> str:
    """Makes a call, gets its question, and returns the state that must come back with the answer."""
    answer = pipes.call("gdal_translate", arguments)
    assert answer["resultType"] == "input_required"
    assert answer["inputRequests"]["approval"]["method"] == "elicitation/create"
    return answer["requestState"]


def yes(pipes: Pipes, tool: str, arguments: dict[str, Any], state: str) -> dict[str, Any]:
    return pipes.call(
        tool, arguments, requestState=state, inputResponses={"approval": {"action": "accept", "content": {}}}
    )


def outputs(place: Place) -> set[str]:
    folder = place.path("outputs")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.claim("approval.used-once")
def test_used_answer_does_not_admit_a_second_call(pipes: Pipes, place: Place):
    state = question(pipes, TRANSLATE)
    assert not yes(pipes, "gdal_translate", TRANSLATE, state).get("isError")
    before = outputs(place)
    again = yes(pipes, "gdal_translate", TRANSLATE, state)
    assert again["structuredContent"]["error"]["code"] == "APPROVAL_EXPIRED"
    assert outputs(place) == before


@pytest.mark.claim("approval.bound-to-plan")
def test_answer_is_valid_for_its_call_only(pipes: Pipes, place: Place):
    before = outputs(place)
    for tool, arguments in (
        ("gdal_translate", {"src_dataset": "dem.tif"}),
        ("gdal_translate", {**TRANSLATE, "bands": ["1"]}),
        ("gdal2xyz", {"dataset": "rgb.tif"}),
    ):
        assert "protocol_error" in yes(pipes, tool, arguments, question(pipes, TRANSLATE)), tool
    assert outputs(place) == before


@pytest.mark.claim("approval.asked")
def test_a_forged_state_runs_nothing(pipes: Pipes, place: Place):
    before, state = outputs(place), question(pipes, TRANSLATE)
    for forged in (state[:-4] + "AAAA", '{"approval": "x"}', ""):
        answered = yes(pipes, "gdal_translate", TRANSLATE, forged)
        assert "protocol_error" in answered or answered["resultType"] == "input_required"
    assert outputs(place) == before


@pytest.mark.claim("approval.asked")
def test_unsolicited_approval_runs_nothing(pipes: Pipes, place: Place):
    before = outputs(place)
    responses = {"approval": {"action": "accept", "content": {}}}
    answered = pipes.call("gdal_translate", TRANSLATE, inputResponses=responses)
    assert answered["resultType"] == "input_required"
    assert outputs(place) == before


@pytest.mark.claim("audit.how-allowed")
def test_audit_records_how_a_call_was_decided(modern: Talk, place: Place):
    modern.person.action = "decline"
    denied = modern.failed("gdal_translate", src_dataset="rgb.tif")["call_id"]
    modern.person.action = "accept"
    allowed = modern.done("gdal_translate", src_dataset="rgb.tif")["receipt"]
    mine = {event["call"]: event for event in place.audited if event["type"] == "call.finished"}
    assert mine[denied]["outcome"] == "DENIED"
    assert mine[allowed["call_id"]]["approval"] == allowed["approval"]
    assert "accept" in allowed["approval"]
