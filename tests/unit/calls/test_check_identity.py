"""A check is identified by its code and its place: only repetitions about the same place are left out of an answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from gdal_mcp.calls.results import _checks


def merged_checks(
    findings: list[dict[str, Any]], output: list[dict[str, Any]], library: list[dict[str, Any]]
) -> Any:
    rows = [{"checks": [dict(check) for check in output]}]
    done: Any = SimpleNamespace(checks=library)
    return _checks(rows, findings, done), rows[0]["checks"]


def check(**place: Any) -> dict[str, Any]:
    return {"code": "nodata_lost", "message": "m", **place}


@pytest.mark.parametrize(
    ("first", "second", "repeated"),
    [
        (check(inputs=[0]), check(input=1), False),
        (check(inputs=[0, 1]), check(input=1), True),
        (check(step=0), check(step=1), False),
        (check(layer=0), check(layer=1), False),
        (check(layer=0, band=0), check(layer=0, band=2), False),
        (check(inputs=[0]), check(layer=2), False),
        (check(inputs=[0]), check(), True),
        (check(), check(layer=2), True),
        (check(), {"code": "z_lost"}, False),
    ],
)
def test_what_is_said_of_another_place_stays(first: Any, second: Any, repeated: bool):
    remaining = [] if repeated else [second]
    assert merged_checks([first], [second], []) == ([first], remaining)
    assert merged_checks([first], [], [second]) == ([first, *remaining], [])
    assert merged_checks([], [first], [second]) == (remaining, [first])
