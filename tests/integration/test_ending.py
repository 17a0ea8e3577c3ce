"""The kernel's notice that a container has ended: for the right container, and only after its last process."""

import os
import signal
import subprocess
import sys

import pytest

from sandbox.slot import ending_of
from sandbox.waiting import readable
from tests.conftest import handler
from tests.waiting import until

pytestmark = pytest.mark.engine


def test_container_end_is_reported_after_its_last_process(runner, make_template, cancel):
    """The child is not notified of its parent's end, and does not outlive it for any observable time."""
    child = "os.fork() or (os.setsid(), os.closerange(0, 3), __import__('threading').Event().wait())"
    slot = runner.launch(make_template(handler("return {}", prepare=child)), "call-0001", cancel)
    try:
        assert slot.ending is not None
        assert not readable([slot.ending], 0)
        first = slot.container.process()
        inside = [
            number for number in os.listdir("/proc") if number.isdigit() and _is_in(slot.container.id, number)
        ]
        assert len(inside) == 2
        os.kill(first, signal.SIGKILL)
        until(lambda: readable([slot.ending], 0))
        assert not [number for number in inside if _is_in(slot.container.id, number)]
    finally:
        slot.remove()


def test_only_first_container_process_is_believed(runner, make_template, cancel):
    slot = runner.launch(make_template(handler("return {}")), "call-0001", cancel)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        mine = slot.container.process()
        assert ending_of(slot.container.id, stranger.pid) is None
        assert ending_of(slot.container.id[:12], mine) is None
        assert ending_of("0" * 64, mine) is None
        assert ending_of(slot.container.id, None) is None
    finally:
        slot.remove()
        stranger.communicate(b"\n")
    assert ending_of(slot.container.id, mine) is None


def _is_in(container: str, process: str) -> bool:
    """True if a process of that container lives or waits for its parent."""
    try:
        with open(f"/proc/{process}/cgroup", encoding="ascii") as file:
            return container in file.read()
    except OSError:
        return False
