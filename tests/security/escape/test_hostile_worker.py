"""Hostile code in place of the worker: it does not stop, does not die, and sends messages that no worker sends."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import AttestationFailed
from sandbox.outcome import Evicted, Exited, Killed, OutOfMemory, ProtocolViolated
from sandbox.runner import Job
from tests.conftest import SMALL, USER, handler
from tests.security.escape.conftest import SECRET

pytestmark = pytest.mark.engine

MARK = f"mark-{os.getpid()}"  # unique for this run, because other runs may use this machine


def marked() -> list[str]:
    """Processes of this host whose names contain the mark."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            processes += [path.parent.name] if MARK in path.read_text() else []
        except OSError:
            continue
    return processes


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    assert marked() == []


@pytest.fixture(autouse=True, scope="module")
def _runner_goes_on(runner, make_template, patience) -> Iterator[None]:
    """Checks after all attacks that the runner still runs a job."""
    yield
    job = Job("call-0001", make_template(handler("return {'code': 7}")), {})
    assert runner.run(job, patience).outcome == Exited(7)


DEAF = f"""
import ctypes, signal
ctypes.CDLL(None).prctl(15, b"{MARK}", 0, 0, 0)
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""
SCATTER = """
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            while True: signal.pause()
        os._exit(0)
return {"code": 0, "seen": len([name for name in os.listdir("/proc") if name.isdigit()])}
"""
TO_ITSELF = """
for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):
    for target in (1, 0, -1, os.getpid()):
        try: os.kill(target, number)
        except OSError: pass
"""


@pytest.mark.claim("escape.always-ends")
def test_stopped_or_spinning_process_is_gone_at_deadline(way, attack):
    """Process 1 of a namespace does not receive the signals that no other process can ignore."""
    # blocks all other threads, including the worker's watch
    spin = "import re\nre.match('(a+)+$', 'a' * 64 + 'b')"
    assert way.out_of_time(attack(DEAF + TO_ITSELF + spin, 1.5, limits={"cpus": 0.5}), 1.5)


@pytest.mark.claim("escape.always-ends")
def test_detached_processes_end_with_the_container(way, attack):
    assert way.returned(attack(DEAF + SCATTER))["seen"] > 8


@pytest.mark.claim("escape.always-ends")
def test_process_closing_its_streams_is_removed(way, attack):
    ended = attack(DEAF + "os.closerange(0, 256)\nwhile True: signal.pause()", 1.5)
    # for a Pod, this cannot be told apart from a node that lost the stream
    assert isinstance(ended.outcome, ProtocolViolated | Evicted) or way.out_of_time(ended, 1.5)


@pytest.mark.claim("escape.memory-together")
def test_children_share_the_memory_limit_of_the_container(run):
    body = """
waiting, _ = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        kept = [b"x" * (4 << 20) + bytes(1) for _ in range(12)]
        os.read(waiting, 1)  # and keeps it
return {"code": 0, "first": os.waitstatus_to_exitcode(os.wait()[1])}
"""
    result = run(body)
    first = (result.final or {}).get("first")
    assert result.outcome == OutOfMemory(SMALL.memory_bytes, killed=True) or first == -signal.SIGKILL


@pytest.mark.claim("escape.no-core-dump")
def test_what_crashes_leaves_no_core_anywhere(way, attack, ground):
    with ground.area.open("staging-0001", USER) as staging:
        result = attack("os.chdir('/staging')\nos.abort()", staging=staging.path)
        # process 1 does not receive the signal of its own abort, and then ends with a fault
        crashes = (Killed(128 + signal.SIGABRT), Killed(128 + signal.SIGSEGV))
        assert result.outcome in (crashes if way.name == "worker" else (Exited(1),))
        assert os.listdir(staging.path) == []


@pytest.mark.claim("escape.forged-frames")
def test_an_answer_that_is_cut_off_is_none(run):
    """Other forged frames are in tests/integration/test_outcomes.py."""
    code = "os.write(report._wire._descriptor, b'F' + (10).to_bytes(4, 'big') + b'{\"code\"')\nos._exit(0)"
    assert isinstance(run(code).outcome, Killed)


# while a handler is prepared, stdout is stderr, and the frames go to the only pipe with a higher number
WIRE = "max(one for one in range(3, 20) if 'pipe' in os.path.realpath(f'/proc/self/fd/{one}'))"


@pytest.mark.claim("escape.forged-frames")
def test_container_speaking_before_its_job_gets_none(runner, make_template, ground, cancel):
    source = handler("open('/staging/ran', 'w').close()", f"os.write({WIRE}, b'F\\0\\0\\0\\x02' + b'{{}}')")
    with ground.area.open("staging-0001", USER) as staging:
        template = make_template(source, staging=staging.path)
        with pytest.raises(AttestationFailed):
            runner.run(Job("call-0001", template, {}), cancel)
        assert os.listdir(staging.path) == []


@pytest.mark.claim("escape.forged-frames")
def test_names_of_attachments_lead_nowhere(run, ground):
    names = ["../../../beside.txt", str(ground.workspace / "input.txt"), "a\\x1b[2J", "n" * 300, ""]
    body = "\n".join(f"report.attach({name!r}, b'hostile')" for name in names)
    result = run(body, workspace=ground.workspace)
    assert result.outcome == Exited(0)
    assert set(result.attachments.values()) == {b"hostile"}
    assert all(len(name) <= 64 for name in result.attachments)
    assert (ground.workspace / "input.txt").read_text() == SECRET


MEET = """
found = {"namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in ("ipc", "mnt", "net", "pid", "uts")}}
found["names"] = [line.split()[-1] for line in open("/proc/net/unix").readlines()[1:] if "@" in line or "/" in line]
found["queues"] = [len(open("/proc/sysvipc/" + name).readlines()) for name in ("msg", "sem", "shm")]
found["processes"] = [name for name in os.listdir("/proc") if name.isdigit()]
found["scratch"] = os.listdir("/tmp")
open("/tmp/mine", "x").close()
return {"code": 0, **found}
"""


@pytest.mark.claim("escape.slots-apart")
def test_simultaneous_containers_share_no_namespace_or_contents(way, runner, ground, cancel):
    template, request = way.job(MEET, 30.0)
    slots = [runner.launch(template, f"call-{number}") for number in range(2)]
    reports = [
        way.returned(runner.serve(slot, Job(slot.container.id[:8], template, request), cancel))
        for slot in slots
    ]
    own = {"worker": (1, set()), "run_python": (2, {"matplotlib", "pam"})}[way.name]
    for name, first in reports[0]["namespaces"].items():
        assert len({first, reports[1]["namespaces"][name], os.readlink(f"/proc/self/ns/{name}")}) == 3
    for report in reports:
        assert (report["names"], report["queues"]) == ([], [1, 1, 1])
        assert (len(report["processes"]), set(report["scratch"])) == own
