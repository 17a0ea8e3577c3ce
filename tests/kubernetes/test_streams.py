"""Much that goes in and comes out of a Pod arrives whole, and does not fill the disk of its node."""

import threading
from dataclasses import replace

import pytest

from sandbox.engine import STDOUT
from sandbox.labels import labels
from sandbox.outcome import Exited
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation, readable
from tests.engines.bench import MIB, PATIENCE, REPEAT, Bench

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
MUCH = 64 * MIB
# what costs a node the most of its log: forty bytes for each line end, were any written
ATTACHING = """
def prepare(): pass
def run(job, report):
    report.attach("lines", b"\\n" * job["bytes"])
    return {"code": 0}
"""


def test_sixty_four_mebibytes_go_in_and_come_out_whole(bench: Bench) -> None:
    sent, back = bytes(range(11, 251)) * (MUCH // 240), bytearray()
    container = bench.engine.create(bench.template(REPEAT), labels(bench.owner, "much", PATIENCE))
    try:
        with bench.started(container) as wire:
            sender = threading.Thread(target=wire.send, args=(sent, 4 * PATIENCE), daemon=True)
            sender.start()
            while len(back) < len(sent) and readable([wire], PATIENCE):
                if (pieces := wire.receive()) is None:
                    break
                back += b"".join(data for stream, data in pieces if stream == STDOUT)
            assert bytes(back) == sent
            sender.join()
    finally:
        bench.engine.remove(container)


def test_line_ends_of_a_result_do_not_get_its_pod_evicted(bench: Bench) -> None:
    """Thirty mebibytes of them would be more than a gigabyte of log."""
    sent = delivered(worker_command(ATTACHING))
    template = replace(bench.template(""), command=sent.command, program=sent.program)
    cancel = Cancellation()
    try:
        job = Job("lines", template, {"bytes": 30 * MIB})
        result = Runner(bench.engine, bench.owner).run(job, cancel)
    finally:
        cancel.close()
    assert result.outcome == Exited(0)
    assert result.attachments["lines"] == b"\n" * (30 * MIB)
