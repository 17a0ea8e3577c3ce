"""After any end of a call or a server, the container is gone, no file is half-written, and the records are correct."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gdal_mcp.cli.exits import Exit
from gdal_mcp.records.audit_verification import verify
from tests.e2e.mcp.conftest import Containers
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import EITHER_ERA, ERAS, HELLO, Place, environment, inside, talking
from tests.waiting import until

pytestmark = pytest.mark.engine

# computes for a minute or more, and reports progress from the beginning
LONG = {
    "input": "rgb.tif", "output": "long.tif", "dst_crs": "EPSG:3857", "size": [15000, 15000],
    "resampling": "lanczos",
}  # fmt: skip


def ends(pipes: Pipes, how: str) -> int:
    """Ends a server in one of the possible ways and returns its exit code."""
    assert pipes.process.stdin is not None
    if how == "EOF":
        pipes.process.stdin.close()
    else:
        pipes.process.send_signal(getattr(signal, how))
    return pipes.end()


EXIT_CODES = {"EOF": 0, "SIGTERM": 143, "SIGINT": 130}


@pytest.mark.parametrize("how", EXIT_CODES)
def test_idle_server_ends_at_once_leaving_nothing(containers: Containers, grounds: Path, how: str):
    place = Place.made(grounds / f"idle-{how}")  # where nothing has been attested yet
    with piped(place.command(), grounds / "endings.log") as pipes:
        pipes.hello()  # the host is being attested meanwhile, in a container
        owners = place.owners
        assert ends(pipes, how) == EXIT_CODES[how]
    assert containers.of_owners(owners) == []
    assert place.staged == []
    assert place.owners == set()


def test_non_reading_client_ends_its_server_quietly(containers: Containers, grounds: Path):
    place = Place.made(grounds / "unread")
    read, write = os.pipe()
    os.close(read)
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n"
    done = subprocess.run(
        place.command(),
        input=hello.encode(),
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(write)
    assert done.returncode == Exit.UNREAD
    assert b"Traceback" not in done.stderr
    assert containers.none_of(place.owners)
    assert place.staged == []


@pytest.mark.claim("faults.client-gone")
@pytest.mark.parametrize(("era", "how"), [*((ERAS[0], how) for how in EXIT_CODES), (ERAS[1], "EOF")])
def test_server_ending_during_a_call_removes_its_containers(make_place, containers, grounds, era, how):
    place = make_place("rgb.tif")
    command, warm = place.command("--approval", "never"), {"GDAL_MCP_POOL_MAX": "4"}
    with piped(command, grounds / "endings.log", era=era, env=warm) as pipes:
        pipes.hello()
        # two waiting containers: one that reads, one that writes
        until(lambda: len(containers.of_owners(place.owners)) == 2)
        pipes.begin("reproject", LONG)
        owners = place.owners
        assert len(containers.of_owners(owners)) > 1
        process = Path(f"/proc/{pipes.process.pid}")
        children = process / f"task/{pipes.process.pid}/children"
        # the only process, except for those of containers of the engine without a daemon
        until(lambda: set(children.read_text().split()) <= containers.processes(owners))
        assert ends(pipes, how) == EXIT_CODES[how]
        assert not (process / "fd").exists()
    assert containers.of_owners(owners) == []
    assert place.staged == []
    assert sorted(path.name for path in place.workspace.iterdir()) == [".gdal-mcp", "rgb.tif"]
    assert [event["outcome"] for event in place.audited] == ["started", "CANCELLED"]
    assert verify(place.state / "audit.jsonl").ok


@pytest.mark.claim("faults.server-killed", "sandbox.ends-by-itself")
def test_next_server_cleans_up_after_a_killed_one(make_place, containers, grounds):
    place = make_place("rgb.tif")
    with piped(place.command("--approval", "never"), grounds / "endings.log") as pipes:
        pipes.hello()
        pipes.begin("reproject", LONG)
        owners = place.owners
        [call] = containers.of_owners(owners)
        assert ends(pipes, "SIGKILL") == -signal.SIGKILL
    assert place.staged == [call]
    assert containers.of_owners(owners) == [call]
    until(lambda: containers.running(owners) == [])  # it ended by itself
    with piped(place.command("--approval", "never"), grounds / "endings.log") as pipes:
        pipes.hello()
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
        assert containers.of_owners(owners) == []
        assert place.staged == []
        assert place.owners.isdisjoint(owners)
        shown = pipes.ask("resources/read", {"uri": f"gdal://calls/{call}"})["result"]["contents"][0]["text"]
        assert json.loads(shown)["outcome"] == "INTERNAL"
    assert [event["outcome"] for event in place.audited if event["call"] == call] == ["started", "INTERNAL"]
    assert not place.path("long.tif").exists()
    assert verify(place.state / "audit.jsonl").ok


@pytest.mark.claim("faults.client-gone")
@pytest.mark.parametrize("era", EITHER_ERA)
def test_abandoned_call_loses_container_while_server_continues(make_place, containers, grounds, era):
    place = make_place("rgb.tif")
    with talking(place.command("--approval", "never"), grounds / "endings.log", era=era) as talk:
        running = talk.start("reproject", **LONG)
        until(lambda: talk.progress != [])
        assert containers.of_owners(place.owners) != []
        running.cancel()
        until(lambda: containers.of_owners(place.owners) == [])
        until(lambda: place.staged == [])
        until(lambda: len(place.audited) == 2)  # its end is recorded after that
        talk.done("info", path="rgb.tif")
    outcomes = [event["outcome"] for event in place.audited]
    assert outcomes == ["started", "CANCELLED", "started", "OK"]
    assert not place.path("long.tif").exists()


def test_call_awaiting_approval_holds_no_container(make_place, containers, grounds):
    place = make_place("rgb.tif")
    with piped(place.command(), grounds / "endings.log") as pipes:
        pipes.hello({"elicitation": {}})
        pipes.send("tools/call", {"name": "reproject", "arguments": LONG})
        pipes.until(lambda message: message.get("method") == "elicitation/create")
        # the container that described the inputs is about to end
        until(lambda: containers.of_owners(place.owners) == [])
        assert place.staged == []
        assert ends(pipes, "SIGTERM") == 143
    own = [event["outcome"] for event in place.audited if event["type"] != "inputs.described"]
    assert own == ["CANCELLED"]


def test_killed_container_fails_only_its_call(make_place, containers):
    place = make_place("rgb.tif")
    # a client of the older era, which gets progress from a server in its own process
    with inside(place.command("--approval", "never"), era=ERAS[0]) as talk:
        running = talk.start("reproject", **LONG)
        until(lambda: talk.progress != [])
        containers.kill(place.owners)
        result = running.result(timeout=60)
        assert result.structured_content["error"]["code"] == "ENGINE_UNAVAILABLE"
        assert containers.none_of(place.owners)
        until(lambda: place.staged == [])
        talk.done("info", path="rgb.tif")


BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")  # as a shell starts `command &` in a script


@pytest.mark.parametrize(("how", "start"), [("SIGTERM", ()), ("SIGINT", ()), ("SIGINT", BACKGROUND)])
def test_interrupted_command_line_call_leaves_nothing(make_place, containers, how, start):
    place = make_place("rgb.tif")
    serve = place.command("--yes")
    command = [*start, *serve[:3], "call", "reproject", json.dumps(LONG), *serve[4:]]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        until(lambda: place.staged == containers.of_owners(place.owners) != [])  # not the attestation's
        owners = place.owners
        process.send_signal(getattr(signal, how))
        assert process.wait(30) == 130
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert containers.of_owners(owners) == []
    assert place.staged == []
    mine = [event for event in place.audited if event["type"] != "inputs.described"]
    outcomes = [event["outcome"] for event in mine if event["tool"] == "reproject"]
    assert outcomes == ["approved", "started", "CANCELLED"]
