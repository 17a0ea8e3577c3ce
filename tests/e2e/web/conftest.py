"""One server over HTTP for all tests here, on a workspace with the tests' data, and two users with tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.conftest import Containers, containers, make_place, place
from tests.e2e.mcp.talk import Place
from tests.e2e.web.files_kit import Sender
from tests.e2e.web.hosted import Hosted, hosting
from tests.oracle.fixtures import grounds

__all__ = ["containers", "grounds", "make_place", "place"]


@pytest.fixture(scope="session")
def http_server(place: Place, grounds: Path, containers: Containers) -> Iterator[Hosted]:
    """A server whose calls need no approval. Checks after all tests that nothing of it is left."""
    with hosting(place, grounds / "http.log", "--approval", "never", "--tiles") as hosted:
        owners = place.owners
        yield hosted
    assert hosted.process.returncode == 143
    assert containers.of_owners(owners) == []
    assert place.staged == []


@pytest.fixture(scope="session")
def ann(http_server: Hosted) -> str:
    """A token that may read and write."""
    return http_server.token("ann")


@pytest.fixture(scope="module")
def sender(http_server: Hosted, ann: str) -> Iterator[Sender]:
    """A user who may read and write, with file transfers."""
    with Sender(http_server, ann) as connected:
        yield connected


@pytest.fixture(scope="session")
def bob(http_server: Hosted) -> str:
    """A token of another user that may read and write."""
    return http_server.token("bob")
