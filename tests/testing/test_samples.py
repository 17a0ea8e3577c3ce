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
