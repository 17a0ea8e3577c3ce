"""Text from inside files is made harmless before it is shown."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.untrusted import (
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_MARKS,
    MAX_TEXT,
    TRUNCATED,
    UNTRUSTED,
    clean_text,
    clean_value,
    locked,
    shown_text,
)

HIDING = {
    "escape": "\x1b", "bell": "\x07", "carriage return": "\r", "NUL": "\0", "C1 control": "\x9b",
    "zero width": "\u200b\u200d\ufeff", "direction": "\u202e\u2066\u061c\u200f",
    "line separator": "\u2028\u2029", "soft hyphen": "\u00ad", "variation": "\ufe0f\U000e0101",
    "tag": "\U000e0041", "private use": "\ue000", "lone surrogate": "\ud800", "unassigned": "\u0378",
    "filler": "\u3164\u115f\uffa0\u034f", "annotation": "\ufff9", "Mongolian variation": "\u180b\u180f",
    "cell without dots": "\u2800", "note without head": "\U0001d159", "other formats": "\u0600\U0001d173",
}  # fmt: skip


@pytest.mark.claim("content.cleaned")
def test_what_hides_reorders_or_forges_is_taken_out():
    for hiding in HIDING.values():
        assert clean_text(f"a{hiding}b") == "ab"


def test_what_people_write_stays():
    for text in [
        "plain", "two\nlines\tand a tab", "Zürich – 東京 – Владивосток", "🗺", "e\u0301", "100 % \\ \"'`<>&",
        # scripts that use many marks
        "\u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05b4\u05c1\u0596\u05d9\u05ea", "\u1ec7", "\u0e17\u0e35\u0e48",
        "\u0f66\u0f92\u0fb2\u0f74\u0f56", "\u0915\u094d\u0937\u093f",
    ]:  # fmt: skip
        assert clean_text(text) == unicodedata.normalize("NFC", text)


def test_text_of_hidden_characters_is_fast_and_marked():
    assert clean_text("\u200b" * 10_000_000, 100).endswith(TRUNCATED)


def test_numbers_that_json_has_not_become_texts():
    assert clean_value([float("inf"), float("nan"), 1.5, 10**400, True, None]) == [
        "inf", "nan", 1.5, str(10**400), True, None,
    ]  # fmt: skip
    assert clean_value([2**63, -(2**63)]) == [2**63, -(2**63)]


@pytest.mark.claim("content.cleaned")
def test_depth_and_length_are_bounded():
    deep: list[object] = []
    for _ in range(MAX_DEPTH * 3):
        deep = [deep]
    assert json.dumps(clean_value(deep)).count("[") <= MAX_DEPTH + 2
    assert clean_value([0] * (MAX_ITEMS + 5)) == [*([0] * MAX_ITEMS), TRUNCATED.strip()]
    assert len(clean_value({str(i): 0 for i in range(MAX_ITEMS + 5)})) == MAX_ITEMS + 1
    assert clean_value([0] * MAX_ITEMS) == [0] * MAX_ITEMS
    assert len(clean_value("x" * (MAX_TEXT * 2))) == MAX_TEXT + len(TRUNCATED)


# Stacked combining marks


def marks(text: str) -> int:
    """The longest run of combining marks on one letter."""
    longest = run = 0
    for letter in text:
        run = run + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        longest = max(longest, run)
    return longest


def test_flood_of_combining_marks_is_cut_keeping_letters():
    flood = "".join(letter + "\u0300\u0334\u20dd" * 200 for letter in "gdal")
    cleaned = clean_text(flood)
    assert marks(cleaned) <= MAX_MARKS
    assert [letter for letter in unicodedata.normalize("NFD", cleaned) if letter.isascii()] == [*"gdal"]


@given(st.text(st.sampled_from("ae\u0301\u0323\u0334\u20dd\u200b\u0f92 \u1100\u1161"), max_size=200))
def test_combining_marks_are_few_and_cleaning_is_stable(text: str):
    once = clean_text(text)
    assert clean_text(once) == once
    assert marks(once) <= MAX_MARKS
    assert unicodedata.is_normalized("NFC", once)


def test_hidden_and_excess_marks_are_shown_as_escapes():
    assert shown_text("a\u202eb\nc") == "a\\u202eb\\nc"
    assert shown_text("x" * 50, 10) == "x" * 10 + TRUNCATED
    assert shown_text("a" + "\u0334" * 8) == "a" + "\u0334" * MAX_MARKS + "\\u0334" * 2


@pytest.mark.claim("content.cleaned")
def test_no_terminal_sequence_keeps_its_start():
    for sequence in ["\x1b[31m", "\x1b]8;;http://evil.example\x07", "\x9b2J", "\x1b]0;title\x1b\\", "\x1bP"]:
        assert not {"\x1b", "\x9b", "\x07", "\x90", "\x9d"} & set(
            clean_text(f"a{sequence}b") + shown_text(sequence)
        )


@pytest.mark.claim("content.cleaned")
def test_cleaned_keys_never_replace_lookalikes():
    assert clean_value({"a\x1bb": ["\u202ec"]}) == {"ab": ["c"]}
    lookalikes = {"size": 1, "si\u200bze": 2, "size\u202e": 3}
    assert clean_value(lookalikes) == {"size": 1, "size (2)": 2, "size (3)": 3}
    assert clean_value({"a (2)": 0, "a": 1, "a\0": 2}) == {"a (2)": 0, "a": 1, "a (3)": 2}


# Lockdown

CANARY = "CANARY-of-a-file"


@pytest.mark.claim("content.lockdown")
def test_lockdown_removes_untrusted_text_and_keeps_facts():
    texts = [CANARY, 7, {CANARY: [CANARY]}]
    for under in (CANARY, texts, {CANARY: texts}, None):
        layer, error = {"features": 3, UNTRUSTED: under}, {"code": "x", UNTRUSTED: under}
        result = {"size": [1, 2], "layers": [layer, [layer]], "error": error, UNTRUSTED: under}
        bare = {"features": 3}
        assert locked(result) == {"size": [1, 2], "layers": [bare, [bare]], "error": {"code": "x"}}
        assert result[UNTRUSTED] == under  # the original value stays unchanged


@pytest.mark.claim("content.lockdown")
def test_lockdown_error_keeps_code_without_gdal_text():
    error = ToolError(
        Code.GDAL_ERROR, Stage.RUN, "GDAL failed.", "Correct it.", {"gdal": [CANARY], "stderr": CANARY}
    )
    result = locked(error.as_dict("id"))
    assert result["error"]["code"] == "GDAL_ERROR"
    assert CANARY not in json.dumps(result)
