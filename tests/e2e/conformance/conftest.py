"""The pinned programs, and a workspace with the tests' data for the servers that they look at."""

from pathlib import Path

import pytest

from tests.e2e.conformance.node import Programs, programs
from tests.e2e.mcp.conftest import Containers, containers, make_place, place
from tests.oracle.fixtures import grounds

__all__ = ["Containers", "containers", "grounds", "make_place", "place"]


@pytest.fixture(scope="session")
def pinned() -> Programs:
    """Downloaded when they are not there. Without Node or npm's registry it is an error, never a skip."""
    return programs()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Inspector may write what it likes to keep."""
    return tmp_path_factory.mktemp("home")
