"""Datasets whose other files are found by their names: the files that a call needs in addition to those that it
names.
"""

from pathlib import Path
from typing import Final

from tests.oracle.container import Oracle
from tests.security.scope.traps import ERS

PROGRAM = r"""
import sys, numpy
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out = sys.argv[1] + "/"
crs = osr.SpatialReference()
crs.ImportFromEPSG(32611)
pixels = (numpy.arange(4096) % 251).astype("uint8").reshape(64, 64)

def raster(driver, name, options=()):
    plain = gdal.GetDriverByName("MEM").Create("", 64, 64)
    plain.SetGeoTransform((440000, 60, 0, 3751000, 0, -60))
    plain.SetSpatialRef(crs)
    plain.GetRasterBand(1).WriteArray(pixels)
    return gdal.GetDriverByName(driver).CreateCopy(out + name, plain, options=list(options))

raster("GTiff", "stats.tif")
opened = gdal.Open(out + "stats.tif")
opened.GetRasterBand(1).ComputeStatistics(False)
del opened
raster("GTiff", "over.tif")
gdal.Open(out + "over.tif").BuildOverviews("NEAREST", [2, 4])
raster("GTiff", "masked.tif")
gdal.Open(out + "masked.tif").CreateMaskBand(gdal.GMF_PER_DATASET)
raster("PNG", "world.png", ["WORLDFILE=YES"])
raster("ENVI", "envi.img")
raster("AAIGrid", "grid.asc")
raster("EHdr", "ehdr.bil")
raster("Zarr", "whole.zarr")
for driver, name in (("MapInfo File", "places.tab"), ("MapInfo File", "places.mif"), ("OpenFileGDB", "whole.gdb"), ("ESRI Shapefile", "folder")):
    made = ogr.GetDriverByName(driver).CreateDataSource(out + name)
    layer = made.CreateLayer("places", crs, ogr.wkbPoint)
    layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
    feature = ogr.Feature(layer.GetLayerDefn())
    feature["name"] = "here"
    feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (440000 3751000)"))
    layer.CreateFeature(feature)
    made = layer = feature = None
"""

RASTERS: Final = ["over.tif", "masked.tif", "envi.img", "grid.asc", "ehdr.bil", "whole.zarr"]
VECTORS: Final = ["zones.shp", "places.tab", "places.mif"]
# files of each dataset that GDAL finds by their names
OWN: Final = {
    "stats.tif": ["stats.tif.aux.xml"], "over.tif": ["over.tif.ovr"], "masked.tif": ["masked.tif.msk"],
    "world.png": ["world.wld"], "envi.img": ["envi.hdr"], "grid.asc": ["grid.prj"],
    "ehdr.bil": ["ehdr.hdr", "ehdr.prj"], "mapper.ers": ["mapper"],
    "zones.shp": ["zones.shx", "zones.dbf", "zones.prj"],
    "places.tab": ["places.dat", "places.map", "places.id"], "places.mif": ["places.mid"],
    "typed.csv": ["typed.csvt"],
}  # fmt: skip


def lay_beside(ws: Path, oracle: Oracle) -> None:
    """Creates these datasets in a workspace."""
    folder = oracle.folder("beside")
    oracle.python(PROGRAM, str(folder))
    for path in sorted(folder.rglob("*")):
        target = ws / path.relative_to(folder)
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    for twin in ("twin-a.tif", "twin-b.tif"):
        (ws / twin).write_bytes((ws / "west.tif").read_bytes())
    (ws / "mapper").write_bytes(bytes(400))
    (ws / "mapper.ers").write_text(ERS.format(data=""))
    (ws / "typed.csv").write_text("id,count\n1,2\n")
    (ws / "typed.csvt").write_text('"String","Integer"\n')
