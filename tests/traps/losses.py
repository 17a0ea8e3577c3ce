"""Traps about what a call loses without an error of GDAL: digits, directions, flags, metadata.

`MAKE` continues the program of `explained.py`, and `TABLE` the table of `table.py`.
"""

MAKE = r"""
def with_items(made):
    made.SetMetadataItem("acquired", "2024-01-02"); made.GetRasterBand(1).SetMetadataItem("wavelength", "0.66")
raster("with_items", ramp, utm, then=with_items)
zeros = " ".join("0" * 20)
sensor = {**{f"{a}_{b}": "1" for a in ("LINE", "SAMP", "LAT", "LONG", "HEIGHT") for b in ("OFF", "SCALE")}, **{f"{a}_{b}_COEFF": zeros if b == "NUM" else "1 " + zeros[2:] for a in ("LINE", "SAMP") for b in ("NUM", "DEN")}}
raster("with_sensor", ramp, None, None, first=lambda made: made.SetMetadata(sensor, "RPC"))
raster("with_points", ramp, None, None, first=lambda made: made.SetGCPs([gdal.GCP(500000 + x * 100, 5000000 - y * 100, 0, x, y) for x in (0, 40) for y in (0, 30)], crs("EPSG:32632")))
raster("with_geolocation", ramp, None, None, first=lambda made: made.SetMetadata({"X_DATASET": "lon.tif", "X_BAND": "1", "Y_DATASET": "lat.tif", "Y_BAND": "1", "PIXEL_OFFSET": "0", "LINE_OFFSET": "0", "PIXEL_STEP": "1", "LINE_STEP": "1"}, "GEOLOCATION"))
feature_of = '{{"type": "Feature", {} "properties": {{"a": {}}}, "geometry": {{"type": "Point", "coordinates": [{}, 0]}}}}'.format
collection = '{{"type": "FeatureCollection", {} "features": [{}, {}]}}'.format
open(f"{folder}/styled.geojson", "w").write(collection("", feature_of('"style": {"color": "red"},', 1, 0), feature_of("", 2, 1)))
open(f"{folder}/titled.geojson", "w").write(collection('"legend": "a",', feature_of("", 1, 0), feature_of("", 2, 1)))
open(f"{folder}/of_service.geojson", "w").write(collection('"bbox": [0, 0, 1, 0], "numberMatched": 2, "timeStamp": "2024-01-01T00:00:00Z", "links": [],', feature_of('"id": 1, "geometry_name": "geom",', 1, 0), feature_of('"id": 2,', 2, 1)))
placemark = '<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>{}<Placemark><name>a</name>{}<Point><coordinates>9,45</coordinates></Point></Placemark></Document></kml>'.format
open(f"{folder}/styled.kml", "w").write(placemark('<Style id="r"><IconStyle><color>ff0000ff</color></IconStyle></Style>', "<styleUrl>#r</styleUrl>"))
open(f"{folder}/unstyled.kml", "w").write(placemark("", ""))
raster("feet_next", ramp * 3, (504000, 5000000, 100), then=lambda made: made.GetRasterBand(1).SetUnitType("ft"))
raster("feet_high", ramp * 3, (500000, 5000000, 100), then=lambda made: made.GetRasterBand(1).SetUnitType("US survey foot"))
raster("metres_next", ramp, (504000, 5000000, 100), then=lambda made: made.GetRasterBand(1).SetUnitType("metre"))
features("n_whole", ["POINT (9 45)"], n=[1])
features("n_whole_too", ["POINT (9 45)"], n=[2])
features("n_real", ["POINT (9 45)"], n=[1.5])
dots = ["POINT (501000 4998000)"] * 3000
features("curve_at_the_end", [*dots, "CURVEPOLYGON (CIRCULARSTRING (501000 4998000,502000 4999000,503000 4998000,502000 4997000,501000 4998000))"], "EPSG:32632", ogr.wkbUnknown)
features("square_at_the_end", [*dots, "POLYGON ((501000 4998000,502000 4999000,503000 4998000,502000 4997000,501000 4998000))"], "EPSG:32632", ogr.wkbUnknown)
layer("houses", ["POINT (1 1)", "POINT (2.5 2.5)", "POINT (4.5 4.5)"])
layer("overlapping_areas", ["POLYGON ((0 0,0 3,3 3,3 0,0 0))", "POLYGON ((2 2,2 5,5 5,5 2,2 2))"])
layer("separate_areas", ["POLYGON ((0 0,0 3,3 3,3 0,0 0))", "POLYGON ((4 4,4 5,5 5,5 4,4 4))"])

for name, first in (("wide_keys", 9007199254740993), ("short_keys", 900719925474)):
    features(name, [f"POINT (9.{i} 45)" for i in range(3)], code=[first, first + 2, first + 4], size=[0.5, 1.5, 2.5])
point = '{{"type": "Feature", "properties": {{"code": {}}}, "geometry": {{"type": "Point", "coordinates": [9, 45]}}}}'.format
for name, codes in (("keys_64.geojson", (1152921504606846993, 1152921504606846995)), ("keys_65.geojson", (12345678901234567891, 12345678901234567893)), ("keys_text.geojson", ('"12345678901234567891"', '"12345678901234567893"'))):
    open(f"{folder}/{name}", "w").write('{"type": "FeatureCollection", "features": [%s]}' % ", ".join(map(point, codes)))
open(f"{folder}/keys_and_fractions.csv", "w").write("code,n\n9007199254740993,1\n9007199254740995,2\n0.5,3\n")
open(f"{folder}/keys_whole.csv", "w").write("code,n\n9007199254740993,1\n9007199254740995,2\n,3\n")

north = (numpy.arange(1200).reshape(30, 40) * 37 % 360).astype("float32")
for name, values in (("aspect_of_hill", north), ("dem_of_hill", north), ("north_slopes", north), ("aspect_of_slope", 100 + north / 10)):
    raster(name, values, utm, nodata=-9999)
raster("wind", north, utm, nodata=-9999, then=lambda made: made.GetRasterBand(1).SetDescription("wind_direction"))
raster("in_degrees", north, utm, nodata=-9999, then=lambda made: made.GetRasterBand(1).SetUnitType("degrees"))
raster("celsius", north / 12, utm, nodata=-9999, then=lambda made: made.GetRasterBand(1).SetUnitType("degrees Celsius"))
raster("steep", north / 4, utm, nodata=-9999, then=lambda made: made.GetRasterBand(1).SetUnitType("degrees"))
bits = (numpy.random.default_rng(5).integers(1, 65535, (30, 40))).astype("uint16")
for name in ("scene_QA_PIXEL", "scene_B4"):
    raster(name, bits, utm, nodata=0)
raster("described_flags", bits, utm, nodata=0, then=lambda made: made.GetRasterBand(1).SetDescription("Fmask"))
def quality(made):
    for number, name in enumerate(("red", "green", "QA_PIXEL"), 1):
        made.GetRasterBand(number).SetDescription(name)
        made.GetRasterBand(number).SetColorInterpretation(gdal.GCI_Undefined)
raster("stack_with_quality", numpy.stack([bits, bits // 2, bits]), utm, nodata=0, then=quality)
raster("flags", photo, utm)
years = (1960 + numpy.arange(1200).reshape(30, 40) * 7 % 60).astype("int16")
for name in ("year_built", "heights_built"):
    raster(name, years, utm, nodata=-1)
raster("rain_year_2020", (numpy.arange(1200).reshape(30, 40) * 7 % 250 + 3).astype("uint16"), utm, nodata=0)
raster("landcover_2018", (numpy.arange(1200).reshape(30, 40) * 7 % 44 + 100).astype("int16"), utm, nodata=-1)
raster("landcover_percent", (numpy.arange(1200).reshape(30, 40) * 7 % 100 + 1).astype("uint8"), utm, nodata=0)

raster("feet_and_metres", numpy.stack([ramp, ramp]), utm, then=lambda made: [made.GetRasterBand(1).SetUnitType("metre"), made.GetRasterBand(2).SetUnitType("ft")])
ridge = numpy.full((101, 101), 100, "float32"); ridge[:, 60] = 130
raster("ridge", ridge, (500000, 5000000, 30))
raster("ridge_in_feet", ridge * 3.28, (500000, 5000000, 30), then=lambda made: made.GetRasterBand(1).SetUnitType("ft"))
raster("ridge_feet_crs", ridge, (6400000, 1900000, 100), "EPSG:2229")
raster("ridge_mercator", ridge, (1000000, 8000000, 30), "EPSG:3857")
spot = numpy.zeros((101, 101), "uint8"); spot[50, 50] = 1
raster("spot", spot, (500000, 5000000, 30))
raster("spot_mercator", spot, (1000000, 8000000, 30), "EPSG:3857")
low_codes = (numpy.arange(1200) % 50 + 1).astype("uint8").reshape(30, 40)
raster("zero_is_nodata", numpy.where(ramp < 120, 0, low_codes), utm, nodata=0)
raster("zero_is_data", numpy.where(ramp < 120, 255, low_codes - 1).astype("uint8"), (504000, 5000000, 100), nodata=255)
raster("no_zeros", numpy.where(ramp < 120, 255, low_codes).astype("uint8"), (504000, 5000000, 100), nodata=255)
for name, value, nodata in (("other_fill", -32768, -9999), ("netcdf_fill", 9.969209968386869e36, None), ("climate_fill", 1e20, None), ("surfer_fill", 1.70141e38, None), ("surfer_nodata", 1.70141e38, 1.70141e38)):
    raster(name, numpy.where(holes == -9999, numpy.float32(value), ramp).astype("float32"), utm, nodata=nodata)
raster("large_counts", ramp * 1e15, utm)
def with_missing_value(made):
    made.GetRasterBand(1).SetMetadataItem("missing_value", "-999")
packed = numpy.where(holes == -9999, -999, ramp).astype("int16"); packed[20:, 20:] = -32767
raster("second_missing_value", packed, utm, nodata=-32767, then=with_missing_value)
raster("first_missing_value", packed, utm, nodata=-999, then=with_missing_value)
spotted = photo.copy(); spotted[:, 5:9, 5:9] = 0
raster("photo_holes", spotted, utm, nodata=0)
raster("band_holes", spotted[:1], utm, nodata=0)
raster("seconds", numpy.linspace(4999999.123456, 5000000.987654, 1200).reshape(30, 40), utm)
raster("whole_doubles", numpy.floor(numpy.linspace(100, 1100, 1200)).reshape(30, 40), utm)
open(f"{folder}/three_colors.txt", "w").write("# land cover\n1 0 90 0\n2 255 0 0\nnv 0 0 0\n3 0 0 255\n")
open(f"{folder}/four_colors.txt", "w").write("1 0 90 0\n2,255,0,0\n3:0:0:255\n4 9 9 9\n")
made = gdal.GetDriverByName("GPKG").Create(f"{folder}/some_values.gpkg", 0, 0, 0, gdal.GDT_Unknown)
into = made.CreateLayer("some_values", crs("EPSG:32632"), ogr.wkbPolygon)
into.CreateField(ogr.FieldDefn("value", ogr.OFTReal)); into.CreateField(ogr.FieldDefn("rank", ogr.OFTReal))
for i, value in enumerate((5.0, None, 9.0)):
    feature = ogr.Feature(into.GetLayerDefn()); feature.SetField("rank", i + 1.0)
    if value is not None:
        feature.SetField("value", value)
    feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POLYGON (({500000 + i * 1000} 4998000,{501000 + i * 1000} 4998000,{501000 + i * 1000} 4999000,{500000 + i * 1000} 4999000,{500000 + i * 1000} 4998000))")); into.CreateFeature(feature)
into = feature = None; made.Close()
def degree_cell(name, lon, lat, columns, rows, kind="int16", **more):
    # one degree of heights, with the outer pixels centred on whole degrees
    values = numpy.linspace(100, 1100, columns * rows).reshape(rows, columns)
    x, y = 1 / (columns - 1), 1 / (rows - 1)
    raster(name, more.pop("change", lambda values: values)(values).astype(kind), None, "EPSG:4326", first=lambda made: made.SetGeoTransform((lon - x / 2, x, 0, lat + 1 + y / 2, 0, -y)), **more)
degree_cell("srtm_cell", 8, 47, 1201, 1201, options=["COMPRESS=DEFLATE"])
degree_cell("level_0", 8, 47, 121, 121)
degree_cell("level_0_holes", 8, 47, 121, 121, nodata=-32767, change=lambda values: numpy.where(values < 150, -32767, values))
degree_cell("level_0_north", 8, 61, 61, 121)
degree_cell("level_0_wide", 8, 61, 121, 121)
degree_cell("level_0_fractions", 8, 47, 121, 121, "float32")
for name, system in (("shifts", "EPSG:4326"), ("shifts_nad83", "EPSG:4269")):
    raster(name, ramp / 20, (5, 50, 0.25), system)
raster("whole_heights", ramp.astype("int16"), utm)
point_of = '<p:FeatureCollection xmlns:p="http://ogr.maptools.org/" xmlns:gml="http://www.opengis.net/gml"><gml:featureMember><p:p fid="p.0"><p:geometryProperty><gml:Point srsName="{}"><gml:coordinates>{}</gml:coordinates></gml:Point></p:geometryProperty><p:name>a</p:name></p:p></gml:featureMember></p:FeatureCollection>'.format
for name, system, place in (("longitude_first", "http://www.opengis.net/gml/srs/epsg.xml#4326", "-120.5,47.2"), ("latitude_first", "http://www.opengis.net/gml/srs/epsg.xml#4326", "47.2,-120.5"), ("latitude_first_urn", "urn:ogc:def:crs:EPSG::4326", "47.2,-120.5")):
    open(f"{folder}/{name}.gml", "w").write(point_of(system, place))
raster("metres_scaled", (ramp * 100).astype("int32"), utm, then=lambda made: [made.GetRasterBand(1).SetUnitType("m"), made.GetRasterBand(1).SetScale(0.01)])
raster("in_millimetres", ramp * 1000, utm, then=lambda made: made.GetRasterBand(1).SetUnitType("mm"))
raster("in_millimetres_too", ramp * 1000, utm, then=lambda made: made.GetRasterBand(1).SetUnitType("millimetres"))
raster("in_centimetres", ramp * 100, utm, then=lambda made: made.GetRasterBand(1).SetUnitType("cm"))
raster("zones_half_off", few, (500050, 5000050, 100))
raster("zones_coarse", few[:15, :20], (500000, 5000000, 200))
sharp = numpy.random.default_rng(3).integers(1, 255, (1, 60, 80), dtype="uint8")
for name, west, system in (("sharp", 500000, "EPSG:32632"), ("sharp_east", 501000, "EPSG:32632"), ("sharp_other_crs", 500000, "EPSG:32633")):
    raster(name, sharp, (west, 5000000, 50), system)
raster("first_mask", (ramp > 300).astype("uint8"), utm)
raster("codes_before", few, utm)
raster("codes_after", numpy.where(ramp > 900, 1, few).astype("uint8"), utm)
"""

