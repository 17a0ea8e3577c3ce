"""Data for the traps, made by GDAL only. Each file is small, and its name says what is unusual about it."""

MAKE = r'''
import sys
import numpy
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
folder = sys.argv[1]

def crs(name):
    made = osr.SpatialReference()
    made.SetFromUserInput(name)
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made

def raster(name, values, where, system="EPSG:32632", nodata=None, kind=None, **more):
    """`where` is west, north and the size of a pixel, or None."""
    bands = values if values.ndim == 3 else values[None]
    kind = kind or {"float32": gdal.GDT_Float32, "uint8": gdal.GDT_Byte, "int16": gdal.GDT_Int16, "int32": gdal.GDT_Int32, "uint16": gdal.GDT_UInt16, "float64": gdal.GDT_Float64}[str(values.dtype)]
    made = gdal.GetDriverByName("GTiff").Create(f"{folder}/{name}.tif", bands.shape[2], bands.shape[1], bands.shape[0], kind, options=more.get("options", []))
    if system:
        made.SetSpatialRef(crs(system))
    if "first" in more:
        more["first"](made)
    if where:
        west, north, pixel = where
        made.SetGeoTransform((west, pixel, 0, north, 0, -pixel))
    for number, one in enumerate(bands, 1):
        band = made.GetRasterBand(number)
        if nodata is not None:
            band.SetNoDataValue(nodata)
        band.WriteArray(one)
    if "then" in more:
        more["then"](made)
    made.Close()

def features(stem, wkts, system="EPSG:4326", kind=None, driver="GPKG", options=(), **columns):
    """A layer of these geometries; each column has a value for each of them."""
    ending = {"GPKG": "gpkg", "ESRI Shapefile": "shp"}[driver]
    kind = ogr.CreateGeometryFromWkt(wkts[0]).GetGeometryType() if kind is None else kind
    made = gdal.GetDriverByName(driver).Create(f"{folder}/{stem}.{ending}", 0, 0, 0, gdal.GDT_Unknown)
    into = made.CreateLayer(stem, crs(system) if isinstance(system, str) else system, kind, list(options))
    for column, values in columns.items():
        whole = ogr.OFTInteger if all(abs(value) < 2**31 for value in values if isinstance(value, int)) else ogr.OFTInteger64
        into.CreateField(ogr.FieldDefn(column, {int: whole, float: ogr.OFTReal, str: ogr.OFTString}[type(values[0])]))
    into.StartTransaction()
    for number, wkt in enumerate(wkts):
        feature = ogr.Feature(into.GetLayerDefn())
        for column, values in columns.items():
            feature.SetField(column, values[number])
        feature.SetGeometry(ogr.CreateGeometryFromWkt(wkt)); into.CreateFeature(feature)
    into.CommitTransaction()
    into = feature = None; made.Close()

def layer(name, wkts, system="EPSG:4326"):
    features(name, wkts, system, id=range(len(wkts)))

ramp = numpy.linspace(100, 1100, 40 * 30, dtype="float32").reshape(30, 40)
holes = ramp.copy(); holes[:5, :5] = -9999
utm = (500000, 5000000, 100)
raster("elevation", ramp, utm)
raster("elevation_holes", holes, utm, nodata=-9999)
raster("elevation_without_holes", ramp, utm, nodata=-9999)
for name in ("holes_in_place", "holes_in_place_too"):
    raster(name, holes, utm, nodata=-9999)
raster("whole_in_place", ramp, utm)
raster("undeclared", holes, utm)
raster("low", ramp / 10, utm)                                # 10 .. 110
raster("whole_floats", numpy.floor(ramp / 10), utm)          # whole numbers that fit into bytes
raster("nan_holes", numpy.where(holes == -9999, numpy.nan, numpy.floor(ramp / 10)).astype("float32"), utm)
raster("classes", (numpy.arange(1200, dtype="uint8").reshape(30, 40) // 64), utm, nodata=255)
raster("ids", (numpy.arange(1200, dtype="int32").reshape(30, 40) * 1000), utm)
raster("large_ids", (numpy.arange(1200, dtype="int32").reshape(30, 40) + 20_000_001), utm)
raster("small_ids", (numpy.arange(1200, dtype="int32").reshape(30, 40) % 200), utm)
def palette(made):
    table = gdal.ColorTable()
    for i in range(20):
        table.SetColorEntry(i, (i * 10, 255 - i * 10, 50, 255))
    made.GetRasterBand(1).SetRasterColorTable(table)
raster("landcover", (numpy.arange(1200).reshape(30, 40) // 64).astype("uint8"), utm, first=palette)
photo = numpy.random.default_rng(7).integers(1, 255, (3, 30, 40), dtype="uint8")
raster("photo", photo, utm)
raster("photo_square", photo, (11.0, 46.0, 0.01), "EPSG:4326")
raster("no_crs", ramp, (10, 50, 0.1), None)
raster("rome", ramp, (-0.5, 42, 0.02), "EPSG:4806")
raster("monte_mario", ramp, (11.9, 42, 0.02), "EPSG:4265")
raster("bng_elsewhere", ramp, (479000, 4765000, 100), "EPSG:27700")  # as if it were another grid's
raster("bng", ramp, (400000, 400000, 100), "EPSG:27700")
raster("degrees", ramp, (9.0, 45.2, 0.01), "EPSG:4326")
raster("sinusoidal", ramp, (500000, 5000000, 1000), "+proj=sinu +R=6371007.181")
raster("egm2008", ramp, (9, 45, 0.01), "EPSG:4326+3855")
raster("photo_far", photo, (504500, 4997000, 100))
raster("photo_next", photo, (504000, 5000000, 100))
raster("utm_next", ramp, (950000, 5000000, 100))             # in the next zone, as maps of whole countries are
raster("utm_far", ramp, (-3000000, 5000000, 100))            # far west of zone 32
raster("other_grid", ramp, (500050, 5000050, 100))
raster("next", ramp, (504000, 5000000, 100))
raster("other_size", ramp[:20], utm)
raster("other_crs", ramp, (500000, 5000000, 100), "EPSG:32633")
def scaled(made):
    band = made.GetRasterBand(1)
    band.SetScale(0.1); band.SetOffset(-50)
raster("scaled", (ramp * 3).astype("int16"), utm, then=scaled)
raster("many_classes", numpy.repeat(numpy.repeat(numpy.arange(600, dtype="uint8").reshape(20, 30) // 32, 30, 0), 20, 1), utm)
for name in ("bytes_in_place", "bytes_in_place_too"):
    raster(name, (numpy.arange(1200) % 200).astype("uint8").reshape(30, 40), utm)
raster("scaled_next", (ramp * 3).astype("int16"), (504000, 5000000, 100), then=scaled)
raster("int16", ramp.astype("int16"), utm)
layer("tilted", ["POLYGON ((500000 4997000,500000 4998500,502000 5000000,504000 5000000,504000 4997000,500000 4997000))"], "EPSG:32632")
layer("whole", ["POLYGON ((499000 4990000,499000 5010000,510000 5010000,510000 4990000,499000 4990000))"], "EPSG:32632")
raster("mask", (ramp > 600).astype("uint8"), utm)
raster("pop_2020", ramp, utm, nodata=-1)
raster("mask_in_place", (ramp > 600).astype("uint8"), utm)
raster("classes_in_place", numpy.repeat(numpy.repeat(numpy.arange(600, dtype="uint8").reshape(20, 30) // 32, 30, 0), 20, 1), utm)
layer("tiny_zones", ["POLYGON ((500010 4999510,500010 4999520,500020 4999520,500020 4999510,500010 4999510))"], "EPSG:32632")
raster("quarter", ramp[:15, :20], utm)
raster("shaded", numpy.random.default_rng(1).integers(0, 255, (600, 600), dtype="uint8"), utm)
def statistics(made):
    made.GetRasterBand(1).ComputeStatistics(False)
for name in ("with_statistics", "with_statistics_too"):
    raster(name, ramp, utm, then=statistics)
def pyramids(made):
    made.BuildOverviews("NEAREST", [2])
for name in ("with_overviews", "with_overviews_too"):
    raster(name, ramp, utm, then=pyramids)
globe = numpy.linspace(0, 30, 36 * 18, dtype="float32").reshape(18, 36)
raster("globe", globe, (-180, 90, 10), "EPSG:4326")
raster("globe_360", globe, (0, 90, 10), "EPSG:4326")
raster("mercator", ramp, (1400000, 8400000, 100), "EPSG:3857")
raster("mercator_equator", ramp, (1400000, 5000, 100), "EPSG:3857")
raster("quarter_high", ramp[:15, :20] + 9000, utm)
raster("patch", ramp * 0 + 9000, utm)
raster("rgba", numpy.concatenate([photo, photo[:1] * 0 + 255]), utm)
raster("feet", ramp, (980000, 200000, 100), "EPSG:2263")
raster("feet_known", ramp, (980000, 200000, 100), "EPSG:2263", then=lambda made: made.GetRasterBand(1).SetUnitType("ft"))
raster("zero_nodata", numpy.where(holes == -9999, 0, ramp).astype("float32"), utm, nodata=0)
raster("mask_holes", numpy.where(holes == -9999, 255, ramp > 900).astype("uint8"), utm, nodata=255)
wide = numpy.full((220, 220), -9999, "float32"); wide[:, 0] = range(220)
raster("wide_hole", wide, utm, nodata=-9999)
layer("zones", ["POLYGON ((9 45.11,9 45.14,9.02 45.14,9.02 45.11,9 45.11))"])
layer("zones_utm", ["POLYGON ((500000 4997500,500000 4999500,501500 4999500,501500 4997500,500000 4997500))"], "EPSG:32632")
layer("zones_beside", ["POLYGON ((700000 4997500,700000 4999500,701500 4999500,701500 4997500,700000 4997500))"], "EPSG:32632")
layer("rome_points", ["POINT (0 41.9)", "POINT (0.1 42)"], "EPSG:4806")
layer("mm_points", ["POINT (12.45 41.9)"], "EPSG:4265")
layer("one_nad27", ["POINT (-100 40)"], "EPSG:4267")
layer("israel", ["POINT (190000 610000)", "POINT (190500 610500)"], "EPSG:2039")
layer("squares_two", ["POLYGON ((9 45.11,9 45.14,9.02 45.14,9.02 45.11,9 45.11))"])
layer("measured", ["POINT M (9 45 1)", "POINT M (9.1 45.1 2)"])
layer("many_points", [f"POINT({12 + number % 100 / 1000} {41 + number // 100 / 1000})" for number in range(20_001)])
corners = [(x, y) for x in range(500000, 500460, 10) for y in range(5000000, 5000440, 10)]
cells = [f"POLYGON(({x} {y},{x + 9} {y},{x + 9} {y + 9},{x} {y + 9},{x} {y}))" for x, y in corners]
layer("many_squares", cells[:2001], "EPSG:32632")
layer("some_squares", cells[:99], "EPSG:32632")
for name in ("squares_utm", "squares_utm_too"):
    layer(name, ["POLYGON ((500000 4997500,500000 4999500,501500 4999500,501500 4997500,500000 4997500))"], "EPSG:32632")
layer("points", ["POINT (9 45)", "POINT (9.1 45.1)"])
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
def masked(made):
    made.CreateMaskBand(gdal.GMF_PER_DATASET)
    hole = numpy.full((30, 40), 255, "uint8"); hole[:10, :10] = 0
    made.GetRasterBand(1).GetMaskBand().WriteArray(hole)
raster("masked_photo", photo, utm, then=masked)
raster("masked_classes", (numpy.arange(1200).reshape(30, 40) % 7 + 1).astype("uint8"), utm, then=masked)
raster("masked_heights", ramp, utm, then=masked)
spots = (numpy.arange(1200, dtype="uint8").reshape(30, 40) // 64); spots[5:7, 5:7] = 255
raster("spots", spots, utm, nodata=255)
large = (numpy.arange(1200).reshape(30, 40) // 400).astype("int64")
raster("int64_ids", large + 1152921504606846993, utm, kind=gdal.GDT_Int64)
raster("int64_small", large + 7, utm, kind=gdal.GDT_Int64)
raster("complex", (ramp + 2j * ramp).astype("complex64"), utm, kind=gdal.GDT_CFloat32)
layer("curve", ["CURVEPOLYGON (CIRCULARSTRING (501000 4998000,502000 4999000,503000 4998000,502000 4997000,501000 4998000))"], "EPSG:32632")
raster("rotated", ramp, utm, first=lambda made: None, then=lambda made: made.SetGeoTransform((500000, 86.6, 50, 5000000, 50, -86.6)))
square = numpy.repeat(numpy.repeat(numpy.arange(600).reshape(20, 30) // 32 % 3 + 1, 30, 0), 20, 1)
raster("two_classes", (square % 2 * 2 + 1).astype("uint8"), utm)
raster("float_classes", square.astype("float32"), utm)
raster("zeros_and_ones", (square % 2).astype("uint8"), utm)
def colored(seed):
    def first(made):
        table = gdal.ColorTable()
        for i in range(8):
            table.SetColorEntry(i, (i * seed % 255, 255 - i * 10, 50, 255))
        made.GetRasterBand(1).SetRasterColorTable(table)
    return first
few = (numpy.arange(1200).reshape(30, 40) // 300 + 1).astype("uint8")
raster("colors_a", few, utm, first=colored(10))
raster("colors_b", few, (504000, 5000000, 100), first=colored(10))
raster("colors_c", few, (504000, 5000000, 100), first=colored(70))
raster("holes_silent", holes, (504000, 5000000, 100))
raster("two_hundred", numpy.full((30, 40), 200, "uint8"), utm)
raster("twenty", numpy.full((30, 40), 20, "uint8"), utm)
raster("lonlat_heights", ramp, (9, 45, 0.01), "EPSG:4326")
raster("lonlat_heights_too", ramp, (9, 45, 0.01), "EPSG:4326")
raster("positions_differ", ramp, utm)
open(f"{folder}/positions_differ.tif.aux.xml", "w").write("<PAMDataset><GeoTransform>700000,100,0,5000000,0,-100</GeoTransform></PAMDataset>")
raster("positions_agree", ramp, utm)
open(f"{folder}/positions_agree.tfw", "w").write("100\n0\n0\n-100\n500050\n4999950\n")
layer("feet_square", ["POLYGON ((6400000 1900000,6400000 1900100,6400100 1900100,6400100 1900000,6400000 1900000))"], "EPSG:2229")
layer("west_zone", ["POLYGON ((-10 -10,-10 10,10 10,10 -10,-10 -10))"])
layer("east_zone", ["POLYGON ((10 -10,10 10,30 10,30 -10,10 -10))"])
degrees = numpy.arange(360 * 180, dtype="float32").reshape(180, 360)
raster("globe_degrees_360", degrees, (0, 90, 1), "EPSG:4326")
raster("globe_degrees_180", degrees, (-180, 90, 1), "EPSG:4326")
raster("about_180", numpy.ones((100, 100), "float32"), (750000, 100000, 2000), "EPSG:32660")
layer("points_about_180", ["POINT (179.5 -10)", "POINT (-179.5 -11)"])
cut = "MULTIPOLYGON (((179 -17,180 -17,180 -16,179 -16,179 -17)),((-180 -17,-179 -17,-179 -16,-180 -16,-180 -17)))"
layer("zone_about_180", [cut])
raster("tiny_values", numpy.arange(1200).reshape(30, 40) * 0.000123 + 0.00001, utm)
layer("west_zone_84", ["POLYGON ((-10 -10,-10 10,10 10,10 -10,-10 -10))"], "OGC:CRS84")
layer("ten", [f"POINT ({i} 4)" for i in range(10)])
import shutil, sqlite3
shutil.copy(f"{folder}/ten.gpkg", f"{folder}/stale_count.gpkg")
stale = sqlite3.connect(f"{folder}/stale_count.gpkg")
stale.execute("UPDATE gpkg_ogr_contents SET feature_count = 99")
stale.commit(); stale.close()
shutil.copy(f"{folder}/ten.gpkg", "/tmp/journal.gpkg")
gdal.SetConfigOption("OGR_SQLITE_JOURNAL", "WAL")
writing = gdal.OpenEx("/tmp/journal.gpkg", gdal.OF_VECTOR | gdal.OF_UPDATE)
into = writing.GetLayer(0)
for i in range(5):
    feature = ogr.Feature(into.GetLayerDefn())
    feature.SetField("id", 100 + i); feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT (50 {i})"))
    into.CreateFeature(feature)
writing.FlushCache()
for ending in ("", "-wal"):  # as they are copied while a program has them open
    shutil.copy(f"/tmp/journal.gpkg{ending}", f"{folder}/pending.gpkg{ending}")
into = feature = None
writing.Close()
shutil.copy("/tmp/journal.gpkg", f"{folder}/wal_mode.gpkg")
gdal.SetConfigOption("OGR_SQLITE_JOURNAL", None)
import zipfile
points = gdal.GetDriverByName("ESRI Shapefile").Create("/tmp/roads.shp", 0, 0, 0, gdal.GDT_Unknown)
roads = points.CreateLayer("roads", crs("EPSG:4326"), ogr.wkbPoint)
feature = ogr.Feature(roads.GetLayerDefn()); feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (1 2)")); roads.CreateFeature(feature)
roads = feature = None; points.Close()
with zipfile.ZipFile(f"{folder}/deep.zip", "w") as packed:
    for ending in ("shp", "shx", "dbf", "prj"):
        packed.write(f"/tmp/roads.{ending}", f"data/sub/roads.{ending}")

raster("nan_declared", numpy.where(holes == -9999, numpy.nan, ramp).astype("float32"), utm, nodata=float("nan"))
raster("fractions", numpy.linspace(0.1, 0.9, 1200, dtype="float32").reshape(30, 40), utm)
raster("classes_with_holes", numpy.where((holes == -9999), 0, few).astype("uint8"), utm, nodata=0)
raster("few_holes", numpy.where((holes == -9999), 0, numpy.random.default_rng(2).integers(1, 255, (30, 40))).astype("uint8"), utm, nodata=0)
raster("south_up", ramp[::-1], utm, then=lambda made: made.SetGeoTransform((500000, 100, 0, 4997000, 0, 100)))
raster("mirrored", ramp[:, ::-1], utm, then=lambda made: made.SetGeoTransform((504000, -100, 0, 5000000, 0, -100)))
made = gdal.GetDriverByName("GTiff").Create(f"{folder}/control_points.tif", 40, 30, 1, gdal.GDT_Float32)
made.SetGCPs([gdal.GCP(500000 + x * 100, 5000000 - y * 100, 0, x, y) for x in (0, 40) for y in (0, 30)], crs("EPSG:32632"))
made.GetRasterBand(1).WriteArray(ramp); made.Close()
raster("stored_statistics", ramp, utm)
open(f"{folder}/stored_statistics.tif.aux.xml", "w").write("".join(['<PAMDataset><PAMRasterBand band="1"><Metadata>', *(f'<MDI key="STATISTICS_{name}">{value}</MDI>' for name, value in (("MINIMUM", 0), ("MAXIMUM", 9), ("MEAN", 5), ("STDDEV", 1))), "</Metadata></PAMRasterBand></PAMDataset>"]))
raster("true_statistics", ramp, utm, then=statistics)
smooth = numpy.linspace(0, 1000, 512 * 512, dtype="float32").reshape(512, 512)
for name in ("old_overviews", "true_overviews"):
    raster(name, smooth, utm)
    opened = gdal.Open(f"{folder}/{name}.tif"); opened.BuildOverviews("AVERAGE", [2, 4]); opened = None
opened = gdal.Open(f"{folder}/old_overviews.tif", gdal.GA_Update); opened.GetRasterBand(1).WriteArray(smooth + 5000); opened = None
def shapefile(name, places, *options):
    features(name, [f"POINT ({x} {y})" for x, y in places], driver="ESRI Shapefile", options=options, name=["Zürich"] * len(places))
shapefile("true_index", [(i, i) for i in range(10)], "SPATIAL_INDEX=YES")
shapefile("old_index", [(50 + i, 20 + i) for i in range(10)])
shutil.copy(f"{folder}/true_index.qix", f"{folder}/old_index.qix")
shapefile("false_encoding", [(1, 1)], "ENCODING=UTF-8")
open(f"{folder}/false_encoding.cpg", "w").write("ISO-8859-1")
shapefile("more_records", [(i, i) for i in range(5)])
shutil.copy(f"{folder}/true_index.dbf", f"{folder}/more_records.dbf")
layer("far_coordinates", ["POINT (500000 5000000)"])
layer("points_350", ["POINT (350 50)", "POINT (2 46)"])
layer("measures", ["LINESTRING ZM (0 0 1 2,1 1 3 4)"])
raster("part_360", degrees[:20, :30], (340, 60, 1), "EPSG:4326")
raster("part_180", degrees[:20, :30], (-10, 60, 1), "EPSG:4326")
raster("part_next", degrees[:20, :30], (20, 60, 1), "EPSG:4326")
raster("deep_photo", numpy.random.default_rng(3).integers(0, 10000, (3, 100, 100)).astype("uint16"), utm)
with zipfile.ZipFile(f"{folder}/rasters.zip", "w") as packed:
    packed.write(f"{folder}/low.tif", "a/low.tif")
import gzip
with gzip.open(f"{folder}/low.tif.gz", "wb") as packed:
    packed.write(open(f"{folder}/low.tif", "rb").read())
layer("bow", ["POLYGON ((500000 4997500,501000 4998500,501000 4997500,500000 4998500,500000 4997500))"], "EPSG:32632")
layer("large_and_tiny", ["POLYGON ((500000 4997500,500000 4999500,501500 4999500,501500 4997500,500000 4997500))", "POLYGON ((500010 4999510,500010 4999520,500020 4999520,500020 4999510,500010 4999510))"], "EPSG:32632")
raster("two_codes", numpy.array([[1, 1, 3]] * 3, "uint8"), (500000, 5000000, 20))
raster("three_codes", numpy.array([[1, 1, 2, 3]] * 4, "uint8"), (500000, 5000000, 15))
square_of = "POLYGON (({0} {0},{0} {1},{1} {1},{1} {0},{0} {0}))".format
angle = "POLYGON ((500000 500000,500100 500000,500100 500020,500020 500020,500020 500100,500000 500100,500000 500000))"
layer("l_shape", [angle], "EPSG:32632")
layer("convex", [square_of(500010, 500015)], "EPSG:32632")
layer("notch", [square_of(500005, 500090)], "EPSG:32632")
layer("larger_square", [square_of(500000, 500100)], "EPSG:32632")
layer("smaller_square", [square_of(500020, 500060)], "EPSG:32632")
layer("same_square", [square_of(500000, 500100)], "EPSG:32632")
layer("slope_line", ["LINESTRING Z (500000 500000 0,500300 500000 400)"], "EPSG:32632")
layer("flat_line", ["LINESTRING Z (500000 500000 50,500300 500000 50)"], "EPSG:32632")
def turned_points(made):
    made.SetGCPs([gdal.GCP(500000 + x * 80 + y * 60, 5000000 + x * 60 - y * 80, 0, x, y) for x in (0, 40) for y in (0, 30)], crs("EPSG:32632"))
raster("turned_points", ramp, None, None, first=turned_points)
for name in ("sparse_ids", "keyed_ids"):
    layer(name, ["POINT (9 45)", "POINT (9.1 45.1)", "POINT (9.2 45.3)"])
    opened = gdal.OpenEx(f"{folder}/{name}.gpkg", gdal.OF_VECTOR | gdal.OF_UPDATE)
    opened.ExecuteSQL(f"UPDATE {name} SET fid = fid * 7{', id = fid * 7' if name == 'keyed_ids' else ''}")
    opened.Close()
layer("after_deletions", [f"POINT ({i} 4)" for i in range(10)])
opened = gdal.OpenEx(f"{folder}/after_deletions.gpkg", gdal.OF_VECTOR | gdal.OF_UPDATE)
opened.ExecuteSQL("DELETE FROM after_deletions WHERE fid IN (1, 4, 5)"); opened.Close()
layer("two_layers", ["POINT (9 45)", "POINT (9.1 45.1)"])
opened = gdal.OpenEx(f"{folder}/two_layers.gpkg", gdal.OF_VECTOR | gdal.OF_UPDATE)
into = opened.CreateLayer("wells", crs("EPSG:4326"), ogr.wkbPoint)
feature = ogr.Feature(into.GetLayerDefn()); feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (9 45)")); into.CreateFeature(feature)
opened.ExecuteSQL("ALTER TABLE two_layers RENAME TO zones"); opened.Close()
y, x = numpy.mgrid[0:120, 0:120]
heights = (100 + x + y / 7).astype("float32")
turned = abs((x - 60) + (y - 60) / 2) < 50
turned &= abs((y - 60) - (x - 60) / 2) < 50
raster("turned_zeros", numpy.where(turned, heights, 0).astype("float32"), utm)
raster("turned_nodata", numpy.where(turned, heights, 0).astype("float32"), utm, nodata=0)
raster("turned_mask", turned.astype("uint8"), utm)
raster("coast", numpy.where(x + 9 * numpy.sin(y / 9) > 60, heights, 0).astype("float32"), utm)
raster("large_overviews", numpy.add.outer(numpy.arange(2000), numpy.arange(2200)).astype("int16"), utm, options=["COMPRESS=DEFLATE", "TILED=YES"])
opened = gdal.Open(f"{folder}/large_overviews.tif"); opened.BuildOverviews("AVERAGE", [2, 4, 8]); opened = None
raster("oblong", ramp, utm, then=lambda made: made.SetGeoTransform((500000, 100, 0, 5000000, 0, -200)))
raster("above_geoid", ramp, utm, "EPSG:32632+5773")
raster("photo_above_geoid", photo, utm, "EPSG:32632+5773")
raster("above_ellipsoid", ramp, (9, 45, 0.001), "EPSG:4979")
def workbook(name, form, value):
    """A column of dates and times with a number format, as other programs write it."""
    main, ties = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    rows = "".join(f'<row r="{i}"><c r="A{i}"><v>{i}</v></c><c r="B{i}" s="1"><v>{value}</v></c></row>' for i in (2, 3))
    head = '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="inlineStr"><is><t>at</t></is></c></row>'
    kinds = "".join(f'<Override PartName="/xl/{one}.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>' for one, kind in (("workbook", "sheet.main"), ("worksheets/sheet1", "worksheet"), ("styles", "styles")))
    relation = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'.format
    tie = f'<Relationship Id="{{}}" Type="{ties}/{{}}" Target="{{}}"/>'.format
    with zipfile.ZipFile(f"{folder}/{name}.xlsx", "w") as packed:
        packed.writestr("[Content_Types].xml", f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{kinds}</Types>')
        packed.writestr("_rels/.rels", relation(tie("rId1", "officeDocument", "xl/workbook.xml")))
        packed.writestr("xl/_rels/workbook.xml.rels", relation(tie("rId1", "worksheet", "worksheets/sheet1.xml") + tie("rId2", "styles", "styles.xml")))
        packed.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{ties}"><sheets><sheet name="{name}" sheetId="1" r:id="rId1"/></sheets></workbook>')
        packed.writestr("xl/styles.xml", f'<styleSheet xmlns="{main}"><numFmts count="1"><numFmt numFmtId="164" formatCode="{form}"/></numFmts><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>')
        packed.writestr("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{head}{rows}</sheetData></worksheet>')
workbook("sheet_times", "yyyy-mm-dd h:mm:ss", 43928.4153)
workbook("sheet_moments", "yyyy-mm-dd hh:mm:ss", 43928.4153)
workbook("sheet_dates", "yyyy-mm-dd", 43928)
layer("local_grid", ["POINT (100 200)"], 'LOCAL_CS["site grid",UNIT["metre",1]]')
open(f"{folder}/titles.csv", "w").write("ward,income\nW1,300\nW2,400\n")
gdal.VectorTranslate(f"{folder}/titles.xlsx", f"{folder}/titles.csv", format="XLSX")
made = gdal.GetDriverByName("netCDF").CreateMultiDimensional(f"{folder}/series.nc")
root = made.GetRootGroup()
sizes = [root.CreateDimension("time", "TEMPORAL", "", 3), root.CreateDimension("y", "", "", 4), root.CreateDimension("x", "", "", 5)]
moments = root.CreateMDArray("time", sizes[:1], gdal.ExtendedDataType.Create(gdal.GDT_Float64))
unit = moments.CreateAttribute("units", [], gdal.ExtendedDataType.CreateString()); unit.Write("days since 2020-01-01")
moments.Write(numpy.arange(3.0))
for name in ("heat", "rain"):
    root.CreateMDArray(name, sizes, gdal.ExtendedDataType.Create(gdal.GDT_Float32)).Write(numpy.arange(60, dtype="float32").reshape(3, 4, 5))
moments = unit = root = sizes = made = None
counts = numpy.arange(1200, dtype="uint16").reshape(30, 40)
for name in ("counts_now", "counts_before"):
    raster(name, counts, utm, nodata=0)
'''
