"""Checks of the host before a server reports that it is ready."""

from types import SimpleNamespace

import pytest

from gdal_mcp.server.http.health import ITEMS, look
from tests.engines.memory import MemoryEngine

IMAGE = SimpleNamespace(id="sha256:aa", reference="gdal:1")


class Found:
    """A hosting that found its engine and image some time ago."""

    def __init__(self, *images: str) -> None:
        engine = MemoryEngine(lambda *_: None, frozenset(images))
        pool = SimpleNamespace(figures=lambda: SimpleNamespace(waiting=1, starting=0))
        self.host = SimpleNamespace(engine=engine, image=IMAGE, pool=pool)
        self.told_lost = 0

    def ready(self):
        return self.host

    def invalidate(self, host):
        assert host is self.host
        self.told_lost += 1


@pytest.fixture
def app(tmp_path):
    """`app(*images)` has the parts of an app that the checks use, on an engine with these images."""
    audit = SimpleNamespace(checkpoint=lambda: None, path=tmp_path)

    def make(*images):
        return SimpleNamespace(
            hosting=Found(*images), audit=audit, owner=SimpleNamespace(id="me", is_dead=lambda _: False)
        )

    return make


def test_removed_image_is_noticed_before_a_call(app):
    assert all(look(app(IMAGE.id)).well.values())
    changed_app = app("sha256:bb")
    health = look(changed_app).well
    assert [name for name in ITEMS if health[name]] == ["engine", "audit"]
    assert changed_app.hosting.told_lost == 1  # the next check, and the next call, search for an image again
