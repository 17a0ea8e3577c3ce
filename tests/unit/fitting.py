"""Values that every check of the catalogue lets through, for tests of every algorithm."""

from collections.abc import Mapping
from typing import Any

# Values that pass, by the check of the argument; a check that is missing here fails the test of the table.
FITTING: Mapping[str, list[Any]] = {
    "array-option": ["SHOW_ALL=YES", {"SHOW_ALL": True}], "band": ["1", 2, "mask", "mask:2"],
    "by-band": ["2.5", 3, "1=2.5"], "calc": ["A+B*2", "(A > 3 && B < 1) ? A : sqrt(B)", "A[1]/2"],
    "color": ["black"], "color-interpretation": ["red", "1=alpha"], "crs": ["EPSG:4326", "ESRI:102001"],
    "crs-or-none": ["EPSG:4326", "none", "null"], "fetch-metadata": ["TIFFTAG_DATETIME,taken,DateTime"],
    "field": ["population", "GDP/capita (€)", "_ogr_geometry_"],
    "field-definition": ["name:String(40)", "area:Real(10,2)", "n:Integer"],
    "file-pattern": ["part_%05d", "{LAYER_NAME}_{FIELD_VALUE}_%d"],
    "gcp": ["0,0,440720,3751320", "1.5,2,3,4,-5"],
    "geometry": ["POLYGON ((0 0,1 0,1 1,0 0))", '{"type":"Point","coordinates":[1,2]}'],
    "kernel": ["edge1", "[[0,1,0],[1,2,1],[0,1,0]]"], "label": ["DE", "Survey, 2024"],
    "layer": ["poly", "group/layer", "roads (2024)"], "letters": ["_", "/:"], "level": ["MIN", "100", 12.5],
    "mapping": ["[1,3]=10;(3,7]=20;9=30;NO_DATA=0;DEFAULT=NO_DATA"], "media-type": ["image/tiff"],
    "metadata": ["SOURCE=survey of 2024", {"UNIT": "m/s", "N": 3}],
    "metadata-name": ["AREA_OR_POINT", "xml:XMP"], "multidim": ["/group/temp", "name=temp", "lat(2)"],
    "name-filter": ["*.tif", "tile_??.png"], "new-layer": ["roads (2024)"], "nodata": ["nan", -9999, "0"],
    "page-text": ["Elevation 2024"], "page-url": ["https://example.org/tiles/"], "percentage": ["50%", 512],
    "pixel-function-argument": ["k=2", {"k": 2.5}], "point-count": ["100", "unlimited", 7],
    "position-crs": ["pixel", "EPSG:4326"], "resolution": ["10,10", "highest"],
    "size": ["10%", "100MB", 32768], "sql": ["SELECT * FROM poly WHERE a > 1"],
    "sql-dialect": ["SQLITE", "OGRSQL"], "template": ["{DS_BASENAME}_{LAYER_NAME}"],
    "threads": ["ALL_CPUS", 2, "3"], "transform-option": ["METHOD=RPC"],
    "tuples": ["(255,255,255),(0,0,0)"], "warp-option": ["INIT_DEST=NO_DATA"],
    "where": ["population > 1000 AND name LIKE 'A%'"], "word": ["MultiPolygon", "Integer"],
}  # fmt: skip
BY_DRIVER: Mapping[str, Mapping[str, list[Any]]] = {
    "creation-option": {
        "GTiff": ["COMPRESS=LZW", {"TILED": True, "ZLEVEL": 6}],
        "GPKG": ["VERSION=1.3"],
        "netCDF": ["COMPRESS=DEFLATE"],
    },
    "layer-option": {"GPKG": ["FID=id", {"SPATIAL_INDEX": False}]},
    "output-open-option": {"GPKG": ["LIST_ALL_TABLES=YES"]},
    "open-option": {
        "GTiff": ["NUM_THREADS=2"],
        "GPKG": ["LIST_ALL_TABLES=YES"],
        "netCDF": ["HONOUR_VALID_RANGE=YES"],
    },
}
BY_CONTEXT = {"choice", "input-format", "output-format", "pipeline", *BY_DRIVER}
DRIVERS = {"vector": "GPKG", "multidim_raster": "netCDF"}
PLACES = {
    "named": ["A=in.tif", "in.tif"],
    "band": ["in.tif,band=2", "in.tif"],
    "document": ["schema.json", '{"layers":[]}'],
}
