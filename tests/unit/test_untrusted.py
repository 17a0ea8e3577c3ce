"""Text from inside files, made harmless to show."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.untrusted import CUT, MAX_DEPTH, MAX_ITEMS, MAX_TEXT, clean_text, clean_value, shown_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
HIDING = {
    "escape": "\x1b",
    "bell": "\x07",
    "carriage return": "\r",
    "NUL": "\0",
    "C1 control": "\x9b",
    "zero width": "\u200b\u200d\ufeff",
    "direction": "\u202e\u2066\u061c\u200f",
    "line separator": "\u2028\u2029",
    "soft hyphen": "\u00ad",
    "variation": "\ufe0f\U000e0101",
    "tag": "\U000e0041",
    "private use": "\ue000",
    "lone surrogate": "\ud800",
    "unassigned": "\u0378",
    "filler": "\u3164\u115f\uffa0\u034f",
    "annotation": "\ufff9",
}


@pytest.mark.parametrize("hiding", HIDING.values(), ids=HIDING.keys())
def test_what_hides_reorders_or_forges_is_taken_out(hiding: str):
    assert clean_text(f"a{hiding}b") == "ab"


@pytest.mark.parametrize(
    "text",
    ["plain", "two\nlines\tand a tab", "Zürich – 東京 – Владивосток", "🗺", "e\u0301", "100 % \\ \"'`<>&"],
)
def test_what_people_write_stays(text: str):
    assert clean_text(text) == unicodedata.normalize("NFC", text)


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str):
    once = clean_text(text)
    assert clean_text(once) == once
    assert not any(unicodedata.category(letter) in ("Cs", "Co", "Cf") for letter in once)


@given(st.text(max_size=200), st.integers(1, 50))
def test_nothing_is_longer_than_its_limit_and_a_cut_is_marked(text: str, limit: int):
    cleaned = clean_text(text, limit)
    assert len(cleaned.removesuffix(CUT)) <= limit
    if len(clean_text(text)) > limit:
        assert cleaned.endswith(CUT)


def test_a_text_of_nothing_but_hiding_characters_does_not_take_long_or_pass_for_short():
    assert clean_text("\u200b" * 10_000_000, 100).endswith(CUT)


@given(json_values)
def test_any_json_becomes_json_that_can_be_sent(value: object):
    cleaned = clean_value(value)
    text = json.dumps(cleaned, allow_nan=False, ensure_ascii=False)
    assert clean_text(text, len(text) + 1) == text


def test_keys_are_cleaned_as_well():
    assert clean_value({"a\x1bb": ["\u202ec"]}) == {"ab": ["c"]}


def test_numbers_that_json_has_not_become_texts():
    assert clean_value([float("inf"), float("nan"), 1.5, 10**400, True, None]) == [
        "inf",
        "nan",
        1.5,
        10**400,
        True,
        None,
    ]


def test_depth_and_length_are_bounded():
    deep: list[object] = []
    for _ in range(MAX_DEPTH * 3):
        deep = [deep]
    assert json.dumps(clean_value(deep)).count("[") <= MAX_DEPTH + 2
    assert clean_value([0] * (MAX_ITEMS + 5)) == [*([0] * MAX_ITEMS), CUT.strip()]
    assert len(clean_value({str(i): 0 for i in range(MAX_ITEMS + 5)})) == MAX_ITEMS + 1
    assert clean_value([0] * MAX_ITEMS) == [0] * MAX_ITEMS
    assert len(clean_value("x" * (MAX_TEXT * 2))) == MAX_TEXT + len(CUT)


@given(st.text(max_size=300))
def test_what_a_person_decides_by_is_one_line_without_hidden_characters(text: str):
    shown = shown_text(text)
    assert clean_text(shown) == unicodedata.normalize("NFC", shown)
    assert not {"\n", "\t", "\r"} & set(shown)


def test_what_a_person_decides_by_shows_what_was_hidden():
    assert shown_text("a\u202eb\nc") == "a\\u202eb\\nc"
    assert shown_text("x" * 50, 10) == "x" * 10 + CUT
