"""Conditions and ranges as RFC 9110 has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.web.ranges import FAILED, UNCHANGED, Part, Unsatisfiable, Version, part_of, precondition

VERSION = Version("ab" * 32, 1_700_000_000)
BEFORE, AFTER = "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT"
OTHER = '"other"'


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-9", 0, 10),
        ("bytes=90-", 90, 100),
        ("bytes=99-99", 99, 100),
        ("bytes=-1", 99, 100),
        ("bytes=-1000", 0, 100),
        ("bytes=5-99999999999999999999999999", 5, 100),
        ("BYTES=1-2", 1, 3),
        ("bytes= 1-2 ", 1, 3),
    ],
)
def test_a_range_within_the_file_is_answered_with_it(text: str, start: int, stop: int):
    assert part_of({"range": text}, VERSION, 100) == Part(start, stop)


@pytest.mark.parametrize("text", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={'9' * 30}-"])
def test_a_range_behind_the_end_is_refused(text: str):
    with pytest.raises(Unsatisfiable):
        part_of({"range": text}, VERSION, 100)


def test_nothing_of_an_empty_file_can_be_had():
    for text in ("bytes=0-", "bytes=-5"):
        with pytest.raises(Unsatisfiable):
            part_of({"range": text}, VERSION, 0)


@pytest.mark.parametrize(
    "text",
    [
        *("", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=--1", "bytes=1-2-3"),
        *("bytes=0x1-2", "bytes=+1-2", "bytes=١-٢", "lines=1-2", "bytes=0-1,5-6", "bytes=0-,0-,0-"),
        f"bytes={'9' * 5000}-",
        "bytes=" + ",".join("0-" for _ in range(5000)),
    ],
)
def test_what_is_no_single_range_means_the_whole(text: str):
    assert part_of({"range": text}, VERSION, 100) is None


@given(st.text(alphabet="bytes=-,0123456789 x", max_size=40), st.integers(0, 1 << 40))
def test_whatever_is_asked_for_a_part_lies_within_the_file(text: str, size: int):
    try:
        part = part_of({"range": f"bytes={text}"}, VERSION, size)
    except Unsatisfiable:
        return
    assert part is None or 0 <= part.start < part.stop <= size


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (VERSION.etag, True),
        (VERSION.last_modified, True),
        (OTHER, False),
        (f"W/{VERSION.etag}", False),
        (AFTER, False),  # a date that was not given out proves nothing
        (BEFORE, False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_a_part_is_sent_only_to_who_has_parts_of_the_same_version(condition: str, holds: bool):
    part = part_of({"range": "bytes=0-1", "if-range": condition}, VERSION, 100)
    assert (part is not None) is holds


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, None),
        ({"if-none-match": VERSION.etag}, UNCHANGED),
        ({"if-none-match": f"W/{VERSION.etag}"}, UNCHANGED),
        ({"if-none-match": f"{OTHER}, {VERSION.etag}"}, UNCHANGED),
        ({"if-none-match": "*"}, UNCHANGED),
        ({"if-none-match": OTHER}, None),
        ({"if-none-match": VERSION.sha256}, None),
        ({"if-none-match": OTHER, "if-modified-since": AFTER}, None),
        ({"if-modified-since": VERSION.last_modified}, UNCHANGED),
        ({"if-modified-since": AFTER}, UNCHANGED),
        ({"if-modified-since": BEFORE}, None),
        ({"if-modified-since": "yesterday"}, None),
        ({"if-match": VERSION.etag}, None),
        ({"if-match": "*"}, None),
        ({"if-match": OTHER}, FAILED),
        ({"if-match": f"W/{VERSION.etag}"}, FAILED),
        ({"if-match": ""}, FAILED),
        ({"if-match": VERSION.etag, "if-unmodified-since": BEFORE}, None),
        ({"if-unmodified-since": BEFORE}, FAILED),
        ({"if-unmodified-since": AFTER}, None),
        ({"if-unmodified-since": "Tue, 99 Nov 99999 22:13:19 GMT"}, None),
        ({"if-match": OTHER, "if-none-match": VERSION.etag}, FAILED),
    ],
)
def test_conditions_are_judged_in_the_order_of_the_standard(headers: dict[str, str], status: int | None):
    assert precondition(headers, VERSION) == status


@given(
    st.dictionaries(
        st.sampled_from(["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"]), st.text()
    )
)
def test_no_text_in_a_condition_fails_the_server(headers: dict[str, str]):
    assert precondition(headers, VERSION) in (None, FAILED, UNCHANGED)
