"""The image that set-up brought is what its labels say, and the server finds it."""

import subprocess
import sys

import docker
import pytest

from gdal_mcp.gdal.image import GDAL_IMAGE
from gdal_mcp.host.image import Image, ensure, resolve
from sandbox.engines.images import DockerImages

pytestmark = pytest.mark.engine


def gdal_in(client: docker.DockerClient, image: Image, *command: str) -> str:
    output = client.containers.run(
        image.id, list(command), entrypoint="", network_mode="none", user="65534:65534", remove=True
    )
    return output.decode()


def test_the_image_holds_the_version_its_labels_say(client: docker.DockerClient, image: Image) -> None:
    words = gdal_in(client, image, "gdal", "--version").replace(",", " ").split()
    assert image.version in words


def test_the_image_has_the_python_bindings_of_that_gdal(client: docker.DockerClient, image: Image) -> None:
    program = "from osgeo import gdal; print(gdal.__version__)"
    assert gdal_in(client, image, "python3", "-I", "-c", program).startswith(image.version)


def test_the_resolved_id_is_the_one_the_engine_knows(client: docker.DockerClient, image: Image) -> None:
    assert client.images.get(image.reference).id == image.id


def test_ensure_with_the_image_here_changes_nothing(client: docker.DockerClient, image: Image) -> None:
    before = {one.id for one in client.images.list()}
    assert (
        ensure(DockerImages(client.api), GDAL_IMAGE, image.reference, pytest.fail)
        == resolve(DockerImages(client.api), GDAL_IMAGE, image.reference)
        == image
    )
    assert {one.id for one in client.images.list()} == before


def test_the_set_up_command_names_the_image(image: Image) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gdal_mcp.gdal.image", "show"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert image.id in done.stdout
