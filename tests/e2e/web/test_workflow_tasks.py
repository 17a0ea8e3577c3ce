"""A workflow over stdio and HTTP in both eras of the protocol, for clients with tasks and for clients that wait."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.pipes import piped
from tests.e2e.mcp.talk import ERAS, Person, Place, Talk, talking
from tests.e2e.mcp.test_tasks import AT_ONCE, DECLARED
from tests.e2e.web.hosted import hosting
from tests.e2e.web.raw import Raw
from tests.waiting import until

pytestmark = pytest.mark.engine

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]  # returns the result of a request
LONG, SHORT = 15_000, 50  # width and height of the result in pixels: minutes of work, and almost none
YES = {"action": "accept", "content": {}}


def arguments(pixels: int) -> dict[str, Any]:
    big = {"input": "${steps.copy}", "dst_crs": "EPSG:3857", "size": [pixels, pixels], "output": "big.tif"}
    steps = [
        {"id": "copy", "tool": "convert", "arguments": {"input": "rgb.tif", "output": "copy.tif"}},
        {"id": "big", "tool": "reproject", "arguments": {**big, "resampling": "lanczos"}},
    ]
    outputs = {
        "copy": {"from": "${steps.copy}", "to": "a.tif"},
        "big": {"from": "${steps.big}", "to": "b.tif"},
    }
    return {"workflow": {"workflow": 1, "name": "tasks", "steps": steps, "outputs": outputs}}


@contextmanager
def task_over_stdio(place: Place, log: Path) -> Iterator[Ask]:
    with piped(place.command(), log, era=ERAS[1], env=AT_ONCE) as pipes:
        yield lambda method, params: pipes.ask(method, {**params, "_meta": DECLARED})["result"]


@contextmanager
def task_over_http(place: Place, log: Path) -> Iterator[Ask]:
    with hosting(place, log, "--task-after", "0") as hosted:
        raw = Raw(hosted, hosted.token("ann"), tasks=True)
        yield lambda method, params: raw.ask(method, params)["result"]


def approve(ask: Ask, pixels: int) -> dict[str, str]:
    """Starts the workflow as a task, and answers its only question."""
    started = ask("tools/call", {"name": "workflow_run", "arguments": arguments(pixels)})
    task = {"taskId": started["taskId"]}
    until(lambda: ask("tasks/get", task)["status"] == "input_required", seconds=60)
    questions = ask("tasks/get", task)["inputRequests"]
    assert len(questions) == 1
    ask("tasks/update", {**task, "inputResponses": dict.fromkeys(questions, YES)})
    return task


def published(place: Place) -> set[str]:
    return {path.name for path in place.workspace.iterdir() if path.is_file()} - {"rgb.tif"}


@pytest.mark.parametrize("road", [task_over_stdio, task_over_http])
def test_workflow_task_reports_steps_and_can_be_resumed(
    road: Callable[[Place, Path], AbstractContextManager[Ask]],
    make_place: Callable[..., Place],
    grounds: Path,
    containers: Any,
):
    place = make_place("rgb.tif")
    with road(place, grounds / "workflow-tasks.log") as ask:
        task = approve(ask, LONG)
        until(lambda: ask("tasks/get", task).get("statusMessage", "").startswith("step big"), seconds=60)
        until(lambda: containers.of_owners(place.owners) != [])
        ask("tasks/cancel", task)
        until(lambda: ask("tasks/get", task)["status"] == "cancelled", seconds=60)
        assert containers.none_of(place.owners)
        assert published(place) == set()
        task = approve(ask, SHORT)
        until(lambda: ask("tasks/get", task)["status"] == "completed", seconds=120)
        result = ask("tasks/get", task)["result"]["structuredContent"]
    assert [step.get("used_again", False) for step in result["steps"]] == [True, False]
    assert published(place) == {"a.tif", "b.tif"}


@contextmanager
def wait_over_stdio(place: Place, log: Path, era: str, person: Person) -> Iterator[Talk]:
    with talking(place.command(), log, era=era, person=person) as talk:
        yield talk


@contextmanager
def wait_over_http(place: Place, log: Path, era: str, person: Person) -> Iterator[Talk]:
    with hosting(place, log) as hosted, hosted.talking(hosted.token("ann"), era, person) as talk:
        yield talk


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("road", [wait_over_stdio, wait_over_http])
def test_waiting_client_sees_each_step_and_cancels_all(
    road: Callable[[Place, Path, str, Person], AbstractContextManager[Talk]],
    era: str,
    make_place: Callable[..., Place],
    grounds: Path,
    containers: Any,
):
    place, person = make_place("rgb.tif"), Person()
    with road(place, grounds / "workflow-waits.log", era, person) as talk:
        running = talk.start("workflow_run", **arguments(LONG))
        until(lambda: any(message.startswith("step big") for message in talk.messages), seconds=60)
        until(lambda: containers.of_owners(place.owners) != [])
        first = [message.split(":")[0] for message in talk.messages if message.startswith("step ")]
        running.cancel()
        until(lambda: containers.of_owners(place.owners) == [], seconds=60)
        assert published(place) == set()
        result = talk.done("workflow_run", **arguments(SHORT))
    # progress is limited in rate, so a short step may be over before its message is due
    assert list(dict.fromkeys(first)) in (["step copy", "step big"], ["step big"])
    assert [step.get("used_again", False) for step in result["steps"]] == [True, False]
    assert published(place) == {"a.tif", "b.tif"}
    assert len(person.asked) == 2
