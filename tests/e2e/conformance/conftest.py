"""The pinned programs, and a workspace with the tests' data for the servers that they examine."""

from pathlib import Path

import pytest

from tests.e2e.conformance.node import Programs, programs
from tests.e2e.mcp.conftest import Containers, containers, make_place, place
from tests.oracle.fixtures import grounds

__all__ = ["Containers", "containers", "grounds", "make_place", "place"]


@pytest.fixture(scope="session")
def pinned() -> Programs:
    """The programs, downloaded if they are missing. Fails, and never skips, without Node or npm's registry."""
    return programs()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the files that the Inspector stores."""
    return tmp_path_factory.mktemp("home")
