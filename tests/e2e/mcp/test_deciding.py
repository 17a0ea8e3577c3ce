"""Approval that does not come from the client: from another process, in advance, or by the policy."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gdal_mcp.approvals.model import Approval, Decision
from gdal_mcp.approvals.store import Approvals
from tests.e2e.cli.conftest import Ended, gdal_mcp
from tests.e2e.mcp.pipes import piped
from tests.e2e.mcp.talk import EITHER_ERA, ERAS, Person, Place, inside
from tests.waiting import until

pytestmark = pytest.mark.engine

LONG = {"GDAL_MCP_APPROVAL_WAIT": "60"}
MakePlace = Callable[..., Place]


@pytest.fixture
def own(make_place: MakePlace) -> Place:
    return make_place("rgb.tif", "dem.tif")


@pytest.fixture
def approvals(own: Place) -> Iterator[Approvals]:
    opened = Approvals(own.state / "registry.sqlite")
    yield opened
    opened.close()


def program(place: Place, *words: str) -> Ended:
    """The program as a person runs it in a terminal beside the server."""
    return gdal_mcp(*words, *place.options)


def waiting(approvals: Approvals) -> Approval:
    until(lambda: len(approvals.pending()) == 1)
    return approvals.pending()[0]


def yes(approvals: Approvals, row: Approval, way: Any = "console") -> None:
    approvals.decide(row.id, Decision(True, "the person", "a page", way))


def kinds(place: Place) -> list[str]:
    return [event["type"] for event in place.audited]


@pytest.mark.parametrize(("era", "answer"), [(ERAS[0], "--yes"), (ERAS[1], "--no")])
def test_call_without_elicitation_waits_for_the_terminal(own, approvals, era, answer):
    with inside(own.command(), era=era, env=LONG) as mute:
        call = mute.start("gdal_translate", src_dataset="rgb.tif", dst_dataset="made.tif")
        row = waiting(approvals)
        assert str(own.path("made.tif")) in row.summary
        assert row.id in program(own, "approve").stdout
        assert program(own, "approve", row.id, answer).code == 0
        result = call.result(timeout=60)
    assert result.is_error is (answer == "--no")
    assert own.path("made.tif").exists() is (answer == "--yes")
    [answered] = [event for event in own.audited if event["type"] == "approval.answered"]
    assert (answered["approval"], answered["approved"], answered["way"]) == (
        row.id,
        answer == "--yes",
        "terminal",
    )
    last = own.audited[-1]
    assert (last["type"], last["outcome"]) == ("call.finished", "OK" if answer == "--yes" else "DENIED")


@pytest.mark.parametrize("era", EITHER_ERA)
def test_repeated_call_after_approval_runs_once(own: Place, approvals: Approvals, era: str):
    write = {"src_dataset": "rgb.tif", "dst_dataset": "made.tif"}
    with inside(own.command(), era=era) as mute:
        confirmation = mute.failed("gdal_translate", **write)["requiresConfirmation"]
        row = waiting(approvals)
        assert (confirmation["approval"], confirmation["digest"]) == (row.id, row.plan_digest)
        assert mute.failed("gdal_translate", **write)["requiresConfirmation"]["approval"] == row.id
        assert program(own, "approve", row.id, "--yes").code == 0
        assert mute.failed("gdal_translate", **{**write, "src_dataset": "dem.tif"})["code"] == "DENIED"
        mute.done("gdal_translate", **write)
        content = own.path("made.tif").read_bytes()
        assert mute.failed("gdal_translate", **write)["code"] == "DENIED", "now it would replace"
    assert own.path("made.tif").read_bytes() == content


@pytest.mark.claim("approval.first-decides")
@pytest.mark.parametrize("era", EITHER_ERA)
def test_whoever_decides_first_decides(own: Place, approvals: Approvals, era: str):
    """While the client's user reads the question, somebody denies it elsewhere; the user's approval comes too late."""
    no, person = Decision(False, "the other", "a page", "console"), Person()
    person.meanwhile = lambda: approvals.decide(waiting(approvals).id, no)
    with inside(own.command(), era=era, person=person) as talk:
        error = talk.failed("gdal_translate", src_dataset="rgb.tif", dst_dataset="made.tif")
    assert error["code"] == "DENIED"
    assert "the other" in error["message"]
    assert not own.path("made.tif").exists()


def test_abandoned_client_leaves_no_question(own: Place, approvals: Approvals):
    with inside(own.command(), env=LONG) as mute:
        call = mute.start("gdal_translate", src_dataset="rgb.tif", dst_dataset="made.tif")
        row = waiting(approvals)
        call.cancel()
        until(lambda: approvals.pending() == ())
    yes(approvals, row)
    assert approvals.reclaim(row.plan_digest, row.principal, "another:call") is None
    assert own.audited[-1]["outcome"] == "CANCELLED"


def test_question_of_dead_server_serves_its_successor(own: Place, approvals: Approvals):
    write = {"src_dataset": "rgb.tif", "dst_dataset": "made.tif"}
    with piped(own.command("--approval-wait", "60"), own.state.parent / "killed.log") as pipes:
        pipes.hello({})
        pipes.send("tools/call", {"name": "gdal_translate", "arguments": write})
        row = waiting(approvals)
        pipes.process.kill()
        pipes.process.wait()
    yes(approvals, row)
    with inside(own.command()) as mute:
        mute.done("gdal_translate", **write)


@pytest.mark.claim("approval.grants-narrow")
def test_grant_admits_tool_and_workspace_until_revoked(own: Place, approvals: Approvals):
    with inside(own.command("--approval-wait", "0")) as mute:
        ended = program(own, "grants", "new", "gdal_translate", str(own.workspace), "--for", "5m")
        assert ended.code == 0, ended.stderr
        (grant,) = approvals.grants()
        done = mute.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="made.tif")
        assert grant.id in done["receipt"]["approval"]
        assert mute.failed("convert", input="rgb.tif", output="other.tif")["code"] == "DENIED"
        assert program(own, "grants", "revoke", grant.id).code == 0
        late = mute.failed("gdal_translate", src_dataset="rgb.tif", dst_dataset="late.tif")
        assert late["code"] == "DENIED"
    assert [kind for kind in kinds(own) if kind.startswith("grant.")] == ["grant.made", "grant.revoked"]
    assert {path.name for path in own.workspace.glob("*.tif")} == {"rgb.tif", "dem.tif", "made.tif"}


def policy(place: Place, text: str) -> list[str]:
    file = place.state.parent / f"{place.workspace.name}-policy.toml"
    file.write_text(text.replace("WORKSPACE", str(place.workspace)), encoding="utf-8")
    return place.command("--policy", str(file))


@pytest.mark.claim("approval.ways")
@pytest.mark.parametrize("era", EITHER_ERA)
def test_only_the_demanded_console_can_approve(own: Place, approvals: Approvals, era: str):
    command = policy(own, '[[rule]]\ndecision = "require"\neffects = ["create"]\nways = ["console"]')
    person = Person()
    with inside(command, era=era, person=person) as talk:
        call = {"src_dataset": "rgb.tif", "dst_dataset": "made.tif"}
        assert talk.failed("gdal_translate", **call)["requiresConfirmation"]["ways"] == ["console"]
        assert person.asked == []
        row = waiting(approvals)
        assert program(own, "approve", row.id, "--yes").code != 0
        assert talk.failed("gdal_translate", **call)["code"] == "DENIED"
        yes(approvals, row)
        talk.done("gdal_translate", **call)


def test_a_rule_refuses_whatever_a_person_would_say(own: Place):
    rules = ('decision = "deny"\ntools = ["raster reproject"]', 'decision = "allow"\neffects = ["create"]')
    command = policy(own, "\n".join(f"[[rule]]\n{rule}" for rule in rules))
    denied = {"input": "rgb.tif", "output": "made.tif", "dst_crs": "EPSG:4326"}
    with inside(command, person=Person()) as talk:
        error = talk.failed("reproject", **denied)
        assert (error["code"], error["stage"]) == ("DENIED", "policy")
        done = talk.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="free.tif")
        assert done["receipt"]["approval"].startswith("allowed")
        assert talk.person.asked == []
        assert talk.done("validate_call", tool="reproject", arguments=denied)["denied"]
    assert not own.path("made.tif").exists()
    assert {event["policy"]["mode"] for event in own.audited if "policy" in event} == {"writes"}


@pytest.mark.claim("identity.reach-narrows")
def test_unlisted_workspace_is_not_mounted(own: Place, make_place: MakePlace):
    """A file of the granted workspace that names a file of the other one finds nothing there."""
    other = make_place("dem.tif")
    own.path("points-there.vrt").write_text(
        f'<VRTDataset rasterXSize="10" rasterYSize="10"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        f"<SourceFilename>{other.path('dem.tif')}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    text = '[[principal]]\nprincipals = ["*"]\nworkspaces = ["WORKSPACE"]\ntimeout_seconds = 30\nmemory = "512MiB"'
    with inside([*policy(own, text), "--workspace", str(other.workspace)], person=Person()) as talk:
        done = talk.done("info", path="rgb.tif")
        assert talk.record(done)["limits"]["memory_bytes"] == 512 << 20
        assert talk.failed("info", path=str(other.path("dem.tif")))["code"] == "PATH_NOT_ALLOWED"
        read = talk.call("convert", input="points-there.vrt", output="copied.tif")
    assert read.is_error
    assert not own.path("copied.tif").exists()


def test_the_check_explains_what_a_call_would_meet(own: Place):
    file = policy(own, '[[rule]]\ndecision = "require"\nways = ["console"]\nworkspaces = ["WORKSPACE"]')[-1]
    call = '{"src_dataset": "rgb.tif", "dst_dataset": "made.tif"}'
    ended = program(own, "policy", "check", "gdal_translate", call, "--policy", file)
    assert ended.code == 0, ended.stderr
    assert '"decision": "require"' in ended.stdout
    assert '"number": 1' in ended.stdout
    refused = program(own, "policy", "check", "gdal_translate", '{"src_dataset": "/etc/passwd"}')
    assert refused.code == 1
    assert own.audited == []


def test_client_that_accepts_only_pages_gets_one(own: Place, approvals: Approvals):
    """The address signs nobody in, because it contains no token. Opening it is not an answer."""
    command = own.command("--console", "on", "--approval-wait", "1")
    with piped(command, own.state.parent / "page.log", era=ERAS[1], env={"GDAL_MCP_CONSOLE": "on"}) as pipes:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
        arguments = {"src_dataset": "rgb.tif", "dst_dataset": "made.tif"}
        answer = pipes.call("gdal_translate", arguments, _meta=meta)
        question = answer["inputRequests"]["approval"]["params"]
        assert question["mode"] == "url"
        assert question["url"].startswith("http://127.0.0.1:")
        assert "token" not in question["url"]
        opened = {
            "requestState": answer["requestState"],
            "inputResponses": {"approval": {"action": "accept"}},
        }
        waited = pipes.call("gdal_translate", arguments, _meta=meta, **opened)
        assert waited["structuredContent"]["error"]["code"] == "DENIED"
        yes(approvals, waiting(approvals))
        done = pipes.call("gdal_translate", arguments, _meta=meta)
    assert not done.get("isError"), done
    assert own.path("made.tif").exists()
