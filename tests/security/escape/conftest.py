"""Containers from the real template that run hostile code, surrounded by canaries of the host."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from gdal_mcp.cli.main import main
from sandbox.attestation import attest
from sandbox.escape.escape import try_to_escape
from sandbox.isolation.rows import Row
from sandbox.labels import OWNER
from sandbox.outcome import Exited, SandboxResult, TimedOut
from sandbox.outputs.staging import StagingArea
from sandbox.runner import Job
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation
from sandbox.workspace import RESERVED, Workspace
from tests import python
from tests.conftest import SMALL, USER, TemplateMaker, handler

SECRET = "canary-of-the-host"


@dataclass(frozen=True)
class Ground:
    """A workspace with an input, another call's output and a file beside the workspace, all of which contain the
    secret.
    """

    workspace: Path
    area: StagingArea

    def state(self) -> dict[str, tuple[bytes, int, int]]:
        """Contents, mode and times of all files except those in staging."""
        files = [path for path in self.workspace.parent.rglob("*") if path.is_file()]
        return {
            str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
            for path in files
            if "staging" not in path.parts
        }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    top = tmp_path_factory.mktemp("ground")
    workspace = top / "workspace"
    workspace.mkdir()
    for folder in (top, workspace):
        folder.chmod(0o755)
    area = StagingArea(Workspace.at(workspace, writable=True))
    with area.open("staging-0000", USER):
        pass  # the area's own files are there from now on
    for path in (workspace / "input.txt", workspace / RESERVED / "others.txt", top / "beside.txt"):
        path.write_text(SECRET)
        path.chmod(0o666)
    return Ground(workspace, area)


@dataclass(frozen=True)
class Way:
    """A way for hostile code to get into a container: in place of the worker, or as the code of `run_python`."""

    name: str
    make_template: TemplateMaker

    def job(self, body: str, seconds: float, **options: Any) -> tuple[SandboxTemplate, Any]:
        """The container and its job. `body` ends `run(job, report)`; `seconds` is the time limit of the code."""
        request, source = options.pop("request", {}), handler(body)
        if self.name == "worker":
            limits = replace(SMALL, wall_seconds=seconds, **options.pop("limits", {}))
            return self.make_template(source, limits=limits, **options), request
        limits = replace(SMALL, memory_bytes=1 << 30, scratch_bytes=32 << 20, **options.pop("limits", {}))
        template = python.like_run_python(self.make_template("pass", **options), limits)
        code = f"{source}\nimport gdal_mcp_job as here\nhere.result(run(here.arguments, None))"
        return template, python.request(code, seconds, arguments=request)

    def returned(self, result: SandboxResult) -> dict[str, Any]:
        """The value that `run` returned."""
        assert result.outcome == Exited(0), result.stderr
        return dict(json.loads(result.stdout)["result"] if self.name == "run_python" else result.final)

    def out_of_time(self, result: SandboxResult, seconds: float) -> bool:
        """True if the container was ended at its deadline, or the code by its worker."""
        if self.name == "worker":
            return result.outcome == TimedOut(seconds)
        return (result.outcome, result.final["timed_out"]) == (Exited(1), True)


@pytest.fixture(params=["worker", pytest.param("run_python", marks=pytest.mark.nightly)])
def way(request: pytest.FixtureRequest, make_template: TemplateMaker) -> Way:
    return Way(request.param, make_template)


@pytest.fixture
def attack(way: Way, runner, cancel) -> Callable[..., SandboxResult]:
    """`attack(body, seconds=30.0, quota=None, **template)`: the outcome, whichever way the code got in."""

    def run_attack(body: str, seconds: float = 30.0, quota: Any = None, **options: Any) -> SandboxResult:
        return runner.run(Job("call-0001", *way.job(body, seconds, **options), quota), cancel)

    return run_attack


@pytest.fixture
def like_a_call(make_template, ground) -> Callable[[Path], SandboxTemplate]:
    """`like_a_call(staging)`: a container with the workspace, its mask and that staging folder."""

    def make(staging: Path) -> SandboxTemplate:
        template = make_template(handler("pass"), workspace=ground.workspace, staging=staging)
        return replace(template, masks=(PurePosixPath(ground.workspace / RESERVED),))

    return make


@pytest.fixture(autouse=True)
def _host_is_as_it_was(ground, engine, owner) -> Iterator[None]:
    """Checks after each attack that no container or staging folder is left and that no file outside changed."""
    before = ground.state()
    yield
    assert [leftover for leftover in engine.leftovers() if leftover.labels[OWNER] == owner.id] == []
    assert ground.state() == before
    assert os.listdir(ground.workspace / RESERVED / "staging") == []


@pytest.fixture
def attested(runner, ground, like_a_call, cancel) -> tuple[Row, ...]:
    """The attestation of this host, unchanged."""
    with ground.area.open("staging-0000", USER) as staging:
        return attest(runner, like_a_call(staging.path), staging.path, cancel)


@pytest.fixture
def escape(runner, ground, like_a_call, attested, cancel) -> Callable[[], tuple[Row, ...]]:
    """`escape()`: all rows of one container like a call's."""

    def try_escape() -> tuple[Row, ...]:
        with ground.area.open("staging-0001", USER) as staging:
            return try_to_escape(runner, like_a_call(staging.path), attested, cancel)

    return try_escape


@pytest.fixture(scope="module")
def state(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def doctor(ground, state, capsys) -> Callable[..., tuple[int, str]]:
    """`doctor(*options)`: its exit code and what it prints."""

    def run_doctor(*options: str) -> tuple[int, str]:
        places = ("--workspace", str(ground.workspace), "--state-dir", str(state))
        code = main(["doctor", "--escape", *options, *places])
        return code, capsys.readouterr().out

    return run_doctor


@pytest.fixture(scope="module")
def patience() -> Iterator[Cancellation]:
    """A caller that does not cancel."""
    cancellation = Cancellation()
    yield cancellation
    cancellation.close()
