"""The registry and the audit log are locked, damaged, tampered with or closed while a server runs: nothing runs unrecorded."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from gdal_mcp.records import schema as registry_schema
from gdal_mcp.records.audit_verification import verify
from tests.e2e.mcp.pipes import Pipes
from tests.e2e.mcp.talk import Place
from tests.security.faults.disks import read_only
from tests.security.faults.kit import PATIENCE, ROWS, prepared_place, serves_again, tells, writes
from tests.security.faults.nursery import Nursery
from tests.security.faults.scenes import Scene, outcome_of, user_files

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.records-fail-closed")]

_SCENE = writes("unrecorded.tif")
_ASKED = writes("unrecorded.tif", approval="writes")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, servers: Nursery) -> Place:
    """A separate workspace, because the test damages it."""
    prepared = prepared_place(tmp_path_factory.mktemp("state"))
    serves_again(servers, prepared, writes("first.tif"))
    return prepared


@pytest.fixture
def pipes(place: Place, servers: Nursery) -> Iterator[Pipes]:
    """A server that has recorded a call. Checks after the test that it did not run the second call, and that it now
    does.
    """
    with servers.serving(place, "--approval", "never", patience=PATIENCE) as pipes:
        assert outcome_of(Scene("", "gdal_search", {"query": "slope"}).call(pipes)) == "OK"
        yield pipes
        assert "unrecorded.tif" not in user_files(place)
        assert place.staged == []
        assert outcome_of(_SCENE.call(pipes)) == "OK"
    place.path("unrecorded.tif").unlink()
    assert verify(place.state / "audit.jsonl").ok


@contextlib.contextmanager
def locked(place: Place) -> Iterator[None]:
    with contextlib.closing(
        sqlite3.connect(place.state / "registry.sqlite", isolation_level=None)
    ) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@pytest.mark.nightly
def test_a_registry_that_another_process_holds(place: Place, pipes: Pipes):
    with locked(place):
        error = tells("registry-locked", lambda: _SCENE.call(pipes))["error"]
    assert error["stage"] == "audit"
    assert ROWS["registry-locked"].seconds >= 3 * registry_schema._BUSY_SECONDS


def truncated(log: bytes) -> bytes:
    return log[: log.rstrip(b"\n").rindex(b"\n") + 1]


def edited(log: bytes) -> bytes:
    at = log.rindex(b'"outcome"')
    return log[:at] + b'"outCome"' + log[at + 9 :]


def reordered(log: bytes) -> bytes:
    *first, last_but_one, last = log.splitlines(keepends=True)
    return b"".join((*first, last, last_but_one))


SPOILT = (truncated, edited, reordered)


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_audit_log_that_cannot_be_trusted(place: Place, pipes: Pipes, spoil: Callable[[bytes], bytes]):
    log = place.state / "audit.jsonl"
    sound = log.read_bytes()
    spoilt = spoil(sound)
    log.write_bytes(spoilt)
    error = tells(f"audit-{spoil.__name__}", lambda: _SCENE.call(pipes))["error"]
    assert error["stage"] == "audit"
    assert log.read_bytes() == spoilt  # the damaged log is evidence
    assert not verify(log).ok
    log.write_bytes(sound)


@contextlib.contextmanager
def cut_short(place: Place) -> Iterator[None]:
    log = place.state / "audit.jsonl"
    sound = log.read_bytes()
    log.write_bytes(truncated(sound))
    yield
    log.write_bytes(sound)


@pytest.mark.claim("approval.unkept-answer-counts-for-nothing")
def test_answer_that_cannot_be_recorded_runs_nothing(place: Place, servers: Nursery):
    lets_nothing_run(place, servers, "audit-truncated", cut_short(place))


@pytest.mark.nightly
@pytest.mark.claim("approval.unkept-answer-counts-for-nothing")
def test_answer_that_cannot_be_stored_runs_nothing(place: Place, servers: Nursery):
    lets_nothing_run(place, servers, "registry-locked", locked(place))


def lets_nothing_run(place: Place, servers: Nursery, row: str, spoilt: AbstractContextManager[None]) -> None:
    """Checks that nothing runs if the state is damaged when a person approves."""
    with servers.serving(place, "--approval", "writes", patience=PATIENCE) as pipes:
        identifier = _ASKED.begin(pipes)
        question = pipes.until(lambda message: message.get("method") == "elicitation/create")
        with spoilt:
            _ASKED.accept(pipes, question)
            error = tells(row, lambda: _ASKED.finish(pipes, identifier))["error"]
            assert "unrecorded.tif" not in user_files(place)
        assert error["stage"] == "approval"
    serves_again(servers, place, _ASKED)
    place.path("unrecorded.tif").unlink()


def test_a_registry_that_is_damaged_and_moved_aside(place: Place, servers: Nursery):
    with servers.serving(place, "--approval", "never") as pipes:
        assert outcome_of(Scene("", "gdal_search", {"query": "slope"}).call(pipes)) == "OK"
        for path in place.state.glob("registry.sqlite*"):
            path.write_bytes(b"\xff" * 8192)
        tells("registry-damaged", lambda: _SCENE.call(pipes))
        assert "unrecorded.tif" not in user_files(place)
    for path in place.state.glob("registry.sqlite*"):
        path.unlink()
    serves_again(servers, place, _SCENE)
    place.path("unrecorded.tif").unlink()


def test_read_only_state_folder_prevents_the_start(place: Place, servers: Nursery):
    with read_only(place.state):
        code, output = servers.run(*place.command()[3:])
    assert (code, output) == (1, "")
    serves_again(servers, place, _SCENE)
