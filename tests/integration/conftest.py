"""Fixtures that several integration tests share."""

import pytest

from tests.integration.worker_kit import Box
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds
from tests.unit.sandbox.pool_kit import measure_nothing

__all__ = ["grounds"]


@pytest.fixture(scope="session")
def box(oracle: Oracle) -> Box:
    """The worker's handler in the oracle's container."""
    return Box(oracle)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The backend of tests that are coroutines."""
    return "asyncio"


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers do not measure their containers. Only for modules whose containers are in memory."""
    measure_nothing(monkeypatch)
