"""Each remark on features is made where it is due, and only there."""

from collections.abc import Callable
from dataclasses import replace

from test_preflight_estimate import ZONES, ask

from gdal_mcp.gdal.preflight.call import Call, Finding
from gdal_mcp.gdal.preflight.checks import vector
from gdal_mcp.gdal.preflight.checks.statement import compares, measures
from gdal_mcp.gdal.preflight.facts import DatasetFacts, Place, facts_of

METRES = replace(ZONES, crs="EPSG:27700", has_crs=True, degrees=False, geometry="Polygon")
DEGREES = replace(
    ZONES, crs="EPSG:4326", has_crs=True, degrees=True, geometry="Point", places={"EPSG:27700": Place(False)}
)
TABLE = DatasetFacts("CSV", "vector", geometry="None", number_texts=("Lon", "LAT", "pop"))
COMMAS = replace(TABLE, number_texts=(), comma_texts=("v",))
DATES = replace(TABLE, number_texts=(), date_texts=("d",))
LARGE = replace(TABLE, number_texts=(), large_texts=("id",))
TYPED = ("AUTODETECT_TYPE=YES",)

# for each rule: calls about which it says something, and calls about which it must not
WITHIN = "SELECT a.id FROM a JOIN b ON ST_Within(a.g, b.g)"
NEAREST = "SELECT a.id, (SELECT b.id FROM b ORDER BY ST_Distance(a.g, b.g) LIMIT 1) FROM a"
LEAST = "SELECT a.id, min(ST_Distance(a.g, b.g)) FROM a, b GROUP BY a.id"
MANY = replace(METRES, features=10_000)
RULES: dict[Callable[[Call], Finding | None], tuple[list[Call], list[Call]]] = {
    vector.length_in_degrees: (
        [
            ask("vector buffer", DEGREES, distance=10),
            ask("vector buffer", DEGREES, distance=-0.5),
            ask("vector simplify", DEGREES, tolerance=1),
            ask("vector segmentize", DEGREES, max_length=100),
        ],
        [
            ask("vector buffer", METRES, distance=10),
            ask("vector buffer", None, distance=10),
            ask("vector buffer", DEGREES, distance=0),
            ask("vector buffer", replace(DEGREES, degrees=None), distance=10),
            ask("vector simplify", DEGREES, tolerance=0.0005),
            ask("vector filter", DEGREES, where="distance > 10"),
        ],
    ),
    vector.measure_in_degrees: (
        [
            ask("vector sql", DEGREES, sql="SELECT ST_Area(geometry) FROM zones"),
            replace(ask("vector sql", TABLE, sql="SELECT ST_Area(z.g) FROM t JOIN z USING (id)"), inputs=(TABLE, DEGREES)),
        ],
        [
            ask("vector sql", METRES, sql="SELECT ST_Area(geometry) FROM zones"),
            ask("vector sql", DEGREES, sql="SELECT ST_Area(geometry, 1) FROM zones"),
            ask("vector sql", DEGREES, sql="SELECT name FROM zones"),
            ask("vector sql", None, sql="SELECT ST_Area(geometry) FROM zones"),
        ],
    ),
    vector.geojson_not_wgs84: (
        [
            ask("vector convert", METRES, driver="GeoJSON"),
            ask("vector reproject", DEGREES, output_crs="EPSG:27700", driver="GeoJSON"),
            ask("vector convert", replace(METRES, crs=None), driver="GeoJSON"),
        ],
        [
            ask("vector convert", DEGREES, driver="GeoJSON"),
            ask("vector reproject", METRES, output_crs="epsg:4326", driver="GeoJSON"),
            ask("vector convert", METRES, driver="GeoJSONSeq"),
            ask("raster zonal-stats", METRES, driver="GeoJSON"),
            ask("vector convert", METRES, driver="GPKG"),
            ask("vector convert", METRES, driver="GeoJSON", layer_creation_option="RFC7946=yes"),
            ask("vector convert", None, driver="GeoJSON"),
            ask("vector convert", replace(METRES, crs=None, has_crs=False, degrees=None), driver="GeoJSON"),
            ask("vector sql", METRES, driver="GeoJSON", sql="SELECT ST_Transform(geometry, 4326) FROM zones"),
        ],
    ),
    vector.rounded: (
        [ask("vector convert", DEGREES, driver="GeoJSON", layer_creation_option="RFC7946=YES")],
        [
            ask("vector convert", DEGREES, driver="GeoJSON"),
            ask("vector convert", DEGREES, driver="GeoJSON", layer_creation_option=("RFC7946=YES", "COORDINATE_PRECISION=12")),
        ],
    ),
    vector.coarse_tiles: (
        [
            ask("vector convert", replace(DEGREES, extent=(9.0, 46.0, 9.1, 46.1)), driver="PMTiles"),
            ask("vector convert", replace(METRES, extent=(0.0, 0.0, 500.0, 500.0)), driver="MVT"),
        ],
        [
            ask("vector convert", replace(DEGREES, extent=(-170.0, -50.0, 170.0, 80.0)), driver="PMTiles"),
            ask("vector convert", replace(DEGREES, extent=(9.0, 46.0, 9.1, 46.1)), driver="PMTiles", creation_option="MAXZOOM=9"),
            ask("vector convert", replace(DEGREES, extent=(9.0, 46.0, 9.1, 46.1)), driver="GPKG"),
            ask("vector convert", replace(DEGREES, extent=None), driver="PMTiles"),
        ],
    ),
    vector.geometry_left_out: (
        [
            ask("vector convert", DEGREES, driver="CSV"),
            ask("vector convert", METRES, driver="XLSX"),
            ask("vector convert", replace(DEGREES, geometry="Polygon"), driver="CSV", layer_creation_option="GEOMETRY=AS_XY"),
            ask("vector convert", replace(DEGREES, geometry="3D Point"), driver="CSV", layer_creation_option="GEOMETRY=AS_XY"),
        ],
        [
            ask("vector convert", replace(DEGREES, geometry="Point"), driver="CSV", layer_creation_option="GEOMETRY=AS_XY"),
            ask("vector convert", replace(DEGREES, geometry="3D Point"), driver="CSV", layer_creation_option="GEOMETRY=AS_XYZ"),
            ask("vector convert", DEGREES, driver="CSV", layer_creation_option="GEOMETRY=AS_WKT"),
            ask("vector convert", TABLE, driver="CSV"),
            ask("vector convert", None, driver="CSV"),
            ask("vector convert", DEGREES, driver="GPKG"),
            ask("vector sql", DEGREES, driver="CSV", sql="SELECT name FROM zones"),
        ],
    ),
    vector.position_in_columns: (
        [
            ask("vector convert", TABLE, driver="GPKG"),
            ask("vector convert", replace(TABLE, number_texts=(), geometry_texts=("WKT_GEOM",)), driver="GPKG"),
            ask("vector convert", replace(TABLE, driver="XLSX", number_texts=(), number_fields=("x", "y")), driver="GPKG"),
        ],
        [
            ask("vector convert", TABLE, driver="CSV"),
            ask("vector convert", replace(TABLE, number_texts=("lon", "pop")), driver="GPKG"),
            ask("vector convert", TABLE, driver="GPKG", open_option=("X_POSSIBLE_NAMES=lon", "Y_POSSIBLE_NAMES=lat")),
            ask("vector make-point", TABLE, driver="GPKG", x="lon", y="lat"),
            ask("vector info", TABLE, driver=""),
        ],
    ),
    vector.number_as_text: (
        [ask("vector sql", TABLE, sql="SELECT * FROM t ORDER BY pop DESC")],
        [
            ask("vector sql", TABLE, sql="SELECT * FROM t ORDER BY name"),
            ask("vector sql", TABLE, sql="SELECT * FROM t ORDER BY pop", open_option="AUTODETECT_TYPE=YES"),
            ask("vector sql", DEGREES, sql="SELECT * FROM t ORDER BY pop"),
        ],
    ),
    vector.geometry_not_selected: (
        [replace(ask("vector select", METRES, fields="name"), written="GPKG")],
        [
            replace(ask("vector select", METRES, fields=("name", "_ogr_geometry_")), written="GPKG"),
            replace(ask("vector select", METRES, fields="name", exclude="true"), written="GPKG"),
            replace(ask("vector select", METRES, fields="name"), written="CSV"),
            replace(ask("vector select", TABLE, fields="name"), written="GPKG"),
            ask("vector select", METRES, fields="name"),
        ],
    ),
    vector.decimal_comma: (
        [
            ask("vector convert", COMMAS, driver="GPKG"),
            ask("vector sql", COMMAS, sql="SELECT sum(V) FROM t"),
            ask("vector sql", COMMAS, sql="SELECT t.* FROM t"),
        ],
        [
            ask("vector info", COMMAS, driver=""),
            ask("vector sql", COMMAS, sql="SELECT vol FROM t WHERE x = 'v'"),
            ask("vector sql", COMMAS, sql="SELECT CAST(replace(v, ',', '.') AS REAL) FROM t"),
            ask("vector convert", TABLE, driver="GPKG"),
        ],
    ),
    vector.local_dates: (
        [ask("vector convert", DATES, driver="GPKG"), ask("vector sql", DATES, sql="SELECT max(d) FROM t")],
        [ask("vector sql", DATES, sql="SELECT id FROM t"), ask("vector sql", DATES, sql="SELECT substr(d, 7) FROM t")],
    ),
    vector.large_numbers: (
        [
            ask("vector convert", LARGE, driver="GPKG", open_option=TYPED),
            ask("vector sql", LARGE, sql="SELECT id FROM t", open_option=TYPED),
        ],
        [ask("vector convert", LARGE, driver="GPKG"), ask("vector sql", LARGE, sql="SELECT v FROM t", open_option=TYPED)],
    ),
    vector.crs_mismatch: (
        [
            replace(ask("vector layer-algebra", DEGREES), others={"method": METRES}),
            replace(ask("vector layer-algebra", METRES), others={"method": replace(METRES, crs="EPSG:3035")}),
            replace(ask("vector sql", METRES, sql=WITHIN), inputs=(METRES, DEGREES)),
        ],
        [
            replace(ask("vector sql", METRES, sql=WITHIN), inputs=(METRES, METRES)),
            replace(ask("vector sql", METRES, sql=WITHIN), inputs=(METRES, TABLE)),
            replace(ask("vector sql", METRES, sql=WITHIN.replace("b.g", "ST_Transform(b.g, 27700)")), inputs=(METRES, DEGREES)),
            replace(ask("vector sql", METRES, sql="SELECT a.id FROM a JOIN b USING (id)"), inputs=(METRES, DEGREES)),
            replace(ask("vector layer-algebra", METRES), others={"method": METRES}),
            replace(ask("vector clip", METRES), others={"like": DEGREES}),
            ask("vector layer-algebra", METRES),
            replace(ask("vector layer-algebra", METRES), others={"method": replace(METRES, crs=None)}),
        ],
    ),
    vector.compares_all: (
        [replace(ask("vector sql", METRES, sql=one), inputs=(MANY, MANY)) for one in (NEAREST, LEAST)],
        [
            replace(ask("vector sql", METRES, sql=NEAREST), inputs=(MANY, replace(MANY, features=100))),
            replace(ask("vector sql", METRES, sql=NEAREST), inputs=(MANY,)),
            replace(ask("vector sql", METRES, sql=WITHIN), inputs=(MANY, MANY)),
            replace(ask("vector sql", METRES, sql=LEAST.replace("FROM a, b", "FROM a JOIN b ON a.x = b.x")), inputs=(MANY, MANY)),
        ],
    ),
}  # fmt: skip


