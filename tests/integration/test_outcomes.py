"""Every way in which a job can end, each with a real job: the outcome is right and the container is gone."""

import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sandbox import runner as runner_module
from sandbox.labels import OWNER
from sandbox.outcome import (
    DiskLow,
    Exited,
    FileSizeExceeded,
    Killed,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    StagingLimitExceeded,
    TimedOut,
)
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import StagingUsage
from sandbox.runner import Job
from sandbox.workspace import Workspace
from tests.conftest import MIB, SMALL, USER, handler
from tests.security.faults.disks import small_disk

pytestmark = pytest.mark.engine

FOREVER = "import threading\nthreading.Event().wait()\n"
CRASHED = 70  # exit code of sandbox/worker.py
LAST_WORDS = b"half a sent"


@pytest.fixture(autouse=True)
def _nothing_is_left(engine, owner):
    yield
    assert [leftover.container for leftover in engine.leftovers() if leftover.labels[OWNER] == owner.id] == []


# --- a job that ends by itself ---


def test_dying_job_is_reported_with_cause_and_output(run, subtests):
    thread = (
        "import threading; threading.Thread(target=lambda: os._exit(9)).start(); threading.Event().wait()"
    )
    for body, code in (
        ("raise ValueError('no')", CRASHED),
        ("sys.exit(0)", CRASHED),
        ("os._exit(0)", 0),
        ("os._exit(3)", 3),
        (thread, 9),
        ("import ctypes; ctypes.string_at(0)", 128 + signal.SIGSEGV),
        # process 1 ignores its own SIGABRT; the C library then causes a fault
        ("os.abort()", 128 + signal.SIGSEGV),
    ):
        with subtests.test(body=body, code=code):
            result = run(f"os.write(2, {LAST_WORDS!r})\n{body}")
            assert result.outcome == Killed(code)
            assert result.stderr.startswith(LAST_WORDS)
            assert result.final is None


def test_job_cannot_kill_itself_as_process_1(run):
    result = run("os.kill(os.getpid(), 9)\nreturn {'code': 0, 'pid': os.getpid()}")
    assert (result.outcome, result.final["pid"]) == (Exited(0), 1)


# --- memory, processes, files ---


def test_exceeding_group_memory_ends_in_a_kill(run):
    body = f"""
import mmap
os.write(2, {LAST_WORDS!r})
shared = mmap.mmap(-1, 512 << 20)
while True: shared.write(bytes(1 << 20))
"""
    result = run(body)
    assert result.outcome == OutOfMemory(SMALL.memory_bytes, killed=True)
    assert result.stderr == LAST_WORDS


def test_exceeding_process_memory_differs_from_a_kill(run):
    result = run(f"os.write(2, {LAST_WORDS!r})\nbytearray(300 << 20)")
    assert result.outcome == OutOfMemory(SMALL.memory_bytes, killed=False)
    assert result.stderr == LAST_WORDS


@pytest.mark.claim("resources.deadline")
def test_a_fork_bomb_is_over_at_its_deadline(run):
    body = """
while True:
    try: os.fork()
    except OSError: pass
"""
    limits = replace(SMALL, wall_seconds=2.0)
    assert run(body, limits=limits).outcome == TimedOut(limits.wall_seconds)


@pytest.mark.parametrize("grow", ["os.pwrite(file, b'x', LAST + 1)", "os.ftruncate(file, 1 << 30)"])
def test_oversized_file_is_named_when_the_job_fails(run, staging, grow):
    body = f"""
LAST = {SMALL.file_bytes} - 1
file = os.open('/staging/big', os.O_RDWR | os.O_CREAT)
os.pwrite(file, b'x', LAST)
{grow}
"""
    result = run(body, staging=staging.path, quota=staging)
    assert result.outcome == FileSizeExceeded(SMALL.file_bytes)
    assert (staging.path / "big").stat().st_size == SMALL.file_bytes


MANY_FILES = "for n in range(60): open(f'/staging/{n}', 'w').close()\n"
MANY_BYTES = "for n in range(3): open(f'/staging/{n}', 'wb').write(bytes(4 << 20))\n"
NAMES = """
os.chdir('/staging')
open('x', 'w').close()
for n in range(70):
    try: os.{}
    except FileExistsError: pass
"""
TOO_MANY = StagingLimitExceeded("files", SMALL.staging_files)


