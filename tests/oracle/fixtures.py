"""The oracle, one for all tests of a process, and the folders that it sees. tests/conftest.py imports the shared
fixtures.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.runtime.image import Image
from tests.oracle.container import Oracle, oracle_over

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def oracle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grounds")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def oracle(image: Image, oracle_folder: Path) -> Iterator[Oracle]:
    with oracle_over(image.id, oracle_folder) as started:
        yield started


@pytest.fixture(scope="session")
def grounds(oracle_folder: Path) -> Path:
    """The folder for the tests of one test folder: workspaces, state, and files outside them. Each importing module
    has its own.
    """
    folder = oracle_folder / str(next(_NUMBERS))
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    return folder
