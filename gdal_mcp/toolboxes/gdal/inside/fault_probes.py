"""Runs in a container: tests if this GDAL has each fault of faults.toml, and prints the results as JSON.

A probe returns True or False. If it returns None or raises, the result is unknown (null).
"""

import json
import struct
import sys

from osgeo import gdal, ogr, osr

PLACE = "/vsimem/fault.tif"


def raster(kind, values, nodata=None, size=(16, 16), options=("BLOCKYSIZE=16",)):
    dataset = gdal.GetDriverByName("GTiff").Create(PLACE, *size, 1, kind, list(options))
    dataset.SetGeoTransform((200000, 10, 0, 600000, 0, -10))
    band = dataset.GetRasterBand(1)
    if nodata is not None:
        band.SetNoDataValue(nodata)
    band.WriteRaster(0, 0, *size, struct.pack(f"{len(values)}d", *values), buf_type=gdal.GDT_Float64)
    band = dataset = None
    return gdal.Open(PLACE)


def statistics_in_threads():
    """True if statistics that several threads compute are wrong.

    The mean of a ramp is known, and a part of its lines has a different mean. Tested with one block, with several
    strips, and with tiles that GDAL reads together.
    """
    values = range(48 * 48)
    tiles = ("TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16", "COMPRESS=DEFLATE")
    threads = {"GDAL_NUM_THREADS": "2", "GDAL_STATS_USE_FLOAT32_OPTIM": "YES", "GDAL_PAM_ENABLED": "NO"}
    for kind in (gdal.GDT_Int16, gdal.GDT_UInt16, gdal.GDT_Float32, gdal.GDT_Float64):
        for options in (("BLOCKYSIZE=48",), ("BLOCKYSIZE=16",), tiles):
            for nodata in (None, -1):
                with gdal.config_options(threads):
                    source = raster(kind, values, nodata, (48, 48), options)
                    mean = source.GetRasterBand(1).ComputeStatistics(False)[2]
                if abs(mean - sum(values) / len(values)) > 1e-6:
                    return True
    return False


def zonal_median():
    source = raster(gdal.GDT_Byte, [7] * 256)
    zone = "POLYGON ((200000 599840,200160 599840,200160 600000,200000 600000,200000 599840))"
    zones = gdal.GetDriverByName("MEM").Create("", 0, 0, 0)
    layer = zones.CreateLayer("zones")
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetGeometry(ogr.CreateGeometryFromWkt(zone))
    layer.CreateFeature(feature)
    algorithm = (
        gdal.GetGlobalAlgorithmRegistry().InstantiateAlg("raster").InstantiateSubAlgorithm("zonal-stats")
    )
    choices = algorithm.GetArg("stat").GetChoices() or ()
    if "median" not in choices:
        return False
    try:
        done = gdal.Run(
            ["raster", "zonal-stats"],
            input=source,
            zones=zones,
            output="",
            output_format="MEM",
            stat=["median"],
        )
        values = [row["median"] for row in done.Output().GetLayer(0)]
    except RuntimeError as error:
        return True if "median" in str(error) else None
    return values != [7.0]


def valid_pixels_moved():
    source = raster(gdal.GDT_Byte, [0] * 256)
    output = gdal.Warp("", source, format="MEM", dstNodata=0)
    return any(output.ReadRaster())


def only_best_takes_ballpark():
    crs = osr.SpatialReference()
    crs.ImportFromEPSG(2039)  # for EPSG:2039 to EPSG:3035, PROJ has only a ballpark operation
    source = raster(gdal.GDT_Byte, [1] * 256)
    source.SetSpatialRef(crs)
    strict = {"format": "MEM", "dstSRS": "EPSG:3035"}
    try:
        gdal.Warp("", source, transformerOptions=["ALLOW_BALLPARK=NO"], **strict)
    except RuntimeError:
        pass
    else:
        return None  # this PROJ has a better operation, so the fault cannot be tested
    try:
        return gdal.Warp("", source, transformerOptions=["ONLY_BEST=YES"], **strict) is not None
    except RuntimeError:
        return False


PROBES = (statistics_in_threads, zonal_median, valid_pixels_moved, only_best_takes_ballpark)


def result(probe):
    try:
        return probe()
    except Exception:  # after any error, the result of the probe is unknown
        return None


gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
sys.stdout.write(json.dumps({probe.__name__: result(probe) for probe in PROBES}))
