"""compose.yaml is started as docs/deployment.md says: a token, both containers, a call over HTTP from the host, and down."""

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import httpx2
import pytest
import yaml

from gdal_mcp.testing.client import connected, over_http
from gdal_mcp.testing.samples import write_samples
from tests.e2e.deploy.proxy_kit import engine_socket
from tests.e2e.deploy.server_image import TAG, proxy_image
from tests.e2e.deploy.test_server_container import mounting
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

ROOT = Path(__file__).parents[3]
OWNER = (os.geteuid() or 65534, os.getegid() or 65534)  # never root


class Compose:
    """Compose's commands for one project. Uses the plugin of Docker's command, else docker-compose."""

    def __init__(self, folder: Path, variables: dict[str, str], engine: Path) -> None:
        self.project = f"gdal-mcp-test-{uuid.uuid4().hex[:8]}"
        self._environment = {**os.environ, **variables, "DOCKER_HOST": f"unix://{engine}"}
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        program, file = ["docker", "compose"], ROOT / "compose.yaml"
        if plugin.returncode != 0:
            program, file = ["docker-compose"], folder / "compose.yaml"
            file.write_text(yaml.safe_dump(_for_version_1()))
        options = ["--file", str(file), "--project-directory", str(ROOT), "--project-name", self.project]
        self._command = [*program, *options]

    def __call__(self, *words: str) -> str:
        """The command's output. Fails the test if the command fails."""
        ended = subprocess.run(
            [*self._command, *words], env=self._environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout


def _for_version_1() -> dict:
    """compose.yaml without the two keys that Compose 1 refuses."""
    read = yaml.safe_load((ROOT / "compose.yaml").read_text())
    del read["name"]
    for mount in read["services"]["server"]["volumes"]:
        if isinstance(mount, dict):
            del mount["bind"]
    return read


def _owned(folder: Path) -> Path:
    folder.mkdir(mode=0o755, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, *OWNER)
    return folder


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def workspace(deployed: Path) -> Path:
    folder = _owned(deployed / "maps")
    write_samples(folder)
    return folder


@pytest.fixture
def address() -> str:
    return f"http://127.0.0.1:{_free_port()}"


@pytest.fixture
def compose(
    client: docker.DockerClient, built: str, deployed: Path, workspace: Path, address: str, tmp_path: Path
) -> Iterator[Compose]:
    assert built
    engine = engine_socket(client)
    variables = {
        "WORKSPACE": str(workspace),
        "STATE": str(_owned(deployed / "state")),
        "SERVER_UID": str(OWNER[0]),
        "SERVER_GID": str(OWNER[1]),
        "DOCKER_GID": str(engine.stat().st_gid),
        "PUBLIC_URL": address,
        "PORT": address.rpartition(":")[2],
        "SERVER_IMAGE": TAG,
        "PROXY_IMAGE": proxy_image(client),
    }
    stack = Compose(tmp_path, variables, engine)
    try:
        yield stack
    finally:
        stack("down", "--volumes")


def _ready(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/readyz", trust_env=False).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


def test_it_starts_serves_a_call_and_leaves_nothing(compose, client, workspace, address):
    scopes = ["--scope", "gdal:read", "--scope", "gdal:write"]
    printed = compose("run", "--rm", "--no-deps", "-T", "server", "token", "new", "anna", *scopes)
    compose("up", "--detach", "--no-build")
    until(lambda: _ready(address))
    with connected(over_http(f"{address}/mcp", printed.split()[-1])) as talk:
        assert talk.call("convert", input="dem.tif", output="copy.tif")["output"] == str(
            workspace / "copy.tif"
        )
    assert (workspace / "copy.tif").stat().st_uid == OWNER[0]
    compose("down", "--volumes")
    project = {"label": f"com.docker.compose.project={compose.project}"}
    assert client.containers.list(all=True, filters=project, ignore_removed=True) == []
    assert client.volumes.list(filters=project) == []
    assert mounting(client, workspace) == []
