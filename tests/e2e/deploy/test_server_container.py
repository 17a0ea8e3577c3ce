"""The server in a container, beside the proxy in front of its engine, as in compose.yaml."""

import json
import os
from pathlib import Path

import docker
import pytest

from gdal_mcp.testing.container import GdalMcpContainer
from gdal_mcp.testing.samples import write_samples
from tests.e2e.deploy.server_image import TAG
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]


@pytest.fixture(scope="module")
def workspace(deployed) -> Path:
    """A workspace of a user other than root, because the server never is root."""
    folder = deployed / "workspace"
    folder.mkdir()
    folder.chmod(0o755)
    write_samples(folder)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    return folder


def mounting(client: docker.DockerClient, folder: Path) -> list[str]:
    """The containers that mount a folder, or something below it."""
    return [
        container.id
        for container in client.containers.list(all=True, ignore_removed=True)
        for mount in container.attrs["Mounts"]
        if Path(mount["Source"]).is_relative_to(folder)
    ]


@pytest.fixture(scope="module")
def server(built, client, workspace, proxy):
    behind = {"engine_socket": str(proxy.socket), "host_network": True}
    with GdalMcpContainer(workspace, image=TAG, inside="/data", **behind) as container:
        yield container
    assert mounting(client, workspace) == []  # its waiting containers ended with it


def test_a_call_reads_and_writes_the_hosts_files(server, workspace):
    with server.client() as talk:
        assert talk.call("info", path="dem.tif")["size"] == [24, 16]
        written = talk.call("convert", input="dem.tif", output="copy.tif")
        assert talk.person.asked
    assert written["output"] == "/data/copy.tif"
    copy = (workspace / "copy.tif").stat()
    assert copy.st_size > 0
    assert copy.st_uid == workspace.stat().st_uid


def test_containerised_server_runs_calls_on_the_host_engine(server, client, workspace):
    """Waiting containers are siblings of the server: they mount the host's folder at the server's path of it."""
    until(lambda: len(mounting(client, workspace)) > 1)
    ours = [client.containers.get(identifier) for identifier in mounting(client, workspace)]
    jobs = [container for container in ours if "io.gdal-mcp.owner" in container.labels]
    assert jobs
    for container in jobs:
        places = {mount["Source"]: mount["Destination"] for mount in container.attrs["Mounts"]}
        assert places[str(workspace)] == "/data"


def test_the_health_check_sees_whether_the_server_answers(server, client, built):
    check = ["/opt/gdal-mcp/bin/python", "-I", "/opt/gdal-mcp/healthcheck.py"]
    assert server.get_wrapped_container().exec_run(check).exit_code == 0
    with pytest.raises(docker.errors.ContainerError):
        client.containers.run(built, check[1:], entrypoint=check[:1], network_mode="none", remove=True)


def test_a_server_that_cannot_start_leaves_nothing(built, client, workspace, proxy):
    container = GdalMcpContainer(workspace, image=TAG, engine_socket=str(proxy.socket), host_network=True)
    container.with_env("GDAL_MCP_HOST", "0.0.0.0")  # without encryption, which is refused
    state = Path(container.env["GDAL_MCP_STATE_DIR"])
    before = len(mounting(client, state))
    with pytest.raises(RuntimeError), container:
        pass
    assert before == len(mounting(client, state)) == 0
    assert not state.exists()


def test_image_has_minimal_rights(built, client):
    config = client.images.get(built).attrs["Config"]
    # root only until it knows the owner of the workspace: tests/e2e/deploy/test_docker_run.py
    assert "GDAL_MCP_RUN_AS=owner" in config["Env"]
    assert config["Entrypoint"] == ["/opt/gdal-mcp/bin/gdal-mcp"]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert not config.get("Volumes")
    assert config["Labels"]["org.opencontainers.image.licenses"] == "MIT"


def test_image_contains_only_what_the_server_needs(built, client):
    # the image has pip: `gdal-mcp setup --toolbox` fetches wheels with it
    program = (
        "import importlib.util as u, os, json;"
        "print(json.dumps({'found': [n for n in ('pytest', 'hatchling', 'tests', 'docs') if u.find_spec(n)],"
        "'setuid': [os.path.join(d, f) for d, _, fs in os.walk('/opt') for f in fs if os.lstat(os.path.join(d, f)).st_mode & 0o6000],"
        "'writable': [d for d in ('/opt/gdal-mcp', '/opt/gdal-mcp/bin', '/opt/gdal-mcp/lib') if os.access(d, os.W_OK)]}))"
    )
    command = ["/opt/gdal-mcp/bin/python", "-I", "-c", program]
    # as a user that the server becomes; the server does not stay root, which the kernel lets write everywhere
    alone = {"entrypoint": [], "network_mode": "none", "remove": True}
    output = client.containers.run(built, command, user="10001", **alone)
    assert json.loads(output) == {"found": [], "setuid": [], "writable": []}
