"""A process that undoes a call is killed at each step: afterwards the list of outputs matches the workspace."""

import contextlib
import signal

import pytest

from gdal_mcp.records.audit_verification import verify
from gdal_mcp.records.registry import Registry
from tests.e2e.mcp.talk import Place
from tests.security.faults.kit import writes
from tests.security.faults.nursery import Nursery
from tests.security.faults.points import undoing
from tests.security.faults.scenes import OLD, outcome_of
from tests.security.faults.zygote import REACHED

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.undo-killed-at-any-step")]

POINTS = [point for point in undoing() if not point.failing]


@pytest.fixture(scope="module")
def calls(place: Place, servers: Nursery) -> dict[str, str]:
    """For each output, the call that replaced an older file with it."""
    call_ids = {}
    with servers.serving(place, "--approval", "never") as pipes:
        for name in (f"undone-{point.line}.tif" for point in POINTS):
            place.path(name).write_bytes(OLD)
            result = writes(name).call(pipes)
            assert outcome_of(result) == "OK"
            assert result is not None
            call_ids[name] = str(result["receipt"]["call_id"])
    return call_ids


def test_killed_undo_leaves_list_and_workspace_consistent(place, servers, calls):
    for point, call in zip(POINTS, calls.values(), strict=True):
        armed = place.state / f"armed-undo-{point.line}"
        armed.write_text("")
        code, output = servers.run("undo", call, *place.command()[4:], point=point.name, armed=armed)
        assert (code, armed.read_text()) == (-signal.SIGKILL, REACHED), (point.place, output)
    with servers.serving(place, "--approval", "never"):
        pass
    with contextlib.closing(Registry(place.state / "registry.sqlite")) as registry:
        states = {
            name: [artifact.state for artifact in registry.artifacts_of(call)] for name, call in calls.items()
        }
    is_back = {name: place.path(name).read_bytes() == OLD for name in calls}
    assert states == {name: ["retracted" if back else "listed"] for name, back in is_back.items()}
    assert set(is_back.values()) == {True, False}
    assert verify(place.state / "audit.jsonl").ok
