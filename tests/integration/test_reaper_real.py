"""Which leftover containers of other servers a server removes, on the real engine."""

import pytest

from sandbox.labels import labels
from sandbox.owner import Owner
from sandbox.reaper import reap
from tests.conftest import handler

pytestmark = pytest.mark.engine


@pytest.fixture
def make(engine, make_template):
    """`make(labels)` is a real container with these labels that has not started."""
    made = []

    def one(marks):
        made.append(engine.create(make_template(handler("")), marks))
        return made[-1]

    yield one
    for container in made:
        container.remove()


@pytest.mark.claim("sandbox.leftovers")
def test_only_containers_of_dead_servers_are_removed(engine, make, tmp_path):
    me, living = (Owner(tmp_path / "servers") for _ in range(2))
    (tmp_path / "servers/dead0000.lock").touch()  # its server is dead: the lock file exists and is free
    mine, theirs, left = (make(labels(one, "call-0001", 60.0)) for one in (me.id, living.id, "dead0000"))
    stranger = make({"other.owner": "dead0000"})
    assert stranger.id not in {one.container for one in engine.leftovers()}
    removed = reap(engine, me)
    assert [one for one in (mine, theirs, left, stranger) if one.id in removed] == [left]
    standing = [one for one in (mine, theirs, left, stranger) if one.state() is not None]
    assert standing == [mine, theirs, stranger]
    me.close()
    living.close()
