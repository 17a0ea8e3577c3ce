"""The server on a cluster: the same answers as plain GDAL, whatever the cluster loses, and nothing is left of it."""

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.mcp.talk import Place, talking
from tests.kubernetes.conftest import Ground, ask
from tests.kubernetes.servers import (
    DEFLATED,
    INFO,
    WRITE,
    busy,
    huge,
    killed,
    purposes,
    serving,
    waiting,
)
from tests.security.faults.scenes import outcome_of
from tests.soak.cases import BAD, GOOD, Answers, Case, answers, lay
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1800)]
CALLS, AT_ONCE = 200, 8
# visible stages of a server's first call, in order
STEPS: dict[str, Callable[[Ground, Place], object]] = {
    "it looks at its image": lambda ground, _: "image" in purposes(ground),
    "it attests the nodes": lambda ground, _: any(
        purpose.startswith("attest-") for purpose in purposes(ground)
    ),
    "it asks for the version": lambda ground, _: any(
        purpose.startswith("version-") for purpose in purposes(ground)
    ),
    "it has asked for the call's Pod": lambda ground, place: purposes(ground) & {*place.staged},
    "the call writes": lambda _, place: [*place.workspace.glob(".gdal-mcp/staging/*/out/*")],
}


def test_calls_are_pods_and_leave_nothing(ground: Ground, place: Place) -> None:
    INFO.prepare(place)
    with serving(ground, place) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        assert outcome_of(WRITE.call(pipes)) == "OK"
        assert place.path("out.tif").stat().st_uid == place.workspace.stat().st_uid or os.geteuid() == 0
        refused = pipes.call("info", {"path": "/etc/passwd"})
        assert refused["structuredContent"]["error"]["code"] == "PATH_NOT_ALLOWED"
    assert ground.pods() == {}
    assert place.staged == []


def test_warm_pods_serve_once_and_removed_are_replaced(ground, place):
    INFO.prepare(place)
    with serving(ground, place, GDAL_MCP_POOL_MAX="2", GDAL_MCP_CONCURRENT="2") as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        until(lambda: len(waiting(ground)) >= 2)
        drained = waiting(ground)
        for name in drained:
            ground.admin.delete(name, 1)
        until(lambda: len(waiting(ground) - drained) >= 2)
        for _ in range(4):
            assert outcome_of(INFO.call(pipes)) == "OK"
    assert ground.pods() == {}


@pytest.mark.claim("faults.server-killed")
def test_server_killed_at_any_step_leaves_nothing_later(ground, place, subtests):
    huge(place)

    def left() -> None:
        dead = set(place.staged)
        with serving(ground, place) as pipes:
            assert outcome_of(INFO.call(pipes)) == "OK"
            until(
                lambda: dead.isdisjoint(place.staged)
            )  # a cluster may remove a Pod later than the call ends
        assert ground.pods() == {}
        assert place.staged == []

    for step, reached in STEPS.items():
        with subtests.test(step):
            with serving(ground, place) as pipes:
                DEFLATED.begin(pipes)
                until(lambda reached=reached: reached(ground, place))
                killed(pipes)
            left()
            assert not place.path("out.tif").exists()
    with subtests.test("it has answered"):
        with serving(ground, place) as pipes:
            assert outcome_of(WRITE.call(pipes)) == "OK"
            killed(pipes)
        published = place.path("out.tif").read_bytes()
        left()
        assert place.path("out.tif").read_bytes() == published


@pytest.mark.parametrize("grace", [1, 0], ids=["drained", "deleted by force"])
def test_removed_pod_ends_its_call_and_publishes_nothing(ground, place, grace):
    with busy(ground, place) as call:
        ground.admin.delete(call.pod, grace)
        assert call.outcome() == "ENGINE_UNAVAILABLE"
        assert not place.path("out.tif").exists()
        assert outcome_of(INFO.call(call.pipes)) == "OK"
    assert ground.pods() == {}
    assert place.staged == []


def test_a_quota_is_waited_for_and_told(ground: Ground, place: Place) -> None:
    """Waiting slots give way to a call; if there is no room at all, the call gets an error that says to repeat it."""
    INFO.prepare(place)
    quotas = f"/api/v1/namespaces/{ground.namespace}/resourcequotas"
    with serving(ground, place, GDAL_MCP_POOL_MAX="2") as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        until(lambda: len(waiting(ground)) >= 2)
        most = len(ground.pods())
        ask(
            ground.admin,
            "POST",
            quotas,
            {"metadata": {"name": "calls"}, "spec": {"hard": {"pods": str(most)}}},
        )
        try:
            assert outcome_of(WRITE.call(pipes)) == "OK"
        finally:
            ask(ground.admin, "DELETE", f"{quotas}/calls")
    assert ground.pods() == {}


def test_simultaneous_mixed_calls_equal_plain_gdal(ground, place, oracle):
    lay(oracle, place.workspace)
    expected = answers(oracle, place.workspace)
    chosen = random.Random(19).choices((*GOOD, *BAD), k=CALLS)
    env = ground.environment(
        GDAL_MCP_POOL_MAX="3",
        GDAL_MCP_CONCURRENT=str(AT_ONCE),
        GDAL_MCP_QUEUE_LENGTH="400",
        GDAL_MCP_QUEUE_SECONDS="900",
        PATH=os.environ["PATH"],
    )
    with (
        talking(
            place.command("--approval", "never"), place.state.with_suffix(".log"), era="legacy", env=env
        ) as talk,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        wrong = [*threads.map(lambda numbered: played(talk, expected, place, *numbered), enumerate(chosen))]
    assert [text for text in wrong if text] == []
    INFO.prepare(place)
    with serving(ground, place) as pipes:  # for Pods that the client gave its server no time to remove
        assert outcome_of(INFO.call(pipes)) == "OK"
    assert ground.pods() == {}
    assert place.staged == []


def played(talk: Any, expected: Answers, place: Place, number: int, case: Case) -> str:
    output = f"made-{number}{case.suffix or '.tif'}"
    result = talk.start(case.tool, **case.arguments_for(output)).result(timeout=600)
    content = result.structured_content
    if case.fails:
        code = (content.get("error") or {}).get("code")
        return "" if code in case.codes else f"{case.name}: {code}"
    if result.is_error:
        return f"{case.name}: {content}"[:600]
    difference = expected.wrong(case, content, place.path(output))
    return f"{case.name}: {difference}" if difference else ""
