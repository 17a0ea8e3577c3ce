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
    containers = []

    def new_container(marks):
        containers.append(engine.create(make_template(handler("")), marks))
        return containers[-1]

    yield new_container
    for container in containers:
        container.remove()


@pytest.mark.claim("sandbox.leftovers")
def test_only_containers_of_dead_servers_are_removed(engine, make, tmp_path):
    me, living = (Owner(tmp_path / "servers") for _ in range(2))
    (tmp_path / "servers/dead0000.lock").touch()  # its server is dead: the lock file exists and is free
    mine, theirs, left = (
        make(labels(server, "call-0001", 60.0)) for server in (me.id, living.id, "dead0000")
    )
    stranger = make({"other.owner": "dead0000"})
    assert stranger.id not in {leftover.container for leftover in engine.leftovers()}
    removed = reap(engine, me)
    assert [container for container in (mine, theirs, left, stranger) if container.id in removed] == [left]
    standing = [container for container in (mine, theirs, left, stranger) if container.state() is not None]
    assert standing == [mine, theirs, stranger]
    me.close()
    living.close()