@pytest.mark.claim("resources.staging-capped")
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (MANY_FILES, TOO_MANY),
        (MANY_BYTES, StagingLimitExceeded("bytes", SMALL.staging_bytes)),
        *(
            (NAMES.format(make), TOO_MANY)
            for make in ("mkdir(str(n))", "makedirs('a/' * (n + 1))", "link('x', str(n))")
        ),
    ],
)
def test_staging_over_its_quota_ends_a_running_job(run, staging, body, outcome):
    assert run(body + FOREVER, staging=staging.path, quota=staging).outcome == outcome


UNLINKED = """
def left():
    disk = os.statvfs('/staging')
    return disk.f_bavail * disk.f_frsize

while left() > 1 << 20:
    file = os.open('/staging/x', os.O_CREAT | os.O_WRONLY)
    os.unlink('/staging/x')
    while left() > 1 << 20 and os.fstat(file).st_size < 2 << 20:
        os.write(file, bytes(1 << 16))
"""


@pytest.fixture
def small_staging(tmp_path):
    """A staging folder on a disk of 64 MiB."""
    with small_disk(tmp_path / "disk", 64 * MIB) as root:
        root.chmod(0o755)
        with StagingArea(Workspace.at(root, writable=True)).open("staging-0002", USER) as opened:
            yield opened


@pytest.mark.claim("resources.disk-never-filled")
def test_unlisted_files_end_jobs_before_disk_is_full(run, small_staging):
    result = run(UNLINKED + FOREVER, staging=small_staging.path, quota=small_staging)
    assert result.outcome == DiskLow()
    disk = os.statvfs(small_staging.path)
    assert disk.f_bavail * disk.f_frsize > 60 * MIB  # the container's end returned all disk space


@pytest.mark.claim("resources.staging-capped")
def test_staging_is_examined_again_after_the_container(run, engine, owner, staging):
    def usage(limits):
        runs = any(leftover.labels[OWNER] == owner.id for leftover in engine.leftovers())
        return StagingUsage(files=0, bytes=0) if runs else staging.usage(limits)

    result = run(MANY_FILES, staging=staging.path, quota=SimpleNamespace(usage=usage))
    assert result.outcome == TOO_MANY


# --- a job that the host ends early ---


@pytest.mark.claim("resources.output-capped")
def test_stderr_flood_is_cut_and_job_continues(run):
    # `x` is not part of the mark that ends stderr; the beginning of a mark at the cut is removed
    result = run("for _ in range(64): os.write(2, b'x' * 4096)")
    assert result.outcome == Exited(0)
    assert result.stderr == b"x" * SMALL.stderr_bytes


@pytest.mark.claim("resources.output-capped")
@pytest.mark.parametrize("flood", ["print('x' * 60000)", "subprocess.run(['yes'])"])
def test_any_output_flood_is_cut_at_its_limit(run, flood):
    result = run(f"import subprocess\nwhile True: {flood}")
    assert result.outcome == OutputLimitExceeded(SMALL.stdout_bytes)
    assert len(result.stdout) == SMALL.stdout_bytes


@pytest.mark.claim("resources.deadline")
def test_deadline_bounds_a_job_ignoring_its_request(runner, make_template, cancel, monkeypatch):
    monkeypatch.setattr(runner_module, "SEND_SECONDS", 0.5)
    limits = replace(SMALL, wall_seconds=1.0)
    deaf = "\n    import threading, __main__ as w\n    w.read_exactly = lambda _: threading.Event().wait()"
    template = make_template(handler("pass", prepare=deaf), limits)
    result = runner.run(Job("call-0001", template, {"text": "x" * 5_000_000}), cancel)
    assert result.outcome == TimedOut(1.0)


# --- a job that writes to the connection of its worker ---


ANSWER = "os.write(report._wire._descriptor, b'F' + (10).to_bytes(4, 'big') + b'{\"code\":0}')\n"  # forged
CLOSE = "for number in range(1, 30):\n    try: os.close(number)\n    except OSError: pass\n"


@pytest.mark.claim("content.frames-strict")
@pytest.mark.parametrize("close", ["", CLOSE], ids=["speaking", "silent"])
def test_forged_answer_of_a_running_job_fails(run, engine, monkeypatch, close):
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 1.0)
    monkeypatch.setattr(type(engine), "_info", replace(engine.info(), end_seconds=1.0))
    monkeypatch.delitem(vars(engine), "_info", raising=False)
    assert isinstance(run(ANSWER + close + FOREVER).outcome, ProtocolViolated)
