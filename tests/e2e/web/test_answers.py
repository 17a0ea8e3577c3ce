"""The question of a call that writes needs an answer with a token that may write, of any principal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gdal_mcp.policy.identity import READ, WRITE
from gdal_mcp.policy.tokens import TokenStore
from gdal_mcp.testing.samples import write_samples
from tests.e2e.mcp.talk import ERAS, HELLO, Place
from tests.e2e.web.hosted import SECONDS, Hosted, bearer, hosting
from tests.e2e.web.raw import ACCEPT, Raw, reply
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.claim("identity.answers-as-calls")]

YES = {"action": "accept", "content": {}}


@pytest.fixture(scope="module")
def asking(grounds: Path) -> Iterator[Hosted]:
    """A server that asks before it writes; for clients that support tasks, every call is a task."""
    place = Place.made(grounds / "asking")
    write_samples(place.workspace)
    with hosting(place, grounds / "asking.log", "--task-after", "0", "--approval-wait", "60") as hosted:
        yield hosted
    assert place.staged == []


def two(server: Hosted, name: str) -> tuple[str, str]:
    """A token to write and one to read, of one principal: the first is valid while requests are open with it."""
    return server.token(name, READ, WRITE), name


def lesser(server: Hosted, name: str) -> str:
    """A token to read, in place of its owner's earlier token."""
    TokenStore(server.place.state / "tokens.sqlite").revoke(name)
    return server.token(name, READ)


def test_writing_task_takes_no_approval_from_reading_token(asking: Hosted):
    token, name = two(asking, "tasks")
    started = reply(Raw(asking, token, tasks=True).call("convert", input="dem.tif", output="task.tif"))[
        "result"
    ]
    task = {"taskId": started["taskId"]}
    other = Raw(asking, lesser(asking, name), tasks=True)
    until(lambda: other.ask("tasks/get", task)["result"]["status"] == "input_required")
    keys = other.ask("tasks/get", task)["result"]["inputRequests"]
    answers = {**task, "inputResponses": dict.fromkeys(keys, YES)}
    assert "error" in other.ask("tasks/update", answers)
    assert other.ask("tasks/get", task)["result"]["status"] == "input_required"
    assert not asking.place.path("task.tif").exists()
    TokenStore(asking.place.state / "tokens.sqlite").revoke(name)
    writer = Raw(asking, asking.token(name, READ, WRITE), tasks=True)
    assert "result" in writer.ask("tasks/update", answers)
    until(lambda: writer.ask("tasks/get", task)["result"]["status"] == "completed", seconds=120)
    assert asking.place.path("task.tif").exists()


def test_writing_session_takes_no_approval_from_reading_token(asking: Hosted):
    token, name = two(asking, "session")
    hello = {**HELLO, "capabilities": {"elicitation": {}}}
    owner = Raw(asking, token, ERAS[0])
    owner.session = owner.send("initialize", hello).headers["mcp-session-id"]
    owner.send("notifications/initialized", notify=True)
    arguments = {"name": "convert", "arguments": {"input": "dem.tif", "output": "session.tif"}}
    with (
        httpx2.Client(timeout=SECONDS, trust_env=False) as client,
        client.stream("POST", **owner._request("tools/call", arguments, notify=False)) as answer,
    ):
        lines = answer.iter_lines()
        question = next(json.loads(line[5:]) for line in lines if "elicitation/create" in line)
        yes = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
        assert answered(owner, lesser(asking, name), yes) == 403
        assert not asking.place.path("session.tif").exists()
        TokenStore(asking.place.state / "tokens.sqlite").revoke(name)
        assert answered(owner, asking.token(name, READ, WRITE), yes) == 202
        done = next(json.loads(line[5:]) for line in lines if line.startswith("data:") and '"result"' in line)
    assert not done["result"].get("isError")
    assert asking.place.path("session.tif").exists()


def answered(owner: Raw, token: str, message: dict[str, Any]) -> int:
    """The HTTP status of an answer that is sent to the owner's session with this token."""
    headers = {**ACCEPT, **bearer(token), "Mcp-Session-Id": str(owner.session)}
    return owner.hosted.request("POST", headers=headers, json=message).status_code
