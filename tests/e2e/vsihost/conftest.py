"""Jobs of the GDAL handler in real containers without files, and a folder of data that their host reads for them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.environment import environment
from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from sandbox.outcome import SandboxResult
from sandbox.program import delivered
from sandbox.runner import Job, Runner
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation
from tests.conftest import USER
from tests.e2e.mcp.conftest import containers
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.e2e.remote.conftest import resolver, server, shared_server
from tests.e2e.remote.origin import Origin
from tests.e2e.vsihost.data import MAKE
from tests.e2e.vsihost.kit import Folder
from tests.integration.worker_kit import EMPTY
from tests.oracle.container import Oracle

__all__ = ["containers", "resolver", "server", "shared_server"]

Ask = Callable[..., SandboxResult]
Serve = Callable[..., Talk]
Command = Callable[..., list[str]]


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    """The data, made once by an independent GDAL; tests do not write there."""
    folder = oracle.folder("remote")
    oracle.python(MAKE, str(folder))
    return folder


@pytest.fixture
def folder(data: Path) -> Folder:
    return Folder(data)


@pytest.fixture(scope="session")
def template(image: Any) -> SandboxTemplate:
    sent, limits = delivered(gdal_command()), Limits(memory_bytes=1 << 30, wall_seconds=60.0)
    return SandboxTemplate(
        image=image.id,
        command=sent.command,
        program=sent.program,
        user=USER,
        limits=limits,
        environment=environment(limits),
    )


@pytest.fixture
def ask(runner: Runner, template: SandboxTemplate, folder: Folder, cancel: Cancellation) -> Iterator[Ask]:
    """`ask("raster", "info", "/vsihost/1/a.tif", answerer=..., limits=..., **job)`: one job that names remote data."""

    def run_program(*words: str, answerer: Any = None, **options: Any) -> SandboxResult:
        limits = options.pop("limits", template.limits)
        job = {**EMPTY, "preview_pixels": 0, "program": "gdal", "options": words, "remote": True, **options}
        wanted = replace(template, limits=limits)
        return runner.run(Job("call-0001", wanted, job, answerer=answerer or folder), cancel)

    return run_program


@pytest.fixture
def origin(server: Origin, data: Path, resolver: Any) -> Origin:
    """Serves the data from a host with a name that only this process can resolve."""
    files = [path for path in data.rglob("*") if path.is_file()]
    server.files = {str(path.relative_to(data)): path.read_bytes() for path in files}
    return server


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.made(tmp_path)


@pytest.fixture
def command(place: Place, origin: Origin, shared_server: tuple[Origin, Path]) -> Command:
    """`command("--approval", "never", remote=...)`: the command of a server that may read from data.test."""

    def server_command(*options: str, remote: str | None = None) -> list[str]:
        listed = f'[[remote.source]]\nat = "data.test:{origin.port}"\nnetworks = ["127.0.0.0/8"]\n'
        file = place.state.parent / "settings.toml"
        table = f'[remote]\nca = "{shared_server[1]}"\nsilence_seconds = 5\n'
        file.write_text(table + (listed if remote is None else remote))
        return place.command("--config", str(file), *options)

    return server_command


@pytest.fixture
def serve(command: Command) -> Iterator[Serve]:
    """`serve("--approval", "never", remote=..., person=...)`: a client of such a server."""
    with ExitStack() as stack:

        def connect(*options: str, remote: str | None = None, person: Person | None = None) -> Talk:
            return stack.enter_context(inside(command(*options, remote=remote), person=person))

        yield connect


def stalling(origin: Origin) -> threading.Event:
    """The origin sends the beginning of a.tif and then nothing. The event is set when more was requested."""
    stalled = threading.Event()

    def stall(handler: Any) -> None:
        if handler.headers.get("Range", "").startswith("bytes=0-"):
            return handler.mode_ok(origin.files["a.tif"])
        stalled.set()
        return handler.mode_stalling(b"")

    origin.special["/ok/a.tif"] = stall
    return stalled
