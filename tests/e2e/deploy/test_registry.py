"""Set-up pulls images through the engine from a registry on this host, and shows the progress in bytes."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import ensure
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from sandbox.engines.images import DockerImages
from tests.e2e.deploy.server_image import base_image
from tests.engines.kit import not_tried
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ALONE = {"entrypoint": [], "detach": True, "network_mode": "none"}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Its address; an engine takes plain HTTP from loopback."""
    program = shutil.which("docker-registry")
    # set-up does not install it, because Debian's package starts a service that nobody requested
    if program is None:
        not_tried("a pull from a registry", "docker-registry is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    storage = {"filesystem": {"rootdirectory": str(tmp_path)}}
    settings = {"version": 0.1, "storage": storage, "http": {"addr": address}}
    (tmp_path / "config.yml").write_text(json.dumps(settings))
    running = subprocess.Popen([program, "serve", str(tmp_path / "config.yml")], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(address))
        yield address
    finally:
        running.terminate()
        running.wait(30)


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_pull_tells_layers_and_bytes(registry: str, client: docker.DockerClient):
    name, lines = f"{registry}/planted", []
    # a new layer, because layers that the engine has are not fetched
    command = ["sh", "-c", "head -c 30000000 /dev/urandom > /srv/new"]
    container = client.containers.run(base_image(client), command, **ALONE)
    try:
        container.wait()
        container.commit(name, "1")
        client.images.push(name, "1")
        client.images.remove(f"{name}:1")
        DockerImages(client.api).pull(f"{name}:1", lines.append)
        assert client.images.get(f"{name}:1")
    finally:
        container.remove(force=True)
        client.images.remove(f"{name}:1")
    here, _, known = lines[-1].removesuffix(" MB of 1 layers").partition(" of ")
    assert int(here) == int(known) >= 30, lines
    assert len(lines) > 1


@pytest.mark.claim("supply.image-named")
def test_setup_pulls_the_digest_from_a_mirror(registry: str, client: docker.DockerClient) -> None:
    name = f"{registry}/osgeo/gdal"
    container = client.containers.run(base_image(client), ["sh", "-c", "echo mirrored > /srv/new"], **ALONE)
    try:
        container.wait()
        there = container.commit(name, "1")
        client.images.push(name, "1")
        pinned = client.images.get(f"{name}:1").attrs["RepoDigests"][0]
        client.images.remove(f"{name}:1")
        with pytest.raises(docker.errors.ImageNotFound):
            client.images.get(there.id)
        image = ensure(DockerImages(client.api), GDAL_IMAGE, pinned, print)
    finally:
        container.remove(force=True)
    try:
        assert (image.reference, image.id) == (pinned, there.id)
        assert image.digest == pinned.partition("@")[2] != image.id
    finally:
        client.images.remove(pinned)
