"""A server is killed just before a step of a call's life and another one is started: nothing is lost, half-written or
left.

`make test` tries the steps that change something outside the process, `make test-all` every step
(`points.Point.step`), `make faults` every statement. A rehearsal of each call finds the steps that it gets to, so a
new step is tried automatically.
"""

import contextlib
import hashlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gdal_mcp.records.audit_verification import verify
from gdal_mcp.records.registry import Registry
from tests.e2e.mcp.conftest import Containers
from tests.e2e.mcp.talk import Place
from tests.security.faults.kit import FINISHED, PUBLISH, REMOVE, SEND, STARTED, USED
from tests.security.faults.nursery import Nursery
from tests.security.faults.points import points
from tests.security.faults.scenes import SCENES, Scene, outcome_of, plain, user_files
from tests.security.faults.zygote import REACHED

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.server-killed-at-any-step")]

POINTS = {point.name: point for point in points()}
ALL = os.environ.get("FAULTS") == "all"
BY_NAME = {scene.name: scene for scene in SCENES}


@dataclass(frozen=True)
class Rehearsed:
    passed: frozenset[str]  # points that the call gets to
    after: Mapping[str, bytes]  # files of the workspace after the call


@dataclass(frozen=True)
class Stage:
    """Shared by all kills: the workspace, the servers, and for each scene its points and its outputs."""

    place: Place
    nursery: Nursery
    containers: Containers
    trails: Path
    rehearsed: dict[str, Rehearsed] = field(default_factory=dict)

    def rehearsal(self, scene: Scene) -> Rehearsed:
        """Runs the scene once without a kill."""
        if scene.name not in self.rehearsed:
            self.rehearsed[scene.name] = self._rehearse(scene, self.trails / scene.name)
        return self.rehearsed[scene.name]

    def _rehearse(self, scene: Scene, trail: Path) -> Rehearsed:
        scene.prepare(self.place)
        with self.nursery.serving(self.place, "--approval", scene.approval, trail=trail) as pipes:
            result = scene.call(pipes)
        assert outcome_of(result) == scene.outcome, (scene.name, result)
        return Rehearsed(frozenset(trail.read_text().split()), plain(user_files(self.place)))

    def new_in(self, scene: Scene) -> list[str]:
        """The points that no scene before this one gets to."""
        earlier = (self.rehearsal(previous).passed for previous in SCENES[: SCENES.index(scene)])
        return sorted(self.rehearsal(scene).passed.difference(*earlier))


@pytest.fixture(scope="module")
def stage(
    place: Place, servers: Nursery, containers: Containers, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    return Stage(place, servers, containers, tmp_path_factory.mktemp("trails"))


@pytest.mark.parametrize(
    ("scene", "point"),
    [
        *(("replaces", point) for point in (STARTED, SEND, PUBLISH, FINISHED)),
        *(("asks", USED), ("reads", REMOVE)),
    ],
)
def test_server_killed_before_lasting_steps_loses_nothing(stage, scene, point):
    assert survived(stage, BY_NAME[scene], point)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_server_killed_before_any_step_leaves_nothing(stage, scene, subtests):
    for point in stage.new_in(scene):
        if POINTS[point].step or ALL:
            with subtests.test(point=POINTS[point].place):
                survived(stage, scene, point)


def survived(stage: Stage, scene: Scene, point: str) -> bool:
    """True if the call got to the point this time, which may depend on timing. If so, checks the state after the
    kill.
    """
    after = stage.rehearsal(scene).after
    scene.prepare(stage.place)
    before, known = user_files(stage.place), _calls(stage)
    if not _killed(stage, scene, point):
        return False
    files = plain(user_files(stage.place))
    for name in before.keys() | files.keys():  # even before a server recovers anything
        assert files.get(name) in (before.get(name), after.get(name)), name
    dead = stage.place.owners
    with stage.nursery.serving(stage.place, "--approval", scene.approval) as pipes:
        files = user_files(stage.place)
        assert plain(files) in (before, after)
        dying = _dead_calls(stage, known) if scene.has_end else set()
        for call in dying:
            _listed(stage, call, {name: data for name, data in files.items() if before.get(name) != data})
        if files != before:
            [call] = dying
            _taken_back(stage, call, before)
        assert outcome_of(scene.call(pipes)) == scene.outcome
        assert stage.containers.none_of(dead)
        assert plain(user_files(stage.place)) == after
    assert stage.place.staged == []
    assert stage.place.owners == set()
    assert verify(stage.place.state / "audit.jsonl").ok
    return True


def _killed(stage: Stage, scene: Scene, point: str) -> bool:
    armed = stage.place.state / "armed"
    armed.write_text("")
    options = ("--approval", scene.approval)
    with stage.nursery.serving(stage.place, *options, point=point, armed=armed) as pipes:
        scene.call(pipes)
        with contextlib.suppress(BrokenPipeError):
            pipes.process.stdin.close()  # the point may be after the answer
        code = pipes.end()
    reached = armed.read_text() == REACHED
    armed.unlink()
    assert code == (-signal.SIGKILL if reached else 0)
    return reached


def _calls(stage: Stage) -> set[str]:
    return {event["call"] for event in stage.place.audited if "call" in event}


def _dead_calls(stage: Stage, known: set[str]) -> set[str]:
    """Checks the calls that died: each that began has an end in the log, and none is in progress in the registry."""
    events = [event for event in stage.place.audited if event.get("call") not in {*known, None}]
    started = {event["call"] for event in events if event["type"] == "call.started"}
    assert started <= {event["call"] for event in events if event["type"] == "call.finished"}
    with contextlib.closing(Registry(stage.place.state / "registry.sqlite")) as registry:
        assert all(call.finished is not None for call in registry.search().items)
    return started


def _listed(stage: Stage, call: str, new: Mapping[str, bytes]) -> None:
    """Checks that exactly the outputs of the call are listed, with their current contents."""
    with contextlib.closing(Registry(stage.place.state / "registry.sqlite")) as registry:
        listed = {
            artifact.uri: artifact.sha256
            for artifact in registry.artifacts_of(call)
            if artifact.state == "listed"
        }
    expected = {
        stage.place.path(name).as_uri(): hashlib.sha256(data).hexdigest() for name, data in new.items()
    }
    assert listed == expected


def _taken_back(stage: Stage, call: str, before: Mapping[str, bytes]) -> None:
    code, output = stage.nursery.run("undo", call, *stage.place.command()[4:])
    assert code == 0, output
    assert user_files(stage.place) == before