def test_each_rule_speaks_where_it_is_due_and_only_there() -> None:
    assert set(RULES) == set(vector.CHECKS)
    for rule, (due, not_due) in RULES.items():
        assert [call for call in due if rule(call) is None] == []
        assert [call for call in not_due if rule(call) is not None] == []


def test_only_what_is_certain_nonsense_is_refused() -> None:
    unlike = replace(ask("vector layer-algebra", DEGREES), others={"method": METRES})
    alike = replace(ask("vector layer-algebra", METRES), others={"method": replace(METRES, crs="EPSG:3035")})
    found = [vector.crs_mismatch(one) for one in (unlike, alike)]
    assert [one.refuses for one in found if one] == [True, False]


def test_a_statement_measures_in_units_of_the_crs_or_not() -> None:
    for text in (
        "SELECT ST_Area(geometry) FROM t",
        "select a, st_length (t.geom) l from t",
        "SELECT * FROM a JOIN b ON ST_Distance(a.geom, b.geom) < 5",
        "SELECT ST_Buffer(geometry, 10, 4) FROM t",
        "SELECT OGR_GEOM_AREA FROM t",
        "SELECT Area(CastToPolygon(ST_Union(geometry, x))) FROM t",
    ):
        assert measures(text), text
    for text in (
        "SELECT ST_Area(ST_Transform(geometry, 3035)) FROM t",
        "SELECT ST_Area(geometry, 1), ST_Distance(a, b, true) FROM t",
        "SELECT length(name), 'ST_Area(x)' FROM t",
        "SELECT my_area FROM t WHERE distance > 5",
        "",
    ):
        assert not measures(text), text


