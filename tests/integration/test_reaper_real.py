"""Which containers a server removes of those that others left, on the real engine."""

import pytest

from sandbox.labels import UPTIME_DEADLINE, Moment, labels
from sandbox.owner import Owner
from sandbox.reaper import reap
from tests.conftest import handler

pytestmark = pytest.mark.engine


@pytest.fixture
def me(tmp_path):
    """A server with a state folder of its own."""
    held = Owner(tmp_path / "servers")
    yield held
    held.close()


@pytest.fixture
def living(me):
    """The id of another server that lives."""
    held = Owner(me.folder)
    yield held.id
    held.close()


@pytest.fixture
def dead(me):
    """The id of a server that died: its lock file is there and free."""
    (me.folder / "dead0000.lock").touch()
    return "dead0000"


@pytest.fixture
def make(engine, make_template):
    """`make(owner, deadline_in=...)`: a real container, not started, of that owner."""
    made = []

    def one(owner, deadline_in=60.0):
        now = Moment.now()
        marks = {
            **labels(owner, "call-0001", 60.0),
            UPTIME_DEADLINE: f"{now.boot} {now.uptime + deadline_in:.3f}",
        }
        made.append(engine.create(make_template(handler("")), marks))
        return made[-1]

    yield one
    for container in made:
        engine.remove(container)


def standing(engine, *containers):
    """Those that the engine still knows."""
    return {one for one in containers if engine.state(one) is not None}


@pytest.mark.claim("sandbox.leftovers")
def test_only_the_containers_of_a_dead_server_are_removed(engine, me, living, dead, make):
    mine, theirs, left = make(me.id), make(living), make(dead)
    assert {mine, theirs, left}.intersection(reap(engine, me)) == {left}
    assert standing(engine, mine, theirs, left) == {mine, theirs}


@pytest.mark.claim("sandbox.leftovers")
def test_a_container_without_our_labels_is_never_removed(engine, me, make_template):
    container = engine.create(make_template(handler("")), {"other.owner": "dead0000"})
    assert container not in {one.container for one in engine.leftovers()}
    reap(engine, me)
    assert standing(engine, container)
    engine.remove(container)
