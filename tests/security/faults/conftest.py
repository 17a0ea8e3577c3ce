"""One process that servers are copied from, and one workspace for all of them, whose host is already attested."""

import pytest

from tests.e2e.mcp.conftest import containers
from tests.e2e.mcp.talk import Place
from tests.forking import Forks
from tests.security.faults.kit import prepared_place, serves_again, writes
from tests.security.faults.nursery import Nursery

__all__ = ["containers"]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Nursery:
    return Nursery(
        Forks.loaded(module="tests.security.faults.zygote"),
        tmp_path_factory.mktemp("nursery") / "servers.log",
    )


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, servers: Nursery) -> Place:
    prepared = prepared_place(tmp_path_factory.mktemp("faults"))
    serves_again(servers, prepared, writes("first.tif"))
    return prepared
