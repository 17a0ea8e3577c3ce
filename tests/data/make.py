"""The tests' own data, made by GDAL itself in the oracle's container: small, with known values, the same every time."""

import shutil
from pathlib import Path

from tests.oracle.container import Oracle

PROGRAM = r"""
import sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out = sys.argv[1] + "/"

def crs(code):
    made = osr.SpatialReference()
    made.ImportFromEPSG(code)
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made

def raster(name, arrays, transform, code, nodata=None, driver="GTiff", options=()):
    arrays = [np.asarray(one) for one in arrays]
    kinds = {"uint8": gdal.GDT_Byte, "int16": gdal.GDT_Int16, "float32": gdal.GDT_Float32}
    rows, columns = arrays[0].shape
    made = gdal.GetDriverByName(driver).Create(out + name, columns, rows, len(arrays), kinds[str(arrays[0].dtype)], list(options))
    if transform:
        made.SetGeoTransform(transform)
    if code:
        made.SetSpatialRef(crs(code))
    for number, array in enumerate(arrays, 1):
        band = made.GetRasterBand(number)
        band.WriteArray(array)
        if nodata is not None:
            band.SetNoDataValue(nodata)
    return made

y, x = np.mgrid[0:50, 0:60]
dem = (500 + 120 * np.sin(x / 9.0) + 90 * np.cos(y / 7.0)).astype("int16")
dem[:3, :4] = -999
raster("dem.tif", [dem], (440000, 60, 0, 3751000, 0, -60), 32611, -999)
raster("float.tif", [(dem / 7.0).astype("float32")], (440000, 60, 0, 3751000, 0, -60), 32611)
y, x = np.mgrid[0:30, 0:40]
colors = [(x * 6 % 256).astype("uint8"), (y * 8 % 256).astype("uint8"), ((x + y) * 3 % 256).astype("uint8")]
raster("rgb.tif", colors, (2, 0.05, 0, 49, 0, -0.05), 4326)
for name, west, value in (("west.tif", 10, 40), ("east.tif", 11, 90)):
    tile = (np.arange(100).reshape(10, 10) % 7 + value).astype("uint8")
    tile[0, 0] = 0
    raster(name, [tile], (west, 0.1, 0, 46, 0, -0.1), 4326)
classes = np.zeros((20, 20), "uint8")
classes[2:9, 3:12], classes[11:18, 5:9], classes[11:18, 12:19] = 1, 2, 1
raster("classes.tif", [classes], (440000, 60, 0, 3751000, 0, -60), 32611)
raster("mask.tif", [(np.indices((20, 20))[0] > 9).astype("uint8")], (440000, 60, 0, 3751000, 0, -60), 32611)
raster("plain.tif", [np.arange(25, dtype="uint8").reshape(5, 5)], None, None)
del y, x

def vector(name, driver, layer, rows, code, kind):
    made = ogr.GetDriverByName(driver).CreateDataSource(out + name)
    one = made.CreateLayer(layer, crs(code), kind)
    one.CreateField(ogr.FieldDefn("name", ogr.OFTString))
    one.CreateField(ogr.FieldDefn("value", ogr.OFTInteger))
    for label, value, wkt in rows:
        feature = ogr.Feature(one.GetLayerDefn())
        feature["name"], feature["value"] = label, value
        feature.SetGeometry(ogr.CreateGeometryFromWkt(wkt))
        one.CreateFeature(feature)

ZONES = [
    ("north", 3, "POLYGON ((440000 3750900,441500 3750900,441500 3750300,440000 3750300,440000 3750900))"),
    ("south", 8, "POLYGON ((440600 3749600,442400 3749600,441500 3748200,440600 3749600))"),
]
vector("zones.gpkg", "GPKG", "zones", ZONES, 32611, ogr.wkbPolygon)
vector("zones.shp", "ESRI Shapefile", "zones", ZONES, 32611, ogr.wkbPolygon)
vector("places.geojson", "GeoJSON", "places", [("a", 1, "POINT (2.5 48.5)"), ("b", 2, "POINT (3 48)")], 4326, ogr.wkbPoint)
"""


def make_data(oracle: Oracle, folder: Path) -> None:
    """Puts the data into a folder; they are made once by each oracle."""
    made = oracle.out / "data"
    if not made.is_dir():
        oracle.python(PROGRAM, str(oracle.folder("data")))
    for path in made.iterdir():
        shutil.copyfile(path, folder / path.name)
