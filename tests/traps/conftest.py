"""One server with waiting containers for all traps, and the data that they are about."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import Place, Talk, inside
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds
from tests.traps import columns, explained, files, losses, queries
from tests.traps.data import MAKE
from tests.traps.texts import TEXTS

__all__ = ["grounds"]


@pytest.fixture(scope="session")
def place(grounds: Path, oracle: Oracle) -> Place:
    traps_place = Place.made(grounds / "traps")
    folder = oracle.folder("traps")
    oracle.python(MAKE + explained.MAKE + losses.MAKE + files.MAKE + columns.MAKE, str(folder))
    for path in folder.iterdir():
        traps_place.path(path.name).write_bytes(path.read_bytes())
    for name, text in (TEXTS | queries.TEXTS | files.TEXTS | columns.TEXTS).items():
        traps_place.path(name).write_text(text)
    traps_place.path("latin.csv").write_bytes(TEXTS["utf8.csv"].encode("latin-1"))
    return traps_place


@pytest.fixture(scope="session")
def talk(place: Place) -> Iterator[Talk]:
    options = ("--approval", "never", "--no-preview")
    with inside(place.command(*options), env={"GDAL_MCP_POOL_MAX": "4"}) as client:
        yield client
