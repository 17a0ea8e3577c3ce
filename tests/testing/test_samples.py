"""The sample files are what they say, by the word of GDAL itself."""

import json

import pytest

from gdal_mcp.testing import samples

pytestmark = pytest.mark.engine

LOOK = """
import json, sys
from osgeo import gdal, ogr
gdal.UseExceptions()
one = gdal.Open(sys.argv[1] + "/dem.tif")
band = one.GetRasterBand(1)
other = ogr.Open(sys.argv[1] + "/places.geojson")
points = other.GetLayer(0)
print(json.dumps({"transform": one.GetGeoTransform(), "nodata": band.GetNoDataValue(), "rows": band.ReadAsArray().tolist(),
    "epsg": one.GetSpatialRef().GetAuthorityCode(None), "type": gdal.GetDataTypeName(band.DataType),
    "places": {point.GetField("name"): point.GetField("inhabitants") for point in points}}))
"""


def test_gdal_reads_in_the_samples_what_they_say(oracle, grounds):
    folder = grounds / "samples"
    folder.mkdir()
    samples.write_samples(folder)
    found = json.loads(oracle.python(LOOK, str(folder)))
    easting, northing = samples.ORIGIN
    assert found["rows"] == [
        [samples.elevation(column, row) for column in range(samples.WIDTH)] for row in range(samples.HEIGHT)
    ]
    assert found["transform"] == [easting, samples.PIXEL_METRES, 0, northing, 0, -samples.PIXEL_METRES]
    assert (found["nodata"], found["epsg"], found["type"]) == (samples.NODATA, str(samples.EPSG), "Int16")
    assert found["places"] == {"Lower": 120, "Upper": 45}


def test_the_samples_are_small_and_the_same_every_time(tmp_path):
    seen = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        samples.write_samples(tmp_path / name)
        seen.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert seen[0] == seen[1]
    assert sum(map(len, seen[0].values())) < 10_000
