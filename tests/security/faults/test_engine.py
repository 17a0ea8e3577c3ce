"""The engine stops, dies, restarts or loses the image during each phase of a call: one typed error in time, and
service resumes.

The tests do this to an engine of their own.
"""

import contextlib
from collections.abc import Iterator

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.labels import OWNER
from tests.e2e.mcp.talk import Place
from tests.private_engine import PrivateEngine, private_engine
from tests.security.faults.kit import (
    CREATE,
    PATIENCE,
    REMOVE,
    SEND,
    START,
    held_call,
    prepared_place,
    serves_again,
    tells,
    writes,
)
from tests.security.faults.nursery import Nursery
from tests.security.faults.scenes import outcome_of, user_files

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.claim("faults.engine-fails-typed")]


@pytest.fixture(scope="module")
def engine(client: docker.DockerClient, image: Image) -> Iterator[PrivateEngine]:
    with private_engine() as started:
        started.load(client, image.reference)
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return prepared_place(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def options(engine: PrivateEngine, image: Image) -> tuple[str, ...]:
    if not engine.answers():
        engine.start()
    return ("--engine", engine.address, "--image", image.reference)


@pytest.fixture(scope="module", autouse=True)
def _attested(engine: PrivateEngine, place: Place, servers: Nursery, image: Image) -> None:
    serves_again(servers, place, writes("first.tif"), "--engine", engine.address, "--image", image.reference)


def containers(engine: PrivateEngine) -> list[str]:
    with engine.client() as client:
        return [row["Id"] for row in client.api.containers(all=True, filters={"label": OWNER})]


def restart(engine: PrivateEngine) -> None:
    engine.stop()
    engine.start()


TURNS = {"at-start": START, "during-run": SEND, "at-removal": REMOVE}
HOW = {"stopped": PrivateEngine.stop, "killed": PrivateEngine.kill, "restarted": restart}


@pytest.mark.parametrize("how", HOW)
def test_engine_that_disappears_before_and_during_calls(engine, place, servers, options, how):
    idle = writes("before.tif")
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(servers.serving(place, "--approval", "never", *options))
        calls = {
            turn: stack.enter_context(
                held_call(servers, place, writes(f"{turn}.tif"), point, *options, patience=PATIENCE)
            )
            for turn, point in TURNS.items()
        }
        HOW[how](engine)
        if how != "restarted":
            tells("engine-gone-before", lambda: idle.call(before))
        results = {turn: tells(f"engine-{how}-{turn}", call.go_on) for turn, call in calls.items()}
        written = {turn for turn in TURNS if f"{turn}.tif" in user_files(place)}
        assert written == {turn for turn, result in results.items() if "error" not in result}
        if not engine.answers():
            engine.start()
        assert outcome_of(idle.call(before)) == "OK"
        for call in calls.values():
            assert outcome_of(call.scene.call(call.pipes)) == "OK"
    serves_again(servers, place, idle, *options)
    assert containers(engine) == []
    for name in ("before", *TURNS):
        place.path(f"{name}.tif").unlink()


def test_an_image_that_is_removed_during_a_call(  # the last test, because the image does not come back
    engine, image, place, servers, options
):
    scene = writes("removed.tif")
    with held_call(servers, place, scene, CREATE, *options) as call:
        with engine.client() as client:
            client.images.remove(image.reference, force=True)
        tells("image-removed", call.go_on)
        tells("image-removed", lambda: scene.call(call.pipes))
    assert containers(engine) == []
    assert "removed.tif" not in user_files(place)
    assert place.staged == []
