"""The table of faults in the documentation matches the results of the tests."""

import re
from pathlib import Path

import pytest

from gdal_mcp.errors import Code
from tests.security.faults.kit import ROWS
from tests.security.faults.test_engine import HOW, TURNS
from tests.security.faults.test_state import SPOILT

_SOURCES = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.claim("supply.promises-tested")
def test_every_row_names_a_possible_error_code():
    assert {code for row in ROWS.values() for code in row.code.split(" or ")} <= {*Code, "OK"}


@pytest.mark.claim("supply.promises-tested")
def test_every_row_is_tried():
    named = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', _SOURCES))
    composed = {f"engine-{how}-{turn}" for how in HOW for turn in TURNS} | {
        f"audit-{spoil.__name__}" for spoil in SPOILT
    }
    assert ROWS.keys() - named - composed == set()
