"""Wrong results are reported, correct ones get no check, and reported numbers are right."""

import csv
import itertools
import json

import pytest

from tests.e2e.mcp.talk import Place, Talk
from tests.traps.kit import call, cases, codes, quick, rows_of, spring

pytestmark = pytest.mark.engine

CASES = list(cases())
QUICK = quick(CASES)


def test_each_code_has_reported_trap_and_silent_twins(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, QUICK, subtests)


@pytest.mark.nightly
def test_every_other_trap_is_reported_and_no_twin(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, [case for case in CASES if case not in QUICK], subtests)


def test_ballpark_transformation_runs_when_explicitly_allowed(talk: Talk) -> None:
    tool, arguments = call(
        "reproject input=rome.tif output=allowed.tif dst_crs=EPSG:4326 resampling=bilinear"
    )
    done = talk.done(tool, **arguments, allow=["ballpark_transformation"])
    assert codes(done) == {"ballpark_transformation"}
    assert (done["transformation"]["ballpark"], done["transformation"]["accuracy"]) == (True, None)
    assert done["transformation"]["better"]["accuracy"] == 4
    assert talk.failed(tool, **arguments, allow=["everything"])["code"] == "INVALID_ARGUMENT"


# the operation that PROJ uses, by the numbers in its own database: metres, codes
USED = (
    ("monte_mario.tif", "EPSG:4326", 4.0, "EPSG:1660"),
    ("bng.tif", "EPSG:4326", 2.0, "EPSG:1314"),
    ("low.tif", "EPSG:4326", 0.0, "EPSG:16032"),
    ("low.tif", "EPSG:25832", None, "EPSG:1149"),
    ("one_nad27.gpkg", "EPSG:4326", 7.0, "EPSG:1175"),
)


def test_crs_change_states_operation_and_accuracy(talk: Talk) -> None:
    for number, (source, target, accuracy, code) in enumerate(USED):
        is_raster = source.endswith(".tif")
        tool, name = ("reproject", "dst_crs") if is_raster else ("vector_reproject", "output-crs")
        arguments = {"input": source, name: target, "output": f"used{number}.{source.rpartition('.')[2]}"}
        planned = talk.done("validate_call", tool=tool, arguments=arguments)
        done = talk.done(tool, **arguments)
        transformation = done["transformation"]
        assert transformation == planned["transformation"]
        assert (transformation["to"], transformation["ballpark"]) == (target, False)
        assert code in transformation["operation"]
        assert accuracy is None or transformation["accuracy"] == accuracy
        assert len(done["untrusted"]["transformation"]) == 1
    assert "transformation" not in talk.done("convert", input="low.tif", output="plain.tif")


def test_what_is_replaced_is_told_in_numbers(talk: Talk) -> None:
    talk.done("convert", input="world.geojson", output="replaced.gpkg")
    tool, again = call("vector filter input=world.geojson output=replaced.gpkg where=id > 0 overwrite=true")
    [row] = talk.done(tool, **again)["replaced"]
    assert row["path"].endswith("replaced.gpkg")
    assert [row[key]["features"] for key in ("before", "after")] == [18, 9]
    assert all(row[key]["bytes"] > 0 for key in ("before", "after"))


@pytest.mark.nightly
def test_nothing_is_said_of_plain_copies(talk: Talk) -> None:
    for source, ending in itertools.product(("towns", "squares", "full", "short"), ("gpkg", "fgb", "shp")):
        done = talk.done("convert", input=f"{source}.geojson", output=f"copy_{source}.{ending}")
        assert codes(done) == set(), (source, ending)


def test_layer_across_the_antimeridian_stays_in_place(talk: Talk) -> None:
    for source, expected in (("dateline", [179.5, -179.5]), ("world", [-170, 170])):
        done = talk.done("convert", input=f"{source}.geojson", output=f"box_{source}.gpkg")
        layer = done["outputs"][0]["description"]["layers"][0]
        box = layer.get("wgs84", layer["extent"])
        assert [box[0], box[2]] == expected


