"""Temporary files of a call are where there is room for them, or the error names the setting that limits them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.talk import Place, Talk, inside
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

# two bands of four million pixels: 16 MB uncompressed
MAKE = """
import sys
import numpy
from osgeo import gdal, osr
gdal.UseExceptions()
made = gdal.GetDriverByName("GTiff").Create(sys.argv[1], 2000, 2000, 2, gdal.GDT_UInt16, ["COMPRESS=DEFLATE"])
crs = osr.SpatialReference()
crs.ImportFromEPSG(32632)
made.SetSpatialRef(crs)
made.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
for number in (1, 2):
    made.GetRasterBand(number).WriteArray(numpy.random.default_rng(number).integers(1, 60000, (2000, 2000), dtype="uint16"))
made.Close()
gdal.GetDriverByName("GTiff").Create(sys.argv[2], 2000, 2000, 2, gdal.GDT_UInt16, ["COMPRESS=DEFLATE"]).Close()
with open(sys.argv[3], "w") as table:
    table.write("id,text\\n")
    for number, value in enumerate(numpy.random.default_rng(3).integers(0, 1 << 62, 60000)):
        table.write(f"{number},{value:0100x}\\n")
"""
SQL = "select text, id from rows order by text"


@pytest.fixture(scope="module")
def little_scratch(grounds: Path, oracle: Oracle) -> Iterator[tuple[Talk, Place]]:
    place = Place.made(grounds / "scratch")
    names = ("scene.tif", "flat.tif", "rows.csv")
    oracle.python(MAKE, *(str(oracle.folder("scratch") / name) for name in names))
    for name in names:
        place.path(name).write_bytes((oracle.out / "scratch" / name).read_bytes())
    options = ("--approval", "never", "--no-preview", "--scratch-size", "2MiB", "--staging-size", "64MiB")
    with inside(place.command(*options)) as talk:
        yield talk, place


def converted(source: str, output: str, *options: str) -> dict[str, object]:
    arguments = {
        "input": [source],
        "output": output,
        "output-format": "COG",
        "creation-option": list(options),
    }
    return {"algorithm": "raster convert", "arguments": arguments}


def test_a_cog_is_reprojected_into_with_little_scratch(little_scratch: tuple[Talk, Place]) -> None:
    talk, place = little_scratch
    arguments = {
        "input": ["scene.tif"],
        "output": "cog.tif",
        "output-crs": "EPSG:32633",
        "output-format": "COG",
    }
    done = talk.done(
        "gdal_write", algorithm="raster reproject", arguments={**arguments, "output-nodata": "0"}
    )
    assert done["outputs"][0]["description"]["overviews"] > 0
    assert sorted(path.name for path in place.workspace.glob("*cog*")) == ["cog.tif"]
    assert place.staged == []


def test_a_table_is_sorted_with_little_scratch(little_scratch: tuple[Talk, Place]) -> None:
    talk, place = little_scratch
    talk.done("convert", input="rows.csv", output="rows.gpkg")
    arguments = {"input": ["rows.gpkg"], "output": "sorted.csv", "sql": SQL}
    talk.done("gdal_write", algorithm="vector sql", arguments=arguments)
    rows = [line.partition(",")[0] for line in place.path("sorted.csv").read_text().splitlines()[1:]]
    assert len(rows) == 60_000
    assert rows == sorted(rows)
    assert place.staged == []


def checks(answer: dict[str, Any]) -> dict[str, str]:
    return {check["code"]: check.get("verdict", "") for check in answer.get("checks", ())}


def test_disk_space_is_judged_before_the_output(grounds: Path, little_scratch: tuple[Talk, Place]) -> None:
    _, place = little_scratch
    options = ("--approval", "never", "--no-preview", "--staging-size", "15MiB")
    with inside(place.command(*options)) as talk:
        plain = converted("flat.tif", "a.tif", "COMPRESS=NONE")
        assert not talk.done("validate_call", tool="gdal_write", arguments=plain)["valid"]
        assert talk.failed("gdal_write", **plain)["code"] == "DISK_LIMIT"
        for source in ("flat.tif", "scene.tif"):
            validation = talk.done("validate_call", tool="gdal_write", arguments=converted(source, "b.tif"))
            assert validation["valid"]
            assert checks(validation)["space_unknown"] == "unknown"
        talk.done("gdal_write", **converted("flat.tif", "flat_cog.tif"))
        assert talk.failed("gdal_write", **converted("scene.tif", "scene_cog.tif"))["code"] == "DISK_LIMIT"
    assert place.path("flat_cog.tif").exists()
    assert not place.path("scene_cog.tif").exists()
    assert place.staged == []


def test_nothing_is_unknown_where_the_space_is_enough(little_scratch: tuple[Talk, Place]) -> None:
    talk, _ = little_scratch
    validation = talk.done("validate_call", tool="gdal_write", arguments=converted("scene.tif", "c.tif"))
    assert "space_unknown" not in checks(validation)
