"""SQL answers that would silently be wrong are reported with the number of rows; correct ones get no warning."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.discovery import read
from tests.e2e.mcp.conftest import grounds
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

__all__ = ["grounds"]
pytestmark = pytest.mark.engine

SEASONS = "id,hem,flag,part,day\n" + "".join(
    f"{n},N,{'true' if n % 2 else 'false'},{part},{day}\n"
    for n, (part, day) in enumerate(
        [("1234-56-78", "2024-02-29"), ("0000-00-00", "2024-03-01"), ("2001-12-05", "2023-12-31")]
    )
)
GROUPED = 'name,pop\na,"1,000,000"\nb,"2,500,000"\nc,"3,000,000"\n'
# more bytes than GDAL reads by default to find the type of a column
LATE = "id,v\n" + "".join(f"{n},{n}\n" for n in range(150_000)) + "150000,none\n"


def ring(*points: tuple[float, float]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[*points, points[0]]]}


def box(west: float, south: float, side: float) -> dict[str, Any]:
    return ring((west, south), (west + side, south), (west + side, south + side), (west, south + side))


def layer(*shapes: dict[str, Any] | None) -> str:
    rows = [{"type": "Feature", "properties": {"id": n}, "geometry": shape} for n, shape in enumerate(shapes)]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}
    return json.dumps({"type": "FeatureCollection", "crs": crs, "features": rows})


def points(*places: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"type": "Point", "coordinates": list(place)} for place in places]


BOW = ring((0, 0), (10, 10), (10, 0), (0, 10))
FILES = {
    "seasons.csv": SEASONS,
    "grouped.csv": GROUPED,
    "late.csv": LATE,
    "bow.geojson": layer(BOW, box(20, 20, 10)),
    "plots.geojson": layer(box(0, 0, 10), box(10, 0, 10)),
    "over.geojson": layer(box(0, 0, 10), box(5, 0, 10)),
    "zone.geojson": layer(box(5, 0, 20)),
    "cover.geojson": layer(box(-5, -5, 50)),
    "edge.geojson": layer(*points((10, 5), (3, 3))),
    "within.geojson": layer(*points((7, 5), (3, 3))),
    "holes.geojson": layer(box(0, 0, 10), None, None),
    "lines.geojson": layer(
        *({"type": "LineString", "coordinates": coordinates} for coordinates in ([], [[0, 0], [9, 9]]))
    ),
    "other.geojson": layer(*points(*((n % 700, n // 700) for n in range(20_000)))),
    "many.geojson": layer(*points(*((n % 700, n // 700) for n in range(20_000)))),
}


@pytest.fixture(scope="module")
def own(grounds: Path) -> Place:
    new_place = Place.made(grounds / "answers")
    for name, text in FILES.items():
        new_place.path(name).write_text(text)
    return new_place


@pytest.fixture(scope="module")
def talker(own: Place) -> Iterator[Talk]:
    with inside(own.command("--approval", "never"), person=Person()) as new_talk:
        yield new_talk


def query_answer(
    talker: Talk, sql: str, *files: str
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    result = talker.done("query", inputs=list(files), sql=sql)
    return result["untrusted"]["report"]["rows"], {check["code"]: check for check in result.get("checks", ())}


# a wrong statement, its check with the number in it, and a similar correct statement
TOLD = (
    ("invalid_measured", 1, "SELECT sum(ST_Area(geom)) AS a FROM bow", "bow"),
    (None, 0, "SELECT sum(ST_Area(ST_MakeValid(geom))) AS a FROM bow", "bow"),
    (None, 0, "SELECT sum(ST_Area(geom)) AS a FROM plots", "plots"),
    ("areas_overlap", 2, "SELECT sum(ST_Area(geom)) AS a FROM over", "over"),
    (None, 0, "SELECT ST_Area(ST_Union(geom)) AS a FROM over", "over"),
    ("partly_inside", 1, "SELECT sum(ST_Area(p.geom)) AS a FROM plots p JOIN zone z ON ST_Intersects(p.geom, z.geom) = 1", "plots zone"),
    (None, 0, "SELECT sum(ST_Area(p.geom)) AS a FROM plots p JOIN cover z ON ST_Intersects(p.geom, z.geom) = 1", "plots cover"),
    (None, 0, "SELECT sum(ST_Area(ST_Intersection(p.geom, z.geom))) AS a FROM plots p JOIN zone z ON ST_Intersects(p.geom, z.geom) = 1", "plots zone"),
    ("on_edges", 2, "SELECT count(*) AS n FROM plots p JOIN edge e ON ST_Contains(p.geom, e.geom) = 1", "plots edge"),
    ("on_edges", 2, "SELECT count(*) AS n FROM plots p, edge e WHERE ST_Within(e.geom, p.geom) = 1", "plots edge"),
    (None, 0, "SELECT count(*) AS n FROM plots p JOIN within e ON ST_Contains(p.geom, e.geom) = 1", "plots within"),
    ("null_tested", 2, "SELECT sum(ST_IsValid(geom)) AS n FROM holes", "holes"),
    (None, 0, "SELECT sum(ST_IsValid(geom) = 1) AS n FROM holes", "holes"),
    ("invalid_measured", 1, "SELECT sum(ST_Area(ST_Intersection(b.geom, c.geom))) AS a FROM bow b, cover c", "bow cover"),
    ("empty_missed", 1, "SELECT count(*) AS n FROM lines WHERE ST_IsEmpty(geom) = 1", "lines"),
    (None, 0, "SELECT count(*) AS n FROM lines WHERE ST_NumPoints(geom) = 0", "lines"),
    (None, 0, "SELECT count(*) AS n FROM edge WHERE ST_IsEmpty(geom) = 1", "edge"),
    (None, 0, "SELECT ST_Union(a.geom, b.geom) AS g, a.id FROM plots a, over b", "plots over"),
)  # fmt: skip
GEOMETRY = {
    *("invalid_measured", "areas_overlap", "partly_inside", "on_edges", "null_tested", "not_aggregated"),
    "empty_missed",
}


@pytest.mark.parametrize(("code", "count", "sql", "names"), TOLD)
def test_geometries_that_make_an_answer_wrong_are_counted(talker: Talk, code, count, sql, names):
    _, checks = query_answer(talker, sql, *(f"{name}.geojson" for name in names.split()))
    assert {name for name in checks if name in GEOMETRY} == ({code} if code else set())
    if code:
        assert checks[code]["count"] == count


def test_geometry_is_returned_if_selected_alone(talker: Talk):
    rows, _ = query_answer(talker, "SELECT ST_Centroid(geom) FROM plots WHERE id = 0", "plots.geojson")
    assert list(rows[0].values()) == ["POINT (5 5)"]
    rows, _ = query_answer(talker, "SELECT id, geom FROM plots WHERE id = 0", "plots.geojson")
    assert rows == [{"id": 0}]


@pytest.mark.parametrize("columns", ["AsText(geom)", "id, AsText(geom)", "AsText(geom), ST_AsText(geom)"])
def test_geometry_text_is_a_column_without_alias_too(talker: Talk, own: Place, columns: str):
    sql = f"SELECT {columns} FROM edge WHERE id = 0"
    rows, _ = query_answer(talker, sql, "edge.geojson")
    assert rows[0]["AsText(geom)"] == "POINT(10 5)"
    for ending in ("json", "csv"):
        name = f"text{len(columns)}.{ending}"
        talker.done("query_to_file", inputs=["edge.geojson"], sql=sql, output=name)
        assert "POINT(10 5)" in own.path(name).read_text()


def test_a_statement_without_tables_needs_no_file(talker: Talk):
    result = talker.done("query", sql="SELECT ST_X(ST_Transform(MakePoint(9, 45, 4326), 32632)) AS x")
    assert result["untrusted"]["report"]["rows"] == [{"x": pytest.approx(500_000, abs=0.001)}]


def test_column_of_truth_like_letters_stays_text(talker: Talk):
    rows, _ = query_answer(talker, "SELECT hem, flag FROM seasons ORDER BY id", "seasons.csv")
    assert [row["hem"] for row in rows] == ["N", "N", "N"]
    assert [row["flag"] for row in rows] == [0, 1, 0]


def test_column_type_is_inferred_from_all_rows(talker: Talk):
    rows, _ = query_answer(talker, "SELECT v FROM late WHERE id = 150000", "late.csv")
    assert rows == [{"v": "none"}]


def test_date_like_text_is_written_unchanged(talker: Talk, own: Place, oracle: Oracle):
    sql = "SELECT id, part, day FROM seasons ORDER BY id"
    talker.done("query_to_file", inputs=["seasons.csv"], sql=sql, output="seasons.gpkg")
    layer = oracle.vector(own.path("seasons.gpkg"))["layers"][0]
    assert {field["name"]: field["type"] for field in layer["fields"]} == {
        "id": "Integer",
        "part": "String",
        "day": "Date",
    }
    rows, _ = query_answer(talker, "SELECT part, day FROM seasons ORDER BY id", "seasons.gpkg")
    assert [row["part"] for row in rows] == ["1234-56-78", "0000-00-00", "2001-12-05"]


def test_grouped_numbers_that_are_summed_are_told(talker: Talk):
    _, checks = query_answer(talker, "SELECT sum(pop) AS n FROM grouped", "grouped.csv")
    assert "numbers_with_commas" in checks or "decimal_comma" in checks
    rows, checks = query_answer(
        talker, "SELECT sum(CAST(replace(pop, ',', '') AS REAL)) AS n FROM grouped", "grouped.csv"
    )
    assert rows == [{"n": 6500000.0}]
    assert checks == {}


def test_answer_does_not_wait_for_later_counts(talker: Talk):
    # the first rows are available at once; in total there are eight hundred million
    sql = "SELECT a.id AS n, b.id AS m FROM many a JOIN other b ON a.id + b.id > -1 JOIN edge e ON e.id < 2 LIMIT 3"
    rows, checks = query_answer(talker, sql, "many.geojson", "other.geojson", "edge.geojson")
    assert len(rows) == 3
    assert checks.get("rows_unexamined", {}).get("verdict") == "unknown"


def test_unreadable_statement_returns_all_rows_with_a_note(talker: Talk):
    # if read lazily, the table in the subquery would continue where its other reading is
    sql = "SELECT CAST(id AS UNSIGNED BIG INT) AS n, (SELECT count(*) FROM plots) AS m FROM plots ORDER BY id"
    rows, checks = query_answer(talker, sql, "plots.geojson")
    assert rows == [{"n": 0, "m": 2}, {"n": 1, "m": 2}]
    assert {code: check.get("verdict") for code, check in checks.items()} == {
        "statement_unexamined": "unknown"
    }


def test_existing_name_is_not_answered_with_columns(talker: Talk):
    failed = talker.failed("query", inputs=["seasons.csv"], sql="SELECT load_it(id) FROM seasons")
    assert "the columns" not in json.dumps(failed)
    missing = talker.failed("query", inputs=["seasons.csv"], sql="SELECT hems FROM seasons")
    assert "hem" in json.dumps(missing["untrusted"])


NAMES = """
from osgeo import gdal
gdal.UseExceptions()
made = gdal.GetDriverByName("MEM").CreateVector("")
made.CreateLayer("t")
found = made.ExecuteSQL("SELECT DISTINCT lower(name) FROM pragma_function_list", dialect="SQLITE")
print(" ".join(one.GetField(0) for one in found))
"""


def test_suggested_functions_are_those_of_the_container(talker: Talk, oracle: Oracle):
    there = {name for name in oracle.python(NAMES).split() if re.fullmatch(r"[a-z]\w{1,59}", name)}
    assert {*read("functions.toml")["names"].split()} == there
    failed = talker.failed("query", inputs=["seasons.csv"], sql="SELECT ST_ShiftLongitude(NULL) FROM seasons")
    assert "st_shift_longitude" in failed["suggestion"].lower()
