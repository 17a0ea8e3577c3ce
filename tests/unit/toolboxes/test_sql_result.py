"""The layer that a statement gives: known exactly if the tables are known, otherwise unknown."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gdal_mcp.toolboxes.gdal.preflight.facts import CrsExtent, DatasetFacts, LayerSchema
from gdal_mcp.toolboxes.gdal.preflight.sql.result import missing_columns, output_layer

PLACES = {"EPSG:4326": CrsExtent(degrees=True), "?EPSG:3857": CrsExtent(degrees=False)}
PLOTS = DatasetFacts(
    "GPKG", "vector", schema=LayerSchema("plots", ("id", "owner"), ("shape",)), geometry="Polygon", crs="EPSG:32633", has_crs=True, degrees=False,
    features=16, extent=(0.0, 0.0, 8.0, 8.0), crs_extents=PLACES,
)  # fmt: skip
WELLS = replace(PLOTS, schema=LayerSchema("wells", ("id", "depth"), ("",)), geometry="Point", features=3)
TABLE = DatasetFacts(
    "CSV", "vector", schema=LayerSchema("t", ("lon", "lat", "n")), geometry="None", has_crs=False
)
BLANK = DatasetFacts("GPKG", "vector", geometry="Point", crs="EPSG:32633", has_crs=True)
TABLES: Mapping[str, DatasetFacts] = {"plots": PLOTS, "wells": WELLS, "t": TABLE, "blank": BLANK}
UTM = ("EPSG:32633", True)

# statement, fields, type of geometry, CRS, and whether there is one; None and "" mean unknown
MADE = [
    ("SELECT * FROM plots", ("id", "owner"), "Polygon", *UTM),
    ("SELECT p.* FROM plots p JOIN wells w ON p.id = w.id", ("id", "owner"), "Polygon", *UTM),
    ("SELECT id FROM plots", ("id",), "None", None, False),
    ("SELECT id AS a, geom AS g FROM plots", ("a",), "Polygon", *UTM),
    ("SELECT id, ST_Transform(geom, 4326) AS geom FROM plots", ("id",), "Polygon", "EPSG:4326", True),
    ("SELECT ST_Buffer(ST_Transform(geom, 3857), 9) AS g FROM wells", (), "Polygon", "EPSG:3857", True),
    ("SELECT ST_Centroid(geom) AS g FROM plots", (), "Point", *UTM),
    ("SELECT ST_Union(geom) AS g, count(*) AS n FROM plots", ("n",), "", *UTM),
    ("SELECT ST_Intersection(p.geom, w.geom) AS g FROM plots p, wells w", (), "", *UTM),
    ("SELECT MakePoint(lon, lat, 4326) AS g, n FROM t", ("n",), "Point", "EPSG:4326", True),
    ("SELECT MakePoint(lon, lat) AS g FROM t", (), "Point", None, False),
    ("SELECT GeomFromText('POINT(1 2)', 4326) AS g FROM t", (), "", "EPSG:4326", True),
    ("SELECT SetSRID(geom, 4326) AS g FROM plots", (), "Polygon", "EPSG:4326", True),
    ("SELECT ST_Area(geom) AS area, ST_AsText(geom) AS wkt FROM plots", ("area", "wkt"), "None", None, False),
    ("SELECT * FROM (SELECT id, geom FROM plots) q", ("id",), "Polygon", *UTM),
    ("WITH q AS (SELECT id, geom AS g FROM plots) SELECT q.id, q.g FROM q", ("id",), "Polygon", *UTM),
    ("SELECT (SELECT max(depth) FROM wells) AS deep FROM plots", ("deep",), "None", None, False),
    ("SELECT max(geom) AS g FROM plots", (), "Polygon", *UTM),
    ("SELECT id, geom FROM plots UNION ALL SELECT id, geom FROM wells", ("id",), "", *UTM),
    ("SELECT geom FROM plots UNION SELECT ST_Transform(geom, 4326) FROM plots", (), "Polygon", None, None),
    ("SELECT CAST(n AS REAL) * 2 + 1 AS n FROM t", ("n",), "None", None, False),
    ("SELECT row_number() OVER (ORDER BY id) AS n, id FROM plots", ("n", "id"), "None", None, False),
    # unknown parts
    ("SELECT upper(owner), geom FROM plots", None, "Polygon", *UTM),
    ("SELECT CASE id WHEN 1 THEN geom END AS g FROM plots", None, "", None, None),
    ("SELECT coalesce(p.geom, w.geom) AS g FROM plots p, wells w", None, "", None, None),
    ("SELECT SomeFunction(geom) AS g FROM plots", None, "", None, None),
    ("SELECT * FROM blank", None, "", None, None),
    ("SELECT * FROM nothing", None, "", None, None),
    ("SELECT geom FROM plots, wells", None, "", None, None),
    ("SELECT geom, ST_Centroid(geom) AS c FROM plots", (), "", None, None),
    ("SELECT * FROM json_each('[1]')", None, "", None, None),
    ("SELECT ST_Transform(geom, n) AS g FROM plots, t", (), "Polygon", None, None),
    ("WITH q(a) AS (SELECT id FROM plots) SELECT * FROM q", None, "", None, None),
]


@pytest.mark.parametrize(("sql", "fields", "geometry", "crs", "has_crs"), MADE)
def test_result_layer_is_known_where_tables_are(sql, fields, geometry, crs, has_crs):
    layer = output_layer(sql, TABLES, geometries="geom")
    assert (layer.schema and layer.schema.fields, layer.geometry, layer.crs, layer.has_crs) == (
        fields,
        geometry,
        crs,
        has_crs,
    )


def test_row_count_and_extent_follow_preserved_rows():
    def of(sql):
        layer = output_layer(sql, TABLES, geometries="geom")
        return layer.features, layer.extent

    assert of("SELECT id, geom FROM plots") == (16, PLOTS.extent)
    assert of("SELECT id, ST_Transform(geom, 4326) AS g FROM plots") == (16, None)
    for rest in ("WHERE id > 1", "GROUP BY owner", "LIMIT 3", "JOIN wells", "UNION ALL SELECT id, geom FROM plots"):  # fmt: skip
        assert of(f"SELECT plots.id, plots.geom FROM plots {rest}") == (None, None), rest
    assert of("SELECT count(*) AS n FROM plots") == (None, None)
    assert of("SELECT DISTINCT id, geom FROM plots") == (None, None)


def test_units_of_new_crs_come_from_a_container():
    def degrees(code):
        return output_layer(
            f"SELECT ST_Transform(geom, {code}) AS g FROM plots", TABLES, geometries="geom"
        ).degrees

    assert [degrees(code) for code in (4326, 3857, 2056)] == [True, False, None]


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("SELECT id, nope FROM plots", ["nope"]),
        ("SELECT p.nope FROM plots p", ["nope"]),
        ("SELECT p.depth FROM plots p JOIN wells w ON p.id = w.id", ["depth"]),
        ("SELECT depth FROM plots p JOIN wells w ON p.id = w.id", []),
        ("SELECT id FROM plots WHERE nope > 3 ORDER BY nope", ["nope", "nope"]),
        ("SELECT count(*) FROM plots GROUP BY nope", ["nope"]),
        ("SELECT (SELECT max(depth) FROM wells w WHERE w.id = plots.nope) FROM plots", ["nope"]),
        ("SELECT geometry FROM plots", ["geometry"]),
        ("SELECT geom FROM t", ["geom"]),
        # not certain to be missing
        ("SELECT geom, rowid, fid, OGR_STYLE FROM plots", []),
        ("SELECT id AS nope FROM plots ORDER BY nope", []),
        ("SELECT owner AS o FROM plots GROUP BY o HAVING count(o) > 1", []),
        ('SELECT "nope" FROM plots', []),  # a text in SQLite
        ("SELECT q.nope FROM (SELECT * FROM plots) q", []),
        ("SELECT nope FROM plots, blank", []),
        ("SELECT nope FROM nothing", []),
        ("SELECT value FROM plots, json_each('[1]')", []),
        ("SELECT id FROM plots UNION SELECT id FROM wells ORDER BY nope", []),
        ("SELECT OWNER, Plots.ID FROM Plots", []),
        ("SELECT id FROM wells WHERE EXISTS (SELECT 1 FROM plots WHERE depth > 1)", []),
    ],
)
def test_column_is_missing_only_if_all_tables_lack(sql, missing):
    assert list(missing_columns(sql, TABLES, geometries="geom")) == missing


def test_geometry_outside_queries_has_its_table_name():
    assert output_layer("SELECT shape FROM plots", TABLES).geometry == "Polygon"
    assert output_layer("SELECT geometry FROM wells", TABLES).geometry == "Point"
    assert list(missing_columns("SELECT geom FROM plots", TABLES)) == ["geom"]
