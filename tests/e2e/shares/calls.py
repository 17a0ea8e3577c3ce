"""Runs inside the kernel on each of the mounts: a server whose calls read and write there, in containers of crun."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest

from gdal_mcp.server.app import running
from gdal_mcp.server.operations.undoing import undo
from tests.e2e.mcp.talk import Person, Place, Talk, settings_for, talking
from tests.e2e.shares.mounts import FILE_SYSTEMS, REPLACED_ON

SHARES = os.environ.get("SHARES", "").split()
# where each server's log and exit status stay after the kernel has ended
OUT = Path(os.environ.get("OUT", "/"))
_PATIENCE = 300.0  # seconds; the processor is emulated
_STATE = Path("~/.local/state/gdal-mcp").expanduser()  # with the attestation of the first server
# the client reports only that the connection was closed
_WITH_STATUS = ("sh", "-c", '"$@"; echo "exit status $?" >&2', "sh")
_HILL = "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n"


@pytest.fixture(scope="module", params=SHARES)
def share(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def place(share: str) -> Place:
    parent = Path(FILE_SYSTEMS[share].place)
    created = Place.made(Path(tempfile.mkdtemp(dir=parent, prefix="ö maps ")))
    return replace(created, state=_STATE)


@pytest.fixture(scope="module")
def talk(place: Place, share: str) -> Iterator[Talk]:
    command = place.command("--engine", "oci", "--memory", "256MiB", "--approval", "never")
    with talking([*_WITH_STATUS, *command], OUT / f"{share}.log", person=Person()) as opened:
        yield opened


def called(talk: Talk, tool: str, **arguments: Any) -> t.CallToolResult:
    return talk.start(tool, **arguments).result(_PATIENCE)


def done(talk: Talk, tool: str, **arguments: Any) -> Any:
    result = called(talk, tool, **arguments)
    assert not result.is_error, result.structured_content
    return result.structured_content


def test_file_and_output_are_readable_immediately_after_writing(place: Place, talk: Talk) -> None:
    place.path("hill.asc").write_text(_HILL, encoding="ascii")
    done(talk, "convert", input="hill.asc", output="hill.tif")
    assert place.path("hill.tif").stat().st_uid == os.geteuid()
    done(talk, "convert", input="hill.tif", output="Größe of hills.tif")
    assert done(talk, "info", path="Größe of hills.tif")["size"] == [2, 2]
    assert place.staged == []


def test_file_is_replaced_and_restored_or_nothing_changes(place: Place, share: str, talk: Talk) -> None:
    place.path("hill.asc").write_text(_HILL, encoding="ascii")
    place.path("old.tif").write_bytes(b"old")
    assert called(talk, "convert", input="hill.asc", output="old.tif", overwrite=False).is_error
    result = called(talk, "convert", input="hill.asc", output="old.tif", overwrite=True)
    assert result.is_error == (share not in REPLACED_ON)
    if not result.is_error:
        assert place.path("old.tif").read_bytes() != b"old"
        assert result.structured_content is not None
        with running(settings_for(place.command())) as app:
            undo(app, result.structured_content["receipt"]["call_id"], "local")
    assert place.path("old.tif").read_bytes() == b"old"
    assert place.staged == []
