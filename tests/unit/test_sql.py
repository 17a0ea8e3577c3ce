"""SQL and conditions: what GDAL would open, run or never finish is refused; ordinary statements pass and mean the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.catalogue.binding import Context, bind_json
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.load import catalogue, packaged
from gdal_mcp.gdal.catalogue.sql import (
    MAX_CONDITION,
    MAX_STATEMENT,
    check_condition,
    check_dialect,
    check_statement,
)
from tests.quick import quick

SQL = catalogue().algorithms["vector sql"]

# Each was seen to open, write, read or not to end in one of the dialects, or is a variation on one that did.
HOSTILE_STATEMENTS = [
    "SELECT * FROM 'CSV:/etc/passwd'.passwd",
    "SELECT * FROM 'passwd.csv'.passwd",
    'SELECT * FROM "CSV:/etc/passwd".passwd',
    'SELECT * FROM "CSV:/etc/passwd"."passwd"',
    'SELECT * FROM "/tmp".x',
    "SELECT * FROM tmp.x",
    'SELECT * FROM "tmp" . x',
    "SELECT * FROM tmp\n.\nx",
    'SELECT * FROM "tmp.x"',
    'SELECT * FROM "ds".x',
    "SELECT * FROM poly, 'a'.b",
    'SELECT * FROM poly, "a".b',
    'SELECT * FROM poly a JOIN b ON a.x = b.x, "ds".c',
    "SELECT * FROM poly a LEFT JOIN '/etc/x'.b ON a.x = b.x",
    "SELECT * FROM poly NATURAL JOIN other.layer",
    'SELECT * FROM poly WHERE a IN (SELECT b FROM "ds".c)',
    'SELECT (SELECT b FROM "ds".c) FROM poly',
    'SELECT * FROM (SELECT * FROM "ds".c)',
    'WITH x AS (SELECT * FROM "ds".c) SELECT * FROM x',
    'SELECT * FROM poly UNION SELECT * FROM "ds".c',
    "SELECT * FROM (poly)",
    "SELECT * FROM 'poly'",
    "SELECT * FROM [poly]",
    "SELECT * FROM `poly`",
    'SELECT * FROM "po""ly"',
    "SELECT * FROM json_each('[1,2]')",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM json_tree",
    "SELECT * FROM pragma_database_list",
    'SELECT * FROM "pragma_database_list"',
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.poly",
    "SELECT ogr_datasource_load_layers('CSV:/etc/passwd')",
    "SELECT ogr_geocode('x') FROM poly",
    "SELECT gdal_get_pixel_value('/ws/a.tif', 1, 'pixel', 1, 1)",
    "SELECT load_extension('/ws/e.so')",
    "SELECT \"load_extension\"('/ws/e.so')",
    "SELECT load_extension ('/ws/e.so')",
    "SELECT LOAD_EXTENSION\t('/ws/e.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('x', 'y') FROM poly",
    "SELECT BlobFromFile('/etc/passwd')",
    "SELECT ST_ImportSHP('/etc/passwd')",
    "SELECT eval('x')",
    "SELECT randomblob(1000000000)",
    "ATTACH DATABASE '/ws/x.db' AS a",
    "PRAGMA database_list",
    "VACUUM INTO '/ws/x.db'",
    "CREATE TABLE x AS SELECT 1",
    "CREATE VIRTUAL TABLE t USING VirtualOGR('x')",
    "INSERT INTO poly SELECT * FROM poly",
    "UPDATE poly SET a = 1",
    "DELETE FROM poly",
    "DROP TABLE poly",
    "REPLACE INTO poly VALUES (1)",
    "WITH x AS (SELECT 1) DELETE FROM poly",
    "WITH x AS (SELECT 1) INSERT INTO poly SELECT * FROM x",
    "EXPLAIN SELECT 1",
    "SELECT 1; VACUUM INTO '/ws/x.db'",
    "SELECT 1;;",
    "SELECT 1 -- x",
    "SELECT 1 /* x */",
    "SELECT 1 /* x",
    "SELECT 'a\\' FROM poly --'",
    "SELECT 'a\\' || 'b' FROM poly",
    "SELECT 'a",
    'SELECT "a',
    "SELECT ?",
    "SELECT :x",
    "SELECT $x",
    "SELECT @x",
    "@/etc/passwd",
    "  @/etc/passwd",
    "\n@/etc/passwd",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    'WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM "T") SELECT * FROM t',
    "WITH t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t LIMIT 5",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT -1) SELECT * FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 99999999999) SELECT * FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 1, 99999999999) SELECT * FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 5 * 1000000000) SELECT * FROM t",
    "WITH t(n) AS NOT MATERIALIZED (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + (SELECT 1 LIMIT 1) FROM t) SELECT * FROM t",
    "SELECT * FROM (WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t)",
    "SELECT * FROM poly WHERE a = 1)",
    "SELECT " + "(" * 40 + "1" + ")" * 40,
    "SELECT 1 FROM",
    "SELECT * FROM poly,",
    "SELECT 'x\x00y'",
    "VALUES (1)",
    "",
    " ",
    "SELECT '" + "x" * MAX_STATEMENT + "'",
]


@pytest.mark.claim("sql.one-select")
@pytest.mark.parametrize("text", HOSTILE_STATEMENTS)
def test_a_statement_that_reaches_further_than_the_input_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_statement(text, "sql")


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("SELECT * FROM poly", "SELECT * FROM poly"),
        ("select  a ,b\nfrom poly ;", "select a, b from poly"),
        ('SELECT * FROM "roads (2024)" r', 'SELECT * FROM "roads (2024)" r'),
        ("SELECT a.x, b.y FROM a JOIN b ON a.id = b.id", "SELECT a.x, b.y FROM a JOIN b ON a.id = b.id"),
        ("SELECT * FROM a, b c WHERE a.id=c.id", "SELECT * FROM a, b c WHERE a.id = c.id"),
        ("SELECT 'it''s ; -- fine / ok' FROM p", "SELECT 'it''s ; -- fine / ok' FROM p"),
        ("SELECT ST_Area(geom)/2 FROM p", "SELECT ST_Area(geom) / 2 FROM p"),
        ("SELECT CAST(a AS character(10)) FROM p", "SELECT CAST(a AS character(10)) FROM p"),
        ("SELECT replace(a,'x','y') FROM p", "SELECT replace(a, 'x', 'y') FROM p"),
        ("SELECT * FROM p WHERE a IN (SELECT b FROM q)", "SELECT * FROM p WHERE a IN (SELECT b FROM q)"),
        ("SELECT * FROM (SELECT a FROM p) s", "SELECT * FROM (SELECT a FROM p) s"),
        ("WITH s AS (SELECT a FROM p) SELECT * FROM s", "WITH s AS (SELECT a FROM p) SELECT * FROM s"),
        ("SELECT 1.5e3, .5, - -1", "SELECT 1.5e3, .5, - - 1"),
        ("SELECT été FROM p", "SELECT été FROM p"),
    ],
)
def test_ordinary_statements_pass_on_one_line(text: str, passed: str) -> None:
    assert check_statement(text, "sql") == passed


def test_a_table_made_from_itself_passes_with_a_limit_of_its_own() -> None:
    text = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 10) SELECT * FROM t"
    assert check_statement(text, "sql") == text


HOSTILE_CONDITIONS = [
    "id IN (SELECT 1)",
    "EXISTS (SELECT 1 FROM x)",
    "id = (SELECT count(*) FROM sqlite_master)",
    "id = 1 UNION SELECT 1",
    "id = 1) UNION SELECT 1 FROM (x",
    "id = 1; VACUUM INTO '/ws/v.db'",
    "id = 1 -- x",
    "id = 1 /* x */",
    "name = load_extension('/ws/x.so')",
    "\"load_extension\"('/ws/x.so') = 1",
    "name = randomblob(1000000000)",
    "ogr_datasource_load_layers('/etc/passwd') IS NOT NULL",
    "[id] = 1",
    "`id` = 1",
    "id = ?",
    "id = :x",
    "name = 'a\\'b'",
    '"a""b" = 1',
    "@/etc/passwd",
    " \n@/etc/passwd",
    "WITH x AS (SELECT 1) SELECT 1",
    "VALUES (1)",
    "id = 1 ORDER BY id",
    "id = 1 LIMIT 5",
    "",
    "((((" * 10 + "1" + "))))" * 10,
    "name = '" + "x" * MAX_CONDITION + "'",
]


@pytest.mark.claim("sql.conditions")
@pytest.mark.parametrize("text", HOSTILE_CONDITIONS)
def test_a_condition_that_reaches_further_than_its_layer_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_condition(text, "where")


@pytest.mark.parametrize(
    "text",
    [
        "id = 1",
        "population > 1000 AND name LIKE 'A%'",
        '"GDP/capita" >= 1.5e3 OR NOT (a IS NULL)',
        "id IN (1, 2, 3)",
        "name = 'SELECT ; -- @ /etc/passwd'",
        "CAST(a AS integer) BETWEEN 1 AND 2",
        "length(name) < 5",
        '"select" = 1',
    ],
)
def test_ordinary_conditions_pass_as_they_are(text: str) -> None:
    assert check_condition(text, "where") == text


@pytest.mark.claim("sql.off-by-default")
def test_sql_is_refused_where_the_server_was_not_started_for_it() -> None:
    call = {"input": "a.gpkg", "output": "b.gpkg", "sql": "SELECT * FROM poly"}
    with pytest.raises(ArgumentRefused):
        bind_json(SQL, call, Context(packaged()))
    assert bind_json(SQL, call, Context(packaged(), allow_sql=True)).get("sql") == ("SELECT * FROM poly",)


@pytest.mark.claim("sql.off-by-default")
@pytest.mark.parametrize("path", sorted(catalogue().algorithms))
def test_every_argument_that_carries_sql_needs_the_permission(path: str) -> None:
    algorithm = catalogue().algorithms[path]
    carriers = [one for one in algorithm.arguments if one.name.endswith("sql")]
    for argument in carriers:
        assert argument.rule.check == "sql"
        value = ["SELECT * FROM poly"] if argument.is_list else "SELECT * FROM poly"
        needed = {one.name: "x" for one in algorithm.arguments if one.required and one.name != argument.name}
        needed |= (
            {"size": [10, 10], "burn": [1], "extent": [0, 0, 1, 1]} if path == "vector rasterize" else {}
        )
        with pytest.raises(ArgumentRefused):
            bind_json(algorithm, {**needed, argument.name: value}, Context(packaged()))
        known = {"pipeline", "raster pipeline", "vector pipeline"}
        if path not in known and not algorithm.one_of and set(needed) <= {"input", "output"}:
            bind_json(algorithm, {**needed, argument.name: value}, Context(packaged(), allow_sql=True))


def test_only_the_two_dialects_are_named() -> None:
    assert check_dialect("sqlite", "dialect") == "SQLITE"
    for text in ("INDIRECT_SQLITE", "", "DEBUG", "OGRSQL "):
        with pytest.raises(ArgumentRefused):
            check_dialect(text, "dialect")


PIECES = st.sampled_from(
    [
        *"()*,.;=",
        "SELECT",
        "FROM",
        "JOIN",
        "WITH",
        "AS",
        "t",
        '"a"',
        '"CSV:/x"',
        "'x'",
        "1",
        "ON",
        "WHERE",
        "count",
        "LIMIT",
    ]
)


@pytest.mark.claim("sql.one-select")
@given(st.lists(PIECES, max_size=14).map(lambda rest: " ".join(["SELECT", *rest])))
def test_whatever_passes_names_layers_alone(text: str) -> None:
    try:
        passed = check_statement(text, "sql")
    except ArgumentRefused:
        return
    assert "CSV:" not in passed
    assert ";" not in passed
    words = passed.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for word, after in pairwise(words):
        if word in ("FROM", "JOIN"):
            assert after in ("t", "count", '"a"', "(")
    assert check_statement(passed, "sql") == passed


@pytest.mark.claim("sql.one-select")
@given(st.text(max_size=30))
def test_any_text_is_refused_or_read_the_same_twice(text: str) -> None:
    for check in (check_statement, check_condition):
        try:
            passed = check(text, "sql")
        except ArgumentRefused:
            continue
        assert check(passed, "sql") == passed
        assert "\0" not in passed
        assert "\n" not in passed


@pytest.mark.parametrize(
    "text", ["SELECT 1 . .", "SELECT . 1", "SELECT a . . b FROM t", "SELECT 1 . a FROM t"]
)
def test_a_dot_that_is_between_no_names_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_statement(text, "sql")


@pytest.mark.parametrize(
    "text", ["SELECT t.a, t.* FROM t", 'SELECT "t" . "a" FROM t', "SELECT .5 + 1.5 FROM t"]
)
def test_dots_of_names_and_numbers_are_kept(text: str) -> None:
    passed = check_statement(text, "sql")
    assert check_statement(passed, "sql") == passed


# What fuzzing found


@pytest.mark.claim("args.no-text-hangs-the-server")
@pytest.mark.parametrize(
    "text",
    ["SELECT a" + ",a(" * 5000, "SELECT " + "1" * 16_000 + "x", "SELECT a" + ",a(b" * 4000 + ") AS " * 80],
)
def test_a_text_of_brackets_or_digits_is_refused_at_once(text: str) -> None:
    for check in (check_statement, check_condition):
        with quick(), pytest.raises(ArgumentRefused):
            check(text, "sql")


def test_a_limit_of_more_digits_than_python_reads_is_refused() -> None:
    with pytest.raises(ArgumentRefused):
        check_statement(f"WITH a AS (SELECT x FROM a LIMIT {'9' * 5000}) SELECT * FROM a", "sql")
