"""Jobs of the GDAL handler in real containers that see no file, and a folder of data that their host reads for them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.gdal.environment import environment
from gdal_mcp.gdal.worker_source import gdal_command
from sandbox.outcome import SandboxResult
from sandbox.program import delivered
from sandbox.runner import Job, Runner
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation
from tests.conftest import USER
from tests.integration.worker_kit import EMPTY
from tests.oracle.container import Oracle
from tests.remote.conftest import resolver, server, shared_server
from tests.vsihost.data import MAKE
from tests.vsihost.kit import Folder

__all__ = ["resolver", "server", "shared_server"]

Ask = Callable[..., SandboxResult]


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    """Made once by an independent GDAL; tests do not write there."""
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

    def one(*words: str, answerer: Any = None, **given: Any) -> SandboxResult:
        limits = given.pop("limits", template.limits)
        job = {**EMPTY, "preview_pixels": 0, "program": "gdal", "options": words, "remote": True, **given}
        wanted = replace(template, limits=limits)
        return runner.run(Job("call-0001", wanted, job, answerer=answerer or folder), cancel)

    return one
