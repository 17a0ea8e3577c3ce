"""Containers mount only what was looked up, whatever happens to the names in the meantime."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.errors import Code
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from sandbox.engine import AttachedStreams, Container, Engine
from sandbox.labels import CALL
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation
from tests.calling import called
from tests.security.scope.conftest import Inside
from tests.security.scope.traps import BAIT

pytestmark = pytest.mark.engine

ROWS = "id,name\n1,honest\n"


@dataclass
class MeddledContainer:
    inner: Container
    before_start: Callable[[], None]

    def start(self, cancel: Cancellation | None = None) -> AttachedStreams:
        self.before_start()
        return self.inner.start(cancel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass
class Meddler:
    """The real engine, with another program that acts just before a container is created or started."""

    inner: Engine
    before_create: Callable[[], None] = lambda: None
    before_start: Callable[[], None] = lambda: None

    def create(self, template: SandboxTemplate, labels: Mapping[str, str], *more: Any) -> Container:
        self.before_create()
        return MeddledContainer(self.inner.create(template, labels, *more), self.before_start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def read(app: App, path: str) -> Reply:
    arguments = {"algorithm": "vector info", "arguments": {"input": path, "features": True}}
    return called(app, "gdal_read", arguments)


@dataclass(frozen=True)
class Scene:
    """A server, and a file outside its workspace that contains the bait."""

    inside: Inside
    outside: Path

    def call(self, path: str) -> Reply:
        return read(self.inside.app, path)

    @contextmanager
    def meddling(self, **acts: Callable[[], None]) -> Iterator[None]:
        runner = self.inside.host.runner
        engine = runner.engine
        runner.engine = Meddler(engine, **acts)
        try:
            yield
        finally:
            runner.engine = engine


@pytest.fixture(scope="module")
def scene(inside: Inside, grounds: Path) -> Scene:
    outside = grounds / "scope-outside"
    for folder in (outside, inside.workspace / "inner", inside.workspace / "second"):
        folder.mkdir()
        folder.chmod(0o755)
    (outside / "rows.csv").write_text(f"id,name\n1,{BAIT.decode()}\n")
    return Scene(inside, outside)


@pytest.fixture
def rows(scene: Scene) -> Path:
    """A file that a call names, new for each test."""
    path = scene.inside.workspace / "inner" / "rows.csv"
    path.unlink(missing_ok=True)
    path.write_text(ROWS)
    return path


def linked(path: Path, target: Path) -> None:
    path.rename(path.with_name("old"))
    path.symlink_to(target)


def refused(scene: Scene, **acts: Callable[[], None]) -> None:
    """Checks that the call is refused without a byte of the bait, that the engine still counts as available, and that
    the next call works.
    """
    with scene.meddling(**acts):
        reply = scene.call("inner/rows.csv")
    assert reply.error is not None
    assert reply.error.code is Code.PATH_NOT_ALLOWED
    assert BAIT.decode() not in str(reply.result)
    assert scene.inside.app.hosting.ready() is scene.inside.host
    assert reply.call_id not in {
        leftover.labels.get(CALL) for leftover in scene.inside.host.engine.leftovers()
    }


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
@pytest.mark.parametrize("when", ["before_create", "before_start"])
def test_link_replacing_a_file_is_noticed_before_job(scene: Scene, rows: Path, when: str):
    refused(scene, **{when: lambda: linked(rows, scene.outside / "rows.csv")})


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_link_replacing_parent_folder_is_noticed_before_job(scene: Scene, rows: Path):
    try:
        refused(scene, before_create=lambda: linked(rows.parent, scene.outside))
    finally:
        rows.parent.unlink()
        rows.parent.with_name("old").rename(rows.parent)


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_file_replaced_or_removed_meanwhile_is_reported_so(scene: Scene, rows: Path):
    other = scene.inside.workspace / "second" / "rows.csv"
    other.write_text(f"id,name\n1,{BAIT.decode()}\n")
    refused(scene, before_create=lambda: other.rename(rows))
    refused(scene, before_create=rows.unlink)
    rows.write_text(ROWS)
    assert scene.call("inner/rows.csv").error is None


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_container_sees_only_named_files_and_their_companions(scene, rows):
    """A program in the container lists everything that it can reach; it also tries to change it."""
    for name in ("other.csv", "rows.csvt", "rows.txt"):
        (rows.parent / name).write_text(BAIT.decode())
    walk = """
found = {}
for folder, _, names in os.walk(job["top"]):
    for name in names:
        path = os.path.join(folder, name)
        found[path] = [os.access(path, os.W_OK), os.access(folder, os.W_OK)]
return {"code": 0, "found": found}
"""
    access = scene.inside.sees(walk, "inner/rows.csv", top=str(scene.inside.workspace))["found"]
    assert access == {str(path): [False, False] for path in (rows, rows.with_suffix(".csvt"))}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_containers_start_per_call_and_records_name_contents(scene: Scene, rows: Path):
    reply = scene.call("inner/rows.csv")
    receipt = scene.inside.app.registry.call(reply.call_id).receipt
    assert receipt["pool"] == "cold"
    assert f"{rows}:ro" in receipt["mounts"]
    assert str(scene.inside.workspace) not in {mount.rpartition(":")[0] for mount in receipt["mounts"]}
    figures = scene.inside.host.pool.figures()
    assert (figures.waiting, figures.starting) == (0, 0)
    started = (scene.inside.app.settings.state_dir / "audit.jsonl").read_text()
    assert f'"{rows}:ro"' in next(line for line in started.splitlines() if reply.call_id in line)


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_file_of_closed_workspace_is_readable_alone(tmp_path: Path):
    """If the server is root, the file comes from below the id-mapped view of that workspace."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "rows.csv").write_text(ROWS)
    (closed / "rows.csv").chmod(0o600)
    settings = load_settings(workspaces=(closed,), state_dir=tmp_path / "state", mount_scope="inputs")
    with running(settings) as app:
        reply = read(app, "rows.csv")
        receipt = app.registry.call(reply.call_id).receipt
    assert reply.error is None, reply.error
    assert receipt["mounts"] == [f"{closed / 'rows.csv'}:ro"]
    assert "honest" in str(reply.result)
