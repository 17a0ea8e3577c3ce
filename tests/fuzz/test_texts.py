"""Texts with a small language: any text is refused, or passes as a text that has the same meaning and passes again.

The tests for coordinate reference systems and for names of datasets are in tests/unit, next to the texts that they
begin with.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.checks import CHECKS, ArgumentContext, Context
from gdal_mcp.toolboxes.gdal.catalogue.documents import check_document, check_geometry
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.sql import MAX_STATEMENT, _tokens, check_condition, check_statement
from tests.fuzz.kit import anything, grown, outcome, tries
from tests.unit.toolboxes.fitting import BY_DRIVER, FITTING

pytestmark = pytest.mark.claim("args.no-text-hangs-the-server")
ALGORITHMS = (*packaged().algorithms.values(), *(step.algorithm for step in packaged().steps.values()))
ARGUMENTS = {
    argument.rule.check: (algorithm, argument)
    for algorithm in ALGORITHMS
    for argument in algorithm.arguments
    if argument.rule.check in CHECKS
}
SEEDS = {
    **FITTING,
    **{
        check: [value for values in drivers.values() for value in values]
        for check, drivers in BY_DRIVER.items()
    },
    "kernel": ["edge1", "[[0.5,1,0],[10,2,1],[0,1,0]]"],
    "pixel-function-argument": ["k=2", "expression=A+B", "dialect=muparser"],
}
LONGEST = 40_000  # letters; more than the longest text that any check reads


def situation(check: str) -> ArgumentContext:
    algorithm, argument = ARGUMENTS[check]
    context = Context(packaged(), "out.tif", threads=4, allow_sql=True)
    return ArgumentContext(context, algorithm, {}, argument)


def texts_of(seeds: list[Any]) -> st.SearchStrategy[str]:
    plain = [text for text in map(str, seeds) if text]
    return grown(st.sampled_from(plain), LONGEST) | grown(st.sampled_from(plain), 80) | st.text(max_size=40)


def test_any_checked_text_is_refused_or_passes_again(subtests: pytest.Subtests):
    for check in sorted(set(ARGUMENTS) & set(CHECKS)):
        with subtests.test(check=check):
            passes_again(check)


def passes_again(check: str) -> None:
    judge, context = CHECKS[check], situation(check)

    @tries(12)
    @given(texts_of(SEEDS.get(check, ["GTiff", "json", "bilinear"])))
    def look(text: str) -> None:
        passed = outcome(judge, context, text, refused=ArgumentRefused)
        if isinstance(passed, str):
            assert judge(context, passed) == passed
            assert passed.isprintable()
            assert not passed.endswith("=?")

    look()


# SQL

WORDS = st.sampled_from(
    "SELECT FROM WHERE WITH AS JOIN ON LIMIT OFFSET UNION ALL AND OR NOT IN CASE WHEN THEN END LIKE a b t count sum"
    " RECURSIVE MATERIALIZED , ( ) . * ; + - = <> || 1 1.5 .5 1e9 'x' 'it''s' \"a\" \"a b\" \"/x\" @ -- /* \\ ` [ pragma_x ?"
    " load_extension 99999999999999999999".split()
)


@tries(150)
@given(
    st.lists(WORDS, max_size=25),
    st.sampled_from(("", " ", "\n")),
    st.sampled_from((check_statement, check_condition)),
)
def test_accepted_sql_keeps_its_tokens(words: list[str], between: str, check: Any):
    text = between.join(words) if between else " ".join(words).replace(" ( ", "(")
    for start in ("", "SELECT * FROM t WHERE ", "WITH a AS ("):
        passed = outcome(check, start + text, "sql", refused=ArgumentRefused)
        if isinstance(passed, str):
            tokens = [token.text for token in _tokens(start + text, "sql", MAX_STATEMENT)]
            assert [token.text for token in _tokens(passed, "sql", MAX_STATEMENT)] in (tokens, tokens[:-1])


@tries(20)
@given(
    st.lists(
        st.sampled_from((",a(", "a AS (", "(", ")", ") AS (", ",", "LIMIT ", "9" * 400, "AS ", "NOT ")),
        max_size=4,
    ),
    st.integers(1, 4000),
)
def test_sql_of_brackets_and_digits_ends_at_once(parts: list[str], times: int):
    text = ("SELECT a" + "".join(parts) * times)[:MAX_STATEMENT]
    for check in (check_statement, check_condition):
        outcome(check, text, "sql", refused=ArgumentRefused)


# JSON in arguments


def loose(value: Any) -> str:
    """JSON as Python writes it, with values that JSON does not have, and numbers that no double can store."""
    return json.dumps(value).replace("1e+308", "1e999")


@tries(70)
@given(st.dictionaries(st.text(max_size=5), anything, max_size=4).map(loose) | anything.map(loose))
def test_accepted_document_is_json_of_equal_value(text: str):
    passed = outcome(check_document, text, "document", refused=ArgumentRefused)
    if isinstance(passed, str):
        assert json.loads(passed, parse_constant=pytest.fail) == json.loads(text)
        assert check_document(passed, "document") == passed


COORDINATES = st.recursive(
    st.integers() | st.floats() | st.just(1e308), lambda inner: st.lists(inner, max_size=4), max_leaves=10
)
GEOJSON = st.recursive(
    st.builds(
        lambda kind, where: {"type": kind, "coordinates": where},
        st.sampled_from(["Point", "LineString", "MultiPolygon", "Feature", 5, None]),
        COORDINATES | st.just([1.0, 2]),
    ),
    lambda inner: (
        st.builds(
            lambda geometries: {"type": "GeometryCollection", "geometries": geometries},
            st.lists(inner, max_size=3),
        )
        | st.builds(lambda geometry: {"type": "Feature", "geometry": geometry, "id": "/etc/passwd"}, inner)
    ),
    max_leaves=5,
)


@tries(70)
@given(GEOJSON.map(loose))
def test_accepted_geometry_is_json_of_known_words(text: str):
    passed = outcome(check_geometry, text, "geometry", refused=ArgumentRefused)
    if isinstance(passed, str):
        assert check_geometry(passed, "geometry") == passed
        json.loads(passed, parse_constant=pytest.fail)
        assert "/etc" not in passed
