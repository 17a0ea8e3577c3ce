"""The checks' knowledge of a statement: its tree, and the outline that a container measures."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.sql import MAX_STATEMENT, check_condition, check_statement
from gdal_mcp.toolboxes.gdal.preflight.sql import reading
from gdal_mcp.toolboxes.gdal.preflight.sql.outline import outline_of
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import is_unread, text_of, tree_of
from tests.quick import quick

WRITTEN_AS_READ = (
    'SELECT a.x AS "X y", b.* FROM "roads (2024)" AS a JOIN b ON a.id = b.id',
    "SELECT Total(x) FILTER(WHERE x > 1), St_Area(geom), overlaps(a, b) FROM p",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 10) SELECT * FROM t",
    "SELECT CASE a WHEN 1 THEN 'it''s' END FROM p, q AS r, json_each(p.j) AS j WHERE a GLOB 'x*'",
    "SELECT min(a, b), count(DISTINCT c), count(*) FROM p GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 3",
    "SELECT replace(a, 'x', 'y') || char(65) FROM p LEFT JOIN q USING (id) WHERE EXISTS(SELECT 1 FROM r)",
    "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM p UNION SELECT 2 EXCEPT SELECT 3",
)


@pytest.mark.parametrize("text", WRITTEN_AS_READ)
def test_a_statement_is_written_as_it_was_read(text: str) -> None:
    assert text_of(tree_of(text)).replace(" ", "") == text.replace(" ", "")


def test_unparsable_statement_passes_gate_without_outline() -> None:
    text = "SELECT CAST(a AS UNSIGNED BIG INT), ST_Area(geom) FROM p JOIN q ON p.a = q.a"
    assert check_statement(text, "sql") == text
    assert (is_unread(text), outline_of(text)) == (True, None)
    assert not any((reading.measures(text), reading.relates(text), reading.changes_crs(text)))


def test_value_tests_beyond_the_limit_are_named() -> None:
    patterns = " AND ".join(f"a NOT LIKE 'a_{i}'" for i in range(40))
    for text, unprobed in (
        (f"{patterns} AND b <> 1", ["nulls_excluded", "underscore_matches"]),
        ("b <> 1", []),
    ):
        [select] = (outline_of(f"SELECT * FROM p WHERE {text}") or {})["selects"]
        assert len(select["probes"]) <= 24
        assert [code for code in select["unprobed"] if code != "zeros_in_texts"] == unprobed


@pytest.mark.parametrize(
    "text", ["a <> 'x'", "a NOT LIKE 'x%'", "NOT a IN ('x')", "a NOT GLOB 'x' AND a <> 'y'", "NOT (a = 'x')"]
)
def test_condition_that_is_not_true_for_null_is_tested_once(text: str) -> None:
    [select] = (outline_of(text) or {})["selects"]
    tests = [probe["condition"] for probe in select["probes"] if probe["code"] == "nulls_excluded"]
    assert tests == ["a IS NULL"]


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("ON a.k = b.k AND b.y > 1", [[["a", "k"], ["b", "k"]]]),
        ("USING (k)", [[["a", "k"], ["b", "k"]]]),
        ("ON k = l", [[["", "k"], ["", "l"]]]),
        ("ON lower(a.k) = b.k", []),
    ],
)
def test_compared_keys_of_join_are_in_the_outline(on: str, pairs: list[list[list[str]]]) -> None:
    [select] = (outline_of(f"SELECT * FROM a LEFT JOIN b {on}") or {})["selects"]
    assert select["items"][1]["pairs"] == pairs
    assert select["items"][1]["keys"] is bool(pairs)


def test_joins_sums_and_groups_are_in_the_outline() -> None:
    outline = outline_of(
        "WITH w AS (SELECT * FROM c) SELECT upper(a.k) AS k, sum(b.v) AS v, count(*) FROM a LEFT JOIN b ON a.k = b.k, w "
        "WHERE a.t <= '2024-01-01' AND a.k NOT IN (SELECT k FROM d) GROUP BY k"
    )
    assert outline is not None
    assert (outline["with"], outline["own_tables"]) == ("w AS (SELECT * FROM c)", ["w"])
    assert outline["reads"] == dict.fromkeys("abcdw", 1)
    assert outline["excluded"] == ["(SELECT k FROM d)"]
    main = next(select for select in outline["selects"] if len(select["items"]) > 1)
    assert [(source["table"], source["joined"], source["keys"]) for source in main["items"]] == [
        ("a", "", False),
        ("b", "LEFT", True),
        (None, ",", False),
    ]
    assert main["from"] == "a LEFT JOIN b ON a.k = b.k , w"
    assert (main["group"], main["values"], main["counts_rows"]) == (["upper(a.k)"], ["upper(a.k)"], True)
    assert main["sums"] == [{"mean": False, "columns": [["b", "v"]]}]
    assert [(condition["column"], condition["day"], condition["in_where"]) for condition in main["days"]] == [
        ("a.t", "2024-01-01", True)
    ]
    # the rows that IN compares with are not in the answer
    assert [select["from"] for select in outline["selects"]] == ["a LEFT JOIN b ON a.k = b.k , w", "c"]


def test_lists_of_numbers_differ_from_data_tables() -> None:
    for text, expected in (
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n LIMIT 9) SELECT * FROM p, n AS m",
            ["m", "n"],
        ),
        ("WITH n AS (SELECT 1 AS i), d AS (SELECT i * 2 AS j FROM n) SELECT * FROM p, d", ["d", "n"]),
        ("SELECT * FROM p, (SELECT 1 AS i) n, (VALUES (1), (2)) v", ["n", "v"]),
        ("WITH q AS (SELECT * FROM p), n AS (SELECT * FROM q) SELECT * FROM p, n", []),
        ("SELECT * FROM p, (SELECT (SELECT count(*) FROM q) AS i) n", []),
    ):
        outline = outline_of(text)
        assert outline is not None
        assert outline["generated"] == expected


def test_condition_on_a_select_term_can_be_counted() -> None:
    outline = outline_of(
        "SELECT k, 2 * v AS w, count(*) AS n, k AS j FROM t WHERE w > 1 AND j = 2 AND t.w < 5 GROUP BY k HAVING n > 3"
    )
    assert outline is not None
    [select] = outline["selects"]
    assert (select["where"], select["having"]) == ("w > 1 AND j = 2 AND t.w < 5", "n > 3")
    assert select["aliases"] == ["n", "w"]
    expanded = select["expanded"]
    assert (expanded["where"], expanded["having"]) == ("(2 * v) > 1 AND j = 2 AND t.w < 5", "(count(*)) > 3")


def test_spatial_relation_can_be_counted_with_another_predicate() -> None:
    outline = outline_of(
        "SELECT sum(ST_Area(p.geom)) FROM p JOIN z ON ST_Intersects(p.geom, z.geom) = 1 WHERE p.id > 1"
    )
    assert outline is not None
    [meeting] = outline["selects"][0]["meeting"]
    assert meeting["covered"] == "p JOIN z ON ST_CoveredBy(p.geom, z.geom) = 1 WHERE p.id > 1"
    assert meeting["rows"] == meeting["covered"].replace("CoveredBy", "Intersects")


def test_integer_divisions_name_the_required_integer_columns() -> None:
    def divided(term: str) -> list[list[str]]:
        outline = outline_of(f"SELECT {term} FROM t")
        assert outline is not None
        return outline["divided"]

    assert divided("a / (b + 1)") == [["a", "b"]]
    assert divided("sum(CASE WHEN x < 'c' THEN 1 ELSE 0 END) * 100 / count(*)") == [[]]
    for term in ("1.0 * a / b", "a / 10", "CAST(a / b AS INTEGER)", "round(a) / b", "'a/b'"):
        assert divided(term) == []


PIECES = st.sampled_from(
    "SELECT FROM JOIN LEFT ON USING WITH AS t u a.x x y WHERE GROUP BY ORDER LIMIT UNION ALL NOT IN AND = < / + * , ( ) 1 2.5 'x' "
    "'2024-01-01' BETWEEN CASE WHEN THEN END sum( count( ST_Area( ST_Transform( ST_Contains( CAST( OVER DISTINCT HAVING EXISTS".split()
)


@given(st.lists(PIECES, max_size=25).map(" ".join))
def test_every_accepted_statement_has_outline_or_is_unparsable(text: str) -> None:
    for check, passed in ((check_statement, f"SELECT x FROM t {text}"), (check_condition, text)):
        try:
            check(passed, "sql")
        except ArgumentRefused:
            continue
        assert (outline_of(passed) is None) is is_unread(passed)
        assert isinstance(reading.columns_compared(passed), frozenset)
        assert isinstance(reading.transformed_to(passed), list)
        assert isinstance(reading.columns_added(passed), frozenset)
        assert reading.measures(passed) in (True, False)


NESTED = (
    "(",
    "f(",
    "(SELECT ",
    "CASE WHEN a THEN ",
    "a IN (",
    "CAST(",
    "NOT ",
    "- ",
    "1 + ",
    "a = 1 AND ",
    "a, ",
    "a < ",
)


@pytest.mark.claim("args.no-text-hangs-the-server")
@pytest.mark.parametrize("piece", NESTED)
def test_deep_statement_is_read_or_abandoned_at_once(piece: str) -> None:
    closing = {"(": ")", "f": ")", "C": " END"}.get(piece[0], "") if piece != "CAST(" else " AS REAL)"
    many = MAX_STATEMENT // (len(piece) + len(closing)) - 10
    with quick():
        outline_of(f"SELECT {piece * many}1{closing * many}")
        outline_of(f"SELECT {piece * many}1")


def test_a_recursive_with_ends() -> None:
    for text in (
        "WITH RECURSIVE t AS (SELECT geom, 1 AS n FROM p UNION ALL SELECT geom, n + 1 FROM t) SELECT ST_Area(geom) FROM t",
        "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT ST_Area(geom) FROM a",
    ):
        assert reading.measures(text) in (True, False)
        assert outline_of(text) is not None


def test_deepest_allowed_statement_has_an_outline() -> None:
    for opening, closing in (
        ("(", ")"),
        ("f(", ")"),
        ("1 / (", ")"),
        ("ST_Area(", ")"),
        ("CAST(", " AS REAL)"),
        ("1 + ", ""),
    ):
        texts = (f"SELECT {opening * n}x{closing * n} AS y, sum(z) FROM t WHERE a > 1" for n in range(1, 120))
        read = [outline_of(text) is not None and not reading.codes_measured(text) for text in texts]
        assert read[:25] == [True] * 25
        assert not read[-1]
    terms = " OR ".join(f"id = {n}" for n in range(600))
    assert outline_of(f"SELECT count(*) FROM t WHERE {terms}") is not None


@pytest.mark.claim("args.no-text-hangs-the-server")
def test_nested_columns_are_followed_for_bounded_time() -> None:
    terms = " + ".join(["g"] * 60)
    tables = ", ".join(f"w{n + 1} AS (SELECT {terms} AS g FROM w{n} a, w{n} b)" for n in range(9))
    area = ", ".join(["ST_Area(g)"] * 500)
    tests = " AND ".join(["ST_Contains(a.g, b.g)"] * 400)
    with quick():
        for text in (
            f"WITH {tables} SELECT {area} FROM w9 WHERE g > 1",
            f"SELECT sum(ST_Area(a.g)) FROM a, b WHERE {tests}",
        ):
            assert outline_of(text) is not None
            reading.measures(text)
            reading.relates(text)
            reading.columns_compared(text)


def test_the_server_starts_without_sqlglot() -> None:
    code = "import sys, gdal_mcp.__main__, gdal_mcp.tools.toolbox, gdal_mcp.server; print('sqlglot' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
