"""Long calls as tasks, with real servers and containers: what a client sees, and what is left after their end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.records.audit_verification import verify
from gdal_mcp.server.mcp.tasks import EXTENSION
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.mcp.test_endings import LONG
from tests.waiting import until

pytestmark = pytest.mark.engine

DECLARED = {
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}
}
DATA = ("rgb.tif",)
ENDED = ("completed", "failed", "cancelled")


AT_ONCE = {"GDAL_MCP_TASK_AFTER": "0"}  # a call that needs a container becomes a task before it can end


@dataclass
class Client:
    """A client that supports tasks."""

    pipes: Pipes

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answered = self.pipes.ask(method, {**params, "_meta": DECLARED})
        return answered.get("result") or {"code": answered["error"]["code"]}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def task(self, tool: str, **arguments: Any) -> str:
        """The id of the task that a call became."""
        result = self.call(tool, **arguments)
        assert result["resultType"] == "task"
        return str(result["taskId"])

    def get(self, task: str) -> dict[str, Any]:
        return self.ask("tasks/get", taskId=task)

    def until(self, task: str, *statuses: str) -> dict[str, Any]:
        until(lambda: self.get(task)["status"] in statuses, seconds=120)
        return self.get(task)

    def wait_until_running(self, task: str) -> None:
        """Returns once the job in the container has reported progress."""
        until(lambda: "%" in self.get(task).get("statusMessage", ""), seconds=60)


@contextmanager
def serving(own: Place, grounds: Path) -> Iterator[Client]:
    command = own.command("--approval", "never")
    with piped(command, grounds / "tasks.log", era=ERAS[1], env=AT_ONCE) as pipes:
        yield Client(pipes)


@pytest.fixture(scope="module")
def taker(own: Place, grounds: Path) -> Iterator[Client]:
    with serving(own, grounds) as client:
        yield client
    assert verify(own.state / "audit.jsonl").ok


def outcomes(own: Place, tool: str, output: str = "") -> list[str]:
    """The outcomes in the audit log of a tool's calls that write to a path."""
    mine = (event for event in own.audited if event.get("tool") == tool)
    return [event["outcome"] for event in mine if output in json.dumps(event.get("object", {}))]


def test_cancelled_task_leaves_nothing_while_server_continues(taker, own, containers):
    task = taker.task("reproject", **{**LONG, "output": "cancelled.tif"})
    taker.wait_until_running(task)
    assert containers.of_owners(own.owners) != []
    assert taker.ask("tasks/cancel", taskId=task).keys() <= {"resultType", "_meta"}
    assert taker.until(task, *ENDED)["status"] == "cancelled"
    assert containers.none_of(own.owners)
    assert own.staged == []
    assert not own.path("cancelled.tif").exists()
    assert outcomes(own, "reproject", "cancelled.tif") == ["started", "CANCELLED"]
    assert taker.ask("tasks/cancel", taskId=task).keys() <= {"resultType", "_meta"}
    assert taker.get(task)["status"] == "cancelled"


def test_tasks_of_killed_server_failed_and_results_remain(taker, own, grounds, containers):
    before = own.owners
    with serving(own, grounds) as killed:
        done = killed.task("info", path="rgb.tif")
        completed = killed.until(done, "completed")
        running = killed.task("reproject", **{**LONG, "output": "killed.tif"})
        killed.wait_until_running(running)
        owners = own.owners - before
        assert containers.of_owners(owners) != []
        killed.pipes.process.kill()
        killed.pipes.end()
    with serving(own, grounds) as following:
        following.until(following.task("info", path="rgb.tif"), "completed")
        until(lambda: own.staged == [] and containers.of_owners(owners) == [])
    lost = taker.get(running)  # of another server on the same folder, the next one as well as any
    assert (lost["status"], lost["error"]["code"]) == ("failed", -32603)
    assert taker.get(done)["result"] == completed["result"]
    assert not own.path("killed.tif").exists()