TABLE = r"""
# whole numbers with more digits than a double, a JSON reader or a spreadsheet stores
digits_lost
    query inputs=["wide_keys.gpkg"] sql=SELECT CAST(code AS REAL) AS c FROM wide_keys
    query inputs=["wide_keys.gpkg"] sql=SELECT size * 1e17 AS large FROM wide_keys
    query inputs=["short_keys.gpkg"] sql=SELECT code * 1e9 AS c FROM short_keys
    query inputs=["wide_keys.gpkg"] sql=SELECT CAST(max(code) AS TEXT) AS c, sum(size) AS size FROM wide_keys
digits_lost
    query inputs=["wide_keys.gpkg"] sql=SELECT code, size FROM wide_keys
    query inputs=["wide_keys.gpkg"] sql=SELECT count(*) AS n FROM wide_keys WHERE code > 9007199254740992
    query inputs=["short_keys.gpkg"] sql=SELECT code, size FROM short_keys
digits_lost
    query_to_file inputs=["wide_keys.gpkg"] sql=SELECT coalesce(code, 0.0) + 0.5 AS code, geom FROM wide_keys output=OUT.gpkg
    query_to_file inputs=["wide_keys.gpkg"] sql=SELECT code, size, geom FROM wide_keys output=OUT.gpkg
digits_lost
    vector sql input=wide_keys.gpkg output=OUT.fgb dialect=OGRSQL sql=SELECT CAST(code AS float) AS code FROM wide_keys
    vector sql input=wide_keys.gpkg output=OUT.fgb dialect=OGRSQL sql=SELECT code FROM wide_keys
digits_lost
    vector convert input=wide_keys.gpkg output=OUT.geojson
    vector convert input=short_keys.gpkg output=OUT.geojson
    query_to_file inputs=["wide_keys.gpkg"] sql=SELECT CAST(code AS TEXT) AS code, geom FROM wide_keys output=OUT.geojson
digits_lost ignoring:geometry_left_out
    vector convert input=wide_keys.gpkg output=OUT.xlsx
    vector convert input=short_keys.gpkg output=OUT.xlsx
    vector convert input=wide_keys.gpkg output=OUT.csv
digits_lost ignoring:nodata_undeclared
    vector rasterize input=wide_keys.gpkg output=OUT.tif attribute-name=code resolution=[0.1,0.1] output-data-type=Int64
    vector rasterize input=short_keys.gpkg output=OUT.tif attribute-name=code resolution=[0.1,0.1] output-data-type=Int64
digits_lost before ignoring:identical_to_input
    vector convert input=keys_65.geojson output=OUT.gpkg
    vector convert input=keys_64.geojson output=OUT.gpkg
    vector convert input=keys_text.geojson output=OUT.gpkg
digits_lost before
    query inputs=["keys_65.geojson"] sql=SELECT code FROM keys_65
    query inputs=["keys_64.geojson"] sql=SELECT CAST(code AS TEXT) AS code FROM keys_64
digits_lost before
    query inputs=["keys_and_fractions.csv"] sql=SELECT code FROM keys_and_fractions
    query inputs=["keys_and_fractions.csv"] sql=SELECT n FROM keys_and_fractions
    query inputs=["keys_whole.csv"] sql=SELECT CAST(code AS TEXT) AS code FROM keys_whole

# directions across north, and codes that only a name tells
directions_averaged before
    raster resize input=aspect_of_hill.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=aspect_of_hill.tif output=OUT.tif size=["20","15"] resampling=nearest
    raster resize input=dem_of_hill.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=aspect_of_slope.tif output=OUT.tif size=["20","15"] resampling=average
directions_averaged before
    reproject input=wind.tif output=OUT.tif dst_crs=EPSG:25832 resampling=bilinear extra_args=["--dst-nodata=-9999"]
    reproject input=north_slopes.tif output=OUT.tif dst_crs=EPSG:25832 resampling=bilinear extra_args=["--dst-nodata=-9999"]
directions_averaged before ignoring:labels_lost
    raster resize input=in_degrees.tif output=OUT.tif size=["20","15"] resampling=cubic
    raster resize input=celsius.tif output=OUT.tif size=["20","15"] resampling=cubic
    raster resize input=steep.tif output=OUT.tif size=["20","15"] resampling=cubic
directions_averaged before
    raster zonal-stats input=aspect_of_hill.tif zones=zones_utm.gpkg output=OUT.csv stat=["mean"] include-field=["id"]
    raster zonal-stats input=aspect_of_hill.tif zones=zones_utm.gpkg output=OUT.csv stat=["max","mode"] include-field=["id"]
    raster zonal-stats input=celsius.tif zones=zones_utm.gpkg output=OUT.csv stat=["mean"] include-field=["id"]
directions_averaged before
    raster neighbors input=wind.tif output=OUT.tif method=["mean"] kernel=["equal"]
    raster neighbors input=wind.tif output=OUT.tif method=["max"] kernel=["equal"]
directions_averaged before
    pipeline steps=read elevation.tif ! aspect ! resize --size=20,15 --resampling=average ! write OUT.tif
    pipeline steps=read elevation.tif ! resize --size=20,15 --resampling=average ! aspect ! write OUT.tif
    pipeline steps=read elevation.tif ! aspect ! resize --size=20,15 ! write OUT.tif
classes_mixed before
    raster resize input=scene_QA_PIXEL.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=scene_QA_PIXEL.tif output=OUT.tif size=["20","15"] resampling=nearest
    raster resize input=scene_B4.tif output=OUT.tif size=["20","15"] resampling=average
classes_mixed before
    reproject input=described_flags.tif output=OUT.tif dst_crs=EPSG:25832 resampling=cubic
    reproject input=described_flags.tif output=OUT.tif dst_crs=EPSG:25832
classes_mixed before
    raster resize input=stack_with_quality.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=flags.tif output=OUT.tif size=["20","15"] resampling=average
    pipeline steps=read stack_with_quality.tif ! select --band=1,2 ! write OUT.tif
classes_mixed before
    raster resize input=year_built.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=heights_built.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=rain_year_2020.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=year_built.tif output=OUT.tif size=["20","15"] resampling=mode
classes_mixed before
    raster resize input=landcover_2018.tif output=OUT.tif size=["20","15"] resampling=bilinear
    raster resize input=landcover_2018.tif output=OUT.tif size=["20","15"]
    raster resize input=landcover_percent.tif output=OUT.tif size=["20","15"] resampling=bilinear

# counts of a join by place
summed_twice
    query inputs=["houses.gpkg","overlapping_areas.gpkg"] sql=SELECT count(*) AS n FROM houses h JOIN overlapping_areas a ON ST_Within(h.geom, a.geom)
    query inputs=["houses.gpkg","separate_areas.gpkg"] sql=SELECT count(*) AS n FROM houses h JOIN separate_areas a ON ST_Within(h.geom, a.geom)
    query inputs=["houses.gpkg","overlapping_areas.gpkg"] sql=SELECT count(DISTINCT h.rowid) AS n FROM houses h JOIN overlapping_areas a ON ST_Within(h.geom, a.geom)
    query inputs=["houses.gpkg","overlapping_areas.gpkg"] sql=SELECT a.id, count(h.id) AS n FROM overlapping_areas a LEFT JOIN houses h ON ST_Within(h.geom, a.geom) GROUP BY a.id
    query inputs=["houses.gpkg","overlapping_areas.gpkg"] sql=SELECT count(*) AS n FROM houses h WHERE EXISTS (SELECT 1 FROM overlapping_areas a WHERE ST_Within(h.geom, a.geom))
summed_twice
    query inputs=["houses.gpkg","overlapping_areas.gpkg"] sql=SELECT count(h.id) AS n FROM overlapping_areas a, houses h WHERE ST_Intersects(h.geom, a.geom) = 1
    query inputs=["houses.gpkg","separate_areas.gpkg"] sql=SELECT count(h.id) AS n FROM separate_areas a, houses h WHERE ST_Intersects(h.geom, a.geom) = 1
summed_twice
    query inputs=["overlapping_areas.gpkg","separate_areas.gpkg"] sql=SELECT count(*) AS n FROM overlapping_areas a JOIN separate_areas b ON ST_Intersects(a.geom, b.geom)
    query inputs=["overlapping_areas.gpkg","separate_areas.gpkg"] sql=SELECT a.id, count(*) AS n FROM overlapping_areas a JOIN separate_areas b ON ST_Intersects(a.geom, b.geom) GROUP BY a.id

# a curve behind many features
curves_skipped refused
    vector rasterize input=curve_at_the_end.gpkg output=OUT.tif burn=[1] resolution=[100,100]
    vector rasterize input=square_at_the_end.gpkg output=OUT.tif burn=[1] resolution=[100,100] output-data-type=UInt8

# what a conversion drops in silence
labels_lost
    raster stack input=["with_items.tif"] output=OUT.tif
    convert input=with_items.tif output=OUT.nc
    reproject input=with_items.tif output=OUT.tif dst_crs=EPSG:25832 resampling=bilinear extra_args=["--dst-nodata=-1"]
    raster clip input=with_items.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
labels_lost ignoring:has_no_georeferencing ignoring:identical_to_input
    raster stack input=["with_sensor.tif"] output=OUT.tif
    raster clip input=with_sensor.tif output=OUT.tif window=[2,2,10,10]
    convert input=with_sensor.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
labels_lost ignoring:has_no_georeferencing
    convert input=with_points.tif output=OUT.nc
    raster reproject input=with_points.tif output=OUT.tif output-crs=EPSG:32632 resampling=bilinear output-nodata=-9999
    convert input=with_points.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
labels_lost ignoring:has_no_georeferencing
    convert input=with_geolocation.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
    convert input=with_geolocation.tif output=OUT.vrt
labels_lost
    vector convert input=styled.geojson output=OUT.gpkg
    vector convert input=of_service.geojson output=OUT.gpkg
labels_lost
    vector filter input=titled.geojson output=OUT.geojson where=a=1
    vector filter input=of_service.geojson output=OUT.geojson where=a=1
labels_lost
    vector convert input=styled.kml output=OUT.gpkg
    vector convert input=unstyled.kml output=OUT.gpkg

# what SQLite takes otherwise than it is written
null_compared before
    query inputs=["wards.geojson"] sql=SELECT count(*) AS n FROM wards WHERE name = NULL
    query inputs=["wards.geojson"] sql=SELECT count(*) AS n FROM wards WHERE name IS NOT NULL
constant_condition before
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE name = 'a' OR 'b'
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE name = 'a' OR name = 'b'
constant_order before
    query inputs=["wards.geojson"] sql=SELECT name FROM wards ORDER BY 'name'
    query inputs=["wards.geojson"] sql=SELECT name, 'x' AS kind FROM wards ORDER BY 1
between_reversed before
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE pop BETWEEN 9 AND 1
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE pop BETWEEN 1 AND 9
text_added before
    query inputs=["wards.geojson"] sql=SELECT name + ', ' + region AS label FROM wards
    query inputs=["wards.geojson"] sql=SELECT name || ', ' || region AS label FROM wards
rounded_to_tens before
    query inputs=["wards.geojson"] sql=SELECT round(pop, -1) AS p FROM wards
    query inputs=["wards.geojson"] sql=SELECT round(pop, 1) AS p FROM wards
local_date_compared before
    query inputs=["iso_dates.csv"] sql=SELECT name FROM iso_dates WHERE date(day) > '31.12.2022'
    query inputs=["iso_dates.csv"] sql=SELECT name FROM iso_dates WHERE date(day) > '2022-12-31'

# inputs that are joined although their values or fields differ in kind
units_differ ignoring:labels_lost
    raster mosaic input=["metres_high.tif","feet_next.tif"] output=OUT.tif
    raster mosaic input=["metres_high.tif","metres_next.tif"] output=OUT.tif
    raster mosaic input=["metres_high.tif","next.tif"] output=OUT.tif
    raster stack input=["metres_high.tif","kelvins.tif"] output=OUT.vrt
units_differ ignoring:constant
    raster calc input=["A=metres_high.tif","B=feet_high.tif"] calc=["A-B"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=feet_high.tif"] calc=["A-B*0.3048"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=kelvins.tif"] calc=["A*B"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=elevation.tif"] calc=["A-B"] output=OUT.tif
units_differ ignoring:constant ignoring:scale_ignored
    raster calc input=["A=metres_high.tif","B=in_centimetres.tif"] calc=["A-B"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=in_centimetres.tif"] calc=["A-B*0.01"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=in_centimetres.tif"] calc=["A>500 && B>70000"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=metres_scaled.tif"] calc=["A-B/100"] output=OUT.tif
    raster calc input=["A=in_centimetres.tif","B=in_centimetres.tif"] calc=["A-B"] output=OUT.tif
units_differ ignoring:constant
    raster calc input=["A=metres_high.tif","B=in_millimetres.tif"] calc=["max(A,B)"] output=OUT.tif
    raster calc input=["A=in_millimetres.tif","B=in_millimetres_too.tif"] calc=["max(A,B)"] output=OUT.tif
field_type_changed
    vector concat input=["n_whole.gpkg","n_real.gpkg"] mode=single output=OUT.gpkg
    vector concat input=["n_whole.gpkg","n_whole_too.gpkg"] mode=single output=OUT.gpkg
scale_ignored before
    raster calc input=["A=elevation.tif","B=scaled.tif"] calc=["A+B"] output=OUT.tif
    raster calc input=["A=elevation.tif","B=low.tif"] calc=["A+B"] output=OUT.tif

# which bands a formula reads, and distances and heights that are not metres on the ground
units_differ ignoring:constant
    raster calc input=["A=feet_and_metres.tif"] calc=["A[1]-A[2]"] output=OUT.tif
    raster calc input=["A=feet_and_metres.tif"] calc=["A[1]*2"] output=OUT.tif
    raster calc input=["A=metres_high.tif","B=feet_high.tif"] calc=["A*2"] output=OUT.tif
units_not_metres before
    raster viewshed input=ridge_feet_crs.tif output=OUT.tif position=[6405000,1895000,2]
    raster viewshed input=ridge.tif output=OUT.tif position=[501500,4998500,2]
    raster viewshed input=ridge_feet_crs.tif output=OUT.tif position=[6405000,1895000,2] curvature-coefficient=0
units_not_metres before
    raster viewshed input=ridge_in_feet.tif output=OUT.tif position=[501500,4998500,2]
    raster slope input=ridge_in_feet.tif output=OUT.tif
mercator_units before
    raster viewshed input=ridge_mercator.tif output=OUT.tif position=[1001500,7998500,2] max-distance=1000
    raster viewshed input=ridge.tif output=OUT.tif position=[501500,4998500,2] max-distance=1000
    raster viewshed input=ridge_mercator.tif output=OUT.tif position=[1001500,7998500,2]
mercator_units before
    raster proximity input=spot_mercator.tif output=OUT.tif distance-units=geo
    raster proximity input=spot.tif output=OUT.tif distance-units=geo
    raster proximity input=spot_mercator.tif output=OUT.tif distance-units=pixel
values_clamped
    raster proximity input=spot.tif output=OUT.tif distance-units=geo output-data-type=UInt8
    raster proximity input=spot.tif output=OUT.tif distance-units=geo output-data-type=UInt16
    raster proximity input=spot.tif output=OUT.tif distance-units=pixel output-data-type=UInt8

# missing data that the nodata value does not cover, or that a class or a value takes the place of
nodata_undeclared
    raster mosaic input=["zero_is_nodata.tif","zero_is_data.tif"] output=OUT.tif
    raster mosaic input=["zero_is_nodata.tif","no_zeros.tif"] output=OUT.tif
nodata_undeclared before
    raster slope input=other_fill.tif output=OUT.tif
    raster slope input=surfer_nodata.tif output=OUT.tif
nodata_undeclared before ignoring:zones_not_covered
    raster zonal-stats input=climate_fill.tif zones=whole.gpkg output=OUT.csv stat=["mean"] include-field=["id"]
    raster zonal-stats input=large_counts.tif zones=whole.gpkg output=OUT.csv stat=["mean"] include-field=["id"]
nodata_undeclared before
    raster calc input=["A=netcdf_fill.tif"] calc=["A*2"] output=OUT.tif
    raster calc input=["A=large_counts.tif"] calc=["A*2"] output=OUT.tif
nodata_undeclared
    raster clip input=surfer_fill.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
    raster clip input=surfer_nodata.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
nodata_undeclared
    gdal_read algorithm=raster info arguments={"input":"other_fill.tif","stats":true}
    gdal_read algorithm=raster info arguments={"input":"elevation_holes.tif","stats":true}
nodata_undeclared
    raster clip input=second_missing_value.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
    raster clip input=first_missing_value.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
nodata_not_propagated before
    raster reclassify input=elevation_holes.tif output=OUT.tif mapping=[-inf,500]=1;(500,inf]=2
    raster reclassify input=elevation_holes.tif output=OUT.tif mapping=[0,500]=1;(500,2000]=2;DEFAULT=NO_DATA
    raster reclassify input=elevation_holes.tif output=OUT.tif mapping=-9999=0;[0,500]=1;(500,2000]=2
    raster reclassify input=elevation.tif output=OUT.tif mapping=[-inf,500]=1;(500,inf]=2
nodata_not_propagated before
    raster reclassify input=elevation_holes.tif output=OUT.tif mapping=[0,500]=1;DEFAULT=2
    raster reclassify input=elevation.tif output=OUT.tif mapping=[0,500]=1;DEFAULT=2
nulls_replaced
    vector rasterize input=some_values.gpkg output=OUT.tif attribute-name=value resolution=[100,100] nodata=-1 init=[-1]
    vector rasterize input=some_values.gpkg output=OUT.tif attribute-name=rank resolution=[100,100] nodata=-1 init=[-1]
    vector rasterize input=some_values.gpkg output=OUT.tif attribute-name=value where="value" IS NOT NULL resolution=[100,100] nodata=-1 init=[-1]
zeros_around
    raster footprint input=turned_zeros.tif output=OUT.gpkg
    raster footprint input=turned_nodata.tif output=OUT.gpkg
    raster footprint input=turned_zeros.tif output=OUT.gpkg input-nodata=["0"]
mask_ignored
    raster pixel-info input=masked_classes.tif position=[1,1]
    raster pixel-info input=masked_classes.tif position=[501050,4998950] position-crs=dataset

# bands, values and colors that are lost
bands_lost before
    raster fill-nodata input=photo_holes.tif output=OUT.tif
    raster fill-nodata input=band_holes.tif output=OUT.tif
    raster fill-nodata input=photo_holes.tif output=OUT.tif band=2
bands_lost before ignoring:identical_to_input
    raster sieve input=photo.tif output=OUT.tif size-threshold=3
    raster sieve input=spots.tif output=OUT.tif size-threshold=2
digits_lost ignoring:crs_missing
    convert input=seconds.tif output=OUT.xyz
    convert input=whole_doubles.tif output=OUT.xyz
digits_lost
    convert input=seconds.tif output=OUT.asc
    convert input=whole_doubles.tif output=OUT.asc
digits_lost
    convert input=codes_before.tif output=OUT.map
    convert input=elevation.tif output=OUT.map
digits_lost
    raster set-type input=seconds.tif output=OUT.tif output-data-type=Float32
    raster set-type input=whole_doubles.tif output=OUT.tif output-data-type=Float32
colors_missing
    raster color-map input=codes_before.tif output=OUT.tif color-map=three_colors.txt color-selection=exact
    raster color-map input=codes_before.tif output=OUT.tif color-map=four_colors.txt color-selection=exact
    raster color-map input=codes_before.tif output=OUT.tif color-map=three_colors.txt color-selection=exact add-alpha=true
values_rounded before
    raster mosaic input=["mask.tif","first_mask.tif"] pixel-function=mean output=OUT.tif
    raster mosaic input=["elevation.tif","low.tif"] pixel-function=mean output=OUT.tif
classes_mixed before
    raster pixel-info input=many_classes.tif position=[500300,4999800] position-crs=dataset resampling=bilinear
    raster pixel-info input=many_classes.tif position=[500300,4999800] position-crs=dataset
    raster pixel-info input=elevation.tif position=[500300,4999800] position-crs=dataset resampling=bilinear
extent_not_transformed ignoring:constant ignoring:unclassified_warning
    reproject input=globe_degrees_180.tif output=OUT.tif dst_crs=EPSG:3413 resampling=bilinear
    pipeline steps=read globe_degrees_180.tif ! clip --bbox=-180,40,180,90 ! reproject --output-crs=EPSG:3413 --resampling=bilinear ! write OUT.tif

# rasters that are put together although their grids, extents, CRSs or units differ
zones_not_covered before ignoring:resampled_to_zones
    raster zonal-stats input=elevation.tif zones=zones_half_off.tif output=OUT.csv stat=["mean"]
    raster zonal-stats input=elevation.tif zones=codes_before.tif output=OUT.csv stat=["mean"]
resampled_to_zones
    raster zonal-stats input=elevation.tif zones=zones_coarse.tif output=OUT.csv stat=["mean"]
    raster zonal-stats input=codes_after.tif zones=codes_before.tif output=OUT.csv stat=["count","unique","frac"]
height_unit_unknown
    raster slope input=in_centimetres.tif output=OUT.tif
    raster slope input=metres_high.tif output=OUT.tif
other_crs_pansharpened
    raster pansharpen input=sharp_other_crs.tif spectral=["photo.tif"] output=OUT.tif
    raster pansharpen input=sharp.tif spectral=["photo.tif"] output=OUT.tif
collar_without_nodata
    raster pansharpen input=sharp_east.tif spectral=["photo.tif"] output=OUT.tif
    raster pansharpen input=sharp_east.tif spectral=["photo.tif"] output=OUT.tif spatial-extent-adjustment=intersection

# formats that store one raster of a fixed shape, type, place or CRS
format_demands refused before
    convert input=srtm_cell.tif output=OUT.hgt
    convert input=srtm_cell.tif output=N47E008.hgt
    convert input=level_0.tif output=OUT.dt0
    convert input=level_0_north.tif output=OUT.dt0
    raster convert input=level_0_holes.tif output=OUT.dt0
format_demands refused before
    convert input=srtm_cell.tif output=n46e008.hgt
format_demands refused
    convert input=level_0.tif output=N47E008.hgt
format_demands refused
    convert input=elevation.tif output=OUT.dt1
format_demands refused ignoring:values_rounded
    reproject input=level_0.tif output=OUT.dt0 dst_crs=EPSG:32632 resampling=bilinear
    pipeline steps=read elevation.tif ! reproject --output-crs=EPSG:4326 --bbox=8.9958333333333,44.995833333333,10.004166666667,46.004166666667 --size=121,121 --resampling=bilinear ! set-type --output-data-type=Int16 ! write OUT.dt0
format_demands
    convert input=level_0_wide.tif output=OUT.dt0
    convert input=level_0_north.tif output=OUT.dt0
values_rounded
    convert input=level_0_fractions.tif output=OUT.dt0
    convert input=level_0.tif output=OUT.dt0
crs_changed
    convert input=shifts_nad83.tif output=OUT.gtx
    convert input=shifts.tif output=OUT.gtx
crs_changed refused
    convert input=elevation.tif output=OUT.gtx
    convert input=elevation.tif output=OUT.bt
    convert input=whole_heights.tif output=OUT.bt
georeferencing_lost
    convert input=elevation.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=100","MAXUSERPIXELVALUE=1100"]
    convert input=no_crs.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=0","MAXUSERPIXELVALUE=2000"]
values_clamped ignoring:georeferencing_lost
    convert input=elevation.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=300","MAXUSERPIXELVALUE=500"]
    convert input=elevation.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=100","MAXUSERPIXELVALUE=1100"]
nodata_out_of_range ignoring:georeferencing_lost
    convert input=elevation_holes.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=100","MAXUSERPIXELVALUE=1100"]
    convert input=elevation.tif output=OUT.ter creation_options=["MINUSERPIXELVALUE=100","MAXUSERPIXELVALUE=1100"]

# GML whose name of a CRS means longitude first, unlike urn:ogc:def:crs
extent_outside_crs
    convert input=latitude_first.gml output=OUT.gpkg
    convert input=longitude_first.gml output=OUT.gpkg
    vector_reproject input=longitude_first.gml output=OUT.gpkg output-crs=EPSG:32610
    vector_reproject input=latitude_first_urn.gml output=OUT.gpkg output-crs=EPSG:32610
"""
