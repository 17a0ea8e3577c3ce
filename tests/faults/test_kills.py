"""A server is killed just before each step of a call's life and another one started: nothing is lost, half-written or left.

`make test-all` tries every step (`points.Point.step`); `make faults` tries every statement.
"""

import contextlib
import hashlib
import os
import signal
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdal_mcp.ledger.audit import verify
from gdal_mcp.ledger.registry import Registry
from tests.faults.nursery import Nursery
from tests.faults.points import Point, points
from tests.faults.scenes import SCENES, Scene, outcome_of, plain, seen
from tests.faults.zygote import REACHED
from tests.mcp.conftest import Containers
from tests.mcp.talk import Place
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.server-killed-at-any-step")]

_LISTED = tomllib.loads(Path(__file__).with_name("unreached.toml").read_text())
UNREACHED = {place for row in _LISTED["unreached"] for place in row["at"]}
BY_CHANCE = {place for row in _LISTED["by_chance"] for place in row["at"]}
ALL = os.environ.get("FAULTS") == "all"


def is_in(point: Point, listed: set[str]) -> bool:
    """Whether a row names the point or its function."""
    return not {point.place, f"{point.module}.{point.function}"}.isdisjoint(listed)


def is_listed(point: Point) -> bool:
    return is_in(point, UNREACHED | BY_CHANCE)


POINTS = [one for one in points() if (one.step or ALL) and not one.failing and not is_listed(one)]


@dataclass(frozen=True)
class Stage:
    """What all the kills share: the place, the servers, what each scene passes and what it makes."""

    place: Place
    nursery: Nursery
    containers: Containers
    trails: Mapping[str, tuple[str, ...]]
    after: Mapping[str, Mapping[str, bytes]]

    def scene_of(self, point: Point) -> Scene | None:
        return next((scene for scene in SCENES if point.name in self.trails[scene.name]), None)


@pytest.fixture(scope="module")
def stage(
    place: Place, servers: Nursery, containers: Containers, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    folder = tmp_path_factory.mktemp("trails")
    stage = Stage(place, servers, containers, {}, {})
    for number, scene in enumerate(SCENES):
        _rehearse(stage, scene, folder / str(number))
    return stage


def _rehearse(stage: Stage, scene: Scene, trail: Path) -> None:
    """The scene without a kill: what it passes, and the workspace that comes of it."""
    scene.prepare(stage.place)
    with stage.nursery.serving(stage.place, "--approval", scene.approval, trail=trail) as pipes:
        result = scene.call(pipes)
    assert outcome_of(result) == scene.outcome, (scene.name, result)
    stage.trails[scene.name] = tuple(trail.read_text().split())  # type: ignore[index]
    stage.after[scene.name] = plain(seen(stage.place))  # type: ignore[index]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.function}:{point.line}")
def test_a_server_killed_before_a_step_loses_nothing_and_leaves_nothing(stage: Stage, point: Point):
    scene = stage.scene_of(point)
    assert scene is not None, (
        f"no scene comes to {point.place!r}: add one, or list it in unreached.toml with its reason"
    )
    before = _prepared(stage, scene)
    known = _calls(stage)
    _kill(stage, scene, point)
    found = plain(seen(stage.place))
    after = stage.after[scene.name]
    for name in before.keys() | found.keys():  # even before anything recovers
        assert found.get(name) in (before.get(name), after.get(name)), name
    dead = stage.place.owners
    with stage.nursery.serving(stage.place, "--approval", scene.approval) as pipes:
        found = seen(stage.place)
        assert plain(found) in (before, after)
        dying = _told_of(stage, known) if scene.has_end else set()
        for call in dying:
            _listed(stage, call, {name: data for name, data in found.items() if before.get(name) != data})
        if found != before:
            [call] = dying
            _taken_back(stage, call, before)
        assert outcome_of(scene.call(pipes)) == scene.outcome
        assert stage.containers.none_of(dead)
        assert plain(seen(stage.place)) == after
    assert stage.place.staged == []
    assert stage.place.owners == set()
    assert verify(stage.place.state / "audit.jsonl").ok


def _prepared(stage: Stage, scene: Scene) -> dict[str, bytes]:
    scene.prepare(stage.place)
    return seen(stage.place)


def _kill(stage: Stage, scene: Scene, point: Point) -> None:
    armed = stage.place.state / "armed"
    armed.write_text("")
    options = ("--approval", scene.approval)
    with stage.nursery.serving(stage.place, *options, point=point.name, armed=armed) as pipes:
        scene.call(pipes)
        until(lambda: armed.read_text() == REACHED)  # which may be behind the answer
        assert pipes.end() == -signal.SIGKILL
    armed.unlink()


def _calls(stage: Stage) -> set[str]:
    return {event["call"] for event in stage.place.audited if "call" in event}


def _told_of(stage: Stage, known: set[str]) -> set[str]:
    """The calls that died: each that began has an end in the log, and none is under way in the registry."""
    events = [event for event in stage.place.audited if event.get("call") not in {*known, None}]
    begun = {event["call"] for event in events if event["type"] == "call.started"}
    assert begun <= {event["call"] for event in events if event["type"] == "call.finished"}
    with contextlib.closing(Registry(stage.place.state / "registry.sqlite")) as registry:
        assert registry.unfinished() == ()
    return begun


def _listed(stage: Stage, call: str, new: Mapping[str, bytes]) -> None:
    """What the call made is listed as what it is, and nothing else of it."""
    with contextlib.closing(Registry(stage.place.state / "registry.sqlite")) as registry:
        listed = {one.uri: one.sha256 for one in registry.artifacts_of(call) if one.state == "listed"}
    made = {stage.place.path(name).as_uri(): hashlib.sha256(data).hexdigest() for name, data in new.items()}
    assert listed == made


def _taken_back(stage: Stage, call: str, before: Mapping[str, bytes]) -> None:
    code, said = stage.nursery.run("undo", call, *stage.place.command()[4:])
    assert code == 0, said
    assert seen(stage.place) == before


def test_every_point_is_come_to_or_listed_with_the_reason_why_not(stage: Stage):
    """What is listed by mistake would never be tried; what no scene comes to would be forgotten."""
    reached = {name for trail in stage.trails.values() for name in trail}
    usual = [one for one in points() if not one.failing and not is_in(one, BY_CHANCE)]
    assert [one.place for one in usual if one.name not in reached and not is_listed(one)] == []
    assert [one.place for one in usual if one.name in reached and is_listed(one)] == []
    places = {place for one in points() for place in (one.place, f"{one.module}.{one.function}")}
    assert (UNREACHED | BY_CHANCE) - places == set()
