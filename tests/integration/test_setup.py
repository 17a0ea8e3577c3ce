"""The image that set-up brought is what its labels say, and the server finds it."""

import docker
import pytest

from gdal_mcp.gdal.image import GDAL_IMAGE, main
from gdal_mcp.host.image import Image, ensure, resolve
from sandbox.engines.images import DockerImages

pytestmark = pytest.mark.engine


def test_the_image_holds_the_version_its_labels_say_and_its_python_bindings(client, image):
    program = "from osgeo import gdal; print(gdal.__version__)"
    said = client.containers.run(
        image.id,
        ["python3", "-I", "-c", program],
        entrypoint="",
        network_mode="none",
        user="65534:65534",
        remove=True,
    )
    assert said.decode().startswith(image.version)


def test_ensure_with_the_image_here_changes_nothing(client: docker.DockerClient, image: Image) -> None:
    before = {one.id for one in client.images.list()}
    images = DockerImages(client.api)
    assert (
        ensure(images, GDAL_IMAGE, image.reference, pytest.fail)
        == resolve(images, GDAL_IMAGE, image.reference)
        == image
    )
    assert {one.id for one in client.images.list()} == before


def test_the_set_up_command_names_the_image(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    assert image.id in capsys.readouterr().out
