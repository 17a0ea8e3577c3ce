"""Traps about files and commands that leave something out or add something in silence.

`TEXTS` are further files, `MAKE` continues the program of `losses.py`, and `TABLE` the table of `table.py`.
"""

import json
from typing import Any

from tests.traps.texts import features, point, square


def _with(text: str, **members: Any) -> str:
    """A GeoJSON with further members."""
    return json.dumps({**json.loads(text), **members})


def _esri(**members: Any) -> str:
    """Features as an ArcGIS server returns them."""
    rows = [{"attributes": {"id": i}, "geometry": {"x": i, "y": 1}} for i in range(3)]
    about = {"geometryType": "esriGeometryPoint", "spatialReference": {"wkid": 4326}}
    return json.dumps(
        {**about, "fields": [{"name": "id", "type": "esriFieldTypeInteger"}], **members, "features": rows}
    )


_POINTS = features([(point(i, 1), {"id": i}) for i in range(3)])
_HEIGHTS = [(0, 0, 10), (8, 0, 11), (0, 8, 12), (8, 8, 13), (4, 4, 14), (2, 6, 15)]
_OSM = '<?xml version="1.0"?><osm version="0.6"><node id="1" lat="47" lon="8" version="1"><tag k="amenity" v="cafe"/></node></osm>'
TEXTS = {
    "unquoted.csv": "id,name,pop\n1,Bern,130\n2,Paris, France,2000\n3,Chur,40\n",
    "quoted.csv": 'id,name,pop\n1,Bern,130\n2,"Paris, France",2000\n3,Chur,40\n',
    "trailing.csv": "id,name,pop\n1,Bern,130,\n2,Chur,40,\n",
    "entitled.csv": "Stations of 2024\nid,name,pop\n1,Bern,130\n2,Chur,40\n",
    "one_column.csv": "name\nBern\nChur\n",
    "one_text_column.csv": "name\nBern\nChur, Graubünden\n",
    "page.geojson": _with(_POINTS, numberMatched=5000, numberReturned=3),
    "last_page.geojson": _with(_POINTS, numberMatched=3, numberReturned=3),
    "next_page.geojson": _with(
        _POINTS, links=[{"rel": "next", "href": "https://example.org/items?offset=3"}]
    ),
    "own_page.geojson": _with(_POINTS, links=[{"rel": "self", "href": "https://example.org/items"}]),
    "esri_page.json": _esri(exceededTransferLimit=True),
    "esri_whole.json": _esri(exceededTransferLimit=False),
    "blank_and_null.geojson": features(
        [(point(i, 1), {"id": i, "note": note}) for i, note in enumerate(("", "x", None))]
    ),
    "blank_only.geojson": features(
        [(point(i, 1), {"id": i, "note": note}) for i, note in enumerate(("", "x"))]
    ),
    "mixed_days.csv": "id,day\n1,2024-01-02\n2,31.12.2024\n",
    "whole_days.csv": "id,day\n1,2024-01-02\n2,2024-12-31\n",
    "burned_null.geojson": features([(square(i, 0, 1), {"v": v}) for i, v in enumerate((5, None, 7))]),
    "burned_full.geojson": features([(square(i, 0, 1), {"v": v}) for i, v in enumerate((5, 6, 7))]),
    "heights_full.geojson": features([(point(x, y), {"z": z}) for x, y, z in _HEIGHTS]),
    "heights_fill.geojson": features([(point(x, y), {"z": -9999 if z == 14 else z}) for x, y, z in _HEIGHTS]),
    "with_pole.geojson": features([(point(10, -90), {"id": 1}), (point(10, 50), {"id": 2})]),
    "kansas.geojson": features([(square(-100, 38, 1), {"id": 1})]),
    "hesse.geojson": features([(square(9, 50, 1), {"id": 1})]),
    "cafe.osm": _OSM,
}
MAKE = r"""
def related(name, observed):
    made = gdal.GetDriverByName("GPKG").Create(f"{folder}/{name}.gpkg", 0, 0, 0, gdal.GDT_Unknown)
    for table, rows in (("areas", [("a", 7), ("b", 9)]), ("seen", observed)):
        into = made.CreateLayer(table, None, ogr.wkbNone)
        into.CreateField(ogr.FieldDefn("code", ogr.OFTString)); into.CreateField(ogr.FieldDefn("n", ogr.OFTInteger))
        for code, number in rows:
            feature = ogr.Feature(into.GetLayerDefn()); feature.SetField("code", code); feature.SetField("n", number); into.CreateFeature(feature)
        into = feature = None
    made.Close()
related("one_to_many", [("a", 1), ("a", 9), ("b", 2)])
related("one_to_one", [("a", 1), ("b", 2)])
related("with_null", [(None, 1), ("b", 2)])
layer("unordered", [f"POINT ({x} {y})" for x, y in ((0, 0), (50, 50), (1, 1), (-60, 10), (49, 51))])
"""

