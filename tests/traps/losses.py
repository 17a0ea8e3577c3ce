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
field_type_changed
    vector concat input=["n_whole.gpkg","n_real.gpkg"] mode=single output=OUT.gpkg
    vector concat input=["n_whole.gpkg","n_whole_too.gpkg"] mode=single output=OUT.gpkg
scale_ignored before
    raster calc input=["A=elevation.tif","B=scaled.tif"] calc=["A+B"] output=OUT.tif
    raster calc input=["A=elevation.tif","B=low.tif"] calc=["A+B"] output=OUT.tif
"""
