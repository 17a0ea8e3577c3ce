"""GDAL's notation of pipelines is read as GDAL reads it, or refused."""

import pytest

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.given import read_words
from gdal_mcp.gdal.catalogue.model import Algorithm, Argument, Role, Rule
from gdal_mcp.tools.notation import MAX_DEPTH, StepCall, parse_notation

RULE = Rule(Role.VALUE, "for a test")


def argument(name: str, kind: str = "string", *, positional: bool = False, packed: bool = False) -> Argument:
    return Argument(name, kind, RULE, positional=positional, packed=packed, short_name=name[0])


STEP = Algorithm(
    "raster calc",
    "",
    "",
    (
        argument("input", "dataset_list", positional=True),
        argument("calc", "string_list"),
        argument("size", "integer_list", packed=True),
        argument("flatten", "boolean"),
    ),
)


def test_steps_are_divided_by_exclamation_marks_of_their_own() -> None:
    assert parse_notation("read a.tif ! hillshade --zfactor=2 ! write b!c.tif") == (
        StepCall("read", ("a.tif",)),
        StepCall("hillshade", ("--zfactor=2",)),
        StepCall("write", ("b!c.tif",)),
    )


def test_quotes_hold_blanks_and_signs_together() -> None:
    (step,) = parse_notation(r'read "a b.tif" "!" "say \"hi\" \\ x"')
    assert step.words == ("a b.tif", "!", r'say "hi" \ x')


def test_branches_are_steps_of_their_own() -> None:
    tee = parse_notation(
        "read a.tif ! tee [ resize --size=10,10 ! write b.tif ] [ write c.tif ] ! write d.tif"
    )[1]
    assert [[step.name for step in branch] for branch in tee.branches] == [["resize", "write"], ["write"]]
    assert tee.words == ()


def test_a_word_may_be_quoted_in_part_and_a_backslash_outside_quotes_is_itself() -> None:
    (step,) = parse_notation(r'read a" b"\c "" "[" 	x[y]')
    assert step.words == (r"a b\c", "", "[", "x[y]")


def test_a_name_of_two_words_is_one_name_where_it_is_known() -> None:
    assert parse_notation("grid count a.gpkg", {"grid count"}) == (StepCall("grid count", ("a.gpkg",)),)
    assert parse_notation("grid count a.gpkg") == (StepCall("grid", ("count", "a.gpkg")),)


def test_what_is_no_pipeline_exactly_is_refused() -> None:
    for text in [
        *("", "   ", "!", "read a.tif !", "! write b.tif", "read a.tif ! ! write b.tif"),
        *("read a.tif ]", "read a.tif ! tee [ write b.tif", "read a.tif ! tee [ ] ! write b.tif"),
        *('read "a.tif ! write b.tif', '"read" a.tif', "--input=a.tif ! write b.tif"),
        "read a ! " + "tee [ " * (MAX_DEPTH + 1) + "write b" + " ]" * (MAX_DEPTH + 1),
        "read " + "a" * 40_000,
        'read a"b c',
        'read "a\\',
    ]:
        with pytest.raises(ArgumentRefused):
            parse_notation(text)


def test_words_without_a_switch_go_to_the_positional_arguments() -> None:
    given = read_words(STEP, ("a.tif", "b.tif", "--calc", "-1 + X", "--size", "10,20", "--flatten"))
    assert {one.name: one.values for one in given} == {
        "input": ("a.tif", "b.tif"),
        "calc": ("-1 + X",),
        "size": ("10", "20"),
        "flatten": ("true",),
    }


def test_a_switch_that_the_step_does_not_have_is_refused() -> None:
    for words in [
        ("--nothing=1",), ("-z", "1"), ("--calc",), ("--calc", "--flatten"), ("--flatten=true", "--flatten=true"), ("--", "a.tif"),
        ("-calc", "1"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            read_words(STEP, words)


def test_an_argument_that_is_named_is_not_filled_by_its_place() -> None:
    with pytest.raises(ArgumentRefused):
        read_words(STEP, ("--input=a.tif", "b.tif"))
