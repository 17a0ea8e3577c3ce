"""Traps of SQL: joins that multiply, lose or find nothing, columns typed by their first row, and changes of CRS within."""

from typing import Any

import pytest

from tests.mcp.talk import Talk
from tests.traps.kit import Trap, call, first_of_each, rows_of, spring, write

pytestmark = pytest.mark.engine


def query(sql: str, *files: str) -> tuple[str, dict[str, Any]]:
    return call("query", inputs=list(files), sql=sql)


def joined(select: str, table: str, how: str = "JOIN", rest: str = "") -> tuple[str, dict[str, Any]]:
    sql = f"SELECT {select} FROM areas a {how} {table} t ON a.code = t.code {rest}"
    return query(sql, "areas.geojson", f"{table}.csv")


def within(select: str, rest: str = "") -> tuple[str, dict[str, Any]]:
    sql = f"SELECT {select} FROM areas a JOIN sites s ON ST_Contains(a.geom, s.geom) {rest}"
    return query(sql, "areas.geojson", "sites.geojson")


STACKED = 'concat --mode=stack areas.geojson {0}.csv ! sql --dialect=SQLITE "SELECT a.code, a.size, t.v FROM areas a JOIN {0} t ON a.code = t.code" ! write OUT.csv'
JOINS = (
    Trap(
        "rows_multiplied",
        joined("a.code, a.size, t.v", "twice"),
        (
            joined("a.code, a.size, t.v", "keys"),
            joined("a.code, t.v", "twice"),  # a plain listing
            joined("a.code, t.year, t.v", "years", "LEFT JOIN"),
            within("a.code, a.size, s.id"),
            joined("DISTINCT a.code", "twice"),
            joined("a.code, max(t.v) AS v", "twice", rest="GROUP BY a.code"),
            joined("a.*, t.v", "years", rest="WHERE t.year = 2020"),
            query("SELECT a.code, b.code AS other FROM areas a JOIN areas b ON a.code < b.code", "areas.geojson"),
        ),
    ),
    Trap("rows_multiplied", joined("a.*, t.v", "years", "LEFT JOIN")),
    Trap("rows_multiplied", query("WITH j AS (SELECT a.code, a.size, t.v FROM areas a, twice t WHERE a.code = t.code) SELECT * FROM j", "areas.geojson", "twice.csv")),
    Trap("rows_multiplied", call("pipeline", steps=STACKED.format("twice")), (call("pipeline", steps=STACKED.format("keys")),)),
    Trap(
        "summed_twice",
        within("a.code, sum(a.size) AS size", "GROUP BY a.code"),
        (within("a.code, sum(s.id) AS n", "GROUP BY 1"), within("s.id, a.code"), within("a.code, count(*) AS n", "GROUP BY a.code")),
    ),
    Trap("rows_lost", joined("a.code, t.v", "some"), (joined("a.code, t.v", "some", "LEFT JOIN"),)),
    Trap("nothing_joined", joined("a.code, t.v", "capitals"), (joined("a.code", "keys", rest="WHERE t.v > 5"),)),
    Trap("nothing_joined", joined("a.code, t.v", "capitals", "LEFT JOIN")),
)  # fmt: skip


def typed(value: str) -> tuple[str, dict[str, Any]]:
    statement = f"SELECT CASE code WHEN 'a' THEN {value} END AS v FROM areas"
    return write("vector sql", input="areas.geojson", dialect="SQLITE", sql=statement, output="OUT.gpkg")


TYPES = (
    Trap("type_of_first_row", typed("1 ELSE 2.5"), (typed("1 ELSE 2.0"), typed("1.5 ELSE 2"), typed("'x' ELSE 'y'"))),
    Trap("type_of_first_row", typed("NULL ELSE 2")),
)  # fmt: skip


def transformed(source: str, to: int = 4326) -> tuple[str, dict[str, Any]]:
    return query(f"SELECT ST_AsText(ST_Transform(geom, {to})) AS t FROM {source}", f"{source}.gpkg")


PIPE = "read {0}.gpkg ! {1}"
PLACES = (
    Trap(
        "crs_mismatch",
        query("SELECT a.id FROM squares_m a JOIN squares b ON ST_Intersects(a.geom, b.geom)", "squares_m.geojson", "squares.geojson"),
        (query("SELECT a.id FROM squares a JOIN degrees b ON ST_Intersects(a.geom, b.geom)", "squares.geojson", "degrees.geojson"),),
        refused=True,
    ),
    Trap("ballpark_transformation", transformed("rome_points"), (transformed("mm_points"),), refused=True),
    Trap(
        "ballpark_transformation",
        call("pipeline", steps=PIPE.format("rome_points", "tee [ reproject --output-crs=EPSG:4326 ! write OUT.gpkg ] ! filter --where=id=0 ! write OUTb.gpkg")),
        (call("pipeline", steps=PIPE.format("points", "tee [ reproject --output-crs=EPSG:25832 ! write OUT.gpkg ] ! filter --where=id=0 ! write OUTb.gpkg")),),
        refused=True,
    ),
    Trap("ballpark_transformation", call("pipeline", steps=PIPE.format("rome_points", "reproject --output-crs=EPSG:4326 ! info")), refused=True),
    Trap(
        "ballpark_transformation",
        write("vector concat", input=["mm_points.gpkg", "rome_points.gpkg"], mode="single", output="OUT.gpkg", output_crs="EPSG:4326"),
        (write("vector concat", input=["mm_points.gpkg", "points.gpkg"], mode="single", output="OUT.gpkg", output_crs="EPSG:4326"),),
        refused=True,
    ),
)  # fmt: skip
FIRST, OTHERS = first_of_each(JOINS + TYPES + PLACES)


def test_a_trap_of_each_code_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, FIRST, "statement", subtests)


@pytest.mark.nightly
def test_every_other_trap_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, OTHERS, "other_statement", subtests)


def test_what_a_join_lost_or_gave_twice_is_counted(talk: Talk) -> None:
    for code, (tool, arguments), numbers in (
        ("rows_lost", JOINS[5].call, (1, 3)),
        ("rows_multiplied", JOINS[0].call, (1, 3)),
    ):
        [row] = [one for one in rows_of(talk.done(tool, **arguments)) if one["code"] == code]
        assert (row["count"], row["of"]) == numbers


def test_tables_of_a_join_are_indexed(talk: Talk, place: Any) -> None:
    rows = "".join(f"{i},{i % 7}\n" for i in range(20_000))
    for name in ("left", "right"):
        place.path(f"{name}_rows.csv").write_text(f"id,{name}\n{rows}")
    # without an index these are four hundred million comparisons, and the call ends at its limit
    counted = "SELECT count(*) AS n FROM left_rows a JOIN right_rows b ON a.id = b.id"
    done = talk.done("query", inputs=["left_rows.csv", "right_rows.csv"], sql=counted)
    assert done["untrusted"]["report"]["rows"] == [{"n": 20_000}]


def test_a_reading_call_says_the_operation(talk: Talk) -> None:
    done = talk.done("query", **transformed("mm_points")[1])
    assert done["transformation"]["accuracy"] == 4
    tool, arguments = transformed("rome_points")
    allowed = talk.done(tool, **arguments, allow=["ballpark_transformation"])
    assert allowed["transformation"]["ballpark"] is True
