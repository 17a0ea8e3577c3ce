"""Builds the images of toolboxes that are the GDAL image with pinned wheels, on the engine's host, for `gdal-mcp
setup`.

pip, which is a dependency, fetches the wheels for the Python in the GDAL image, as this host configures it, and
refuses any whose SHA-256 is not in the lock. Nothing in the wheels runs on the host, and the build itself has no
network.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gdal_mcp.runtime.image import BASE_LABEL, Image, resolve
from gdal_mcp.toolboxes.gdal.catalogue.capture import run_program
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from gdal_mcp.toolboxes.wheels import WheelImage
from sandbox.engine import Builds, Engine
from sandbox.errors import ImageMissing
from sandbox.parsing import parse_json

# the oldest C library that the wheels need; Debian and Ubuntu have had a newer one since 2021
_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux2014", "manylinux_2_17")
_MAX_VALUES: Final = 10  # members and elements of the program's output
_ASK: Final = "import json, platform\nprint(json.dumps([platform.python_version(), platform.machine()]))"


def build(wheels: WheelImage, engine: Engine, named: str | None, report: Callable[[str], None]) -> Image:
    """Builds the image on the GDAL image in use; `named` is the configured one. Does nothing if the image exists.

    Raises ImageMissing if the GDAL image, pip, a wheel or an engine that builds is missing.
    """
    base, reference = resolve(engine.images, GDAL_IMAGE, named), wheels.spec.reference
    with suppress(ImageMissing):  # it does not exist, or was built on another GDAL image
        return resolve(engine.images, wheels.spec, named)
    if not isinstance(engine.images, Builds):
        raise ImageMissing(f"this engine cannot build images. Build {reference} elsewhere, and load it here.")
    version, machine = parse_json(run_program(engine, base.id, _ASK, ""), _MAX_VALUES)
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-", dir=_roomy()) as folder:
        report(f"fetching {len(wheels.locked)} packages for Python {version}")
        packages = Path(folder) / "packages"
        packages.mkdir()
        with wheels.lock() as lock:
            if wheels.locked:
                fetch(lock, packages, version, machine)
        Path(folder, "Dockerfile").write_text(wheels.dockerfile, encoding="utf-8")
        report(f"building {reference} on {base.reference}")
        labels = {wheels.label: version, BASE_LABEL: base.id}
        engine.images.build(folder, reference, {"BASE": base.id}, labels, report)
    return resolve(engine.images, wheels.spec, named)


def _roomy() -> str | None:
    """A folder with room for a gigabyte of wheels: not in memory, as /tmp may be. In a read-only container it is
    TMPDIR.
    """
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108 - a folder of its own name is made in it


def fetch(lock: Path, place: Path, version: str, machine: str) -> None:
    """Unpacks the wheels of a lock into `place`, for this version of Python and this machine, after checking their
    hashes.

    The index and the credentials are those of pip's configuration, else the index that uv is configured to use.
    Raises ImageMissing.
    """
    platforms = [word for platform in _PLATFORMS for word in ("--platform", f"{platform}_{machine}")]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-compile"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp"),
        *("--ignore-requires-python", "--python-version", ".".join(version.split(".")[:2])),
        *(*platforms, "--target", str(place), "-r", str(lock)),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=_index(os.environ))  # noqa: S603 - fixed words, no shell
    if ran.returncode:
        lines = (line for line in ran.stderr.splitlines() if not line.startswith("WARNING"))
        output = " / ".join(lines)[-500:]
        raise ImageMissing(
            f"pip could not install the packages: {output}. Check the network and pip's configuration."
        )


def _index(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with uv's index for pip, for people who have only configured uv."""
    index = variables.get("UV_DEFAULT_INDEX") or variables.get("UV_INDEX_URL")
    return {**({"PIP_INDEX_URL": index} if index else {}), **variables}
