"""One process that servers are copied from, and one place that they all work in, whose host is attested already."""

import pytest

from tests.faults.kit import made, serves_again, writes
from tests.faults.nursery import Nursery
from tests.forking import Forks
from tests.mcp.conftest import containers
from tests.mcp.talk import Place

__all__ = ["containers"]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Nursery:
    return Nursery(
        Forks.loaded(module="tests.faults.zygote"), tmp_path_factory.mktemp("nursery") / "servers.log"
    )


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, servers: Nursery) -> Place:
    prepared = made(tmp_path_factory.mktemp("faults"))
    serves_again(servers, prepared, writes("first.tif"))
    return prepared
