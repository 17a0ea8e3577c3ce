"""A cluster's Pods pass all checks of engines, and their output does not fill the disk of their node."""

from contextlib import closing
from dataclasses import replace

import pytest

from sandbox.outcome import Exited
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from tests.engines.bench import MIB, Bench
from tests.engines.checks import conforms
from tests.engines.known import KUBERNETES

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
# the output with the largest cost in a node's log: forty bytes for each line end, if any were written
ATTACHING = """
def prepare(): pass
def run(job, report):
    report.attach("lines", b"\\n" * job["bytes"])
    return {"code": 0}
"""


def test_line_ends_of_results_do_not_evict_pods(bench: Bench) -> None:
    """Thirty mebibytes of line ends would be more than a gigabyte of log."""
    sent = delivered(worker_command(ATTACHING))
    template = replace(bench.template(""), command=sent.command, program=sent.program)
    with closing(Cancellation()) as cancel:
        job = Job("lines", template, {"bytes": 30 * MIB})
        result = Runner(bench.engine, bench.owner).run(job, cancel)
    assert result.outcome == Exited(0)
    assert result.attachments["lines"] == b"\n" * (30 * MIB)


@pytest.mark.claim(
    "engine.kubernetes-does-what-an-engine-must",
    "files.mounts-only",
    "resources.limits-hard",
    "sandbox.not-root",
    "sandbox.nothing-of-the-host-shown",
)
def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, KUBERNETES.exemptions)
