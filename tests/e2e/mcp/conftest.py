"""Two servers on one workspace and one state folder, one for each era of the protocol, shared by all tests here."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdal_mcp.records.audit_verification import verify
from sandbox.engine import Engine, Leftover
from sandbox.labels import CALL, OWNER
from tests.data.make import make_data
from tests.e2e.mcp.talk import ERAS, Person, Place, Talk, environment, inside, talking
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds
from tests.waiting import until

__all__ = ["grounds"]

_NUMBERS = itertools.count(1)
_EMPTIED: dict[Path, list[Place]] = {}  # workspaces of earlier tests


@dataclass
class Containers:
    """The containers of these servers, as the engine itself reports them."""

    engine: Engine

    def of_owners(self, owners: set[str]) -> list[str]:
        """The calls whose containers exist, whether or not they run."""
        return [leftover.labels[CALL] for leftover in self._of(owners)]

    def none_of(self, owners: set[str]) -> bool:
        """True if all are gone; the container of a call that only reads may end a moment after the answer."""
        until(lambda: self.of_owners(owners) == [])
        return True

    def kill(self, owners: set[str]) -> None:
        """Kills the running containers of these servers, as the kernel or an operator may."""
        for leftover in self._of(owners):
            process = self.engine.container(leftover.container).process()
            assert process is not None
            os.kill(process, signal.SIGKILL)

    def running(self, owners: set[str]) -> list[str]:
        """The running containers of these servers."""
        states = (
            (leftover.container, self.engine.container(leftover.container).state())
            for leftover in self._of(owners)
        )
        return [container for container, state in states if state is not None and state.running]

    def processes(self, owners: set[str]) -> set[str]:
        """The process ids of their first processes."""
        return {str(self.engine.container(leftover.container).process()) for leftover in self._of(owners)}

    def _of(self, owners: set[str]) -> list[Leftover]:
        return [leftover for leftover in self.engine.leftovers() if leftover.labels[OWNER] in owners]


@pytest.fixture(scope="session")
def containers(engine: Engine) -> Containers:
    return Containers(engine)


@pytest.fixture(scope="session")
def place(grounds: Path, oracle: Oracle) -> Place:
    """The workspace of the shared servers, with the tests' data in it."""
    created = Place.made(grounds / "shared")
    make_data(oracle, created.workspace)
    return created


@pytest.fixture(scope="session")
def talks(place: Place, grounds: Path, containers: Containers) -> Iterator[dict[str, Talk]]:
    """Both servers at once, one of them with containers that wait for calls.

    Checks after all tests that nothing of theirs is left and that their common audit log is complete.
    """
    warm = environment(GDAL_MCP_POOL_MAX="4")
    with (
        talking(place.command(), grounds / "legacy.log", era=ERAS[0], person=Person()) as legacy,
        talking(place.command(), grounds / "modern.log", era=ERAS[1], person=Person(), env=warm) as modern,
    ):
        yield {ERAS[0]: legacy, ERAS[1]: modern}
        owners = place.owners
    assert containers.of_owners(owners) == []
    assert place.staged == []
    assert place.owners == set()
    assert verify(place.state / "audit.jsonl").ok


@pytest.fixture(params=ERAS)
def talk(request: pytest.FixtureRequest, talks: dict[str, Talk]) -> Iterator[Talk]:
    """A client of either era, whose user approves everything."""
    yield from _fresh(talks[request.param])


@pytest.fixture
def modern(talks: dict[str, Talk]) -> Iterator[Talk]:
    yield from _fresh(talks[ERAS[1]])


@pytest.fixture
def legacy(talks: dict[str, Talk]) -> Iterator[Talk]:
    yield from _fresh(talks[ERAS[0]])


def _fresh(talk: Talk) -> Iterator[Talk]:
    talk.person.action, talk.person.meanwhile = "accept", lambda: None
    talk.person.asked.clear()
    talk.progress.clear()
    yield talk


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest, grounds: Path, place: Place) -> Place:
    """A separate workspace for the test file, with copies of the files in its `DATA`."""
    return place.copy(grounds / request.module.__name__.rpartition("test_")[2], *request.module.DATA)


@pytest.fixture(scope="module")
def unasked(own: Place) -> Iterator[Talk]:
    """A client of a server on that workspace that needs no approval."""
    with inside(own.command("--approval", "never"), person=Person()) as talk:
        yield talk


@pytest.fixture
def make_place(grounds: Path, place: Place) -> Iterator[Callable[..., Place]]:
    """`make_place("dem.tif", ...)`: a separate workspace for the test, with copies of these data.

    For a new path and state folder, each server would attest the host in a container. So the workspace of a finished
    test is emptied and used again, and its attestation stays, as on any host.
    """
    emptied, used = _EMPTIED.setdefault(grounds, []), list[Place]()

    def make(*names: str) -> Place:
        own = emptied.pop() if emptied else Place.made(grounds / f"own-{next(_NUMBERS)}")
        used.append(own)
        for name in names:
            own.path(name).write_bytes(place.path(name).read_bytes())
        return own

    yield make
    emptied.extend(own for own in reversed(used) if own.emptied())
