"""The server on a cluster: the same answers as a plain GDAL's, whatever it loses; and nothing is left of it."""

import contextlib
import itertools
import os
import queue
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sandbox.labels import CALL
from tests.faults.scenes import Scene, outcome_of
from tests.kubernetes.conftest import Ground, ask
from tests.mcp.pipes import Pipes, piped
from tests.mcp.talk import Place, talking
from tests.oracle.container import Oracle
from tests.soak.cases import BAD, GOOD, Answers, Case, answers, lay
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
CALLS, AT_ONCE = 200, 8
INFO = Scene("info", "info", {"path": "in.tif"})
WRITE = Scene("write", "convert", {"input": "in.tif", "output": "out.tif"})
_NUMBERS = itertools.count(1)


@pytest.fixture
def place(ground: Ground) -> Place:
    return Place.made(ground.new_folder() / "place")


@contextlib.contextmanager
def serving(ground: Ground, place: Place, **more: str) -> Iterator[Pipes]:
    log = place.state.with_suffix(f".{next(_NUMBERS)}.log")
    env = ground.environment(**{"GDAL_MCP_POOL_MAX": "0", **more})
    with piped(place.command("--approval", "never"), log, env=env) as pipes:
        pipes.hello()
        yield pipes


def answered(pipes: Pipes, number: int, seconds: float) -> bool:
    """Whether a call was answered within so many seconds."""
    end = time.monotonic() + seconds
    with contextlib.suppress(queue.Empty):
        while (left := end - time.monotonic()) > 0:
            if (pipes.receive(left) or {}).get("id") == number:
                return True
    return False


def killed(pipes: Pipes) -> None:
    pipes.process.send_signal(signal.SIGKILL)
    pipes.process.wait()


def test_calls_are_pods_and_nothing_is_left_of_them(ground: Ground, place: Place) -> None:
    INFO.prepare(place)
    with serving(ground, place) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        assert outcome_of(WRITE.call(pipes)) == "OK"
        assert place.path("out.tif").stat().st_uid == place.workspace.stat().st_uid or os.geteuid() == 0
        refused = pipes.call("info", {"path": "/etc/passwd"})
        assert refused["structuredContent"]["error"]["code"] == "PATH_NOT_ALLOWED"
    assert ground.pods() == {}
    assert place.staged == []


def test_warm_pods_serve_one_call_each_and_one_that_is_taken_away_is_replaced(
    ground: Ground, place: Place
) -> None:
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


def waiting(ground: Ground) -> set[str]:
    """The Pods that run and are not being deleted."""
    return {
        name
        for name, one in ground.pods().items()
        if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
    }


@pytest.mark.claim("faults.server-killed")
def test_a_server_that_is_killed_at_any_moment_leaves_nothing_after_the_next_start(
    ground: Ground, place: Place
) -> None:
    """A little later each time, from the first Pod that is asked for on, until a call ends before."""
    whole = None
    for moment in itertools.count():
        WRITE.prepare(place)
        with contextlib.suppress(BrokenPipeError), serving(ground, place) as pipes:
            number = WRITE.begin(pipes)
            ended = answered(pipes, number, 0.8 * moment)
            killed(pipes)
        with serving(ground, place) as pipes:
            assert outcome_of(INFO.call(pipes)) == "OK"
        # a look at an image, which is no call's and mounts nothing, may wait for its own deadline
        assert [
            one for one in ground.pods().values() if one["metadata"]["annotations"][CALL] != "image"
        ] == []
        assert place.staged == []
        made = place.path("out.tif")
        if made.exists():
            whole = whole or made.read_bytes()
            assert made.read_bytes() == whole
        if ended or moment > 30:
            break
    assert whole


LONG = Scene("long", "gdalinfo", {"dataset": "huge.vrt", "stats": True})


def huge(place: Place, side: int = 150_000) -> None:
    """Pixels for minutes."""
    LONG.prepare(place)
    source = '<SourceFilename relativeToVRT="1">in.tif</SourceFilename><SourceBand>1</SourceBand>'
    places = f'<SrcRect xOff="0" yOff="0" xSize="40" ySize="30"/><DstRect xOff="0" yOff="0" xSize="{side}" ySize="{side}"/>'
    band = f'<VRTRasterBand dataType="Byte" band="1"><SimpleSource>{source}{places}</SimpleSource></VRTRasterBand>'
    place.path("huge.vrt").write_text(
        f'<VRTDataset rasterXSize="{side}" rasterYSize="{side}">{band}</VRTDataset>'
    )


DEFLATED = Scene(
    "write",
    "convert",
    {"input": "huge.vrt", "output": "out.tif", "creation_options": {"COMPRESS": "DEFLATE"}},
)


@pytest.mark.parametrize("grace", [1, 0], ids=["drained", "deleted by force"])
def test_a_pod_that_is_taken_away_ends_its_call_and_publishes_nothing(
    ground: Ground, place: Place, grace: int
) -> None:
    huge(place)
    with serving(ground, place) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        until(lambda: ground.pods() == {})
        number = DEFLATED.begin(pipes)
        until(lambda: len(waiting(ground)) == 1 and any(place.staged))
        (name,) = waiting(ground)
        ground.admin.delete(name, grace)
        assert outcome_of(DEFLATED.finish(pipes, number)) == "ENGINE_UNAVAILABLE"
        assert not place.path("out.tif").exists()
        assert outcome_of(INFO.call(pipes)) == "OK"
    assert ground.pods() == {}
    assert place.staged == []


def test_a_quota_is_waited_for_and_told(ground: Ground, place: Place) -> None:
    """Slots that wait give way to a call; and where there is no room at all, the call is told to come again."""
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


def test_many_mixed_calls_at_once_have_each_the_answer_of_a_plain_gdal(
    ground: Ground, place: Place, oracle: Oracle
) -> None:
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
        wrong = [*threads.map(lambda one: played(talk, expected, place, *one), enumerate(chosen))]
    assert [one for one in wrong if one] == []
    assert ground.pods() == {}
    assert place.staged == []


def played(talk: Any, expected: Answers, place: Place, number: int, case: Case) -> str:
    output = f"made-{number}{case.suffix or '.tif'}"
    result = talk.start(case.tool, **case.given(output)).result(timeout=600)
    content = result.structured_content
    if case.fails:
        code = (content.get("error") or {}).get("code")
        return "" if code in case.codes else f"{case.name}: {code}"
    if result.is_error:
        return f"{case.name}: {content}"[:600]
    found = expected.wrong(case, content, place.path(output))
    return f"{case.name}: {found}" if found else ""
