"""Containers from the real template that run hostile code, with canaries of the host's around them."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from sandbox import slot as slot_module
from sandbox.engine import Engine
from sandbox.engines import docker as docker_module
from sandbox.engines.docker import DockerEngine
from sandbox.labels import OWNER
from sandbox.outputs.staging import StagingArea
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation
from sandbox.workspace import RESERVED, Workspace
from tests.conftest import USER, handler

SECRET = "canary-of-the-host"


@dataclass(frozen=True)
class Ground:
    """A workspace with an input, another call's output and a file beside the workspace, all of which hold the secret."""

    workspace: Path
    area: StagingArea

    def state(self) -> dict[str, tuple[bytes, int, int]]:
        """Contents, mode and times of everything but staging."""
        found = [path for path in self.workspace.parent.rglob("*") if path.is_file()]
        return {
            str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
            for path in found
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


@pytest.fixture
def like_a_call(make_template, ground) -> Callable[[Path], SandboxTemplate]:
    """`like_a_call(staging)`: a container with the workspace, its mask and that staging folder."""

    def make(staging: Path) -> SandboxTemplate:
        made = make_template(handler("pass"), workspace=ground.workspace, staging=staging)
        return replace(made, masks=(PurePosixPath(ground.workspace / RESERVED),))

    return make


@pytest.fixture
def weaken(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """`weaken(change)`: an engine that lets `change` alter what is asked, and a server that looks away."""

    if not isinstance(engine, DockerEngine):
        pytest.skip("in Docker's words; tests/engines/test_oci.py weakens config.json point by point")

    def one(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
        real = docker_module.create_body

        def body(*given: Any) -> dict[str, Any]:
            made = real(*given)
            change(made, made["HostConfig"])
            return made

        monkeypatch.setattr(docker_module, "create_body", body)
        monkeypatch.setattr(docker_module, "differences", lambda _asked, _found: ())
        monkeypatch.setattr(slot_module, "_refuse_weaker", lambda _template, _facts, **_: None)

    return one


@pytest.fixture(autouse=True)
def _host_is_as_it_was(ground, engine, owner) -> Iterator[None]:
    """After each attack: no container, no staging folder, and every file outside it untouched."""
    before = ground.state()
    yield
    assert [one for one in engine.leftovers() if one.labels[OWNER] == owner.id] == []
    assert ground.state() == before
    assert os.listdir(ground.workspace / RESERVED / "staging") == []


@pytest.fixture(scope="module")
def patience() -> Iterator[Cancellation]:
    """A caller that does not cancel."""
    made = Cancellation()
    yield made
    made.close()
