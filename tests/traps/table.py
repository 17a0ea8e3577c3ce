"""Calls that GDAL runs with a wrong result, each with clean twins that must get no check.

A row that is not indented has a check's code and how it appears: `refused` the call is refused by it; `before`
`validate_call` reports it; `mends` a corrected call is suggested, `unmended` none is, because it would not do
everything that was requested; `ignoring:CODE` a check that a twin may have for another reason. The first call below
it is the trap, the others are its twins. OUT is a unique name.
"""

TABLE = r"""
# changes of CRS
ballpark_transformation refused mends
    reproject input=rome.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear
    reproject input=monte_mario.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear
    reproject input=bng.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear extra_args=["--dst-nodata=-1"]
    reproject input=sinusoidal.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear extra_args=["--dst-nodata=-1"]
    vector_reproject input=points.gpkg output=OUT.gpkg output-crs=EPSG:25832
ballpark_transformation refused mends
    vector_reproject input=rome_points.gpkg output=OUT.gpkg output-crs=EPSG:4326
    vector_reproject input=mm_points.gpkg output=OUT.gpkg output-crs=EPSG:4326
    vector_reproject input=one_nad27.gpkg output=OUT.gpkg output-crs=EPSG:4326
ballpark_transformation refused mends
    vector_reproject input=israel.gpkg output=OUT.gpkg output-crs=EPSG:3035
    vector_reproject input=israel.gpkg output=OUT.gpkg output-crs=EPSG:4326
    vector_reproject input=squares_utm.gpkg output=OUT.gpkg output-crs=EPSG:4269
ballpark_transformation refused
    pipeline steps=read rome_points.gpkg ! reproject --output-crs=EPSG:32633 ! write OUT.gpkg
ballpark_transformation refused
    gdalwarp src_datasets=["rome.tif"] dst_dataset=OUT.tif t_srs=EPSG:4326
ballpark_transformation refused
    vector convert input=rome_points.gpkg output=OUT.kml
ballpark_transformation refused
    vector convert input=rome_points.gpkg output=OUT.mapml output-format=MapML
    vector convert input=mm_points.gpkg output=OUT.mapml output-format=MapML
ballpark_transformation refused
    vector convert input=rome_points.gpkg output=OUT.json output-format=JSONFG
    vector convert input=mm_points.gpkg output=OUT.json output-format=JSONFG
    vector convert input=rome_points.gpkg output=OUT.json output-format=JSONFG layer-creation-option=["WRITE_GEOMETRY=NO"]
ballpark_transformation refused
    reproject input=egm2008.tif output=OUT.tif dst_crs=EPSG:4979 resampling=bilinear
no_input_crs refused
    reproject input=no_crs.tif output=OUT.tif dst_crs=EPSG:32633 resampling=bilinear

# values that a type, a format or a resampling loses
values_clamped before mends ignoring:data_type_changed
    convert input=elevation.tif output=OUT.png
    convert input=whole_floats.tif output=OUT.png
    convert input=photo.tif output=OUT.png
    convert input=elevation.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
values_clamped before mends ignoring:lossy_compression
    convert input=elevation_holes.tif output=OUT.jpg
values_clamped unmended ignoring:data_type_changed
    raster clip input=elevation.tif output=OUT.png bbox=[500500,4998000,503000,4999500]
values_clamped before
    raster set-type input=elevation.tif output=OUT.tif output-data-type=UInt8
    raster set-type input=whole_floats.tif output=OUT.tif output-data-type=UInt8
    raster set-type input=ids.tif output=OUT.tif output-data-type=Float64
values_clamped before
    pipeline steps=read ids.tif ! set-type --output-data-type=Int16 ! write OUT.tif
    pipeline steps=read small_ids.tif ! set-type --output-data-type=Int16 ! write OUT.tif
    pipeline steps=read elevation.tif ! scale --output-min=0 --output-max=255 ! set-type --output-data-type=UInt8 ! write OUT.tif
values_rounded before
    raster set-type input=low.tif output=OUT.tif output-data-type=Int16
    raster set-type input=whole_floats.tif output=OUT.tif output-data-type=Int16
nan_lost before
    raster set-type input=nan_holes.tif output=OUT.tif output-data-type=Int16
    raster set-type input=nan_holes.tif output=OUT.tif output-data-type=Float64
digits_lost before
    raster set-type input=large_ids.tif output=OUT.tif output-data-type=Float32
    raster set-type input=ids.tif output=OUT.tif output-data-type=Float32
values_clamped ignoring:nodata_not_propagated
    raster calc input=["A=classes.tif"] calc=["A*100"] output=OUT.tif output-data-type=UInt8 propagate-nodata=true
    raster calc input=["A=classes.tif"] calc=["A*10"] output=OUT.tif output-data-type=UInt8 propagate-nodata=true
    raster calc input=["A=classes.tif"] calc=["A*100"] output=OUT.tif output-data-type=Int16 propagate-nodata=true
values_rounded before
    raster resize input=mask.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=mask.tif output=OUT.tif size=["20","15"] resampling=mode
    pipeline steps=read mask.tif ! set-type --output-data-type=Float32 ! resize --size=20,15 --resampling=average ! write OUT.tif
classes_mixed
    raster overview add dataset=classes_in_place.tif levels=[2] resampling=average
nodata_out_of_range before
    raster set-type input=elevation_holes.tif output=OUT.tif output-data-type=UInt16
nodata_out_of_range before
    convert input=elevation_holes.tif output=OUT.png
nodata_not_propagated before mends
    raster calc input=["A=elevation_holes.tif"] output=OUT.tif calc=["A*2"]
    raster calc input=["A=elevation_holes.tif"] output=OUT.tif calc=["A*2"] propagate-nodata=true
    raster calc input=["A=elevation.tif"] output=OUT.tif calc=["A*2"]
    raster calc input=["A=classes.tif"] output=OUT.tif calc=["A*2"]
classes_mixed before
    raster resize input=landcover.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=landcover.tif output=OUT.tif size=["20","15"] resampling=mode
    raster resize input=elevation.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=small_ids.tif output=OUT.tif size=["20","15"] resampling=average
classes_mixed before
    raster resize input=classes.tif output=OUT.tif size=["20","15"] resampling=bilinear
classes_mixed before
    raster convert input=many_classes.tif output=OUT.jpg
    raster convert input=many_classes.tif output=OUT.png
    raster convert input=shaded.tif output=OUT.jpg

# what lies beside the data
collar_without_nodata mends
    reproject input=photo.tif output=OUT.tif dst_crs=EPSG:32633
    reproject input=photo.tif output=OUT.tif dst_crs=EPSG:25832
    reproject input=photo.tif output=OUT.tif dst_crs=EPSG:32633 extra_args=["--add-alpha"]
    reproject input=classes.tif output=OUT.tif dst_crs=EPSG:32633
    reproject input=photo.tif output=OUT.tif dst_crs=EPSG:32633 bbox=[29765,5015391,30765,5016391]
collar_without_nodata
    raster mosaic input=["photo.tif","photo_far.tif"] output=OUT.tif
    raster mosaic input=["photo.tif","photo_next.tif"] output=OUT.tif
collar_without_nodata mends
    reproject input=rotated.tif output=OUT.tif dst_crs=EPSG:32632 resampling=bilinear
    reproject input=rotated.tif output=OUT.tif dst_crs=EPSG:32632 resampling=bilinear extra_args=["--output-nodata=-1"]
    convert input=rotated.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
collar_without_nodata mends
    reproject input=turned_points.tif output=OUT.tif dst_crs=EPSG:32632 resampling=bilinear
    reproject input=control_points.tif output=OUT.tif dst_crs=EPSG:32632 resampling=bilinear
collar_without_nodata mends
    pipeline steps=read rotated.tif ! reproject --output-crs=EPSG:32632 --resampling=bilinear ! write OUT.tif
    pipeline steps=read rotated.tif ! reproject --output-crs=EPSG:32632 --resampling=bilinear --output-nodata=-1 ! write OUT.tif
collar_without_nodata mends
    gdalwarp src_datasets=["rotated.tif"] dst_dataset=OUT.tif t_srs=EPSG:32632 r=bilinear
    gdalwarp src_datasets=["photo.tif"] dst_dataset=OUT.tif t_srs=EPSG:25832 r=bilinear
outside_area_of_use
    raster resize input=utm_far.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=low.tif output=OUT.tif size=["20","15"] resampling=average
    raster resize input=utm_next.tif output=OUT.tif size=["20","15"] resampling=average
all_nan ignoring:crs_missing
    raster zonal-stats input=low.tif zones=zones_beside.gpkg output=OUT.gpkg stat=["mean"] include-field=["id"]
    raster zonal-stats input=low.tif zones=zones_utm.gpkg output=OUT.gpkg stat=["mean"] include-field=["id"]
all_nan
    raster zonal-stats input=low.tif zones=tiny_zones.gpkg output=OUT.csv stat=["mean"] include-field=["id"]
    raster zonal-stats input=low.tif zones=zones_utm.gpkg output=OUT.csv stat=["mean"] include-field=["id"]

# inputs that do not fit each other, and what is kept in a file of its pixels
other_grid before
    raster mosaic input=["elevation.tif","other_grid.tif"] output=OUT.tif
    raster mosaic input=["elevation.tif","next.tif"] output=OUT.tif
other_grid before
    raster stack input=["elevation.tif","other_grid.tif"] output=OUT.tif
other_grid before
    raster calc input=["A=elevation.tif","B=other_size.tif"] output=OUT.tif calc=["A+B"]
    raster calc input=["A=elevation.tif","B=low.tif"] output=OUT.tif calc=["A+B"]
other_crs refused
    gdal_merge src_datasets=["low.tif","other_crs.tif"] dst_dataset=OUT.tif
    gdal_merge src_datasets=["low.tif","next.tif"] dst_dataset=OUT.tif
other_crs refused
    gdal_merge src_datasets=["low.tif","elevation.tif","next.tif","whole_floats.tif","photo_next.tif","int16.tif","small_ids.tif","ids.tif","mask.tif","classes.tif","other_crs.tif"] dst_dataset=OUT.tif
ballpark_transformation refused
    raster convert input=rome.tif output=OUT.tif output-format=COG creation-option=["TARGET_SRS=EPSG:4326"]
    raster convert input=rome.tif output=OUT.tif output-format=COG
mercator_units
    raster slope input=mercator.tif output=OUT.tif
    raster slope input=mercator.tif output=OUT.tif xscale=2.2 yscale=2.2
values_rounded before ignoring:geojson_not_wgs84
    gdal_polygonize src_dataset=low.tif dst_vector=OUT.gpkg
    gdal_polygonize src_dataset=classes.tif dst_vector=OUT.gpkg
other_crs refused
    raster zonal-stats input=low.tif zones=zones.gpkg output=OUT.gpkg stat=["mean"] include-field=["id"]
scale_ignored before
    raster calc input=["A=scaled.tif"] output=OUT.tif calc=["A*2"]
    pipeline steps=read scaled.tif ! unscale ! slope ! write OUT.tif
    convert input=scaled.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
scale_ignored before
    raster slope input=scaled.tif output=OUT.tif
classes_mixed before mends ignoring:identical_to_input
    convert input=many_classes.tif output=OUT.tif output_format=COG
    convert input=shaded.tif output=OUT.tif output_format=COG
    convert input=classes.tif output=OUT.tif output_format=COG
overviews_stale mends ignoring:identical_to_input
    raster update input=quarter_high.tif output=with_overviews.tif no-update-overviews=true
    raster update input=quarter_high.tif output=with_overviews_too.tif
identical_to_input
    raster clip input=quarter.tif like=quarter.tif output=OUT.tif
    raster clip input=elevation.tif like=quarter.tif output=OUT.tif
    dataset copy source=quarter.tif destination=OUT.tif
identical_to_input
    vector filter input=points.gpkg output=OUT.gpkg where=id >= 0
    vector filter input=points.gpkg output=OUT.gpkg where=id > 0
statistics_stale mends ignoring:constant
    raster update input=patch.tif output=with_statistics.tif
    raster update input=quarter.tif output=with_statistics_too.tif

# pixels that are copied next to others, or computed
values_clamped
    raster stack input=["bytes_in_place_too.tif","elevation.tif"] output=OUT.tif
    raster stack input=["bytes_in_place_too.tif","classes.tif"] output=OUT.tif
    raster stack input=["elevation.tif","low.tif"] output=OUT.tif
values_clamped
    raster update input=elevation.tif output=bytes_in_place.tif
    raster update input=whole_floats.tif output=bytes_in_place_too.tif
values_clamped
    raster neighbors input=bytes_in_place.tif output=OUT.tif method=["sum"] kernel=["equal"] output-data-type=UInt8
    raster neighbors input=bytes_in_place.tif output=OUT.tif method=["sum"] kernel=["equal"] output-data-type=UInt16
values_clamped ignoring:constant
    vector rasterize input=whole.gpkg output=OUT.tif burn=[300] resolution=[100,100] output-data-type=UInt8
    vector rasterize input=whole.gpkg output=OUT.tif burn=[200] resolution=[100,100] output-data-type=UInt8
scale_ignored
    raster update input=scaled.tif output=int16.tif
    raster mosaic input=["scaled.tif","scaled_next.tif"] output=OUT.tif
collar_without_nodata mends ignoring:identical_to_input
    raster clip input=elevation.tif output=OUT.tif like=tilted.gpkg
    raster clip input=elevation_holes.tif output=OUT.tif like=tilted.gpkg
    raster clip input=elevation.tif output=OUT.tif like=tilted.gpkg only-bbox=true
    raster clip input=elevation.tif output=OUT.tif like=zones_utm.gpkg
other_grid before
    raster blend input=photo.tif overlay=photo_next.tif output=OUT.tif
    raster blend input=photo.tif overlay=classes.tif output=OUT.tif
observer_outside ignoring:constant
    raster viewshed input=elevation.tif output=OUT.tif position=[9.0,45.1,10]
    raster viewshed input=elevation.tif output=OUT.tif position=[502000,4998500,10]
nodata_in_terrain ignoring:constant
    raster viewshed input=elevation_holes.tif output=OUT.tif position=[502000,4998500,10]
    raster viewshed input=elevation.tif output=OUT.tif position=[502000,4998500,10]
classes_mixed
    convert input=many_classes.tif output=OUT.jp2
    convert input=many_classes.tif output=OUT.jp2 creation_options=["REVERSIBLE=YES","QUALITY=100"]
classes_mixed
    convert input=many_classes.tif output=OUT.jp2 creation_options=["REVERSIBLE=YES"]
    convert input=many_classes.tif output=OUT.jp2 creation_options=["REVERSIBLE=YES","QUALITY=100"]

# formats that cut names, texts, times, numbers or nulls
field_name_cut
    vector convert input=long.geojson output=OUT.shp
    vector convert input=short.geojson output=OUT.shp
text_cut
    vector convert input=long.geojson output=OUT.shp
    vector convert input=long.geojson output=OUT.gpkg
field_type_changed
    vector convert input=times.geojson output=OUT.shp
    vector convert input=times.geojson output=OUT.fgb
nulls_replaced
    vector convert input=nulls.geojson output=OUT.mif
    vector convert input=full.geojson output=OUT.mif
value_lost
    vector convert input=huge.geojson output=OUT.shp
    vector convert input=huge.geojson output=OUT.gpkg
characters_lost
    vector convert input=latin.csv output=OUT.gpkg
    vector convert input=utf8.csv output=OUT.gpkg
features_skipped
    vector convert input=mixed.geojson output=OUT.shp skip-errors=true
    vector convert input=towns.geojson output=OUT.shp skip-errors=true
values_clamped
    vector rasterize input=towns.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=pop output-data-type=UInt8
    vector rasterize input=towns.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=pop output-data-type=UInt16
features_lost ignoring:fields_lost
    vector convert input=holes.geojson output=OUT.kml
    vector convert input=named.geojson output=OUT.kml
time_changed
    vector convert input=times.geojson output=OUT.mif
    vector convert input=times.geojson output=OUT.fgb
    vector convert input=ages.geojson output=OUT.gpkg
time_changed ignoring:geometry_left_out
    vector convert input=two_zones.geojson output=OUT.xlsx
    vector convert input=one_zone.geojson output=OUT.xlsx
fields_lost
    vector convert input=towns.geojson output=OUT.kml
    vector convert input=named.geojson output=OUT.kml
fields_lost
    vector sql input=towns.geojson output=OUT.kml dialect=SQLITE sql=SELECT upper(name) AS name, pop, geometry FROM towns
    vector sql input=towns.geojson output=OUT.kml dialect=SQLITE sql=SELECT upper(name) AS name, geometry FROM towns
field_name_cut
    vector sql input=long.geojson output=OUT.shp dialect=SQLITE sql=SELECT a_very_long_field_name, geometry FROM long
    vector sql input=long.geojson output=OUT.shp dialect=SQLITE sql=SELECT a_very_long_field_name AS n, geometry FROM long
z_lost
    vector convert input=heights.geojson output=OUT.mif
    vector convert input=heights.geojson output=OUT.fgb
    vector convert input=named.geojson output=OUT.mif
coordinates_rounded before mends
    vector convert input=towns.geojson output=OUT.pmtiles
    vector convert input=towns.geojson output=OUT.pmtiles creation-option=["MAXZOOM=12"]
    vector convert input=towns.geojson output=OUT.mbtiles creation-option=["MAXZOOM=12"]
    vector convert input=world.geojson output=OUT.pmtiles
m_lost
    vector convert input=measured.gpkg output=OUT.geojson
    vector convert input=measured.gpkg output=OUT.fgb
crs_changed
    vector convert input=rome_named.geojson output=OUT.gpx
    vector convert input=named.geojson output=OUT.gpx
stored_extent_stale
    vector info input=after_deletions.gpkg
    vector info input=ten.gpkg
    vector convert input=after_deletions.gpkg output=OUT.fgb
empty_layer
    vector filter input=two_layers.gpkg output=OUT.gpkg bbox=[9.05,45.05,9.2,45.2]
    convert input=walk.gpx output=OUT.gpkg
    vector_reproject input=walk.gpx output=OUT.gpkg output-crs=EPSG:32632
header_as_row
    info path=titles.xlsx
    info path=sheet_dates.xlsx
    vector info input=titles.xlsx open-option=["HEADERS=FORCE"]
header_as_row ignoring:geometry_left_out
    vector convert input=names.csv output=OUT.xlsx
    vector convert input=full.geojson output=OUT.xlsx

# what was made is not sound
invalid_geometries
    vector convert input=bows.geojson output=OUT.gpkg
    vector convert input=squares.geojson output=OUT.gpkg
empty_geometries
    query_to_file inputs=["squares_m.geojson"] sql=SELECT ST_Buffer(geom,-90) AS geom FROM squares_m output=OUT.gpkg
    query_to_file inputs=["squares_m.geojson"] sql=SELECT ST_Buffer(geom,-9) AS geom FROM squares_m output=OUT.gpkg
    query_to_file inputs=["squares_m.geojson"] sql=SELECT count(*) AS n FROM squares_m output=OUT.csv
empty_geometries
    vector buffer input=squares_m.geojson output=OUT.gpkg distance=-90
    vector buffer input=squares_m.geojson output=OUT.gpkg distance=-9
empty_geometries
    vector concat input=["squares.geojson","squares_two.gpkg"] mode=single output=OUT.gpkg
    vector concat input=["squares.geojson","degrees.geojson"] mode=single output=OUT.gpkg
zero_features
    vector convert input=empty.geojson output=OUT.gpkg
    vector convert input=towns.geojson output=OUT.gpkg
    vector create output=OUT.gpkg output-layer=new geometry-type=POINT crs=EPSG:4326 field=["n:Integer"]
    vector check-geometry input=squares.geojson output=OUT.gpkg
geometry_type_undeclared mends
    vector sql input=squares.geojson output=OUT.gpkg dialect=SQLITE sql=SELECT ST_Centroid(geometry) AS geometry FROM squares
    vector sql input=squares.geojson output=OUT.gpkg sql=SELECT * FROM squares
    vector convex-hull input=squares.geojson output=OUT.gpkg
    vector concave-hull input=squares.geojson output=OUT.gpkg ratio=0.5
    vector make-valid input=squares.geojson output=OUT.gpkg
fids_lost
    vector convert input=sparse_ids.gpkg output=OUT.geojson
    vector convert input=points.gpkg output=OUT.geojson
    vector convert input=keyed_ids.gpkg output=OUT.geojson
    vector sql input=sparse_ids.gpkg output=OUT.geojson sql=SELECT fid AS source_fid, * FROM sparse_ids
    vector convert input=after_deletions.gpkg output=OUT.geojson
fids_lost ignoring:identical_to_input
    vector convert input=sparse_ids.gpkg output=OUT.csv layer-creation-option=["GEOMETRY=AS_XY"]
    vector convert input=sparse_ids.gpkg output=OUT.gpkg
    vector convert input=towns.geojson output=OUT.shp

# data of another kind, and files with several layers
wrong_kind refused before mends
    reproject input=points.gpkg output=OUT.gpkg dst_crs=EPSG:25832
    vector_reproject input=points.gpkg output=OUT.gpkg output-crs=EPSG:25832
wrong_kind refused before
    raster slope input=points.gpkg output=OUT.tif
    raster slope input=elevation.tif output=OUT.tif
wrong_kind refused before
    vector buffer input=elevation.tif output=OUT.gpkg distance=1
    vector buffer input=squares_m.geojson output=OUT.gpkg distance=1
wrong_kind refused mends
    vector info input=elevation.tif
    vector info input=points.gpkg
layers_as_table refused
    query inputs=["two_layers.gpkg"] sql=SELECT count(*) AS n FROM two_layers
    query inputs=["two_layers.gpkg"] sql=SELECT count(*) AS n FROM two_layers_wells
    query inputs=["two_layers.gpkg"] sql=SELECT count(*) AS n FROM wells
    query inputs={"a":"two_layers.gpkg","two_layers":"points.gpkg"} sql=SELECT count(*) AS n FROM two_layers

# lengths and areas of data in degrees
units_in_degrees
    vector buffer input=degrees.geojson output=OUT.gpkg distance=10
    vector buffer input=squares_m.geojson output=OUT.gpkg distance=10
    pipeline steps=read degrees.geojson ! reproject --output-crs=EPSG:3035 ! buffer --distance=10 ! write OUT.gpkg
units_in_degrees
    pipeline steps=read degrees.geojson ! reproject --output-crs=EPSG:4258 ! buffer --distance=10 ! write OUT.gpkg
units_in_degrees
    vector simplify input=degrees.geojson output=OUT.gpkg tolerance=1
    vector simplify input=degrees.geojson output=OUT.gpkg tolerance=0.0001
units_in_degrees
    vector sql input=degrees.geojson output=OUT.csv dialect=SQLITE sql=SELECT ST_Area(geometry) AS area FROM degrees
    vector sql input=degrees.geojson output=OUT.csv dialect=SQLITE sql=SELECT ST_Area(ST_Transform(geometry, 3035)) AS area FROM degrees
    vector sql input=degrees.geojson output=OUT.csv dialect=SQLITE sql=SELECT ST_Area(geometry, 1) AS area FROM degrees
    vector sql input=squares_m.geojson output=OUT.csv dialect=SQLITE sql=SELECT ST_Area(geometry) AS area FROM squares_m
    vector sql input=degrees.geojson output=OUT.csv dialect=SQLITE sql=SELECT 'ST_Area(x)' AS note, length('a') AS n FROM degrees
units_in_degrees
    vector info input=["degrees.geojson"] dialect=SQLITE features=true sql=SELECT ST_Distance(geometry, ST_Centroid(geometry)) AS d FROM degrees
    vector info input=["degrees.geojson"] sql=SELECT id FROM degrees
units_in_degrees
    vector filter input=degrees.geojson output=OUT.gpkg where=OGR_GEOM_AREA > 0.000001
    vector filter input=squares_m.geojson output=OUT.gpkg where=OGR_GEOM_AREA > 1
    vector filter input=degrees.geojson output=OUT.gpkg where=id > 0
units_in_degrees
    query inputs=["degrees.geojson"] sql=WITH w AS (SELECT id, ST_Centroid(geom) AS c FROM degrees) SELECT ST_Distance(a.c, b.c) AS d FROM w a, w b WHERE a.id < b.id
    query inputs=["degrees.geojson"] sql=WITH w AS (SELECT ST_Transform(geom, 3035) AS c FROM degrees) SELECT ST_Area(c) AS a FROM w
    query inputs=["degrees.geojson"] sql=SELECT ST_Area(c) AS a FROM (SELECT ST_Transform(geom, 3035) AS c FROM degrees)
units_in_degrees
    query inputs=["squares_m.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 4326)) AS a FROM squares_m
    query inputs=["squares_m.geojson"] sql=SELECT ST_Area(geom) AS a, ST_X(ST_Centroid(ST_Transform(geom, 4326))) AS x FROM squares_m
units_in_degrees
    query inputs=["degrees.geojson"] sql=SELECT ST_Area(geom) AS a, ST_X(ST_Centroid(ST_Transform(geom, 3035))) AS x FROM degrees
    query inputs=["degrees.geojson"] sql=SELECT ST_Area(geom, 1) AS a, ST_X(ST_Centroid(ST_Transform(geom, 3035))) AS x FROM degrees
unknown_crs refused
    query inputs=["squares_m.geojson"] sql=SELECT ST_X(ST_Centroid(ST_Transform(geom, 9999))) AS x FROM squares_m
    query inputs=["squares_m.geojson"] sql=SELECT ST_X(ST_Centroid(ST_Transform(geom, 4326))) AS x FROM squares_m
statement_unexamined
    query inputs=["towns.geojson"] sql=SELECT CAST(pop AS UNSIGNED BIG INT) AS n FROM towns
    query inputs=["towns.geojson"] sql=SELECT CAST(pop AS DOUBLE PRECISION) AS n FROM towns
statement_unexamined refused
    query inputs=["rome_points.gpkg"] sql=SELECT CAST(fid AS UNSIGNED BIG INT) AS n, ST_X(ST_Transform(geom, 4326)) AS x FROM rome_points
    query inputs=["mm_points.gpkg"] sql=SELECT fid AS n, ST_X(ST_Transform(geom, 4326)) AS x FROM mm_points
rows_unexamined
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT name, (SELECT count(*) FROM unplaced p WHERE ST_Contains(w.geom, p.geom)) AS n FROM wards w
    query inputs=["wards.geojson"] sql=SELECT name, (SELECT count(*) FROM wards b WHERE b.region = a.region) AS n FROM wards a
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, count(s.id) AS n FROM areas a LEFT JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY a.code HAVING n >= 0
    query inputs=["areas.geojson","keys.csv"] sql=SELECT a.code, 2 * t.v AS w FROM areas a JOIN keys t ON a.code = t.code WHERE w > 0

# where features lie
geojson_not_wgs84 before mends ignoring:coordinates_rounded ignoring:identical_to_input
    vector convert input=squares_m.geojson output=OUT.geojson
    vector convert input=squares.geojson output=OUT.geojson
    vector reproject input=squares_m.geojson output=OUT.geojson output-crs=EPSG:4326
    vector convert input=squares_m.geojson output=OUT.gpkg
geojson_not_wgs84 before mends ignoring:coordinates_rounded
    convert input=squares_m.geojson output=OUT.geojson
coordinates_rounded ignoring:identical_to_input
    vector convert input=squares.geojson output=OUT.geojson layer-creation-option=["RFC7946=YES"]
    vector convert input=squares.geojson output=OUT.geojson layer-creation-option=["RFC7946=NO"]
position_in_columns before mends
    vector convert input=latlon.csv output=OUT.gpkg
    vector convert input=plain.csv output=OUT.gpkg
    vector convert input=latlon.csv output=OUT.ods
    vector make-point input=latlon.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
geometry_left_out before mends ignoring:identical_to_input
    vector convert input=towns.geojson output=OUT.csv
    vector convert input=towns.geojson output=OUT.csv layer-creation-option=["GEOMETRY=AS_XY"]
    vector convert input=plain.csv output=OUT.csv
    vector sql input=towns.geojson output=OUT.csv dialect=SQLITE sql=SELECT name FROM towns
geometry_left_out before mends
    vector select input=towns.geojson output=OUT.gpkg fields=["name"]
    vector select input=towns.geojson output=OUT.gpkg fields=["pop"] exclude=true
    vector select input=towns.geojson output=OUT.csv fields=["name"]
crs_mismatch
    vector convert input=degrees.geojson output=squares_utm.gpkg output-layer=squares_utm append=true
    vector convert input=squares.geojson output=squares_two.gpkg output-layer=squares_two append=true
crs_mismatch refused
    vector update input=degrees.geojson output=squares_utm_too.gpkg key=["id"] input-layer=degrees output-layer=squares_utm_too
crs_mismatch refused
    vector layer-algebra operation=intersection input=degrees.geojson method=squares_m.geojson output=OUT.gpkg
    vector layer-algebra operation=intersection input=squares.geojson method=degrees.geojson output=OUT.gpkg

# columns of text
number_as_text mends
    vector sql input=counts.csv output=OUT.csv dialect=SQLITE sql=SELECT name, pop FROM counts ORDER BY pop DESC
    vector sql input=counts.csv output=OUT.csv dialect=SQLITE sql=SELECT name, pop FROM counts ORDER BY name
    vector sql input=counts.csv output=OUT.csv dialect=SQLITE sql=SELECT name FROM counts ORDER BY CAST(pop AS INTEGER)
    vector sql input=counts.csv output=OUT.csv open-option=["AUTODETECT_TYPE=YES"] sql=SELECT name, pop FROM counts ORDER BY pop
number_as_text
    vector info input=["counts.csv"] sql=SELECT MAX(pop) AS most FROM counts features=true
    vector info input=["codes.csv"] sql=SELECT MAX(code) AS last FROM codes features=true
decimal_comma before
    vector convert input=commas.csv output=OUT.gpkg
    vector convert input=semicolons.csv output=OUT.gpkg
    query inputs=["semicolons.csv"] sql=SELECT sum(v) AS v FROM semicolons
    query inputs=["commas.csv"] sql=SELECT name FROM commas
    query inputs=["commas.csv"] sql=SELECT sum(CAST(replace(v, ',', '.') AS REAL)) AS v FROM commas
decimal_comma
    query inputs=["towns.geojson","commas.csv"] sql=SELECT sum(v) AS v FROM commas
    query inputs=["counts.csv","towns.geojson"] sql=SELECT * FROM counts ORDER BY pop
number_as_text before mends
    vector filter input=counts.csv output=OUT.csv where=pop > '50'
    vector filter input=counts.csv output=OUT.csv where=name > 'a'
decimal_comma
    query inputs=["commas.csv"] sql=SELECT sum(v) AS v FROM commas
local_dates before
    vector convert input=local_dates.csv output=OUT.gpkg
    vector convert input=iso_dates.csv output=OUT.gpkg
digits_lost
    query inputs=["large.csv"] sql=SELECT id FROM large
    query inputs=["large.csv"] sql=SELECT v FROM large
    query inputs=["counts.csv"] sql=SELECT * FROM counts ORDER BY pop
    vector convert input=large.csv output=OUT.gpkg
digits_lost
    query inputs=["areas.geojson","negative.csv"] sql=SELECT a.code, n.id FROM areas a, negative n
    query inputs=["areas.geojson","negative.csv"] sql=SELECT a.code, n.v FROM areas a, negative n
digits_lost
    query inputs=["microseconds.csv"] sql=SELECT at FROM microseconds
    query inputs=["milliseconds.csv"] sql=SELECT at FROM milliseconds
    vector convert input=microseconds.csv output=OUT.gpkg
fields_lost
    vector convert input=towns.geojson output=bare.geojson output-layer=bare append=true
    vector convert input=towns.geojson output=more.geojson output-layer=more append=true

# checks for which the data is too large
checks_skipped
    info path=many_points.gpkg
    info path=rome_points.gpkg
    vector convert input=some_squares.gpkg output=OUT.fgb
checks_skipped
    vector reproject input=many_squares.gpkg output=OUT.gpkg output-crs=EPSG:3035
    vector reproject input=some_squares.gpkg output=OUT.gpkg output-crs=EPSG:3035
    vector reproject input=some_squares.gpkg output=OUT.fgb output-crs=EPSG:4326
checks_skipped
    query inputs=["wards.geojson"] sql=SELECT name, (SELECT sum(b.pop) FROM wards b WHERE b.region = a.region) AS n FROM wards a
    query inputs=["wards.geojson"] sql=SELECT region, sum(pop) AS n FROM wards GROUP BY region

# joins that multiply, lose or find nothing
rows_multiplied
    query inputs=["areas.geojson","twice.csv"] sql=SELECT a.code, a.size, t.v FROM areas a JOIN twice t ON a.code = t.code
    query inputs=["areas.geojson","keys.csv"] sql=SELECT a.code, a.size, t.v FROM areas a JOIN keys t ON a.code = t.code
    query inputs=["areas.geojson","twice.csv"] sql=SELECT a.code, t.v FROM areas a JOIN twice t ON a.code = t.code
    query inputs=["areas.geojson","years.csv"] sql=SELECT a.code, t.year, t.v FROM areas a LEFT JOIN years t ON a.code = t.code
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, a.size, s.id FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom)
    query inputs=["areas.geojson","twice.csv"] sql=SELECT DISTINCT a.code FROM areas a JOIN twice t ON a.code = t.code
    query inputs=["areas.geojson","twice.csv"] sql=SELECT a.code, max(t.v) AS v FROM areas a JOIN twice t ON a.code = t.code GROUP BY a.code
    query inputs=["areas.geojson","years.csv"] sql=SELECT a.*, t.v FROM areas a JOIN years t ON a.code = t.code WHERE t.year = 2020
    query inputs=["areas.geojson"] sql=SELECT a.code, b.code AS other FROM areas a JOIN areas b ON a.code < b.code
    query inputs=["areas.geojson"] sql=WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT a.code, a.size, n.i, a.geom FROM areas a, n
    query inputs=["areas.geojson"] sql=SELECT a.code, a.size, n.i, a.geom FROM areas a CROSS JOIN (SELECT 1 AS i UNION SELECT 2) n
rows_multiplied
    query inputs=["areas.geojson","years.csv"] sql=SELECT a.*, t.v FROM areas a LEFT JOIN years t ON a.code = t.code
rows_multiplied
    query inputs=["areas.geojson","twice.csv"] sql=WITH j AS (SELECT a.code, a.size, t.v FROM areas a, twice t WHERE a.code = t.code) SELECT * FROM j
rows_multiplied
    pipeline steps=concat --mode=stack areas.geojson twice.csv ! sql --dialect=SQLITE "SELECT a.code, a.size, t.v FROM areas a JOIN twice t ON a.code = t.code" ! write OUT.csv
    pipeline steps=concat --mode=stack areas.geojson keys.csv ! sql --dialect=SQLITE "SELECT a.code, a.size, t.v FROM areas a JOIN keys t ON a.code = t.code" ! write OUT.csv
summed_twice
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, sum(a.size) AS size FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY a.code
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, sum(s.id) AS n FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY 1
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT s.id, a.code FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom)
    query inputs=["areas.geojson"] sql=WITH n(i) AS (VALUES (1), (2)) SELECT sum(a.size * n.i) AS size FROM areas a, n
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, count(*) AS n FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY a.code
rows_lost
    query inputs=["areas.geojson","some.csv"] sql=SELECT a.code, t.v FROM areas a JOIN some t ON a.code = t.code
    query inputs=["areas.geojson","some.csv"] sql=SELECT a.code, t.v FROM areas a LEFT JOIN some t ON a.code = t.code
rows_lost
    query inputs=["areas.geojson","visits.csv"] sql=SELECT a.code, t.v FROM areas a JOIN visits t ON a.code = t.code
    query inputs=["areas.geojson","twice.csv"] sql=SELECT a.code, t.v FROM areas a JOIN twice t ON a.code = t.code
nothing_joined
    query inputs=["areas.geojson","capitals.csv"] sql=SELECT a.code, t.v FROM areas a JOIN capitals t ON a.code = t.code
    query inputs=["areas.geojson","keys.csv"] sql=SELECT a.code FROM areas a JOIN keys t ON a.code = t.code WHERE t.v > 5
nothing_joined
    query inputs=["areas.geojson","capitals.csv"] sql=SELECT a.code, t.v FROM areas a LEFT JOIN capitals t ON a.code = t.code

# columns typed by their first row
type_of_first_row
    vector sql input=areas.geojson dialect=SQLITE sql=SELECT CASE code WHEN 'a' THEN 1 ELSE 2.5 END AS v FROM areas output=OUT.gpkg
    vector sql input=areas.geojson dialect=SQLITE sql=SELECT CASE code WHEN 'a' THEN 1 ELSE 2.0 END AS v FROM areas output=OUT.gpkg
    vector sql input=areas.geojson dialect=SQLITE sql=SELECT CASE code WHEN 'a' THEN 1.5 ELSE 2 END AS v FROM areas output=OUT.gpkg
    vector sql input=areas.geojson dialect=SQLITE sql=SELECT CASE code WHEN 'a' THEN 'x' ELSE 'y' END AS v FROM areas output=OUT.gpkg
type_of_first_row
    vector sql input=areas.geojson dialect=SQLITE sql=SELECT CASE code WHEN 'a' THEN NULL ELSE 2 END AS v FROM areas output=OUT.gpkg

# statements and nested steps that change or mix CRSs
crs_mismatch refused
    query inputs=["squares_m.geojson","squares.geojson"] sql=SELECT a.id FROM squares_m a JOIN squares b ON ST_Intersects(a.geom, b.geom)
    query inputs=["squares.geojson","degrees.geojson"] sql=SELECT a.id FROM squares a JOIN degrees b ON ST_Intersects(a.geom, b.geom)
ballpark_transformation refused
    query inputs=["rome_points.gpkg"] sql=SELECT ST_AsText(ST_Transform(geom, 4326)) AS t FROM rome_points
    query inputs=["mm_points.gpkg"] sql=SELECT ST_AsText(ST_Transform(geom, 4326)) AS t FROM mm_points
ballpark_transformation refused
    query inputs=["rome_points.gpkg"] sql=SELECT ST_X(ST_Transform(ST_Centroid(p.geom), 4326)) AS x FROM rome_points p
    query inputs=["mm_points.gpkg"] sql=SELECT ST_X(ST_Transform(ST_Centroid(p.geom), 4326)) AS x FROM mm_points p
ballpark_transformation refused
    pipeline steps=read rome_points.gpkg ! tee [ reproject --output-crs=EPSG:4326 ! write OUT.gpkg ] ! filter --where=id=0 ! write OUTb.gpkg
    pipeline steps=read points.gpkg ! tee [ reproject --output-crs=EPSG:25832 ! write OUT.gpkg ] ! filter --where=id=0 ! write OUTb.gpkg
ballpark_transformation refused
    pipeline steps=read rome_points.gpkg ! reproject --output-crs=EPSG:4326 ! info
ballpark_transformation refused
    vector concat input=["mm_points.gpkg","rome_points.gpkg"] mode=single output=OUT.gpkg output-crs=EPSG:4326
    vector concat input=["mm_points.gpkg","points.gpkg"] mode=single output=OUT.gpkg output-crs=EPSG:4326

# numbers that are none, names that are none, and geometries of which one is written
number_as_text before
    query inputs=["missing.csv"] sql=SELECT avg(pop) AS mean FROM missing
    query inputs=["missing.csv"] sql=SELECT name, pop FROM missing
    query inputs=["missing.csv"] sql=SELECT avg(CAST(pop AS REAL)) AS mean FROM missing WHERE pop GLOB '[0-9]*'
number_as_text before
    query inputs=["missing.csv"] sql=SELECT name FROM missing ORDER BY pop DESC
    query inputs=["missing.csv"] sql=SELECT name FROM missing ORDER BY name DESC
number_as_text
    query inputs=["late_missing.csv"] sql=SELECT max(v) AS most FROM late_missing
    query inputs=["late_missing.csv"] sql=SELECT max(CAST(v AS REAL)) AS most FROM late_missing
    query inputs=["late_missing.csv"] sql=SELECT max(w) AS most FROM late_missing
    query inputs=["late_missing.csv"] sql=SELECT max(version) AS last FROM late_missing
    query inputs=["late_missing.csv"] sql=SELECT v FROM late_missing LIMIT 3
number_as_text
    query inputs=["late_missing.csv"] sql=SELECT n FROM (SELECT n, v AS x FROM late_missing) ORDER BY x LIMIT 3
    query inputs=["late_missing.csv"] sql=SELECT n FROM (SELECT n, v AS x FROM late_missing) WHERE x <> 'N/A' LIMIT 3
number_as_text before
    query inputs=["iso_dates.csv"] sql=SELECT name FROM iso_dates WHERE strftime('%Y', day) >= 2022
    query inputs=["iso_dates.csv"] sql=SELECT name FROM iso_dates WHERE strftime('%Y', day) >= '2022'
    query inputs=["iso_dates.csv"] sql=SELECT name FROM iso_dates WHERE CAST(strftime('%Y', day) AS INTEGER) >= 2022
integer_division
    query inputs=["towns.geojson"] sql=SELECT name, pop/(pop + 1) AS share FROM towns
    query inputs=["towns.geojson"] sql=SELECT name, 1.0 * pop/(pop + 1) AS share FROM towns
    query inputs=["towns.geojson"] sql=SELECT name, CAST(pop AS REAL)/pop AS share, pop/10 AS bin FROM towns
integer_division
    query inputs=["minutes.csv"] sql=SELECT name, deg + min / 60 + sec / 3600 AS lat FROM minutes
    query inputs=["minutes.csv"] sql=SELECT name, CASE hem WHEN 'S' THEN -1 ELSE 1 END * (deg + min / 60.0 + sec / 3600.0) AS lat FROM minutes
    query inputs=["minutes.csv"] sql=SELECT name, min / 60 AS hours, deg / 60 + 1 AS page FROM minutes
integer_division
    vector sql input=areas.geojson output=OUT.csv sql=SELECT code, size/size AS share FROM areas
column_unknown
    query inputs=["towns.geojson"] sql=SELECT name FROM towns WHERE "population" > 500
    query inputs=["towns.geojson"] sql=SELECT "t"."name", "pop" AS "many" FROM towns "t" WHERE "t".name = "a" ORDER BY "many"
    query inputs=["towns.geojson"] sql=SELECT coalesce(name, "none") AS name, "geom" FROM towns WHERE name IN ("a", "b")
    query inputs=["towns.geojson"] sql=WITH "w" AS (SELECT pop * 2 AS "twice" FROM "towns") SELECT "twice", sum("twice") AS s FROM "w" GROUP BY "twice"
column_unknown
    vector sql input=towns.geojson output=OUT.geojson dialect=SQLITE sql=SELECT name, "populaton" AS pop, geometry FROM towns
    vector sql input=towns.geojson output=OUT.geojson dialect=SQLITE sql=SELECT name, "pop" AS pop, geometry FROM towns
several_geometries
    vector sql input=squares.geojson output=OUT.gpkg dialect=SQLITE sql=SELECT *, ST_Centroid(geometry) AS geometry FROM squares
    vector sql input=squares.geojson output=OUT.geojson dialect=SQLITE sql=SELECT id, ST_Centroid(geometry) AS geometry FROM squares
    vector sql input=squares.geojson output=OUT.gpkg dialect=SQLITE sql=SELECT *, abs(id) AS size FROM squares
missing_counted
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, count(*) AS n FROM areas a LEFT JOIN sites s ON a.code = s.area AND s.id > 11 GROUP BY a.code
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, count(s.id) AS n FROM areas a LEFT JOIN sites s ON a.code = s.area AND s.id > 11 GROUP BY a.code
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, count(*) AS n FROM areas a LEFT JOIN sites s ON a.code = s.area GROUP BY a.code
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT s.id IS NULL AS none, count(*) AS n FROM areas a LEFT JOIN sites s ON a.code = s.area AND s.id > 11 GROUP BY 1
integer_division
    query inputs=["wards.geojson"] sql=SELECT name, round(pop / (pop + 1), 2) AS share FROM wards
    query inputs=["wards.geojson"] sql=SELECT name, round(100.0 * pop / (pop + 1), 2) AS share, CAST(pop / (pop + 1) AS INTEGER) AS whole FROM wards
integer_division
    query inputs=["wards.geojson"] sql=SELECT region, sum(CASE WHEN name < 'c' THEN 1 ELSE 0 END) * 100 / count(*) AS share FROM wards GROUP BY region
    query inputs=["wards.geojson"] sql=SELECT region, sum(CASE WHEN name < 'c' THEN 1.0 ELSE 0 END) * 100 / count(*) AS share FROM wards GROUP BY region
integer_division
    query inputs=["wards.geojson"] sql=SELECT region, count(*) * 100 / (SELECT count(*) FROM wards) AS share FROM wards GROUP BY region
    query inputs=["wards.geojson"] sql=SELECT region, count(*) * 100.0 / (SELECT count(*) FROM wards) AS share FROM wards GROUP BY region
integer_division
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE pop / nullif(pop + 1, 0) > 0.5
    query inputs=["wards.geojson"] sql=SELECT name FROM wards WHERE 1.0 * pop / nullif(pop + 1, 0) > 0.5

# dates and times, groups, nulls and parts that are put together
date_arithmetic
    query inputs=["spans.geojson"] sql=SELECT id, stop - start AS lasted FROM spans
    query inputs=["spans.geojson"] sql=SELECT id, julianday(stop) - julianday(s.start) AS days, date(day, '+7 days') AS due, start || ' - ' || stop AS span FROM spans s
    query inputs=["spans.geojson"] sql=SELECT id - 1 AS n, strftime('%s', stop) - strftime('%s', start) AS seconds FROM spans
date_arithmetic
    query inputs=["spans.geojson"] sql=SELECT max(s.stop) - min(s.start) AS whole FROM spans s
date_arithmetic
    vector sql input=spans.geojson output=OUT.csv dialect=SQLITE sql=SELECT id, day + 7 AS due FROM spans
    vector sql input=spans.geojson output=OUT.csv dialect=SQLITE sql=SELECT id + 7 AS due, day FROM spans
time_as_text
    query inputs=["spans.geojson"] sql=SELECT id FROM spans WHERE start BETWEEN '2024-01-01' AND '2024-01-03'
    query inputs=["spans.geojson"] sql=SELECT id FROM spans WHERE date(start) BETWEEN '2024-01-01' AND '2024-01-03'
    query inputs=["spans.geojson"] sql=SELECT id FROM spans WHERE day BETWEEN '2024-01-01' AND '2024-01-03' AND start BETWEEN '2024-01-01' AND '2024-01-04'
    query inputs=["spans.geojson"] sql=SELECT id FROM spans WHERE start >= '2024-01-02' AND start < '2024-01-03'
time_as_text
    query inputs=["spans.geojson"] sql=SELECT id FROM spans s WHERE s.start = '2024-01-02'
    query inputs=["spans.geojson"] sql=SELECT id FROM spans s WHERE s.start = '2024-01-02T08:00:00'
time_as_text
    query inputs=["spans.geojson","towns.geojson"] sql=SELECT s.id, t.name FROM spans s, towns t WHERE s.start < '2024-01-01 09:00:00'
    query inputs=["spans.geojson","towns.geojson"] sql=SELECT s.id, t.name FROM spans s, towns t WHERE s.start < '2024-01-01T09:00:00'
    query inputs=["spans.geojson"] sql=SELECT id FROM spans WHERE start < '2024-01-01 09:00:00'
    query inputs=["spans.geojson","towns.geojson"] sql=SELECT s.id, t.name FROM spans s, towns t WHERE s.start < '2024-02-01 09:00:00'
not_aggregated
    query inputs=["wards.geojson"] sql=SELECT region, name, sum(pop) AS pop FROM wards GROUP BY region
    query inputs=["wards.geojson"] sql=SELECT upper(region) AS region, 'all' AS kind, sum(pop) AS pop, ST_Union(geom) AS geom FROM wards GROUP BY 1
    query inputs=["wards.geojson"] sql=SELECT region, name, max(pop) AS pop FROM wards GROUP BY region
    query inputs=["wards.geojson"] sql=SELECT region, name, sum(pop) AS pop FROM wards WHERE pop > 2 GROUP BY region
    query inputs=["wards.geojson"] sql=SELECT name, 1.0 * pop / (SELECT sum(pop) FROM wards) AS share, rank() OVER (ORDER BY pop) AS place FROM wards
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, a.size, a.geom, count(s.id) AS n FROM areas a LEFT JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY a.code
not_aggregated
    vector sql input=wards.geojson output=OUT.csv dialect=SQLITE sql=SELECT name, avg(pop) AS pop FROM wards
    vector sql input=wards.geojson output=OUT.csv dialect=SQLITE sql=SELECT avg(pop) AS pop FROM wards
null_geometries
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT w.name, p.n FROM wards w JOIN unplaced p ON ST_Contains(w.geom, p.geom)
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT w.name, count(p.n) AS n FROM wards w LEFT JOIN unplaced p ON ST_Contains(w.geom, p.geom) = 1 GROUP BY w.name
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT w.name, count(p.n) AS n FROM wards w LEFT JOIN unplaced p ON p.geom IS NOT NULL AND ST_Contains(w.geom, p.geom) GROUP BY w.name
null_geometries
    query inputs=["unplaced.geojson"] sql=SELECT n FROM unplaced WHERE ST_Within(geom, BuildMbr(0, 0, 1, 1, 4326))
    query inputs=["unplaced.geojson"] sql=SELECT n FROM unplaced WHERE ST_Within(geom, BuildMbr(0, 0, 1, 1, 4326)) AND n < 2
    query inputs=["unplaced.geojson"] sql=SELECT n FROM unplaced WHERE NOT ST_Within(geom, BuildMbr(0, 0, 1, 1, 4326))
nulls_in_list
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT name FROM wards WHERE name NOT IN (SELECT name FROM unplaced)
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT name FROM wards WHERE name NOT IN (SELECT name FROM unplaced WHERE name IS NOT NULL)
    query inputs=["wards.geojson","unplaced.geojson"] sql=SELECT name FROM wards WHERE name IN (SELECT name FROM unplaced)
columns_mixed
    query inputs=["counts.csv","reordered.csv"] sql=SELECT * FROM counts UNION ALL SELECT * FROM reordered
    query inputs=["counts.csv","reordered.csv"] sql=SELECT name, pop FROM counts UNION ALL SELECT name, pop FROM reordered
    query inputs=["towns.geojson"] sql=SELECT name AS a, pop AS b FROM towns UNION SELECT pop AS b, name AS a FROM towns
crs_mixed
    query inputs=["squares_m.geojson","mercator.geojson"] sql=SELECT id, geom FROM squares_m UNION ALL SELECT id, geom FROM mercator
    query inputs=["squares_m.geojson","mercator.geojson"] sql=SELECT id FROM squares_m UNION ALL SELECT id FROM mercator
    query inputs=["squares.geojson","degrees.geojson"] sql=SELECT id, geom FROM squares UNION ALL SELECT id, geom FROM degrees
    query_to_file inputs=["west_zone_84.gpkg","east_zone.gpkg"] sql=SELECT id, geom FROM west_zone_84 UNION ALL SELECT id, geom FROM east_zone output=OUT.gpkg
summed_twice
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT avg(a.size) AS size FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom)
    query inputs=["areas.geojson","sites.geojson"] sql=SELECT a.code, avg(a.size) AS size FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom) GROUP BY a.code
    query inputs=["areas.geojson","years.csv"] sql=SELECT avg(a.size) AS size FROM areas a JOIN years y ON a.code = y.code
xy_exchanged before mends
    vector make-point input=latlon.csv output=OUT.gpkg x=lat y=lon output-crs=EPSG:4326
    vector make-point input=latlon.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
xy_exchanged before ignoring:crs_missing
    vector convert input=latlon.csv output=OUT.gpkg open-option=["X_POSSIBLE_NAMES=lat","Y_POSSIBLE_NAMES=lon"]
    vector convert input=latlon.csv output=OUT.gpkg open-option=["X_POSSIBLE_NAMES=lon","Y_POSSIBLE_NAMES=lat"]
xy_exchanged before
    query inputs=["latlon.csv"] sql=SELECT l.name, MakePoint(l.lat, l.lon, 4326) AS geom FROM latlon l
    query inputs=["latlon.csv"] sql=SELECT l.name, MakePoint(l.lon, l.lat, 4326) AS geom FROM latlon l
crs_as_text refused
    query inputs=["squares.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 'EPSG:3035')) AS a FROM squares
    query inputs=["squares.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 3035)) AS a, 'EPSG:3035' AS crs FROM squares
extent_outside_crs before
    query inputs=["exchanged.geojson"] sql=SELECT id, ST_X(geom) AS x FROM exchanged
    query inputs=["world.geojson"] sql=SELECT id, ST_X(geom) AS x FROM world
    query inputs=["squares_m.geojson"] sql=SELECT id, ST_X(ST_Centroid(geom)) AS x FROM squares_m

# rasters whose nodata, place or metres are not what they seem
nodata_not_propagated before mends
    raster calc input=["A=elevation.tif","B=elevation_holes.tif"] calc=["A-2*B"] output=OUT.tif
    raster calc input=["A=elevation.tif","B=elevation_holes.tif"] calc=["A-2*B"] output=OUT.tif propagate-nodata=true
nodata_out_of_range
    raster scale input=elevation_holes.tif output=OUT.tif output-min=0 output-max=255 output-data-type=UInt8
    raster scale input=elevation.tif output=OUT.tif output-min=0 output-max=255 output-data-type=UInt8
    pipeline steps=read elevation_holes.tif ! scale --output-min=1 --output-max=255 --output-data-type=UInt8 ! edit --nodata=0 ! write OUT.tif
nodata_dropped before
    gdal_merge src_datasets=["elevation_holes.tif","next.tif"] dst_dataset=OUT.tif
    raster mosaic input=["elevation_holes.tif","next.tif"] output=OUT.tif
    gdal_merge src_datasets=["elevation_without_holes.tif","next.tif"] dst_dataset=OUT.tif
longitudes_beyond_180 before
    reproject input=globe_360.tif output=OUT.tif dst_crs=EPSG:8857 resampling=bilinear
    reproject input=globe.tif output=OUT.tif dst_crs=EPSG:8857 resampling=bilinear
    raster reproject input=globe_360.tif output=OUT.tif output-crs=EPSG:4326 bbox=[-180,-90,180,90] resampling=bilinear
zones_not_covered before
    raster zonal-stats input=low.tif zones=whole.gpkg output=OUT.gpkg stat=["mean"] include-field=["id"]
    raster zonal-stats input=low.tif zones=zones_utm.gpkg output=OUT.gpkg stat=["mean"] include-field=["id"]
mercator_units before
    raster slope input=mercator.tif output=OUT.tif
    raster slope input=mercator_equator.tif output=OUT.tif
    raster slope input=degrees.tif output=OUT.tif
mercator_units before
    vector buffer input=mercator.geojson output=OUT.gpkg distance=100
    vector buffer input=squares_m.geojson output=OUT.gpkg distance=100
mercator_units before
    query inputs=["mercator.geojson"] sql=SELECT ST_Area(geom) AS a FROM mercator
    query inputs=["mercator.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 25833)) AS a FROM mercator
mercator_units before
    query inputs=["squares.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 3857)) AS a FROM squares
    query inputs=["squares.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 25833)) AS a FROM squares
values_equal_nodata
    vector rasterize input=flags.geojson output=OUT.tif resolution=[0.1,0.1] attribute-name=flood
    vector rasterize input=flags.geojson output=OUT.tif resolution=[0.1,0.1] attribute-name=flood nodata=255 init=[255]
    vector rasterize input=flags.geojson output=OUT.tif resolution=[0.1,0.1] attribute-name=class
    vector rasterize input=flags.geojson output=OUT.tif resolution=[0.1,0.1] burn=[1]
nodata_redeclared before
    raster edit dataset=holes_in_place.tif nodata=0
    raster edit dataset=holes_in_place_too.tif nodata=-9999
    raster edit dataset=whole_in_place.tif nodata=-9999
nodata_redeclared before
    pipeline steps=read elevation_holes.tif ! edit --nodata=0 ! write OUT.tif
    raster reproject input=elevation_holes.tif output=OUT.tif dst-nodata=0 resampling=bilinear
nodata_undeclared
    raster clip input=undeclared.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
    raster clip input=elevation_holes.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
    raster nodata-to-alpha input=elevation_holes.tif output=OUT.tif
nodata_undeclared before
    raster slope input=undeclared.tif output=OUT.tif
    raster slope input=elevation_holes.tif output=OUT.tif
    raster contour input=undeclared.tif output=OUT.gpkg interval=100 elevation-name=h input-nodata=-9999
    raster calc input=["A=undeclared.tif"] calc=["A < 0 ? 0 : A"] output=OUT.tif
nodata_undeclared before
    raster zonal-stats input=undeclared.tif zones=zones_utm.gpkg output=OUT.csv stat=["mean"] include-field=["id"]

# distances, heights, colours and places that are not what they seem
distance_in_pixels before mends
    raster proximity input=mask.tif output=OUT.tif
    raster proximity input=mask.tif output=OUT.tif distance-units=pixel
    raster proximity input=mask.tif output=OUT.tif distance-units=geo
units_in_degrees before
    raster proximity input=degrees.tif output=OUT.tif distance-units=geo target-values=[1100]
    raster proximity input=elevation.tif output=OUT.tif distance-units=geo target-values=[1100]
units_in_degrees before ignoring:constant
    raster viewshed input=degrees.tif output=OUT.tif position=[9.2,45.1,10]
    raster viewshed input=elevation.tif output=OUT.tif position=[502000,4998500,10]
nodata_undeclared before mends
    raster proximity input=mask.tif output=OUT.tif distance-units=geo max-distance=300
    raster proximity input=mask.tif output=OUT.tif distance-units=geo max-distance=300 nodata=-1
nodata_undeclared before mends
    raster proximity input=mask_holes.tif output=OUT.tif distance-units=geo target-values=[1]
    raster proximity input=mask.tif output=OUT.tif distance-units=geo target-values=[1]
nodata_as_target before
    raster proximity input=mask_holes.tif output=OUT.tif distance-units=geo nodata=-1
    raster proximity input=mask.tif output=OUT.tif distance-units=geo nodata=-1
    raster proximity input=mask_holes.tif output=OUT.tif distance-units=geo target-values=[1] nodata=-1
heights_left_out before mends
    raster contour input=elevation.tif output=OUT.gpkg interval=100
    raster contour input=elevation.tif output=OUT.gpkg interval=100 elevation-name=height
heights_left_out before mends
    raster contour input=elevation.tif output=OUT.gpkg interval=100 polygonize=true
    raster contour input=elevation.tif output=OUT.gpkg interval=100 polygonize=true min-name=low max-name=high
heights_assumed before
    raster slope input=feet.tif output=OUT.tif
    raster slope input=feet.tif output=OUT.tif xscale=1 yscale=1
    raster slope input=feet_known.tif output=OUT.tif
    raster slope input=elevation.tif output=OUT.tif
colors_changed before mends
    convert input=rgba.tif output=OUT.jpg
    convert input=photo.tif output=OUT.jpg
    convert input=rgba.tif output=OUT.png
colors_changed before
    pipeline steps=read rgba.tif ! write OUT.jpg
    pipeline steps=read rgba.tif ! select --band=1,2,3 ! write OUT.jpg
palette_lost ignoring:classes_mixed
    convert input=landcover.tif output=OUT.jpg
    convert input=landcover.tif output=OUT.png
position_in_pixels before mends
    raster pixel-info input=degrees.tif position=[9.1,45.1]
    raster pixel-info input=degrees.tif position=[9.1,45.1] position-crs=dataset
    raster pixel-info input=degrees.tif position=[10,20]
    raster pixel-info input=elevation.tif position=[10.5,20.5]
position_in_pixels before mends
    raster pixel-info input=elevation.tif position=[9.02,45.14]
    raster pixel-info input=elevation.tif position=[9.02,45.14] position-crs=EPSG:4326
position_in_pixels before unmended
    raster pixel-info input=no_crs.tif position=[10.5,49.5]
inputs_skipped
    vector index input=["towns.geojson","squares.geojson"] output=OUT.gpkg
    vector index input=["towns.geojson","squares.geojson"] output=OUT.gpkg accept-different-schemas=true
inputs_skipped
    raster index input=["elevation.tif","degrees.tif"] output=OUT.gpkg
    raster index input=["elevation.tif","low.tif"] output=OUT.gpkg
    raster index input=["elevation.tif","degrees.tif"] output=OUT.gpkg output-crs=EPSG:4326
classes_mixed before
    raster tile input=many_classes.tif output=OUT min-zoom=9 max-zoom=9
    raster tile input=many_classes.tif output=OUT min-zoom=9 max-zoom=9 resampling=nearest
    raster tile input=photo.tif output=OUT min-zoom=9 max-zoom=9

# pixels without data, without a number, or without a polygon
nodata_as_rows before mends
    raster as-features input=elevation_holes.tif output=OUT.csv
    raster as-features input=elevation_holes.tif output=OUT.csv skip-nodata=true
    raster as-features input=elevation.tif output=OUT.csv
nodata_as_rows before
    gdal2xyz dataset=elevation_holes.tif dst_csv=OUT.csv
    gdal2xyz dataset=elevation_holes.tif dst_csv=OUT.csv skip_nodata=true
scale_ignored before
    gdal2xyz dataset=scaled.tif dst_csv=OUT.csv
    gdal2xyz dataset=elevation.tif dst_csv=OUT.csv
holes_left mends
    raster fill-nodata input=wide_hole.tif output=OUT.tif
    raster fill-nodata input=elevation_holes.tif output=OUT.tif
    raster fill-nodata input=wide_hole.tif output=OUT.tif max-distance=5
    pipeline steps=read elevation_holes.tif ! fill-nodata ! reproject --output-crs=EPSG:25833 --resampling=bilinear ! write OUT.tif
not_finite
    raster calc input=["A=low.tif","B=mask.tif"] calc=["A/B"] output=OUT.tif
    raster calc input=["A=low.tif","B=mask.tif"] calc=["B == 0 ? -9999 : A/B"] output=OUT.tif nodata=-9999
    raster calc input=["A=nan_holes.tif"] calc=["A*2"] output=OUT.tif
    raster calc input=["A=mask.tif","B=low.tif"] calc=["A/B"] output=OUT.tif
not_finite
    raster calc input=["A=nan_holes.tif","B=mask.tif"] calc=["A/B"] output=OUT.tif
not_finite
    raster calc input=["A=low.tif"] calc=["sqrt(A-50)"] output=OUT.tif
    raster calc input=["A=low.tif"] calc=["sqrt(A)"] output=OUT.tif
values_equal_nodata ignoring:constant
    raster calc input=["A=zero_nodata.tif"] calc=["A>500"] output=OUT.tif propagate-nodata=true
    raster calc input=["A=zero_nodata.tif"] calc=["A>500"] output=OUT.tif propagate-nodata=true nodata=255
    raster calc input=["A=zero_nodata.tif"] calc=["A*2"] output=OUT.tif propagate-nodata=true
    raster calc input=["A=elevation.tif"] calc=["A>500"] output=OUT.tif nodata=0
values_rounded
    raster calc input=["A=low.tif"] calc=["A/200"] output=OUT.tif output-data-type=Int16
    raster calc input=["A=low.tif"] calc=["A*0.3048"] output=OUT.tif output-data-type=Int16
    raster calc input=["A=low.tif"] calc=["A>50"] output=OUT.tif output-data-type=UInt8
smaller_than_pixel
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.1,0.1] attribute-name=id
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.1,0.1] attribute-name=id all-touched=true
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=id
values_rounded
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=share output-data-type=UInt8
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=share output-data-type=Float32
digits_lost
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=id output-data-type=Float32
    vector rasterize input=parcels.geojson output=OUT.tif resolution=[0.01,0.01] attribute-name=id output-data-type=Int32

# from public bug reports: what is hidden, large, complex, curved, turned, or stored and not true
mask_lost mends ignoring:collar_without_nodata
    reproject input=masked_photo.tif output=OUT.tif dst_crs=EPSG:32633
    reproject input=masked_photo.tif output=OUT.tif dst_crs=EPSG:32633 extra_args=["--add-alpha"]
    reproject input=masked_photo.tif output=OUT.tif dst_crs=EPSG:32633 extra_args=["--output-nodata=0"]
mask_lost
    raster calc input=["A=masked_classes.tif"] output=OUT.tif calc=["A*2"]
    raster calc input=["A=classes.tif"] output=OUT.tif calc=["A*2"]
mask_lost
    raster reclassify input=masked_classes.tif output=OUT.tif mapping=[0,3]=5;DEFAULT=9
    raster clip input=masked_classes.tif output=OUT.tif bbox=[502000,4997000,504000,4999000]
    raster resize input=masked_photo.tif output=OUT.tif size=["20","15"] resampling=average
mask_lost
    raster slope input=masked_heights.tif output=OUT.tif
    raster slope input=elevation_holes.tif output=OUT.tif
mask_lost ignoring:identical_to_input
    raster sieve input=spots.tif output=OUT.tif size-threshold=10
    raster sieve input=spots.tif output=OUT.tif size-threshold=2
mask_lost
    raster stack input=["masked_classes.tif","masked_photo.tif"] output=OUT.tif
    raster stack input=["classes.tif","spots.tif"] output=OUT.tif
mask_ignored before
    raster contour input=masked_heights.tif output=OUT.gpkg interval=100 elevation-name=e
    raster contour input=elevation_holes.tif output=OUT.gpkg interval=100 elevation-name=e
digits_lost before ignoring:constant
    raster polygonize input=int64_ids.tif output=OUT.gpkg
    raster polygonize input=int64_small.tif output=OUT.gpkg
    raster clip input=int64_ids.tif output=OUT.tif bbox=[500000,4997500,502000,5000000]
digits_lost before
    raster pixel-info input=int64_ids.tif position=[1,1]
    raster pixel-info input=int64_small.tif position=[1,1]
imaginary_lost before
    raster set-type input=complex.tif output=OUT.tif output-data-type=Float32
    raster set-type input=complex.tif output=OUT.tif output-data-type=CFloat64
imaginary_lost
    raster convert input=complex.tif output=OUT.asc
    raster convert input=complex.tif output=OUT.tif creation-option=["COMPRESS=LZW"]
curves_skipped refused
    vector rasterize input=curve.gpkg output=OUT.tif burn=[1] resolution=[100,100]
    vector convert input=curve.gpkg output=OUT.fgb
curves_skipped refused
    raster zonal-stats input=low.tif zones=curve.gpkg output=OUT.csv stat=["count"]
curves_skipped refused
    raster clip input=low.tif like=curve.gpkg output=OUT.tif
rotated_ignored refused
    raster zonal-stats input=rotated.tif zones=zones_utm.gpkg output=OUT.csv stat=["count"]
rotated_ignored before
    raster hillshade input=rotated.tif output=OUT.tif
    raster hillshade input=elevation.tif output=OUT.tif
classes_mixed before mends ignoring:identical_to_input
    convert input=two_classes.tif output=OUT.tif output_format=COG
    convert input=zeros_and_ones.tif output=OUT.tif output_format=COG
classes_mixed before mends ignoring:identical_to_input
    convert input=float_classes.tif output=OUT.tif output_format=COG
classes_mixed before
    convert input=two_classes.tif output=OUT.gpkg
    convert input=shaded.tif output=OUT.gpkg
    raster polygonize input=two_classes.tif output=OUT.gpkg
colors_differ
    raster mosaic input=["colors_a.tif","colors_c.tif"] output=OUT.tif
    raster mosaic input=["colors_a.tif","colors_b.tif"] output=OUT.tif
nodata_undeclared
    raster mosaic input=["elevation_holes.tif","holes_silent.tif"] output=OUT.tif
    raster mosaic input=["elevation_holes.tif","next.tif"] output=OUT.tif
values_clamped ignoring:constant
    raster mosaic input=["two_hundred.tif","two_hundred.tif"] output=OUT.tif pixel-function=sum
    raster mosaic input=["two_hundred.tif","twenty.tif"] output=OUT.tif pixel-function=sum
collar_without_nodata ignoring:identical_to_input
    raster clip input=photo.tif output=OUT.tif geometry=POLYGON ((500000 4997000,500000 4998500,502000 5000000,504000 5000000,504000 4997000,500000 4997000))
    raster clip input=photo.tif output=OUT.tif geometry=POLYGON ((500000 4997000,500000 5000000,504000 5000000,504000 4997000,500000 4997000))
extent_outside_crs
    raster edit dataset=lonlat_heights.tif crs=EPSG:32632
    raster edit dataset=lonlat_heights_too.tif crs=EPSG:4258
extent_outside_crs
    vector edit input=points.gpkg crs=EPSG:32632 output=OUT.gpkg
    vector edit input=points.gpkg crs=EPSG:4258 output=OUT.gpkg
stored_count_stale
    vector convert input=stale_count.gpkg output=OUT.fgb
    vector convert input=ten.gpkg output=OUT.fgb
position_differs
    info path=positions_differ.tif
    info path=positions_agree.tif
    gdal_read algorithm=raster info arguments={"input":"positions_differ.tif","open-option":["GEOREF_SOURCES=INTERNAL"]}
units_not_metres
    query inputs=["feet_square.gpkg"] sql=SELECT sum(ST_Area(geom)) AS a FROM feet_square
    query inputs=["squares_utm.gpkg"] sql=SELECT sum(ST_Area(geom)) AS a FROM squares_utm
longitudes_differ refused mends
    raster clip input=globe_degrees_360.tif output=OUT.tif bbox=[-10,-10,10,10]
    raster clip input=globe_degrees_360.tif output=OUT.tif bbox=[10,-10,30,10]
    raster clip input=globe_degrees_180.tif output=OUT.tif bbox=[-10,-10,10,10]
longitudes_differ refused
    raster zonal-stats input=globe_degrees_360.tif zones=west_zone.gpkg output=OUT.csv stat=["count"]
    raster zonal-stats input=globe_degrees_360.tif zones=east_zone.gpkg output=OUT.csv stat=["count"]
crosses_antimeridian refused mends ignoring:constant
    reproject input=about_180.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear
crosses_antimeridian refused
    raster footprint input=about_180.tif output=OUT.geojson output-crs=EPSG:4326
    raster footprint input=low.tif output=OUT.geojson output-crs=EPSG:4326
crosses_antimeridian refused mends
    raster clip input=globe_degrees_180.tif output=OUT.tif bbox=[170,-10,-170,10]
crosses_antimeridian refused mends ignoring:identical_to_input
    vector clip input=points_about_180.gpkg output=OUT.gpkg bbox=[170,-20,-170,20]
antimeridian_parts
    vector info input=points_about_180.gpkg
    vector info input=ten.gpkg
antimeridian_parts
    vector info input=zone_about_180.gpkg
    vector info input=ten.gpkg

# neighbours of these: what is stored beside an input, positions, longitudes, formats that lose, types that round
values_rounded before ignoring:identical_to_input
    raster sieve input=fractions.tif output=OUT.tif size-threshold=2
    raster sieve input=spots.tif output=OUT.tif size-threshold=2
imaginary_lost before
    raster sieve input=complex.tif output=OUT.tif size-threshold=2
imaginary_lost before
    raster fill-nodata input=complex.tif output=OUT.tif
    raster calc input=["complex.tif"] output=OUT.tif calc=["mod"] dialect=builtin
classes_mixed before
    raster fill-nodata input=classes_with_holes.tif output=OUT.tif
    raster fill-nodata input=classes_with_holes.tif output=OUT.tif strategy=nearest
    raster fill-nodata input=few_holes.tif output=OUT.tif
classes_mixed before ignoring:mask_lost
    raster neighbors input=two_classes.tif output=OUT.tif method=["mean"] kernel=["equal"]
    raster neighbors input=two_classes.tif output=OUT.tif method=["mode"] kernel=["equal"]
    raster neighbors input=elevation.tif output=OUT.tif method=["mean"] kernel=["equal"]
classes_mixed before
    convert input=two_classes.tif output=OUT.tif creation_options=["COMPRESS=LERC","MAX_Z_ERROR=1"]
    convert input=two_classes.tif output=OUT.tif creation_options=["COMPRESS=LERC"]
classes_mixed before ignoring:identical_to_input
    convert input=two_classes.tif output=OUT.tif output_format=COG creation_options=["OVERVIEW_RESAMPLING=AVERAGE"]
    convert input=two_classes.tif output=OUT.tif output_format=COG creation_options=["OVERVIEWS=NONE"]
    convert input=two_classes.tif output=OUT.tif output_format=COG creation_options=["RESAMPLING=NEAREST"]
classes_mixed before
    convert input=two_classes.tif output=OUT.tif output_format=COG creation_options=["TILING_SCHEME=GoogleMapsCompatible","OVERVIEW_RESAMPLING=MODE"]
    convert input=two_classes.tif output=OUT.tif output_format=COG creation_options=["TILING_SCHEME=GoogleMapsCompatible","RESAMPLING=NEAREST"]
classes_mixed before
    convert input=two_classes.tif output=OUT.mbtiles
    convert input=two_classes.tif output=OUT.mbtiles creation_options=["RESAMPLING=NEAREST"]
lossy_compression
    convert input=elevation.tif output=OUT.tif creation_options=["DISCARD_LSB=8"]
    convert input=elevation.tif output=OUT.tif creation_options=["COMPRESS=ZSTD"]
lossy_compression
    convert input=elevation.tif output=OUT.tif creation_options=["NBITS=16"]
lossy_compression
    convert input=deep_photo.tif output=OUT.jp2
    convert input=deep_photo.tif output=OUT.jp2 creation_options=["REVERSIBLE=YES","QUALITY=100"]
    convert input=photo.tif output=OUT.jp2
values_clamped
    convert input=two_classes.tif output=OUT.tif creation_options=["NBITS=1"]
    convert input=two_classes.tif output=OUT.tif creation_options=["NBITS=4"]
nodata_out_of_range before ignoring:identical_to_input
    raster set-type input=nan_declared.tif output=OUT.tif output-data-type=Int16
    convert input=nan_declared.tif output=OUT.tif
    raster clip input=nan_declared.tif output=OUT.tif bbox=[500000,4997500,502000,5000000]
rotated_ignored refused
    gdal_merge src_datasets=["rotated.tif","next.tif"] dst_dataset=OUT.tif
    gdal_merge src_datasets=["low.tif","next.tif"] dst_dataset=OUT.tif
rotated_ignored refused
    raster zonal-stats input=mirrored.tif zones=zones_utm.gpkg output=OUT.csv stat=["count"]
    raster zonal-stats input=south_up.tif zones=zones_utm.gpkg output=OUT.csv stat=["count"]
rotated_ignored before
    raster proximity input=rotated.tif output=OUT.tif distance-units=geo target-values=[100]
rotation_lost
    convert input=rotated.tif output=OUT.asc
    convert input=elevation.tif output=OUT.asc
control_points_ignored refused
    raster slope input=control_points.tif output=OUT.tif
    raster reproject input=control_points.tif output=OUT.tif output-crs=EPSG:32632 resampling=bilinear output-nodata=-9999
control_points_ignored refused
    raster contour input=control_points.tif output=OUT.gpkg interval=100 elevation-name=e
statistics_stale
    info path=stored_statistics.tif
    info path=true_statistics.tif
statistics_stale
    gdal_read algorithm=raster info arguments={"input":"stored_statistics.tif","stats":true}
zeros_around
    gdal_read algorithm=raster info arguments={"input":"turned_zeros.tif","stats":true}
    gdal_read algorithm=raster info arguments={"input":"turned_zeros.tif"}
    gdal_read algorithm=raster info arguments={"input":"turned_nodata.tif","stats":true}
    gdal_read algorithm=raster info arguments={"input":"turned_mask.tif","stats":true}
    gdal_read algorithm=raster info arguments={"input":"coast.tif","stats":true}
    gdal_read algorithm=raster info arguments={"input":"photo.tif","stats":true}
overviews_stale
    raster resize input=old_overviews.tif output=OUT.tif size=["100","100"] resampling=average
    raster resize input=true_overviews.tif output=OUT.tif size=["100","100"] resampling=average
overviews_unexamined
    raster resize input=large_overviews.tif output=OUT.tif size=["220","200"] resampling=average
    raster resize input=large_overviews.tif output=OUT.tif size=["2000","1900"] resampling=average
    raster resize input=true_overviews.tif output=OUT.tif size=["50","50"] resampling=average
    raster slope input=large_overviews.tif output=OUT.tif
    info path=large_overviews.tif
overviews_unexamined
    reproject input=large_overviews.tif output=OUT.tif dst_crs=EPSG:25832 resampling=average extra_args=["--resolution=1000,1000"]
    reproject input=large_overviews.tif output=OUT.tif dst_crs=EPSG:25832 resampling=average
overviews_unexamined
    preview path=large_overviews.tif
    preview path=true_overviews.tif
overviews_unexamined
    gdal_read algorithm=raster info arguments={"input":"large_overviews.tif","approx-stats":true}
    gdal_read algorithm=raster info arguments={"input":"large_overviews.tif","stats":true}
spatial_index_stale ignoring:identical_to_input
    vector filter input=old_index.shp output=OUT.gpkg bbox=[45,15,65,35]
    vector filter input=true_index.shp output=OUT.gpkg bbox=[-1,-1,3.5,20]
encoding_misread
    vector info input=false_encoding.shp features=true
    vector info input=true_index.shp features=true
encoding_misread
    vector convert input=false_encoding.shp output=OUT.gpkg
    vector convert input=false_encoding.shp output=OUT.gpkg open-option=["ENCODING=UTF-8"]
records_inconsistent
    vector convert input=more_records.shp output=OUT.gpkg
    vector convert input=true_index.shp output=OUT.gpkg
extent_outside_crs
    info path=far_coordinates.gpkg
    info path=points.gpkg
extent_outside_crs refused
    vector reproject input=far_coordinates.gpkg output=OUT.gpkg output-crs=EPSG:32632
    vector reproject input=far_coordinates.gpkg output=OUT.gpkg input-crs=EPSG:32632 output-crs=EPSG:4326
longitudes_differ refused
    raster clip input=globe_degrees_360.tif output=OUT.tif geometry=POLYGON ((-15 45,-5 45,-5 50,-15 50,-15 45))
    raster clip input=globe_degrees_360.tif output=OUT.tif geometry=POLYGON ((15 45,25 45,25 50,15 50,15 45))
longitudes_differ ignoring:no_overlap ignoring:zero_features
    vector clip input=points_350.gpkg output=OUT.gpkg bbox=[-15,45,5,50]
    vector clip input=points_350.gpkg output=OUT.gpkg bbox=[345,45,355,55]
longitudes_differ before
    raster pixel-info input=globe_degrees_360.tif position=[-10.5,50.5] position-crs=EPSG:4326
    raster pixel-info input=globe_degrees_360.tif position=[10.5,50.5] position-crs=EPSG:4326
position_outside before
    raster pixel-info input=elevation.tif position=[600000,4998500] position-crs=dataset
    raster pixel-info input=elevation.tif position=[502000,4998500] position-crs=dataset
longitudes_differ before
    raster mosaic input=["part_360.tif","part_180.tif"] output=OUT.tif
    raster mosaic input=["part_180.tif","part_next.tif"] output=OUT.tif
units_not_metres before
    vector buffer input=feet_square.gpkg output=OUT.gpkg distance=100
    vector buffer input=squares_utm.gpkg output=OUT.gpkg distance=100
scale_ignored before
    raster neighbors input=scaled.tif output=OUT.tif method=["mean"] kernel=["equal"]
    raster neighbors input=elevation.tif output=OUT.tif method=["mean"] kernel=["equal"]
scale_ignored before
    raster polygonize input=scaled.tif output=OUT.gpkg
characters_lost
    query inputs=["latin.csv"] sql=SELECT * FROM latin
    query inputs=["utf8.csv"] sql=SELECT * FROM utf8
invalid_geometries
    vector buffer input=bow.gpkg output=OUT.gpkg distance=10
    vector buffer input=squares_utm.gpkg output=OUT.gpkg distance=10
zones_without_pixels
    raster zonal-stats input=low.tif zones=large_and_tiny.gpkg output=OUT.csv stat=["mean","count"] include-field=["id"]
    raster zonal-stats input=low.tif zones=zones_utm.gpkg output=OUT.csv stat=["mean","count"] include-field=["id"]
    raster zonal-stats input=low.tif zones=large_and_tiny.gpkg output=OUT.csv stat=["mean","count"] include-field=["id"] pixels=all-touched
rotated_ignored before
    raster tri input=rotated.tif output=OUT.tif
    raster tri input=elevation.tif output=OUT.tif
values_clamped before ignoring:data_type_changed
    raster nodata-to-alpha input=elevation_holes.tif output=OUT.png
    raster nodata-to-alpha input=few_holes.tif output=OUT.png
classes_mixed ignoring:identical_to_input
    raster reproject input=two_codes.tif output=OUT.tif resolution=[15,15] resampling=bilinear
    raster reproject input=two_codes.tif output=OUT.tif resolution=[15,15] resampling=nearest
    raster reproject input=three_codes.tif output=OUT.tif resolution=[15,15] resampling=bilinear
centroid_outside
    query inputs=["l_shape.gpkg","notch.gpkg"] sql=SELECT b.id FROM l_shape a JOIN notch b ON ST_Within(ST_Centroid(a.geom), b.geom)
    query inputs=["l_shape.gpkg","notch.gpkg"] sql=SELECT b.id FROM l_shape a JOIN notch b ON ST_Intersects(ST_PointOnSurface(a.geom), b.geom)
    query inputs=["convex.gpkg","notch.gpkg"] sql=SELECT b.id FROM convex a JOIN notch b ON ST_Within(ST_Centroid(a.geom), b.geom)
    query inputs=["l_shape.gpkg"] sql=SELECT ST_X(ST_Centroid(geom)) AS x FROM l_shape
difference_empty
    query inputs=["larger_square.gpkg","smaller_square.gpkg"] sql=SELECT coalesce(sum(ST_Area(ST_Difference(b.geom, a.geom))), 0) AS m2 FROM larger_square a, smaller_square b
    query inputs=["larger_square.gpkg","smaller_square.gpkg"] sql=SELECT coalesce(sum(ST_Area(ST_Difference(a.geom, b.geom))), 0) AS m2 FROM larger_square a, smaller_square b
    query inputs=["larger_square.gpkg","same_square.gpkg"] sql=SELECT coalesce(sum(ST_Area(ST_Difference(b.geom, a.geom))), 0) AS m2 FROM larger_square a, same_square b
rates_averaged
    query inputs=["rates.csv"] sql=SELECT avg(jobless_pct) AS mean FROM rates
    query inputs=["rates.csv"] sql=SELECT sum(jobless_pct * labour_force) / (1.0 * sum(labour_force)) AS mean FROM rates
    query inputs=["even_rates.csv"] sql=SELECT avg(jobless_pct) AS mean FROM even_rates
    query inputs=["rates.csv"] sql=SELECT name, avg(jobless_pct) AS mean FROM rates GROUP BY name
    query inputs=["rates.csv"] sql=SELECT avg(labour_force) AS mean FROM rates
length_without_heights before
    query inputs=["slope_line.gpkg"] sql=SELECT sum(ST_Length(geom)) AS m FROM slope_line
    query inputs=["slope_line.gpkg"] sql=SELECT sum(ST_3DLength(geom)) AS m FROM slope_line
    query inputs=["flat_line.gpkg"] sql=SELECT sum(ST_Length(geom)) AS m FROM flat_line
band_missing refused
    raster polygonize input=classes.tif output=OUT.gpkg band=7
    raster polygonize input=classes.tif output=OUT.gpkg band=1
band_missing refused
    gdal_polygonize src_dataset=classes.tif dst_vector=OUT.gpkg band=7
    gdal_polygonize src_dataset=classes.tif dst_vector=OUT.gpkg band=1
band_missing refused
    gdal2xyz dataset=elevation.tif dst_csv=OUT.csv bands=["2"]
    gdal2xyz dataset=elevation.tif dst_csv=OUT.csv bands=["1"]
band_missing refused
    raster select input=photo.tif output=OUT.tif band=["4"]
    raster select input=photo.tif output=OUT.tif band=["3","1"]
band_missing refused
    pipeline steps=read elevation.tif ! hillshade --band=2 ! write OUT.tif
    pipeline steps=read elevation.tif ! hillshade --band=1 ! write OUT.tif
band_missing refused before
    pipeline steps=read photo.tif ! select --band=3,1 ! select --band=3 ! write OUT.tif
    pipeline steps=read photo.tif ! select --band=3,1 ! select --band=2 ! write OUT.tif
band_missing refused before
    pipeline steps=read elevation.tif ! hillshade ! select --band=2 ! write OUT.tif
    pipeline steps=read elevation.tif ! hillshade ! select --band=1 ! write OUT.tif
constant
    raster calc input=["A=elevation.tif"] calc=["A*0"] output=OUT.tif
    raster edit input=mask_in_place.tif nodata=0
    raster calc input=["A=elevation.tif"] calc=["A*2"] output=OUT.tif
    raster calc input=["A=two_hundred.tif"] calc=["A/2"] output=OUT.tif output-data-type=Float32
bands_lost ignoring:crs_missing
    convert input=photo.tif output=OUT.xyz
    convert input=elevation.tif output=OUT.xyz
pixels_not_square
    convert input=oblong.tif output=OUT.asc
    convert input=elevation.tif output=OUT.asc
heights_moved before mends
    reproject input=above_geoid.tif output=OUT.tif dst_crs=EPSG:4326 resampling=bilinear extra_args=["--dst-nodata=-1"]
    reproject input=above_geoid.tif output=OUT.tif dst_crs=EPSG:4326+5773 resampling=bilinear extra_args=["--dst-nodata=-1"]
    reproject input=above_ellipsoid.tif output=OUT.tif dst_crs=EPSG:32632 resampling=bilinear extra_args=["--dst-nodata=-1"]
    reproject input=photo_above_geoid.tif output=OUT.tif dst_crs=EPSG:25832 resampling=bilinear extra_args=["--add-alpha"]
hull_of_each_point before mends ignoring:geometry_type_undeclared
    vector convex-hull input=towns.geojson output=OUT.gpkg
    vector convex-hull input=squares.geojson output=OUT.gpkg
    pipeline steps=read towns.geojson ! combine ! convex-hull ! write OUT.gpkg
sampled_at_centroid before unmended
    raster pixel-info input=degrees.tif position-dataset=degrees.geojson
    raster pixel-info input=degrees.tif position-dataset=towns.geojson
zeros_are_nodata before mends ignoring:constant
    vector grid count input=["points.gpkg"] output=OUT.tif radius=1
    vector grid count input=["points.gpkg"] output=OUT.tif radius=1 nodata=-1
nothing_aggregated before mends
    raster calc input=["photo.tif"] calc=["mean"] dialect=builtin output=OUT.tif output-data-type=Float32
    raster calc input=["photo.tif"] calc=["mean"] dialect=builtin flatten=true output=OUT.tif output-data-type=Float32
zeros_are_nodata
    vector grid nearest input=["rain.geojson"] output=OUT.tif zfield=rain size=[8,8]
    vector grid nearest input=["rain.geojson"] output=OUT.tif zfield=rain size=[8,8] nodata=-9999
    vector grid nearest input=["rain.geojson"] output=OUT.tif zfield=dew size=[8,8]
    vector grid nearest input=["rain.geojson"] output=OUT.tif zfield=dew size=[8,8] radius=0.5
zeros_are_nodata
    vector grid range input=["rain.geojson"] output=OUT.tif zfield=dew size=[8,8] radius=2
    vector grid range input=["rain.geojson"] output=OUT.tif zfield=dew size=[8,8] radius=2 nodata=-1
    vector grid average input=["rain.geojson"] output=OUT.tif zfield=dew size=[8,8] radius=2
nothing_dissolved ignoring:geometry_type_undeclared ignoring:invalid_geometries
    vector dissolve input=tee.geojson output=OUT.gpkg
    pipeline steps=read tee.geojson ! combine ! dissolve ! set-geom-type --multi ! write OUT.gpkg
    vector dissolve input=islands.geojson output=OUT.fgb
    vector dissolve input=islands_and_bow.geojson output=OUT.gpkg
borders_torn
    vector simplify input=tee.geojson output=OUT.gpkg tolerance=50
    vector simplify input=tee.geojson output=OUT.gpkg tolerance=0.001
    vector simplify-coverage input=tee.geojson output=OUT.gpkg tolerance=50
empty_texts
    query inputs=["empty_cells.csv"] sql=SELECT count(*) AS n FROM empty_cells WHERE name IS NULL
    query inputs=["empty_cells.csv"] sql=SELECT count(*) AS n FROM empty_cells WHERE name IS NULL OR name = ''
    query inputs=["empty_cells.csv"] sql=SELECT count(*) AS n FROM empty_cells WHERE pop IS NULL
    query inputs=["codes.geojson"] sql=SELECT count(*) AS n FROM codes WHERE code IS NULL
empty_texts
    query inputs=["empty_cells.csv"] sql=SELECT count(name) AS n FROM empty_cells
    query inputs=["empty_cells.csv"] sql=SELECT count(nullif(name, '')) AS n FROM empty_cells
    query inputs=["empty_cells.csv"] sql=SELECT count(pop) AS n FROM empty_cells
columns_alike
    query inputs=["alike.geojson"] sql=SELECT "Name", "name" FROM alike
    query inputs=["alike.geojson"] sql=SELECT n FROM alike
    query inputs=["alike.geojson","codes.geojson"] sql=SELECT code FROM codes
case_ignored
    vector filter input=codes.geojson output=OUT.fgb where=code = 'ab'
    vector filter input=codes.geojson output=OUT.fgb where=code = 'cd'
    vector filter input=codes.geojson output=OUT.fgb where=code LIKE 'ab'
    query_to_file inputs=["codes.geojson"] output=OUT.csv sql=SELECT id FROM codes WHERE code = 'ab'
case_ignored
    vector info input=["codes.geojson"] features=true where=code <> 'ab'
    vector info input=["codes.geojson"] features=true where=id <> 1
case_ignored ignoring:geometry_left_out
    vector sql input=codes.geojson output=OUT.csv sql=SELECT id FROM codes WHERE code IN ('ab', 'x')
    vector sql input=codes.geojson output=OUT.csv sql=SELECT id FROM codes WHERE code IN ('cd', 'x')
collar_without_nodata
    raster stack input=["elevation.tif","quarter.tif"] output=OUT.tif
    raster stack input=["elevation.tif","low.tif"] output=OUT.tif
    raster stack input=["elevation_holes.tif","classes_with_holes.tif"] output=OUT.tif
times_cut
    query inputs=["sheet_times.xlsx"] sql=SELECT at FROM sheet_times
    query inputs=["sheet_moments.xlsx"] sql=SELECT at FROM sheet_moments
    query inputs=["sheet_dates.xlsx"] sql=SELECT at FROM sheet_dates
times_cut
    vector convert input=sheet_times.xlsx output=OUT.csv
    vector convert input=sheet_moments.xlsx output=OUT.csv
extended_data_unread
    vector convert input=described.kml output=OUT.gpkg
    vector convert input=named.kml output=OUT.gpkg
edges_straight
    vector reproject input=continent.geojson output=OUT.gpkg output-crs=EPSG:3035
    vector reproject input=squares.geojson output=OUT.gpkg output-crs=EPSG:3035
    pipeline steps=read continent.geojson ! segmentize --max-length=0.1 ! reproject --output-crs=EPSG:3035 ! write OUT.gpkg

# numbers with a unit, people counted in pixels, functions that leave nodata out
number_as_text before
    query inputs=["prices.csv"] sql=SELECT sum(price) AS s FROM prices
    query inputs=["prices.csv"] sql=SELECT sum(CAST(replace(replace(price, '$', ''), ',', '') AS REAL)) AS s FROM prices
    query inputs=["prices.csv"] sql=SELECT price FROM prices
number_as_text before
    query inputs=["prices.csv"] sql=SELECT * FROM prices ORDER BY share DESC
    query inputs=["prices.csv"] sql=SELECT * FROM prices ORDER BY grade
counts_resampled before
    reproject input=pop_2020.tif output=OUT.tif dst_crs=EPSG:3035 resampling=bilinear extra_args=["--dst-nodata=-1"]
    reproject input=pop_2020.tif output=OUT.tif dst_crs=EPSG:3035 resampling=sum extra_args=["--dst-nodata=-1"]
    reproject input=elevation.tif output=OUT.tif dst_crs=EPSG:3035 resampling=bilinear extra_args=["--dst-nodata=-1"]
nodata_not_propagated before mends
    raster calc input=["A=elevation_holes.tif","B=elevation_holes.tif"] calc=["A+B"] output=OUT.tif
    raster calc input=["elevation_holes.tif","low.tif"] calc=["mean"] dialect=builtin output=OUT.tif
"""
