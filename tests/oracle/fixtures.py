"""The oracle as a fixture, for the test folders that import it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.host.image import Image
from tests.oracle.container import Oracle, oracle_over


@pytest.fixture(scope="session")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that everything of these tests lies in: workspaces, state, what is outside."""
    made = tmp_path_factory.mktemp("grounds")
    made.chmod(0o755)
    return made


@pytest.fixture(scope="session")
def oracle(image: Image, grounds: Path) -> Iterator[Oracle]:
    with oracle_over(image.id, grounds) as made:
        yield made
