"""SQL and conditions: texts that would open, run or change something are refused; ordinary statements pass unchanged."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.sql import (
    MAX_CONDITION,
    MAX_STATEMENT,
    check_condition,
    check_dialect,
    check_statement,
)
from tests.quick import quick

SQL = packaged().algorithms["vector sql"]

# Each opened, wrote or read something in one of the dialects in a test, or is a variation of one that did.
HOSTILE_STATEMENTS = [
    # another file as a table
    "SELECT * FROM 'CSV:/etc/passwd'.passwd", "SELECT * FROM 'passwd.csv'.passwd", 'SELECT * FROM "CSV:/etc/passwd".passwd',
    'SELECT * FROM "CSV:/etc/passwd"."passwd"', 'SELECT * FROM "/tmp".x', "SELECT * FROM tmp.x", 'SELECT * FROM "tmp" . x',
    "SELECT * FROM tmp\n.\nx", 'SELECT * FROM "ds".x', 'SELECT * FROM poly, "ds".x', "SELECT * FROM poly, ds.x",
    'SELECT * FROM poly a JOIN b ON a.x = b.x, "ds".c', 'SELECT * FROM (poly, "ds".c)', 'SELECT * FROM poly), ("ds".c',
    "SELECT 1) UNION SELECT (2", "SELECT (1", 'SELECT * FROM poly WHERE a IS NOT DISTINCT FROM "ds".c',
    'SELECT * FROM "/ws/other.csv"', 'SELECT * FROM "CSV:/ws/other.csv"', 'SELECT "/ws/other.csv".a FROM poly',
    'SELECT * FROM poly WHERE a = ""', "SELECT * FROM poly, 'a'.b", "SELECT * FROM poly a LEFT JOIN '/etc/x'.b ON a.x = b.x",
    "SELECT * FROM poly NATURAL JOIN other.layer", 'SELECT * FROM poly WHERE a IN (SELECT b FROM "ds".c)',
    'SELECT (SELECT b FROM "ds".c) FROM poly', 'SELECT * FROM (SELECT * FROM "ds".c)',
    'WITH x AS (SELECT * FROM "ds".c) SELECT * FROM x', 'SELECT * FROM poly UNION SELECT * FROM "ds".c',
    # quotes that the dialects read differently, or the database itself
    "SELECT * FROM [poly]", "SELECT * FROM `poly`", 'SELECT * FROM "po""ly"', "SELECT * FROM main.poly",
    # functions that open files, access a network or run other SQL
    "SELECT ogr_datasource_load_layers('CSV:/etc/passwd')", "SELECT ogr_geocode('x') FROM poly",
    "SELECT gdal_get_pixel_value('/ws/a.tif', 1, 'pixel', 1, 1)", "SELECT load_extension('/ws/e.so')",
    "SELECT \"load_extension\"('/ws/e.so')", "SELECT load_extension ('/ws/e.so')", "SELECT LOAD_EXTENSION\t('/ws/e.so')",
    "SELECT readfile('/etc/passwd')", "SELECT writefile('x', 'y') FROM poly", "SELECT BlobFromFile('/etc/passwd')",
    "SELECT ST_ImportSHP('/etc/passwd')", "SELECT eval('x')",
    "SELECT XB_Create(CAST('<a/>' AS BLOB), 0, '/ws/other.csv'), XB_GetLastParseError()",
    "SELECT \"xb_schemavalidate\"(a, '/ws/x.xsd') FROM poly",
    "SELECT ST_Transform(geom, 3857, NULL, '+proj=pipeline +step +proj=hgridshift +grids=/ws/x') FROM poly",
    "SELECT Transform(geom, 3857, max(1, 2), '+proj=pi' || 'peline') FROM poly",
    # statements other than SELECT
    "ATTACH DATABASE '/ws/x.db' AS a", "PRAGMA database_list", "VACUUM INTO '/ws/x.db'", "CREATE TABLE x AS SELECT 1",
    "CREATE VIRTUAL TABLE t USING VirtualOGR('x')", "INSERT INTO poly SELECT * FROM poly", "UPDATE poly SET a = 1",
    "DELETE FROM poly", "DROP TABLE poly", "REPLACE INTO poly VALUES (1)", "WITH x AS (SELECT 1) DELETE FROM poly",
    "WITH x AS (SELECT 1) INSERT INTO poly SELECT * FROM x", "EXPLAIN SELECT 1",
    # several statements, comments, open quotes, parameters, files
    "SELECT 1; VACUUM INTO '/ws/x.db'", "SELECT 1;;", "SELECT 1 -- x", "SELECT 1 /* x */", "SELECT 1 /* x",
    "SELECT 'a\\' FROM poly --'", "SELECT 'a\\' || 'b' FROM poly", "SELECT 'a", 'SELECT "a', "SELECT ?", "SELECT :x",
    "SELECT $x", "SELECT @x", "@/etc/passwd", "  @/etc/passwd", "\n@/etc/passwd", "SELECT 'x\x00y'", "VALUES (1)", "", " ",
    "SELECT '" + "x" * MAX_STATEMENT + "'",
]  # fmt: skip


@pytest.mark.claim("sql.one-select")
def test_statement_reaching_beyond_the_input_is_refused() -> None:
    for text in HOSTILE_STATEMENTS:
        with pytest.raises(ArgumentRefused):
            assert not check_statement(text, "sql")


def test_ordinary_statements_pass_as_they_were_written() -> None:
    for text in (
        "SELECT * FROM poly",
        "select  a ,b\nfrom poly",
        'SELECT * FROM "roads (2024)" r',
        "SELECT a.x, b.* FROM a JOIN b ON a.id = b.id",
        "SELECT * FROM a, b c WHERE a.id=c.id",
        "SELECT 'it''s ; -- fine / ok' FROM p",
        "SELECT ST_Area(geom)/2, any_function_that_computes(1) FROM p",
        "SELECT CAST(a AS character(10)), replace(a,'x','y') FROM p",
        "SELECT * FROM p WHERE a IN (SELECT b FROM q)",
        "WITH s(a) AS (SELECT a FROM p) SELECT * FROM s, json_each('[1,2]')",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 10) SELECT * FROM t",
        "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM p",
        "SELECT a -> '$.b', a ->> 'c', 1.5e3, .5, - -1 FROM p",
        "SELECT été FROM p",
        'SELECT "name:en", p."GDP/capita", "<none>" FROM p',
        "SELECT ST_Transform(p.geom, max(1, 2)), a.x, b.y FROM a, b WHERE a.x REGEXP '^\\d+$' ORDER BY a.x, b.y",
        "WITH imports(a, b) AS (SELECT 1, 2), loads(c) AS (SELECT 3) SELECT a, c FROM imports, loads",
        "SELECT ST_Dump(geom), st_dumppoints(geom) FROM p",
        'SELECT load, p.load FROM "roads@2024" p WHERE p.load > 3 ORDER BY load',
        "SELECT a FROM p WHERE a IS NOT DISTINCT FROM b",
        "SELECT a & 3, a | b, ~a, a << 1, a >> 1 FROM p, json_each(p.x, a.y) j WHERE j.value IN (a.x, p.y)",
    ):
        assert check_statement(text, "sql") == text
    assert check_statement(" SELECT 1 ; ", "sql") == "SELECT 1"


HOSTILE_CONDITIONS = [
    "/etc/passwd", "<VRTDataset/>", "id IN (SELECT 1)", "EXISTS (SELECT 1 FROM x)",
    "id = (SELECT count(*) FROM sqlite_master)", "id = 1 UNION SELECT 1", "id = 1) UNION SELECT 1 FROM (x",
    "id = 1; VACUUM INTO '/ws/v.db'", "id = 1 -- x", "id = 1 /* x */", "name = load_extension('/ws/x.so')",
    "\"load_extension\"('/ws/x.so') = 1", "ogr_datasource_load_layers('/etc/passwd') IS NOT NULL", "[id] = 1", "`id` = 1",
    "id = ?", "id = :x", "name = 'a\\'b'", '"a""b" = 1', "@/etc/passwd", " \n@/etc/passwd", "WITH x AS (SELECT 1) SELECT 1",
    "VALUES (1)", "id = 1 ORDER BY id", "id = 1 LIMIT 5", "", "name = '" + "x" * MAX_CONDITION + "'",
]  # fmt: skip


@pytest.mark.claim("sql.conditions")
def test_condition_reaching_beyond_its_layer_is_refused() -> None:
    for text in HOSTILE_CONDITIONS:
        with pytest.raises(ArgumentRefused):
            assert not check_condition(text, "where")


def test_function_call_disguised_as_cte_is_refused() -> None:
    for text in (
        "SELECT importshp('/a') FROM p",
        "WITH a AS (SELECT importshp(x, y) AS z FROM p) SELECT z FROM a",
        "WITH a(b) AS (SELECT 1), importshp(x) SELECT 1",
        "SELECT 1, dumpdbf(a) AS (b)",
        "SELECT * FROM p, exportshp(a) AS b",
        'SELECT * FROM "@list"',
    ):
        with pytest.raises(ArgumentRefused):
            check_statement(text, "sql")


def test_ordinary_conditions_pass_as_they_are() -> None:
    for text in (
        "id = 1", "population > 1000 AND name LIKE 'A%'", '"GDP/capita" >= 1.5e3 OR NOT (a IS NULL)',
        "id IN (1, 2, 3)", "name = 'SELECT ; -- @ /etc/passwd'", "CAST(a AS integer) BETWEEN 1 AND 2",
        "length(name) < 5", '"select" = 1',
    ):  # fmt: skip
        assert check_condition(text, "where") == text


@pytest.mark.claim("sql.can-be-off")
def test_sql_is_refused_unless_the_server_enables_it() -> None:
    call = {"input": "a.gpkg", "output": "b.gpkg", "sql": "SELECT * FROM poly"}
    with pytest.raises(ArgumentRefused):
        bind(SQL, call, Context(packaged()))
    assert bind(SQL, call, Context(packaged(), allow_sql=True)).get("sql") == ("SELECT * FROM poly",)


@pytest.mark.claim("sql.can-be-off")
def test_every_argument_that_carries_sql_needs_the_permission() -> None:
    algorithms = packaged().algorithms.items()
    carriers = [
        (*row, argument)
        for row in algorithms
        for argument in row[1].arguments
        if argument.name.endswith("sql")
    ]
    assert len(carriers) > 3
    for path, algorithm, argument in carriers:
        assert argument.rule.check == "sql"
        value = ["SELECT * FROM poly"] if argument.is_list else "SELECT * FROM poly"
        needed = {
            other.name: "x" for other in algorithm.arguments if other.required and other.name != argument.name
        }
        if path == "vector rasterize":
            needed |= {"size": [10, 10], "burn": [1], "extent": [0, 0, 1, 1]}
        with pytest.raises(ArgumentRefused):
            bind(algorithm, {**needed, argument.name: value}, Context(packaged()))
        known = {"pipeline", "raster pipeline", "vector pipeline"}
        if path not in known and not algorithm.one_of and set(needed) <= {"input", "output"}:
            bind(algorithm, {**needed, argument.name: value}, Context(packaged(), allow_sql=True))


def test_only_the_two_dialects_are_named() -> None:
    assert check_dialect("sqlite", "dialect") == "SQLITE"
    for text in ("INDIRECT_SQLITE", "", "DEBUG", "OGRSQL "):
        with pytest.raises(ArgumentRefused):
            check_dialect(text, "dialect")


PIECES = st.sampled_from(
    [*"()*,.;=", *"SELECT FROM JOIN WITH AS t ON WHERE count LIMIT".split(), '"a"', '"CSV:/x"', "'x'", "1"]
)


@pytest.mark.claim("sql.one-select")
@given(st.lists(PIECES, max_size=14).map(lambda rest: " ".join(["SELECT", *rest])) | st.text(max_size=30))
def test_accepted_sql_is_one_statement_without_file_names(text: str) -> None:
    for check in (check_statement, check_condition):
        try:
            passed = check(text, "sql")
        except ArgumentRefused:
            continue
        assert not re.search(r"""(FROM|JOIN) "CSV|x["'] \.|(FROM|JOIN) t \.""", passed)
        assert ";" not in passed.replace("';'", "")
        assert "\0" not in passed
        assert check(passed, "sql") == passed


@pytest.mark.claim("args.no-text-hangs-the-server")
def test_long_function_name_is_scanned_once():
    with quick():
        for _ in range(20):
            with suppress(ArgumentRefused):
                check_statement(f'SELECT "{"_import" * 2300}-"(1) FROM a', "sql")
