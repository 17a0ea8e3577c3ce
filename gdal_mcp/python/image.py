"""The image of the toolbox `python`: the GDAL image with pinned wheels, built on the engine's host by `gdal-mcp setup`.

The wheels are fetched by this host's pip, as it is configured, for the Python in the GDAL image; pip refuses any whose SHA-256
is not in the lock. Nothing of them runs on the host, and the build itself has no network.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from gdal_mcp.gdal.catalogue.capture import output_of
from gdal_mcp.gdal.image import GDAL_IMAGE
from gdal_mcp.host.image import Image, resolve
from gdal_mcp.toolbox import ImageSpec
from sandbox.engine import Builds, Engine
from sandbox.errors import ImageMissing

REPOSITORY: Final = "gdal-mcp-python"
PYTHON_LABEL: Final = "io.gdal-mcp.python"  # the version of the interpreter in it
SHOWN: Final = (  # in the order in which a model is told of them
    *("numpy", "scipy", "pandas", "geopandas", "pyogrio", "shapely", "pyproj", "rasterio"),
    *("xarray", "pyarrow", "networkx", "scikit-learn", "matplotlib"),
)
# what wheels may ask of the C library; Debian and Ubuntu have had a newer one since 2021
_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux2014", "manylinux_2_17")
_ASK: Final = "import json, platform\nprint(json.dumps([platform.python_version(), platform.machine()]))"
_SOURCES: Final = ("requirements.txt", "Dockerfile")


def _text(name: str) -> str:
    return files("gdal_mcp.python").joinpath("data", name).read_text(encoding="utf-8")


@cache
def locked() -> Mapping[str, str]:
    """The version of each package in the image."""
    pins = (line.partition(" ")[0] for line in _text("requirements.txt").splitlines() if line[:1].isalpha())
    return {name: version for name, _, version in (pin.partition("==") for pin in pins)}


@cache
def lock_digest() -> str:
    """SHA-256 of all that the image is built from besides GDAL's; its first digits are the image's tag."""
    return hashlib.sha256("\0".join(map(_text, _SOURCES)).encode()).hexdigest()


@cache
def python_image() -> ImageSpec:
    return ImageSpec(
        images={"python": f"{REPOSITORY}:{lock_digest()[:12]}"},
        version=lambda labels, _reference: labels.get(PYTHON_LABEL, ""),
        setup="gdal-mcp setup --toolbox python",
    )


def build(engine: Engine, named: str | None, report: Callable[[str], None]) -> Image:
    """Makes the image from the GDAL image in use; `named` is that of the settings. Does nothing when it is there.

    Raises ImageMissing when the GDAL image, pip, a wheel or an engine that builds is missing.
    """
    spec = python_image()
    if engine.images.find(spec.reference) is None:
        base = resolve(engine.images, GDAL_IMAGE, named)
        if not isinstance(engine.images, Builds):
            raise ImageMissing(
                f"this engine cannot build images. Build {spec.reference} elsewhere, and load it here."
            )
        version, machine = json.loads(output_of(engine, base.id, _ASK, ""))
        with tempfile.TemporaryDirectory(prefix="gdal-mcp-", dir="/var/tmp") as folder:
            report(f"fetching {len(locked())} packages for Python {version}")
            _fetch(Path(folder) / "packages", version, machine)
            Path(folder, "Dockerfile").write_text(_text("Dockerfile"), encoding="utf-8")
            report(f"building {spec.reference} on {base.reference}")
            engine.images.build(folder, spec.reference, {"BASE": base.id}, {PYTHON_LABEL: version}, report)
    return resolve(engine.images, spec)


def _fetch(place: Path, version: str, machine: str) -> None:
    """The packages as the lock has them, unpacked for another Python than this one. Raises ImageMissing."""
    lock = str(files("gdal_mcp.python").joinpath("data", "requirements.txt"))
    platforms = [word for one in _PLATFORMS for word in ("--platform", f"{one}_{machine}")]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-compile", "--no-deps"),
        *("--require-hashes", "--only-binary=:all:", "--implementation", "cp", "--ignore-requires-python"),
        *(
            "--python-version",
            ".".join(version.split(".")[:2]),
            *platforms,
            "--target",
            str(place),
            "-r",
            lock,
        ),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words, no shell
    if ran.returncode:
        said = " / ".join(line for line in ran.stderr.splitlines() if not line.startswith("WARNING"))[-500:]
        raise ImageMissing(
            f"pip did not bring the packages: {said}. Check the network and pip's configuration."
        )
