"""A workspace with the tests' data for the servers that the clients start."""

from tests.e2e.mcp.conftest import Containers, containers, make_place, place
from tests.oracle.fixtures import grounds

__all__ = ["Containers", "containers", "grounds", "make_place", "place"]