def test_rows_lost_or_duplicated_by_joins_are_counted(talk: Talk) -> None:
    for code, table, columns in (("rows_lost", "some", "t.v"), ("rows_multiplied", "twice", "a.size, t.v")):
        sql = f"SELECT a.code, {columns} FROM areas a JOIN {table} t ON a.code = t.code"
        done = talk.done("query", inputs=["areas.geojson", f"{table}.csv"], sql=sql)
        assert [(row["count"], row["of"]) for row in rows_of(done) if row["code"] == code] == [(1, 3)]


def test_tables_of_a_join_are_indexed(talk: Talk, place: Place) -> None:
    rows = "".join(f"{i},{i % 7}\n" for i in range(20_000))
    for name in ("left", "right"):
        place.path(f"{name}_rows.csv").write_text(f"id,{name}\n{rows}")
    # without an index these are four hundred million comparisons, and the call reaches its time limit
    counted = "SELECT count(*) AS n FROM left_rows a JOIN right_rows b ON a.id = b.id"
    done = talk.done("query", inputs=["left_rows.csv", "right_rows.csv"], sql=counted)
    assert done["untrusted"]["report"]["rows"] == [{"n": 20_000}]


# if read lazily, a table would continue where its other reading is: rows were missing or appeared twice
TWICE = (
    ("SELECT name FROM wards WHERE pop * 2 > (SELECT avg(pop) FROM wards) * 2", "ac"),
    ("SELECT name, (SELECT count(*) FROM wards) AS n FROM wards", "abcd"),
    ("SELECT name FROM wards a WHERE pop = (SELECT max(pop) FROM wards b WHERE b.region = a.region)", "ac"),
    ("SELECT a.name FROM wards a JOIN wards b ON a.rowid < b.rowid", "aaabbc"),
    (
        "WITH w AS (SELECT * FROM wards WHERE pop > 1) SELECT name, (SELECT count(*) FROM w) AS n FROM w",
        "abc",
    ),
)


@pytest.mark.parametrize(("sql", "expected"), TWICE)
def test_table_named_twice_is_read_completely_each_time(talk: Talk, sql: str, expected: str) -> None:
    rows = talk.done("query", inputs=["wards.geojson"], sql=sql)["untrusted"]["report"]["rows"]
    assert "".join(sorted(row["name"] for row in rows)) == expected


def test_a_reading_call_says_the_operation(talk: Talk) -> None:
    text = 'query inputs=["{0}.gpkg"] sql=SELECT ST_AsText(ST_Transform(geom, 4326)) AS t FROM {0}'
    tool, known = call(text.format("mm_points"))
    assert talk.done(tool, **known)["transformation"]["accuracy"] == 4
    _, rough = call(text.format("rome_points"))
    allowed = talk.done(tool, **rough, allow=["ballpark_transformation"])
    assert allowed["transformation"]["ballpark"] is True


def test_change_matrix_has_the_pixels_of_each_pair_of_classes(talk: Talk, place: Place) -> None:
    matrix = {"input": "codes_after.tif", "zones": "codes_before.tif", "output": "matrix.csv"}
    arguments = {**matrix, "stat": ["count", "unique", "frac"]}
    assert codes(talk.done("gdal_write", algorithm="raster zonal-stats", arguments=arguments)) == set()
    counted = {}
    for row in csv.DictReader(place.path("matrix.csv").read_text().splitlines()):
        shares = zip(json.loads(row["unique"]), json.loads(row["frac"]), strict=True)
        counted |= {(int(row["value"]), int(to)): round(int(row["count"]) * share) for to, share in shares}
    # 240 of 1200 values from 100 to 1100 are above 900, and become class 1
    assert counted == {(1, 1): 300, (2, 2): 300, (3, 3): 300, (4, 4): 60, (4, 1): 240}
