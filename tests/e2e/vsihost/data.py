"""The program that makes the data: a COG, vectors, a Zarr, an archive, and files that name other files."""

MAKE = r"""
import json, os, sys, zipfile
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out = sys.argv[1] + "/"
crs = osr.SpatialReference()
crs.ImportFromEPSG(32611)
rows, columns = np.mgrid[0:2000, 0:2000]
values = (rows * 7 + columns * 13 + np.random.default_rng(7).integers(0, 4000, rows.shape)).astype("uint16")
plain = gdal.GetDriverByName("MEM").Create("", 2000, 2000, 1, gdal.GDT_UInt16)
plain.SetGeoTransform((440000, 10, 0, 3751000, 0, -10))
plain.SetSpatialRef(crs)
plain.GetRasterBand(1).WriteArray(values)
gdal.Translate(out + "a.tif", plain, format="COG", creationOptions=["COMPRESS=DEFLATE", "BLOCKSIZE=256"])
gdal.Translate(out + "beside.tif", plain, width=200, height=200, creationOptions=["TFW=YES"])
points = gdal.GetDriverByName("MEM").Create("", 0, 0, 0, gdal.GDT_Unknown)
layer = points.CreateLayer("points", crs, ogr.wkbPoint)
layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
for number in range(20000):
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetField("name", f"point number {number}")
    feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT ({440000 + number % 141 * 100} {3731000 + number // 141 * 100})"))
    layer.CreateFeature(feature)
gdal.VectorTranslate(out + "b.fgb", points, format="FlatGeobuf")
gdal.VectorTranslate(out + "b.gpkg", points, format="GPKG")
with zipfile.ZipFile(out + "c.zip", "w", zipfile.ZIP_STORED) as archive:
    archive.write(out + "b.fgb", "inner/b.fgb")
gdal.Translate(out + "d.zarr", plain, format="Zarr", creationOptions=["BLOCKSIZE=250,250"])
vrt = '''<VRTDataset rasterXSize="200" rasterYSize="200"><VRTRasterBand dataType="UInt16" band="1"><SimpleSource>
<SourceFilename relativeToVRT="%d">%s</SourceFilename><SourceBand>1</SourceBand>
<SrcRect xOff="0" yOff="0" xSize="200" ySize="200"/><DstRect xOff="0" yOff="0" xSize="200" ySize="200"/></SimpleSource></VRTRasterBand></VRTDataset>'''
for name, relative, source in (
    ("e", 1, "beside.tif"),
    ("hostile-other-alias", 0, "/vsihost/2/a.tif"),
    ("hostile-climbing", 1, "../2/a.tif"),
    ("hostile-curl", 0, "/vsicurl/http://127.0.0.1:1/a.tif"),
    ("hostile-s3", 0, "/vsis3/bucket/a.tif"),
    ("hostile-url", 0, "https://example.org/a.tif?carries=data"),
    ("hostile-file", 0, "file:///etc/passwd"),
    ("hostile-proc", 0, "/proc/self/environ"),
):
    open(out + name + ".vrt", "w").write(vrt % (relative, source))
    told = {"type": "gdal_streamed_alg", "command_line": f"gdal raster pipeline read {source} ! edit"}
    open(out + name + ".gdalg.json", "w").write(json.dumps(told))
"""
