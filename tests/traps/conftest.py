"""One server for all traps, whose containers wait for calls, so that none has to start its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.talk import Person, Place, Talk, inside
from tests.oracle.fixtures import grounds
from tests.traps.kit import make_data

__all__ = ["grounds"]


@pytest.fixture(scope="session")
def place(grounds: Path) -> Place:
    made = Place.made(grounds / "traps")
    make_data(made.workspace)
    return made


@pytest.fixture(scope="session")
def talk(place: Place) -> Iterator[Talk]:
    command = place.command("--allow-sql", "--no-preview", "--approval", "never")
    with inside(command, person=Person(), env={"GDAL_MCP_POOL_MAX": "4"}) as made:
        yield made
