"""`catalogue refresh` on images whose GDAL differs from the packaged catalogue: reported, served and refused parts.

The images are those in use, with a driver removed and one added, an algorithm renamed, another default, a message
reworded, and another version.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gdal_mcp.cli import main as cli
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.catalogue import store
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

DOCKERFILE = """
FROM {base}
LABEL io.gdal-mcp.gdal-version={version} org.opencontainers.image.version={version}
COPY . /doctored/
RUN cat /doctored/bindings.py >> "$(python3 -c 'from osgeo import gdal; print(gdal.__file__)')" \\
 && program="$(command -v gdal)" && mv "$program" "$program.real" && cp /doctored/gdal "$program" && chmod 755 "$program" \\
 && LC_ALL=C sed -i 's/Inconsistent record number in .shx/Contradicted record number in .shx/' "$(find / -xdev -type f -name 'libgdal.so*')"
"""
# appended to the bindings' own module
BINDINGS = """
_version_info, _instantiate = VersionInfo, Algorithm.InstantiateSubAlgorithm
__version__ = "{version}"
def VersionInfo(request="VERSION_NUM"):
    return __version__ if request == "RELEASE_NAME" else _version_info(request)
def _instantiate_renamed(self, name):
    return _instantiate(self, {renamed}.get(name, name))
Algorithm.InstantiateSubAlgorithm = _instantiate_renamed
_driver_count = GetDriverCount
def GetDriverCount():  # registers all drivers, so the one is removed here
    count = _driver_count()
    removed = GetDriverByName("FlatGeobuf")
    if removed is not None:
        removed.Deregister()
        count -= 1
    return count + 1
_driver, _usage = GetDriver, Algorithm.GetUsageAsJSON
class _Added:
    ShortName, LongName = "Fresh", "Fresh format"
    def __getattr__(self, name):
        return getattr(GetDriverByName("GTiff"), name)
def GetDriver(index):
    return _Added() if index == _driver_count() else _driver(index)
def _usage_with_default(self):
    import json
    usage = json.loads(_usage(self))
    for argument in usage.get("input_arguments", ()):
        if argument["name"] == "size-threshold":
            argument["default"] = {default}
    return json.dumps(usage)
Algorithm.GetUsageAsJSON = _usage_with_default
"""
DEFAULT = 7  # default of `raster sieve --size-threshold`, which is 2 in GDAL
PROGRAM = '#!/bin/sh\n"$0.real" "$@" | {filter}\n'
RENAMED = {"relief-shade": "hillshade"}
DEM = "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n"


def built(
    client: docker.DockerClient, base: Image, folder: Path, version: str, renamed: dict[str, str]
) -> Iterator[str]:
    """The name of an image that is removed afterwards."""
    folder.mkdir()
    tag = f"gdal-mcp-doctored:{folder.name}-{version}"
    quoted = [f's/"{old}"/"{new}"/g' for new, old in renamed.items()]
    (folder / "Dockerfile").write_text(DOCKERFILE.format(base=base.reference, version=version))
    (folder / "bindings.py").write_text(BINDINGS.format(version=version, renamed=renamed, default=DEFAULT))
    (folder / "gdal").write_text(PROGRAM.format(filter=f"sed '{quoted[0]}'" if quoted else "cat"))
    client.images.build(path=str(folder), tag=tag, rm=True)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def minor(
    client: docker.DockerClient, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    yield from built(client, image, tmp_path_factory.mktemp("image") / "minor", "3.14.0", RENAMED)


@pytest.fixture(scope="module")
def patch(
    client: docker.DockerClient, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    yield from built(client, image, tmp_path_factory.mktemp("image") / "patch", "3.13.4", {})


class Desk:
    """The program's commands on one image, with their own workspace and state folder."""

    def __init__(self, folder: Path, reference: str) -> None:
        self.reference, self.state, self.maps = reference, folder / "state", folder / "maps"
        self.maps.mkdir()
        (self.maps / "dem.asc").write_text(DEM)

    def refresh(self) -> Catalogue:
        words = ["catalogue", "refresh", "--state-dir", str(self.state), "--image", self.reference]
        assert cli.main(words) == 0
        return catalogue_of(store.select(self.state, self.reference))

    def call(self, tool: str, **arguments: object) -> int:
        settings = ["--state-dir", str(self.state), "--image", self.reference, "--workspace", str(self.maps)]
        return int(cli.main(["call", *settings, "--approval", "never", tool, json.dumps(arguments)]))


def shade(desk: Desk, algorithm: str) -> int:
    arguments = {"input": "dem.asc", "output": "shade.tif"}
    return desk.call("gdal_write", algorithm=algorithm, arguments=arguments)


def test_minor_release_serves_unchanged_parts_naming_disabled_checks(
    minor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(tmp_path, minor)
    assert desk.call("info", path="dem.asc") != 0  # before a refresh its arguments may have another meaning
    refreshed = desk.refresh()
    report = capsys.readouterr().out
    for part in ("3.14.0", "FlatGeobuf", "raster hillshade -> raster relief-shade", "records_inconsistent: "):
        assert part in report
    for part in ("Fresh", "size-threshold"):
        assert part in report
    assert refreshed.gdal_version == "3.14.0"
    assert not {"raster hillshade", "raster relief-shade"} & refreshed.algorithms.keys()
    assert "raster slope" in refreshed.algorithms
    assert not {"flatgeobuf", "fresh"} & refreshed.driver_names.keys()
    assert refreshed.algorithms["raster sieve"].long_names["size-threshold"].usage["default"] == DEFAULT
    assert refreshed.unrecognised.keys() == {"records_inconsistent"}
    assert "records_inconsistent" in refreshed.summary
    assert desk.call("info", path="dem.asc") == 0
    assert shade(desk, "raster slope") == 0
    assert shade(desk, "raster relief-shade") != 0


def test_a_patch_release_never_blocks_and_is_reported(
    patch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(tmp_path, patch)
    assert shade(desk, "raster hillshade") == 0
    capsys.readouterr()
    refreshed = desk.refresh()
    report = capsys.readouterr().out
    for part in ("FlatGeobuf", "Fresh", "size-threshold"):
        assert part in report
    assert "relief-shade" not in report
    assert refreshed.unrecognised.keys() == {"records_inconsistent"}
    assert "flatgeobuf" not in refreshed.driver_names
    (desk.maps / "shade.tif").unlink()
    assert shade(desk, "raster hillshade") == 0
