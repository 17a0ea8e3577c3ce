"""Our own programs in the container, and algorithms whose answer is a return code."""

import json
from pathlib import Path

import pytest

from tests.data.make import make_data
from tests.integration.worker_kit import Box
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    folder = oracle.out / "programs"
    folder.mkdir()
    make_data(oracle, folder)
    return folder


def test_differences_are_an_answer_and_no_failure(box: Box, data: Path):
    same = box.gdal("raster", "compare", data / "dem.tif", data / "dem.tif")
    other = box.gdal("raster", "compare", data / "dem.tif", data / "float.tif")
    assert (same.final["code"], same.final["return_code"]) == (0, 0)
    assert other.final["code"] == 0
    assert other.final["return_code"] > 0
    assert other.printed


def test_file_that_is_not_cog_is_an_answer(box: Box, data: Path, oracle: Oracle):
    cog = oracle.folder("cog") / "cog.tif"
    oracle.must("gdal", "raster", "convert", "-q", "--output-format=COG", str(data / "dem.tif"), str(cog))
    yes, no = (box.gdal("driver", "cog", "validate", path) for path in (cog, data / "dem.tif"))
    assert [done.final["return_code"] for done in (yes, no)] == [0, 1]
    assert [done.final["code"] for done in (yes, no)] == [0, 0]
    assert str(data / "dem.tif") in no.printed


def test_a_geopackage_is_validated(box: Box, data: Path):
    done = box.gdal("driver", "gpkg", "validate", data / "zones.gpkg")
    assert (done.final["code"], done.final["return_code"]) == (0, 0)


def test_unreadable_file_is_a_failure_not_an_answer(box: Box, data: Path):
    absent = data / "absent.tif"
    for words in (("driver", "cog", "validate", absent), ("raster", "compare", absent, data / "dem.tif")):
        done = box.gdal(*words)
        assert done.final["code"] == 1
        assert done.final["return_code"] is None
        assert done.printed == ""


def test_other_algorithms_have_no_return_code(box: Box, data: Path):
    assert box.gdal("raster", "info", data / "dem.tif").final["return_code"] is None


def test_every_path_gets_its_driver_or_null(box: Box, data: Path):
    folder = data / "some"
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing", encoding="utf-8")
    names = "dem.tif zones.gpkg zones.shp zones.dbf places.geojson some some/notes.txt absent".split()
    paths = [str(data / name) for name in names]
    (done,) = box.run({"program": "identify", "inputs": paths})
    drivers = ["GTiff", "GPKG", "ESRI Shapefile", "ESRI Shapefile", "GeoJSON", None, None, None]
    assert done.parsed == dict(zip(paths, drivers, strict=True))
    assert done.final["failures"] == 0


def test_inputs_are_described_without_reading_pixels(box: Box, data: Path, oracle: Oracle):
    truncated = oracle.folder("headers") / "cut.tif"
    oracle.must("gdal_translate", "-q", "-co", "COMPRESS=NONE", str(data / "dem.tif"), str(truncated))
    truncated.write_bytes(truncated.read_bytes()[:-3000])  # the last rows are missing, and nothing reports it
    table = truncated.with_name("rows.csv")
    # a format whose rows can only be counted by reading
    table.write_text("a,b\n1,2\n3,4\n", encoding="ascii")
    inputs = [str(path) for path in (truncated, data / "zones.gpkg", data / "absent.tif", table)]
    (done,) = box.run({"program": "describe", "inputs": inputs})
    raster, vector, absent, rows = done.parsed
    assert raster["facts"]["size"] == [60, 50]
    assert "min" not in raster["facts"]["bands"][0]
    assert vector["facts"]["layers"][0]["features"] == 2
    assert "zones" not in json.dumps([result.get("facts") for result in done.parsed])  # no text from the file
    assert absent == {"head": ""}
    assert rows["facts"]["layers"][0]["features"] is None
    assert (done.final["code"], done.final["failures"]) == (0, 0)


def test_large_input_is_identical_with_any_thread_count(box: Box, oracle: Oracle):
    """Above a certain size the worker makes GDAL read uncompressed data with one thread; the output must not depend
    on it.
    """
    folder = oracle.folder("large")
    ramp = ["gdal", "raster", "create", "-q", "--size=5000,4000", "--bbox=500000,5160000,650000,5280000"]
    oracle.must(*ramp, "--crs=EPSG:32633", "--burn=7", str(folder / "in.tif"))
    assert (folder / "in.tif").stat().st_size > 16 << 20
    words = ("raster", "reproject", "--output-crs=EPSG:3857", "--co=COMPRESS=DEFLATE", folder / "in.tif")
    plain, ours = folder / "plain.tif", folder / "ours.tif"
    oracle.must("gdal", words[0], words[1], "-q", *map(str, words[2:]), str(plain))
    done = box.gdal(*words, ours, outputs=[{"path": str(ours), "kind": "dataset"}], sources=[str(words[-1])])
    assert (done.final["code"], done.final["errors"]) == (0, [])
    assert ours.read_bytes() == plain.read_bytes()
