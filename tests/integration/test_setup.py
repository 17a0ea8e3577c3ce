"""The image that set-up installed matches its labels, and the server finds it."""

import os
import subprocess
import sys
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdal_mcp.runtime.image import Image, ImageUnsuitable, resolve
from gdal_mcp.runtime.wheels import build
from gdal_mcp.toolboxes.wheels import WheelImage
from sandbox.engines.opening import open_engine
from scripts.pull import main

pytestmark = pytest.mark.engine


def test_image_matches_its_version_label_with_python_bindings(client, image):
    program = "from osgeo import gdal; print(gdal.__version__)"
    alone = {"entrypoint": "", "network_mode": "none", "user": "65534:65534", "remove": True}
    output = client.containers.run(image.id, ["python3", "-I", "-c", program], **alone)
    assert output.decode().startswith(image.version)


def test_the_set_up_command_names_the_image(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    assert image.id in capsys.readouterr().out


@dataclass(frozen=True)
class Small(WheelImage):
    """Without packages, so that nothing has to be downloaded."""

    def _text(self, name: str) -> str:
        return "ARG BASE\nFROM $BASE\nCOPY packages /opt/small\n" if name == "Dockerfile" else ""

    def lock(self) -> AbstractContextManager[Path]:
        return nullcontext(Path("none"))


@pytest.mark.nightly
def test_toolbox_image_is_rebuilt_when_its_base_changed(client, image):
    small, other = Small("small"), "gdal-mcp-test-other-base:1"
    messages: list[str] = []
    container = client.containers.create(image.id, ["true"])
    try:
        container.commit(*other.split(":"), changes="LABEL changed=1")
        with closing(open_engine(None)) as engine:
            first = build(small, engine, image.reference, messages.append)
            assert build(small, engine, image.reference, pytest.fail) == first
            with pytest.raises(ImageUnsuitable, match="setup --toolbox small"):
                resolve(engine.images, small.spec, other)
            second = build(small, engine, other, messages.append)
            assert (second.id != first.id, second.base) == (True, client.images.get(other).id)
            assert resolve(engine.images, small.spec, other) == second
    finally:
        container.remove()
        for name in (small.spec.reference, other):
            client.images.remove(name, force=True)


LOCK = """affine==3.0.1 \\
    --hash=sha256:cda3b303325e7bf2bf34817e68753a0d1c4cacbdd451fe67c4878dc2ecbaa540 \\
    --hash=sha256:e1b3c38c5d4d3ef5024a182a6d1bf1e0c51ab221825781c741aeb4d0c079a7e2
"""
FETCH = """import sys
from pathlib import Path
from gdal_mcp.runtime.wheels import fetch
fetch(Path(sys.argv[1]), Path(sys.argv[2]), "3.12.3", "x86_64")
"""


@pytest.mark.nightly
def test_wheels_are_fetched_without_pip_in_environment(tmp_path: Path) -> None:
    """An environment without pip, as made by uv and as in the server's image: from the lock only."""
    uv, env, lock, place = (
        Path(sys.prefix) / "bin/uv",
        tmp_path / "env",
        tmp_path / "lock",
        tmp_path / "packages",
    )
    lock.write_text(LOCK)
    python = env / "bin" / "python"
    root = Path(__file__).parents[2]
    own = {**os.environ, "PYTHONPATH": str(root)}
    for words in (
        [uv, "venv", "--quiet", env],
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "-p",
            python,
            "-r",
            root / "requirements/server.txt",
        ],
        [python, "-c", FETCH, lock, place],
    ):
        subprocess.run(words, check=True, env=own)
    assert (place / "affine").is_dir()
    lock.write_text(LOCK.replace("cda3b303", "00000000").replace("e1b3c38c", "00000000"))
    wrong = subprocess.run(
        [python, "-c", FETCH, lock, tmp_path / "other"], check=False, env=own, capture_output=True
    )
    assert wrong.returncode == 1
    assert not (tmp_path / "other" / "affine").exists()
