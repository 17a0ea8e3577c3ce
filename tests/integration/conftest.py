"""Fixtures for the tests of the worker: its handler in the oracle's container."""

import pytest

from tests.integration.worker_kit import Box
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds

__all__ = ["grounds"]


@pytest.fixture(scope="session")
def box(oracle: Oracle) -> Box:
    return Box(oracle)