TABLE = r"""
# tables and pages that are not complete
cells_left_out
    query inputs=["unquoted.csv"] sql=SELECT id, name FROM unquoted
    query inputs=["quoted.csv"] sql=SELECT id, name FROM quoted
    query inputs=["trailing.csv"] sql=SELECT id, name FROM trailing
cells_left_out
    vector convert input=unquoted.csv output=OUT.gpkg
    vector convert input=quoted.csv output=OUT.gpkg
header_in_rows
    info path=entitled.csv
    info path=one_column.csv
    info path=quoted.csv
    info path=one_text_column.csv
page_of_service
    info path=page.geojson
    info path=last_page.geojson
    info path=rain.geojson
page_of_service
    query inputs=["next_page.geojson"] sql=SELECT count(*) AS n FROM next_page
    query inputs=["own_page.geojson"] sql=SELECT count(*) AS n FROM own_page
page_of_service
    vector convert input=esri_page.json output=OUT.gpkg
    vector convert input=esri_whole.json output=OUT.gpkg

# values that a format or a command replaces
nulls_replaced
    vector convert input=blank_and_null.geojson output=OUT.shp
    vector convert input=blank_and_null.geojson output=OUT.fgb
    vector convert input=blank_only.geojson output=OUT.shp
value_lost
    vector set-field-type input=mixed_days.csv output=OUT.gpkg field-name=day dst-field-type=Date
    vector set-field-type input=whole_days.csv output=OUT.gpkg field-name=day dst-field-type=Date
nulls_replaced
    vector rasterize input=burned_null.geojson output=OUT.tif attribute-name=v resolution=[1,1] nodata=-1
    vector rasterize input=burned_full.geojson output=OUT.tif attribute-name=v resolution=[1,1] nodata=-1
    vector rasterize input=burned_null.geojson output=OUT.tif attribute-name=v resolution=[1,1] nodata=0
fill_values
    vector grid invdist input=["heights_fill.geojson"] output=OUT.tif zfield=z size=[8,8] nodata=-1
    vector grid invdist input=["heights_full.geojson"] output=OUT.tif zfield=z size=[8,8] nodata=-1
order_lost before mends ignoring:identical_to_input
    vector sql input=unordered.gpkg output=OUT.fgb sql=SELECT * FROM unordered ORDER BY id DESC
    vector sql input=unordered.gpkg output=OUT.gpkg sql=SELECT * FROM unordered ORDER BY id DESC
    vector sql input=unordered.gpkg output=OUT.fgb sql=SELECT * FROM unordered ORDER BY id DESC LIMIT 2
    vector sql input=unordered.gpkg output=OUT.fgb sql=SELECT * FROM unordered
joined_once ignoring:geometry_left_out
    vector sql input=one_to_many.gpkg output=OUT.csv dialect=OGRSQL sql=SELECT areas.code, seen.n FROM areas LEFT JOIN seen ON areas.code = seen.code
    vector sql input=one_to_one.gpkg output=OUT.csv dialect=OGRSQL sql=SELECT areas.code, seen.n FROM areas LEFT JOIN seen ON areas.code = seen.code

# places where a projection does not fit
extent_outside_crs
    vector_reproject input=with_pole.geojson output=OUT.gpkg output-crs=EPSG:3857
    vector_reproject input=hesse.geojson output=OUT.gpkg output-crs=EPSG:3857
    vector_reproject input=towns.geojson output=OUT.gpkg output-crs=EPSG:3857
areas_distorted
    query inputs=["kansas.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 32632)) AS a FROM kansas
    query inputs=["hesse.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 32632)) AS a FROM hesse
    query inputs=["kansas.geojson"] sql=SELECT ST_Area(ST_Transform(geom, 5070)) AS a FROM kansas
    query inputs=["kansas.geojson"] sql=SELECT ST_Area(geom, 1) AS a FROM kansas
areas_distorted
    query inputs=["kansas.geojson"] sql=SELECT sum(ST_Area(ST_Transform(geom, 3395))) / 1e6 AS km2 FROM kansas
    query inputs=["kansas.geojson"] sql=SELECT sum(ST_Area(ST_Transform(geom, 6933))) / 1e6 AS km2 FROM kansas
antimeridian_parts ignoring:identical_to_input
    pipeline steps=read dateline.geojson ! combine ! convex-hull ! write OUT.gpkg
    pipeline steps=read towns.geojson ! combine ! convex-hull ! write OUT.gpkg
empty_layer
    vector filter input=two_layers.gpkg output=OUT.gpkg bbox=[9.05,45.05,9.2,45.2]
    vector convert input=cafe.osm output=OUT.gpkg
"""
