"""Fixtures and settings that many tests share. A missing engine or image is an error, never a skip."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import docker
import hypothesis
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

from gdal_mcp.runtime.image import Image, resolve
from gdal_mcp.settings.pathmap import PathMap
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from sandbox.engine import Engine
from sandbox.engines.discovery import connect
from sandbox.engines.docker import DockerEngine
from sandbox.engines.images import DockerImages
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.oci.engine import OciEngine
from sandbox.outcome import SandboxResult
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.owner import Owner
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace
from tests.oci_store import docker_address, oci_engine
from tests.oracle.fixtures import oracle, oracle_folder

__all__ = ["oracle", "oracle_folder"]

# no time limit decides whether a property holds, because a busy machine is not a fault. In CI the same examples are
# tried each time.
hypothesis.settings.register_profile(
    "ours",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("ours")

# structlog's default prints to the current `sys.stdout`, which pytest replaces and frees. Python 3.11 crashes if a
# thread of a server in this process prints meanwhile. The default also renders all local variables of a traceback,
# which takes minutes if they are large.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
)


# folders whose files share servers and test data, so that one worker runs the whole folder
TOGETHER = {"attacks", "cli", "console", "escape", "scope", "traps", "vsihost", "web"}


class Scheduling(LoadScopeScheduling):
    """Assigns a worker a whole folder of `TOGETHER`, and otherwise a single file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = Path(file).parent
        return str(folder) if folder.name in TOGETHER and "unit" not in folder.parts else file


@pytest.hookimpl(optionalhook=True)  # the hook exists only with xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs tests that wait for containers first, so that short files keep every worker busy until the end.

    Marks tests in a browser as nightly.
    """
    items.sort(key=lambda item: not {"unit", "repo"}.isdisjoint(item.path.parts))
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):  # `make test` must not need Chromium
            item.add_marker(pytest.mark.nightly)


MIB = 1 << 20
# user and group of the containers: never root, so as root another user's ids
USER = (os.geteuid() or 65534, os.getegid() or 65534)
# small, so that tests reach them quickly
SMALL = Limits(
    memory_bytes=128 * MIB,
    cpus=1.0,
    pids=int(os.environ.get("GDAL_MCP_PIDS", "32")),  # on a cluster, the limit of its nodes
    wall_seconds=60.0,
    staging_bytes=8 * MIB,
    staging_files=50,
    file_bytes=4 * MIB,
    stdout_bytes=1 * MIB,
    stderr_bytes=16 << 10,
    open_files=256,
    scratch_bytes=8 * MIB,
)
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}

TemplateMaker = Callable[..., SandboxTemplate]
Run = Callable[..., SandboxResult]


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    """A client of the Docker in use, which is found as the product finds it."""
    docker_client = connect(docker_address())
    yield docker_client
    docker_client.close()


@pytest.fixture(scope="session")
def image(client: docker.DockerClient) -> Image:
    """The GDAL image in use; GDAL_MCP_IMAGE may name another one."""
    return resolve(DockerImages(client.api), GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None)


@pytest.fixture(scope="session")
def engine(client: docker.DockerClient, image: Image) -> Iterator[Engine]:
    """The engine in use: Docker, or that of GDAL_MCP_ENGINE (oci://FOLDER, k8s://).

    The servers that tests start use the same engine.
    """
    address = os.environ.get("GDAL_MCP_ENGINE", "")
    if docker_address() == (address or None):
        yield DockerEngine(client)
        return
    if address.startswith("k8s:"):
        opened: OciEngine | KubernetesEngine = KubernetesEngine(Cluster.from_address(address))
    else:
        opened = oci_engine(client, image, Path(address.removeprefix("oci://")))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """The owner of the containers of this test run."""
    run_owner = Owner(tmp_path_factory.mktemp("servers"))
    yield run_owner
    run_owner.close()


@pytest.fixture(scope="session")
def runner(engine: DockerEngine, owner: Owner) -> Runner:
    return Runner(engine, owner.id)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A new folder that the container's user may read."""
    root = tmp_path / "workspace"
    root.mkdir()
    root.chmod(0o755)  # independent of the umask
    return root


@pytest.fixture
def staging(workspace: Path) -> Iterator[Staging]:
    """A real staging folder of the workspace, as opened for a call."""
    with StagingArea(Workspace.at(workspace, writable=True)).open("staging-0001", USER) as opened:
        yield opened


@pytest.fixture(scope="session")
def make_template(image: Image) -> TemplateMaker:
    """`make_template(handler, limits=..., workspace=..., staging=..., environment=...)` is a container's template.

    `handler` is the source of a handler (see `handler`), `workspace` a folder to mount read-only at its own path,
    `staging` one to mount for writing.
    """

    def make(
        handler: str,
        limits: Limits = SMALL,
        workspace: Path | None = None,
        staging: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> SandboxTemplate:
        path_map = PathMap.parse(filter(None, [os.environ.get("GDAL_MCP_PATH_MAP")]))
        mounts = [Mount(path_map.source(workspace), PurePosixPath(workspace))] if workspace else []
        if staging:
            mounts.append(Mount(path_map.source(staging), STAGING_TARGET, read_only=False))
        sent = delivered(worker_command(handler))
        return SandboxTemplate(
            image=image.id,
            command=sent.command,
            program=sent.program,
            user=USER,
            limits=limits,
            mounts=tuple(mounts),
            environment=environment or ENVIRONMENT,
        )

    return make


def handler(body: str, prepare: str = "pass") -> str:
    """The source of a handler whose `run(job, report)` has this body; it answers code 0 if the body returns nothing."""
    indented = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"import os, sys\n\ndef prepare():\n    {prepare}\n\ndef run(job, report):\n{indented}\n    return {{'code': 0}}\n"


@pytest.fixture
def cancel() -> Iterator[Cancellation]:
    cancellation = Cancellation()
    yield cancellation
    cancellation.close()


@pytest.fixture
def run(runner: Runner, make_template: TemplateMaker, cancel: Cancellation) -> Run:
    """`run(body, request={}, quota=None, on_progress=..., answerer=None, **template)` is the result of one job.

    Each job runs in its own container.
    """

    def run_job(body: str, request: object = None, **options: object) -> SandboxResult:
        about = {name: options.pop(name) for name in ("quota", "on_progress", "answerer") if name in options}
        template = make_template(handler(body), **options)
        return runner.run(Job("call-0001", template, request or {}, **about), cancel)

    return run_job
