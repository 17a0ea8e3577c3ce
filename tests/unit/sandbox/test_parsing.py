"""JSON from untrusted sources: values and levels are counted before a parser creates objects from them."""

import json
import tracemalloc

import pytest

from sandbox.parsing import TooComplex, parse_json


def test_texts_full_of_structure_are_no_structure():
    value = {"wkt": 'GEOGCS["a",[{{,,,' * 50_000, "quote": '\\"[{,' * 1000, "end": "\\"}
    assert parse_json(json.dumps(value).encode(), 10) == value


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 100_000 + b"0]",
        b"[" + b'{"":0},' * 100_000 + b"0]",
        b"[" + b'"",' * 100_000 + b"0]",
        b"{" + b'"a":0,' * 100_000 + b'"a":0}',
        b"[" * 150_000,
        b'["' + b'\\"' * 1000 + b'",' + b"0," * 100_000 + b"0]",
        b'["\\\\",' + b"0," * 100_000 + b"0]",
        b"[" + b"0," * 100_000 + b'0]\\"\\"',  # malformed only at its end
        b'["' + b'","' * 200_000 + b'"]',
    ],
)
def test_too_many_values_are_refused_before_using_memory(text: bytes):
    tracemalloc.start()
    try:
        with pytest.raises(TooComplex):
            parse_json(text, 10_000)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text) + (32 << 20)
    finally:
        tracemalloc.stop()


def test_levels_are_counted_outside_of_texts():
    assert parse_json(b"[" * 200 + b'"[["' + b"]" * 200, 1000)
    with pytest.raises(TooComplex):
        parse_json(b"[" * 201 + b"]" * 201, 1000)
    for closed_first in (b"]" * 300 + b"[" * 201, b'"' + b"]" * 300 + b'"' + b"[" * 201):
        with pytest.raises(ValueError, match=r"."):
            parse_json(closed_first, 1000)


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-32-be"])
def test_structure_does_not_hide_in_a_coding(coding: str):
    quotes = "\u2222\u225b" * 3  # whose bytes are those of quotes and brackets
    value = [quotes, "[{,", []]
    assert parse_json(json.dumps(value, ensure_ascii=False).encode(coding), 10) == value
    with pytest.raises(TooComplex):
        parse_json(f'["{quotes}"{",0" * 20}]'.encode(coding), 10)
