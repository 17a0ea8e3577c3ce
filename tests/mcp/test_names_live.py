"""Ways to name a dataset that is more than a file: archives, parts of files, formulas' names, patterns of outputs."""

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PROGRAM = """
import sys
from osgeo import gdal
gdal.UseExceptions()
source, out = sys.argv[1:]
gdal.Translate(out + "/pages.tif", source + "/classes.tif")
gdal.Translate(out + "/pages.tif", source + "/dem.tif", creationOptions=["APPEND_SUBDATASET=YES"])
gdal.Translate(out + "/grid.nc", source + "/dem.tif", format="netCDF")
"""


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle, place: Place) -> Place:
    made = Place.made(grounds / "names")
    folder = oracle.folder("names")
    for name in ("classes.tif", "dem.tif", "zones.gpkg", "zones.shp", "zones.shx", "zones.dbf", "zones.prj"):
        made.path(name).write_bytes(place.path(name).read_bytes())
        (folder / name).write_bytes(place.path(name).read_bytes())
    oracle.python(PROGRAM, str(folder), str(folder))
    for name in ("pages.tif", "grid.nc"):
        made.path(name).write_bytes((folder / name).read_bytes())
    _archives(made)
    return made


def _archives(place: Place) -> None:
    with zipfile.ZipFile(place.path("all.zip"), "w") as made:
        made.write(place.path("dem.tif"), "deep/er/dem.tif")
        for suffix in ("shp", "shx", "dbf", "prj"):
            made.write(place.path(f"zones.{suffix}"), f"zones.{suffix}")
    with tarfile.open(place.path("all.tar"), "w") as made:
        data = place.path("dem.tif").read_bytes()
        row = tarfile.TarInfo("dem.tif")
        row.size = len(data)
        made.addfile(row, io.BytesIO(data))


@pytest.fixture(scope="module")
def talker(own: Place) -> Iterator[Talk]:
    with inside(own.command("--approval", "never"), person=Person()) as made:
        yield made


SIZES = {
    "/vsizip/all.zip/deep/er/dem.tif": [60, 50],
    "/vsizip/{all.zip}/deep/er/dem.tif": [60, 50],
    "/vsitar/all.tar/dem.tif": [60, 50],
    "GTIFF_DIR:1:pages.tif": [20, 20],
    "GTIFF_DIR:2:pages.tif": [60, 50],
    'NETCDF:"grid.nc":Band1': [60, 50],
    "NETCDF:grid.nc:Band1": [60, 50],
}


def test_a_part_of_a_file_is_opened_by_its_name(talker: Talk, own: Place):
    calls = {name: talker.start("info", path=name) for name in SIZES}
    calls |= {
        f"absolute {name}": talker.start("info", path=name.replace("grid.nc", str(own.path("grid.nc"))))
        for name in SIZES
        if "grid.nc" in name
    }
    for name, call in calls.items():
        result = call.result(timeout=120)
        assert not result.is_error, (name, result.structured_content)
        assert result.structured_content["size"] == SIZES[name.removeprefix("absolute ")], name


def test_the_names_that_a_report_lists_can_be_given_back(talker: Talk):
    report = talker.done("info", path="pages.tif")["untrusted"]["report"]
    names = [value for key, value in report["metadata"]["SUBDATASETS"].items() if key.endswith("_NAME")]
    assert len(names) == 2
    sizes = [talker.done("info", path=name)["size"] for name in names]
    assert sorted(sizes) == [[20, 20], [60, 50]]


def test_a_shapefile_in_an_archive_is_converted_with_all_its_files(talker: Talk, own: Place, oracle: Oracle):
    talker.done("vector_convert", input="/vsizip/all.zip/zones.shp", output="unpacked.gpkg")
    assert oracle.counts(own.path("unpacked.gpkg")) == [2]
    assert not own.path("all.zip.gdal").exists()


def test_named_inputs_of_a_formula_are_the_files_they_name(talker: Talk, own: Place, oracle: Oracle):
    arguments = {"input": ["A=dem.tif", "B=dem.tif"], "calc": ["A - B"], "output": "zero.tif"}
    talker.done("gdal_write", algorithm="raster calc", arguments=arguments)
    assert oracle.raster(own.path("zero.tif"))["size"] == [60, 50]
    assert oracle.checksums(own.path("zero.tif")) != oracle.checksums(own.path("dem.tif"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("convert", {"input": "dem.tif", "output": "/vsizip/new.zip/x.tif"}),
        ("convert", {"input": "dem.tif", "output": "/vsizip/{all.zip}/x.tif"}),
        ("gdal_write", {"algorithm": "raster edit", "arguments": {"dataset": "GTIFF_DIR:1:pages.tif", "nodata": "1"}}),
        ("gdal_write", {"algorithm": "vsi delete", "arguments": {"filename": "/vsizip/all.zip/zones.shp"}}),
        ("gdal_write", {"algorithm": "dataset delete", "arguments": {"filename": ["/vsizip/all.zip/zones.shp"]}}),
        ("gdal_write", {"algorithm": "vsi move", "arguments": {"source": "all.zip", "destination": "/vsizip/all.zip/x"}}),
        ("list_workspace", {"path": "/vsizip/all.zip"}),
    ],
)  # fmt: skip
def test_nothing_is_written_into_a_part_of_a_file(
    talker: Talk, own: Place, tool: str, arguments: dict[str, Any]
):
    before = {path.name: path.stat().st_size for path in own.workspace.iterdir() if path.is_file()}
    error = talker.failed(tool, **arguments)
    assert error["stage"] in ("validate", "resolve")
    assert {path.name: path.stat().st_size for path in own.workspace.iterdir() if path.is_file()} == before


def test_a_partition_stays_in_its_folder(talker: Talk, own: Place):
    arguments = {"input": "zones.gpkg", "output": "parts", "field": ["name"], "output-format": "GeoJSON"}
    talker.done("gdal_write", algorithm="vector partition", arguments=arguments)
    found = [path.read_text() for path in own.path("parts").rglob("*") if path.is_file()]
    assert len(found) == 2
    assert sorted("north" in text for text in found) == [False, True]
