"""What a job sees of other jobs, through the runner, on the real engine. What it sees of the host, the conformance suite checks."""

from pathlib import Path

import pytest

from sandbox.labels import labels
from sandbox.outcome import Exited
from sandbox.outputs.staging import StagingArea
from sandbox.slot import launch
from sandbox.workspace import Workspace
from tests.conftest import ENVIRONMENT, USER, handler

pytestmark = pytest.mark.engine

MARK = "mark-of-the-first"
LEAVE = f"""
import subprocess
left = []
for place in ("/tmp", "/dev/shm", "/staging", "/var/tmp", "/run", "/dev", "/dev/mqueue"):
    try:
        open(place + "/{MARK}", "x").close()
        left.append(place)
    except OSError:
        pass
subprocess.Popen(["sh", "-c", "read _ # {MARK}"], stdin=subprocess.PIPE)
"""
FIND = f"""
found = []
for place in ("/tmp", "/dev/shm", "/staging", "/var/tmp", "/run", "/dev", "/dev/mqueue"):
    if os.path.lexists(place + "/{MARK}"): found.append(place)
commands = [open(f"/proc/{{name}}/cmdline").read() for name in os.listdir("/proc") if name.isdigit()]
return {{"code": 0, "found": found, "commands": commands, "environment": dict(os.environ),
        "hostname": os.uname().nodename, "pid": os.getpid()}}
"""


@pytest.fixture
def area(workspace):
    return StagingArea(Workspace.at(workspace, writable=True))


def found_by_another(run, area):
    with area.open("staging-0002", USER) as staging:
        result = run(FIND, staging=staging.path)
    assert result.outcome == Exited(0), result.stderr
    return result.final


def assert_saw_nothing(final):
    assert final["found"] == []
    assert len(final["commands"]) == 1
    assert final["environment"] == ENVIRONMENT


def test_a_container_finds_nothing_of_the_one_before_it(run, area):
    with area.open("staging-0001", USER) as staging:
        first = run(
            LEAVE + "return {'code': 0, 'left': left, 'hostname': os.uname().nodename}",
            staging=staging.path,
        )
        assert {"/tmp", "/staging"} <= set(first.final["left"])
        assert Path(staging.path, MARK).exists()
        final = found_by_another(run, area)
    assert_saw_nothing(final)
    assert final["hostname"] == first.final["hostname"]


def test_a_container_finds_nothing_of_one_that_runs_beside_it(engine, owner, make_template, run, area):
    leave = LEAVE.strip().replace("\n", "\n    ")
    with area.open("staging-0001", USER) as staging:
        template = make_template(handler("", leave), staging=staging.path)
        slot = launch(engine, template, labels(owner.id, "call-0002", 60.0))
        try:
            assert Path(staging.path, MARK).exists()
            final = found_by_another(run, area)
            assert engine.state(slot.container).running
        finally:
            slot.remove()
    assert_saw_nothing(final)
