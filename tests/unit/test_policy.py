from dataclasses import replace

import pytest

from gdal_mcp.plan import Plan
from gdal_mcp.policy import Allow, RequireApproval, decide
from sandbox.publication import Transfer
from tests.unit.values import draft, located, output, plan

READ, CREATE, REPLACE = (plan(draft(made)) for made in (None, output(), output(replaces=("out.tif",))))
REMOVE = plan(replace(draft(None), removes=(located("old.tif"),)))
MOVE = plan(replace(draft(None), transfers=(Transfer(located("a.tif"), located("b.tif", None)),)))
ASKED = plan(replace(draft(None), removes=(located("old.tif"),), always_asked=True))


@pytest.mark.parametrize(
    ("one", "mode", "allowed"),
    [
        (READ, "writes", True),
        (CREATE, "writes", False),
        (REPLACE, "writes", False),
        (REMOVE, "writes", False),
        (MOVE, "writes", False),
        (READ, "always", False),
        (CREATE, "always", False),
        (READ, "never", True),
        (REPLACE, "never", True),
        (ASKED, "never", False),
        (ASKED, "writes", False),
    ],
)
def test_what_needs_a_person(one: Plan, mode: str, allowed: bool):
    verdict = decide(one.draft, mode)  # type: ignore[arg-type]
    assert isinstance(verdict, Allow if allowed else RequireApproval)
    assert verdict.reason


def test_the_reason_tells_creating_replacing_and_removing_apart():
    reasons = [decide(one.draft, "writes").reason for one in (CREATE, REPLACE, REMOVE)]
    assert len(set(reasons)) == len(reasons)
