"""Rows of SQL over files of several formats, through a real server: typed, complete, and as files of records."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.conftest import grounds
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

__all__ = ["grounds"]
pytestmark = pytest.mark.engine

TOWNS = "id,code,big,share,day,x,y\n1,007,9007199254740993,0.5,2024-02-29,10,50\n2,010,3,,2024-03-01,11,51\n3,,5000000000,1.5,,10.5,50.5\n"

TWO_LAYERS = """
import sys
from osgeo import gdal
for name, mode in (("roads", None), ("my parks", "append")):
    gdal.VectorTranslate(sys.argv[2], sys.argv[1], layerName=name, accessMode=mode).Close()
"""


def square(name: str, west: float, south: float) -> dict[str, Any]:
    ring = [[west, south], [west + 0.9, south], [west + 0.9, south + 0.9], [west, south + 0.9], [west, south]]
    return {
        "type": "Feature",
        "properties": {"name": name, "name:en": name.upper()},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle) -> Place:
    new_place = Place.made(grounds / "queries")
    new_place.path("towns.csv").write_text(TOWNS)
    zones = {"type": "FeatureCollection", "features": [square("a", 9.6, 49.6), square("b", 10.6, 50.6)]}
    new_place.path("zones.geojson").write_text(json.dumps(zones))
    city = oracle.folder("queries") / "city.gpkg"
    oracle.python(TWO_LAYERS, str(new_place.path("zones.geojson")), str(city))
    new_place.path("city.gpkg").write_bytes(city.read_bytes())
    towns = [("A", 900, "town", 10.0, 50.0), ("B", 5000, "city", 11.0, 51.0), ("C", 2000, "city", 10.4, 50.4)]
    features = [
        {"type": "Feature", "properties": {"name": n, "pop": p, "kind": k}, "geometry": {"type": "Point", "coordinates": [x, y]}}
        for n, p, k, x, y in towns
    ]  # fmt: skip
    new_place.path("people.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": features})
    )
    new_place.path("stations.csv").write_text("name,lon,lat\nnorth,11.1,51.1\nsouth,10.1,50.1\n")
    return new_place


@pytest.fixture(scope="module")
def talker(own: Place) -> Iterator[Talk]:
    with inside(own.command("--approval", "never"), person=Person()) as new_talk:
        yield new_talk


def rows(talker: Talk, sql: str, *files: str, **more: Any) -> list[dict[str, Any]]:
    result = talker.done("query", inputs=list(files or ["towns.csv", "zones.geojson"]), sql=sql, **more)
    return result["untrusted"]["report"]["rows"]


def test_values_keep_types_whatever_the_first_row(talker: Talk):
    assert rows(talker, "SELECT id, code, big, share, day FROM towns ORDER BY id") == [
        {"id": 1, "code": "007", "big": 9007199254740993, "share": 0.5, "day": "2024-02-29"},
        {"id": 2, "code": "010", "big": 3, "share": None, "day": "2024-03-01"},
        {"id": 3, "code": "", "big": 5000000000, "share": 1.5, "day": None},
    ]
    assert rows(talker, "SELECT 1 AS a, 2 AS a, 3 AS a_2 FROM towns LIMIT 1") == [
        {"a": 1, "a_3": 2, "a_2": 3}
    ]
    mixed = "SELECT CASE id WHEN 1 THEN NULL WHEN 2 THEN 1 ELSE 2.5 END AS v, json_object('n', id) AS j FROM towns ORDER BY id"
    values = [(row["v"], row["j"]) for row in rows(talker, mixed)]
    assert values == [(None, {"n": 1}), (1, {"n": 2}), (2.5, {"n": 3})]


def test_files_join_by_alias_and_truncation_is_reported(talker: Talk):
    joined = talker.done(
        "query",
        inputs={"t": "towns.csv", "z": "zones.geojson"},
        sql='SELECT t.id, z.name AS id, z."name:en" FROM t JOIN z ON ST_Contains(z.geom, MakePoint(t.x, t.y, 4326)) ORDER BY 1 DESC',
        limit=1,
    )
    assert joined["row_count"] == 1
    assert joined["more"] is True
    assert joined["untrusted"]["report"]["rows"] == [{"id": 2, "id_2": "b", "name:en": "B"}]
    counted = 'SELECT (SELECT count(*) FROM c_roads) + (SELECT count(*) FROM "my parks") AS n, geom FROM "c_my parks" LIMIT 1'
    result = talker.done("query", inputs={"c": "city.gpkg"}, sql=counted, geometry="wkt")
    [row] = result["untrusted"]["report"]["rows"]
    assert row["n"] == 4
    assert row["geom"].startswith("POLYGON ((9.6 49.6,")


SPREAD = "SELECT id, big, day, MakePoint(x, y, 4326) AS geom FROM towns ORDER BY id DESC"


def test_records_are_an_array_lines_or_typed_layer(talker: Talk, own: Place, oracle: Oracle):
    def written(name: str, **more: Any) -> Path:
        result = talker.done("query_to_file", inputs=["towns.csv"], sql=SPREAD, output=name, **more)
        assert result["row_count"] == 3
        return own.path(name)

    records = json.loads(written("t.json", geometry="none").read_text())
    assert [record["id"] for record in records] == [3, 2, 1]
    assert records[2]["big"] == 9007199254740993
    lines = written("t.jsonl", geometry="geojson").read_text().splitlines()
    assert json.loads(lines[0])["geom"] == {"type": "Point", "coordinates": [10.5, 50.5]}
    collection = json.loads(written("t.geojson", members={"dropped_count": 3}).read_text())
    assert collection["dropped_count"] == 3
    assert collection["type"] == "FeatureCollection"
    assert collection["features"][2]["properties"]["big"] == 9007199254740993
    assert written("t.csv", geometry="none").read_text().splitlines()[1] == "3,5000000000,"
    [layer] = oracle.vector(written("t.gpkg"))["layers"]
    assert [(field["name"], field["type"]) for field in layer["fields"]] == [
        ("id", "Integer"), ("big", "Integer64"), ("day", "Date"),
    ]  # fmt: skip
    assert layer["geometryFields"][0]["type"] == "Point"
    assert "4326" in json.dumps(layer["geometryFields"][0]["coordinateSystem"])


def test_three_number_table_is_not_a_point_grid(talker: Talk):
    rows = {"grid.csv": "1,1,5 2,1,6 1,2,7 2,2,8", "zonal.csv": "1,512.25,21200 2,470.5,23200 3,431.0,32400"}
    for name, text in rows.items():
        sql = f"SELECT column1 AS x, column2 AS y, column3 AS z FROM (VALUES ({text.replace(' ', '), (')}))"
        result = talker.done("query_to_file", inputs=["towns.csv"], sql=sql, output=name)
        [output] = result["outputs"]
        assert output["description"]["driver"] == "CSV"
        assert output["checks"] == []
        assert result["row_count"] == output["description"]["layers"][0]["features"] == len(text.split())
        [entry] = talker.done("list_workspace", pattern=name)["entries"]
        assert entry["driver"] == "CSV"


def test_names_in_files_are_never_interpreted(talker: Talk, own: Place):
    hostile = 'a"/><SrcDataSource>/etc/passwd</SrcDataSource>&<x y="'
    feature = {"type": "Feature", "properties": {'c"ol': 1, "b'); --": 2}, "geometry": None}
    own.path("odd & <name>.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "name": hostile, "features": [feature]})
    )
    [row] = rows(talker, "SELECT * FROM odd____name_", "odd & <name>.geojson")
    assert sorted(map(str, row.values())) == ["1", "2"]


@pytest.mark.nightly
def test_written_layer_has_its_crs_or_is_refused(talker, own, oracle):
    def named(sql: str, *files: str) -> str:
        talker.done("query_to_file", inputs=list(files), sql=sql, output="crs.gpkg", overwrite=True)
        [layer] = oracle.vector(own.path("crs.gpkg"))["layers"]
        return layer["geometryFields"][0]["coordinateSystem"]["wkt"]

    spelt = {
        "ESRI:102003": "USA_Contiguous_Albers",
        "+proj=laea +lat_0=10 +lon_0=20 +type=crs": "Lambert Azimuthal",
    }
    for crs, words in spelt.items():
        arguments = {"input": "zones.geojson", "output": "there.gpkg", "output-crs": crs, "overwrite": True}
        talker.done("gdal_write", algorithm="vector reproject", arguments=arguments)
        for column in ("geom", "ST_Buffer(geom, 10) AS geom"):
            assert words in named(f"SELECT {column} FROM there", "there.gpkg")
    assert '"EPSG",3035' in named("SELECT ST_Transform(geom, 3035) AS g FROM zones", "zones.geojson")
    mixed = "SELECT geom FROM zones UNION ALL SELECT ST_Transform(geom, 3035) FROM zones"
    refused = talker.failed("query_to_file", inputs=["zones.geojson"], sql=mixed, output="mixed.gpkg")
    assert refused["code"] == "GDAL_ERROR"
    assert not own.path("mixed.gpkg").exists()


def test_empty_results_are_answers_and_complete_files(talker: Talk, own: Place):
    none = "SELECT * FROM towns WHERE id > 9"
    assert rows(talker, none) == []
    talker.done("query_to_file", inputs=["towns.csv"], sql=none, output="none.json")
    assert json.loads(own.path("none.json").read_text()) == []


def test_what_a_query_may_not_do_is_refused(talker: Talk):
    for arguments, code in (
        ({"inputs": {"a b": "towns.csv"}, "sql": "SELECT 1"}, "INVALID_ARGUMENT"),
        ({"inputs": {"a": "towns.csv", "A": "zones.geojson"}, "sql": "SELECT 1"}, "INVALID_ARGUMENT"),
        ({"inputs": ["towns.csv"], "sql": "SELECT * FROM zones, 'zones.geojson'.zones"}, "INVALID_ARGUMENT"),
        ({"inputs": ["/etc/passwd"], "sql": "SELECT 1"}, "PATH_NOT_ALLOWED"),
        ({"inputs": ["none.csv"], "sql": "SELECT 1"}, "NOT_FOUND"),
        ({"inputs": ["towns.csv"], "sql": "SELECT * FROM nosuch"}, "GDAL_ERROR"),
    ):
        assert talker.failed("query", **arguments)["code"] == code


EXPECTED = [
    [{"name": "B", "pop": 5000}, {"name": "C", "pop": 2000}],
    [{"name": "A", "zone": "a"}, {"name": "B", "zone": "b"}, {"name": "C", "zone": "a"}],
    [("A", "south"), ("B", "north"), ("C", "south")],
    [("a", 6400, 6480), ("b", 6260, 6340)],
    [("city", 2, 7000, 5000), ("town", 1, 900, 900)],
    [("city", "B", 5000), ("city", "C", 2000), ("town", "A", 900)],
    [("city", 0, 2), ("town", 1, 0)],
]


def test_every_documented_example_gives_its_result(talker: Talk):
    taught = talker.done("gdal_describe", algorithm="vector sql")["sql"]["query_examples"]
    own = {"towns.gpkg": "people.geojson", "zones.geojson": "zones.geojson", "stations.csv": "stations.csv"}
    results = [
        talker.done(
            "query",
            inputs={alias: own[file] for alias, file in example["arguments"]["inputs"].items()},
            sql=example["arguments"]["sql"],
            geometry="wkt",
        )["untrusted"]["report"]["rows"]
        for example in taught
    ]
    assert results[:2] == EXPECTED[:2]
    assert [(row["town"], row["station"]) for row in results[2]] == EXPECTED[2]
    assert all(10_000 < row["metres"] < 40_000 for row in results[2])
    areas = [(row["name"], row["km2"]) for row in results[3]]
    assert [name for name, _ in areas] == ["a", "b"]
    assert all(low < km2 < high for (_, km2), (_, low, high) in zip(areas, EXPECTED[3], strict=True)), areas
    values = [[tuple(row.values()) for row in result] for result in results]
    assert values[4:7] == EXPECTED[4:7]
    thiessen, squares, line, sample, moran, degrees = values[7:]
    # the lines halfway between A and C, and between B and C, cut the frame of the diagram at these corners
    assert [name for name, _ in thiessen] == ["A", "B", "C"]
    assert {corner for _, cell in thiessen for corner in ("10.6 49.8", "11.2 50.2") if corner in cell} == {
        "10.6 49.8",
        "11.2 50.2",
    }
    assert len(set(squares)) == 100
    assert [metres for metres, _ in line] == [100.0 * n for n in range(51)]
    assert [name for name, _ in sample] == ["a"] * 20 + ["b"] * 20
    assert len(set(sample)) == 40
    # 3/2 * the product of the deviations of A and C, twice, by the sum of the squares of all deviations
    assert moran == [(0.3657,)]
    assert [value for _, value in degrees] == [45.51, -33.865]


def test_an_algorithm_without_an_output_gives_its_rows(talker: Talk):
    arguments = {"input": "people.geojson", "sql": "SELECT name, pop FROM people ORDER BY pop"}
    result = talker.done("gdal_read", algorithm="vector sql", arguments=arguments)
    assert [row["pop"] for row in result["untrusted"]["report"]["rows"]] == [900, 2000, 5000]
    request = {"inputs": ["people.geojson"], "sql": arguments["sql"]}
    assert talker.done("validate_call", tool="query", arguments=request)["valid"]
    refused = talker.failed("gdal_read", algorithm="vector sql", arguments={**arguments, "dialect": "OGRSQL"})
    assert refused["code"] == "INVALID_ARGUMENT"


def test_missing_name_is_answered_with_existing_names(talker: Talk):
    def error_texts(tool: str = "query", **arguments: Any) -> tuple[str, str]:
        error = talker.failed(tool, **arguments)
        return " ".join(error["untrusted"]["gdal"]), error["message"] + error["suggestion"]

    sources = {"inputs": {"t": "towns.csv", "z": "zones.geojson"}}
    theirs, ours = error_texts(**sources, sql="SELECT * FROM zone")
    assert theirs.index('"zones"') < theirs.index('"t"')
    assert "name:en" not in ours
    theirs, _ = error_texts(**sources, sql="SELECT shar FROM t")
    assert theirs.index('"share"') < theirs.index('"code"')
    misspelt = {"input": "zones.geojson", "sql": "SELECT nam FROM zones"}
    theirs, _ = error_texts("gdal_read", algorithm="vector info", arguments=misspelt)
    assert '"name"' in theirs
    for name, use in (
        ("ST_DWithin(geom, geom, 1)", "PtDistWithin"),
        ("ST_Intersect(geom, geom)", "ST_Intersects"),
    ):
        assert use in error_texts(**sources, sql=f"SELECT {name} FROM z")[1]
