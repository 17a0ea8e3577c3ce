"""GDAL's notation of pipelines is read as GDAL reads it, or refused."""

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.tools.notation import MAX_DEPTH, StepCall, parse_notation


def test_separate_exclamation_marks_divide_steps() -> None:
    assert parse_notation("read a.tif ! hillshade --zfactor=2 ! write b!c.tif") == (
        StepCall("read", ("a.tif",)),
        StepCall("hillshade", ("--zfactor=2",)),
        StepCall("write", ("b!c.tif",)),
    )


def test_quotes_hold_blanks_and_signs_together() -> None:
    (step,) = parse_notation(r'read "a b.tif" "!" "say \"hi\" \\ x"')
    assert step.words == ("a b.tif", "!", r'say "hi" \ x')


def test_single_quotes_group_words_as_in_a_shell() -> None:
    (step,) = parse_notation(r"""filter --where 'kind = "a"' --sql='x > 1' '!' '\"' ''""")
    assert step.words == ("--where", 'kind = "a"', "--sql=x > 1", "!", r"\"", "")
    (step,) = parse_notation("""filter --where "kind = 'a b'" --where=kind='a' 'a'b 'open""")
    assert step.words == ("--where", "kind = 'a b'", "--where=kind='a'", "'a'b", "'open")


def test_branches_are_steps_of_their_own() -> None:
    text = "read a.tif ! tee [ resize --size=10,10 ! write b.tif ] [ write c.tif ] ! write d.tif"
    tee = parse_notation(text)[1]
    assert [[step.name for step in branch] for branch in tee.branches] == [["resize", "write"], ["write"]]
    assert tee.words == ()


def test_partial_quotes_work_and_unquoted_backslash_is_literal() -> None:
    (step,) = parse_notation(r'read a" b"\c "" "[" 	x[y]')
    assert step.words == (r"a b\c", "", "[", "x[y]")


def test_known_two_word_name_is_one_name() -> None:
    assert parse_notation("grid count a.gpkg", {"grid count"}) == (StepCall("grid count", ("a.gpkg",)),)
    assert parse_notation("grid count a.gpkg") == (StepCall("grid", ("count", "a.gpkg")),)


def test_leading_exclamation_mark_is_ignored() -> None:
    assert parse_notation("! read a.tif ! write b.tif") == parse_notation("read a.tif ! write b.tif")


def test_what_is_no_pipeline_exactly_is_refused() -> None:
    for text in [
        *("", "   ", "!", "read a.tif !", "! ! write b.tif", "read a.tif ! ! write b.tif"),
        *("read a.tif ]", "read a.tif ! tee [ write b.tif", "read a.tif ! tee [ ] ! write b.tif"),
        *('read "a.tif ! write b.tif', '"read" a.tif', "'read' a.tif", "--input=a.tif ! write b.tif"),
        "read a ! " + "tee [ " * (MAX_DEPTH + 1) + "write b" + " ]" * (MAX_DEPTH + 1),
        "read " + "a" * 40_000,
        'read a"b c',
        'read "a\\',
    ]:
        with pytest.raises(ArgumentRefused):
            parse_notation(text)
