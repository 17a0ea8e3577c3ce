import pytest

from gdal_mcp.ledger.figures import containers
from sandbox.labels import labels
from tests.conftest import handler

pytestmark = pytest.mark.engine


def test_a_container_is_counted_as_it_stands_until_it_is_gone(engine, owner, make_template):
    container = engine.create(make_template(handler("pass")), labels(owner.id, "call-0001", 60.0))
    try:
        assert containers(engine, owner)["alive", "running"] == 1  # or about to: it has not ended
        wire = engine.attach(container)
        engine.start(container)
        wire.close()  # without its stdin a worker ends
        engine.wait(container, 30)
        assert containers(engine, owner)["alive", "stopped"] == 1
    finally:
        engine.remove(container)
    assert [server for server, _ in containers(engine, owner)].count("alive") == 0
