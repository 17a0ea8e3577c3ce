"""The image that set-up brought is what its labels say, and the server finds it."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdal_mcp.gdal.image import main
from gdal_mcp.host.image import Image, ImageUnsuitable, resolve
from gdal_mcp.wheels import WheelImage
from sandbox.engines.opening import open_engine

pytestmark = pytest.mark.engine


def test_the_image_holds_the_version_its_labels_say_and_its_python_bindings(client, image):
    program = "from osgeo import gdal; print(gdal.__version__)"
    alone = {"entrypoint": "", "network_mode": "none", "user": "65534:65534", "remove": True}
    said = client.containers.run(image.id, ["python3", "-I", "-c", program], **alone)
    assert said.decode().startswith(image.version)


def test_the_set_up_command_names_the_image(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    assert image.id in capsys.readouterr().out


@dataclass(frozen=True)
class Small(WheelImage):
    """Without packages, so that nothing has to be fetched."""

    def _text(self, name: str) -> str:
        return "ARG BASE\nFROM $BASE\nCOPY packages /opt/small\n" if name == "Dockerfile" else ""

    def _fetch(self, place: Path, _version: str, _machine: str) -> None:
        place.mkdir()


@pytest.mark.nightly
def test_the_image_of_a_toolbox_is_built_anew_and_refused_until_then_when_its_base_has_changed(client, image):
    small, other = Small("small"), "gdal-mcp-test-other-base:1"
    said: list[str] = []
    made = client.containers.create(image.id, ["true"])
    try:
        made.commit(*other.split(":"), changes="LABEL changed=1")
        with closing(open_engine(None)) as engine:
            first = small.build(engine, image.reference, said.append)
            assert small.build(engine, image.reference, pytest.fail) == first
            with pytest.raises(ImageUnsuitable, match="setup --toolbox small"):
                resolve(engine.images, small.spec, other)
            second = small.build(engine, other, said.append)
            assert (second.id != first.id, second.base) == (True, client.images.get(other).id)
            assert resolve(engine.images, small.spec, other) == second
    finally:
        made.remove()
        for name in (small.spec.reference, other):
            client.images.remove(name, force=True)
