"""What several unit tests share."""

from pathlib import Path

import pytest


@pytest.fixture
def root(workspace: Path) -> Path:
    """An empty folder to be a workspace."""
    return workspace


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Of tests that are coroutines."""
    return "asyncio"
