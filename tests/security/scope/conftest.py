"""One workspace with data, bait and traps, and servers on it: calls of some see all of it, calls of others only what
they name.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.plan import Command, Draft
from gdal_mcp.runtime.connection import Host
from gdal_mcp.runtime.templates import SandboxScope
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.gdal.datasets.scope import places
from sandbox.program import delivered, worker_command
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from tests.conftest import handler
from tests.data.make import make_data
from tests.e2e.mcp.conftest import Containers, containers
from tests.e2e.mcp.talk import Person, Place, Talk, environment, talking
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds
from tests.security.scope.beside import lay_beside
from tests.security.scope.traps import lay

__all__ = ["containers", "grounds"]


@dataclass(frozen=True)
class Twins:
    """Two servers that differ only in `mount_scope`, which is `inputs` for `narrow`."""

    place: Place
    wide: Talk
    narrow: Talk
    narrow_log: Path


@dataclass(frozen=True)
class Inside:
    """A server in this process with `mount_scope = inputs`, and containers of it that run a program of the test."""

    app: App
    host: Host
    workspace: Path

    def sees(self, body: str, *names: str, full: bool = False, **request: Any) -> dict[str, Any]:
        """The result of a program in the container of a call that names these files, or that sees the
        whole workspace if `full`.
        """
        app = self.app
        named = tuple(app.workspaces.input(name) for name in names)
        only = None if full else places(Draft(Command("gdal", ()), named))
        confines = SandboxScope(app.workspaces, app.settings.limits(), only)
        sent = delivered(worker_command(handler(body)))
        template = app.hosting.templates.build(self.host, None, confines)
        template = replace(template, command=sent.command, program=sent.program)
        with closing(Cancellation()) as cancel:
            result = self.host.runner.run(Job("call-0001", template, {"names": names, **request}), cancel)
        assert result.final is not None, (result.outcome, result.stderr)
        return dict(result.final)


@pytest.fixture(scope="session")
def place(grounds: Path, oracle: Oracle) -> Place:
    scope_place = Place.made(grounds / "scope")
    make_data(oracle, scope_place.workspace)
    lay(scope_place.workspace, oracle)
    lay_beside(scope_place.workspace, oracle)
    return scope_place


@pytest.fixture(scope="session")
def inside(place: Place) -> Iterator[Inside]:
    narrow = {"mount_scope": "inputs", "approval": "never"}
    with running(load_settings(workspaces=(place.workspace,), state_dir=place.state, **narrow)) as app:
        app.hosting.keep_warm()
        yield Inside(app, app.hosting.ready(), place.workspace)


@pytest.fixture(scope="session")
def twins(place: Place, grounds: Path, containers: Containers) -> Iterator[Twins]:
    """Two servers that may keep containers ready. Checks after all tests that nothing of theirs is left."""
    command = place.command("--approval", "never")
    warm = environment(GDAL_MCP_POOL_MAX="4")
    log = grounds / "narrow.log"
    with (
        talking(command, grounds / "wide.log", person=Person(), env=warm) as wide,
        talking([*command, "--mount-scope", "inputs"], log, person=Person(), env=warm) as narrow,
    ):
        yield Twins(place, wide, narrow, log)
        owners = place.owners
    assert containers.of_owners(owners) == []
    assert place.staged == []
