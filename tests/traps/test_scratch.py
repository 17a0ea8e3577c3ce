"""Temporary files of a call lie where there is room for them, or the call says which setting bounds them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import Place, Talk, inside
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

# two bands of four million pixels: 16 MB as they are
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
"""


@pytest.fixture(scope="module")
def little_scratch(grounds: Path, oracle: Oracle) -> Iterator[tuple[Talk, Place]]:
    place = Place.made(grounds / "scratch")
    oracle.python(MAKE, str(oracle.folder("scratch") / "scene.tif"))
    place.path("scene.tif").write_bytes((oracle.out / "scratch" / "scene.tif").read_bytes())
    options = ("--approval", "never", "--no-preview", "--scratch-size", "2MiB")
    with inside(place.command(*options)) as talk:
        yield talk, place


def test_a_cog_is_reprojected_into_with_little_scratch(little_scratch: tuple[Talk, Place]) -> None:
    talk, place = little_scratch
    given = {"input": ["scene.tif"], "output": "cog.tif", "output-crs": "EPSG:32633", "output-format": "COG"}
    done = talk.done("gdal_write", algorithm="raster reproject", arguments={**given, "output-nodata": "0"})
    assert done["outputs"][0]["description"]["overviews"] > 0
    assert sorted(path.name for path in place.workspace.iterdir() if path.suffix) == ["cog.tif", "scene.tif"]
    assert place.staged == []