def test_a_statement_takes_a_column_for_a_number_or_not() -> None:
    columns = ("pop", "name with (odd) signs")
    for text in (
        "SELECT * FROM t ORDER BY name, t.pop DESC LIMIT 3",
        'SELECT MAX("pop") FROM t',
        "SELECT * FROM t WHERE pop >= 100",
        "SELECT * FROM t WHERE 100 < t.pop",
        "SELECT * FROM t WHERE pop NOT BETWEEN 1 AND 2",
        'SELECT * FROM t ORDER BY "name with (odd) signs"',
    ):
        assert compares(text, columns), text
    for text in (
        "SELECT pop FROM t ORDER BY CAST(pop AS REAL)",
        "SELECT SUM(pop) FROM t",
        "SELECT * FROM t WHERE popular > 5 AND pop = '9'",
        "SELECT 'order by pop' FROM t",
        "SELECT * FROM a JOIN b ON a.pop = b.pop",
    ):
        assert not compares(text, columns), text


def test_what_a_container_says_of_columns_is_bounded() -> None:
    described = {"facts": {"driver": "CSV", "layers": [{"geometry": "None"}]}}
    for said in (None, 5, {"number_texts": "pop"}, {"number_texts": [None, "", "x" * 65, 7]}):
        made = facts_of({**described, "columns": said})
        assert made is not None
        assert made.number_texts == ()
    made = facts_of({**described, "columns": {"number_texts": [f"c{n}" for n in range(500)]}})
    assert made is not None
    assert len(made.number_texts) == 20
