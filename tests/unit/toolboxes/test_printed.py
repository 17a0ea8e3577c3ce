"""JSON as GDAL prints it: values that are not numbers become texts, and no text is changed."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.answers.report import read_json

SPELT = {
    "NaN": "NaN", "nan": "NaN", "-nan": "NaN", "Infinity": "Infinity", "inf": "Infinity",
    "-inf": "-Infinity",
}  # fmt: skip
TRICKY = st.sampled_from(["inf", '"', "\\", '\\"', " nan ", "[inf,", "-inf]", "\n", "ü", ": nan"])
TEXTS = st.lists(TRICKY, max_size=6).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def printed(value: object) -> str:
    """JSON text with infinity and NaN as C's printf writes them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}:{printed(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(printed, value)) + "]"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else json.dumps(value)


def with_spelt_numbers(value: object) -> object:
    if isinstance(value, dict):
        return {key: with_spelt_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_spelt_numbers(part) for part in value]
    return SPELT[str(value)] if isinstance(value, float) and not math.isfinite(value) else value


@given(VALUES)
def test_printed_values_are_exact_except_non_numbers(value: object):
    assert read_json(printed(value)) == with_spelt_numbers(value)


def test_every_spelling_is_the_same_text():
    for spelt, text in SPELT.items():
        assert read_json(f'{{"a":[{spelt},1],"{spelt}":"{spelt}"}}') == {"a": [text, 1], spelt: spelt}


def test_what_is_no_json_even_so_is_refused():
    for text in ["", "inf nan", "[1infinite]", "[nano]", "[--inf]", '{"a":inf', '["inf]', '["\\', "[in f]"]:
        with pytest.raises(ValueError, match=r"."):
            read_json(text)


def test_endless_printed_text_is_scanned_once():
    started = time.monotonic()
    with pytest.raises(ValueError, match=r"."):
        read_json('["' + '\\"' * 500_000)
    assert time.monotonic() - started < 30
