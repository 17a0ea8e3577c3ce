import pytest

from gdal_mcp.plan import Plan
from gdal_mcp.policy import Allow, RequireApproval, decide
from tests.unit.values import draft, output, plan

READ, CREATE, REPLACE = (plan(draft(made)) for made in (None, output(), output(replaces=("out.tif",))))


@pytest.mark.parametrize(
    ("one", "mode", "allowed"),
    [
        (READ, "writes", True),
        (CREATE, "writes", False),
        (REPLACE, "writes", False),
        (READ, "always", False),
        (CREATE, "always", False),
        (READ, "never", True),
        (REPLACE, "never", True),
    ],
)
def test_what_needs_a_person(one: Plan, mode: str, allowed: bool):
    verdict = decide(one, mode)  # type: ignore[arg-type]
    assert isinstance(verdict, Allow if allowed else RequireApproval)
    assert verdict.reason


def test_the_reason_tells_replacing_from_creating():
    assert decide(CREATE, "writes") != decide(REPLACE, "writes")
