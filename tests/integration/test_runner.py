"""Every way in which a job can end, in real containers with small limits; each container is gone afterwards."""

import threading
from dataclasses import replace

import pytest
from tests.conftest import SMALL, USER, handler

from sandbox import runner as runner_module
from sandbox import slot as slot_module
from sandbox.cancel import Cancellation
from sandbox.engines.docker import DockerEngine
from sandbox.errors import EngineUnavailable
from sandbox.labels import OWNER
from sandbox.outcome import (
    Cancelled,
    Exited,
    FileSizeExceeded,
    Killed,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    StagingLimitExceeded,
    TimedOut,
)
from sandbox.runner import Job, Runner

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def nothing_is_left(client, owner):
    """Whatever a test did, the engine knows no container of this test run afterwards."""
    yield
    assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner.id}"}) == []


def test_a_job_sees_its_request_and_its_workspace_and_its_answer_comes_back(run, workspace):
    (workspace / "in.txt").write_text("input")
    body = "print(open(job['path']).read())\nsys.stderr.write('aside')\nreturn {'code': 3, 'names': os.listdir(job['root'])}"
    result = run(body, {"path": f"{workspace}/in.txt", "root": str(workspace)}, workspace=workspace)
    assert result.outcome == Exited(3)
    assert (result.final["names"], result.stdout, result.stderr) == (["in.txt"], b"input\n", b"aside")
    assert result.usage.cpu_seconds > 0
    assert result.usage.peak_memory_bytes > 1 << 20
    assert result.usage.printed_bytes == 6


def test_a_large_request_and_a_large_answer_arrive_whole(run):
    text = "ä" * 700_000
    result = run("return {'code': 0, 'text': job['text']}", {"text": text})
    assert result.final["text"] == text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise ValueError('a fault of the job')", 70),
        ("sys.exit(0)", 70),
        ("os._exit(3)", 3),
        ("os._exit(0)", 0),
        ("import ctypes; ctypes.string_at(0)", 139),
        ("os.abort()", 139),  # process 1 ignores SIGABRT of its own; the C library then makes it fault
        ("import threading; threading.Thread(target=lambda: os._exit(9)).start(); threading.Event().wait()", 9),
    ],
    ids=["exception", "sys.exit", "_exit", "_exit 0", "segfault", "abort", "thread"],
)
def test_a_job_that_died_did_not_succeed_and_what_it_said_is_kept(run, body, code):
    result = run(f"print('out', flush=True); sys.stderr.write('last words\\n'); sys.stderr.flush()\n{body}")
    assert result.outcome == Killed(code)
    assert result.stderr.startswith(b"last words\n")
    assert result.final is None


def test_a_job_cannot_kill_itself_silently_as_it_is_process_1(run):
    result = run("os.kill(os.getpid(), 9)\nreturn {'code': 0, 'pid': os.getpid()}")
    assert (result.outcome, result.final["pid"]) == (Exited(0), 1)


def test_a_job_that_somebody_else_killed_was_killed_and_not_out_of_memory(run, client, owner):
    def kill(_fraction, _message):
        (found,) = client.api.containers(filters={"label": f"{OWNER}={owner.id}"})
        client.api.kill(found["Id"])

    result = run("report.progress(0.5)\nimport threading\nthreading.Event().wait()", on_progress=kill)
    assert result.outcome == Killed(137)


def test_memory_beyond_the_limit_is_a_kill_by_the_kernel(run):
    """Shared memory is outside RLIMIT_DATA, so that only the control group stops it."""
    touch = "import mmap\nmemory = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): memory[at] = 1"
    result = run("sys.stderr.write('before'); sys.stderr.flush()\n" + touch)
    assert result.outcome == OutOfMemory(SMALL.memory_bytes, killed=True)
    assert result.stderr == b"before"


def test_an_allocation_beyond_the_limit_is_refused_and_no_kill(run):
    result = run("sys.stderr.write('before')\nkept = [bytearray(4 << 20) for _ in range(1000)]")
    assert result.outcome == OutOfMemory(SMALL.memory_bytes, killed=False)
    assert result.stderr == b"before"


def test_the_deadline_ends_a_job_with_what_it_had_printed(run):
    limits = replace(SMALL, wall_seconds=0.7)
    for wait in ("import threading\nthreading.Event().wait()", "while True: pass"):
        result = run(f"print('out', flush=True); sys.stderr.write('err'); sys.stderr.flush()\n{wait}", limits=limits)
        assert result.outcome == TimedOut(0.7)
        assert (result.stdout, result.stderr) == (b"out\n", b"err")


def test_a_job_cancelled_before_it_was_launched_is_never_created(run, cancel, client, owner):
    cancel.set()
    before = client.api.events(decode=True, since=0, until=0)
    before.close()
    assert run("pass").outcome == Cancelled()


class Spy:
    """An engine that tells when a container was started."""

    def __init__(self, engine, started):
        self._engine, self._started = engine, started

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def start(self, container):
        self._engine.start(container)
        self._started()


def test_a_job_cancelled_while_its_container_starts(engine, owner, make_template, cancel):
    template = make_template(handler("return {'code': 0}", prepare="import threading; threading.Event().wait()"))
    result = Runner(Spy(engine, cancel.set), owner.id).run(Job("call", template, {}), cancel)
    assert result.outcome == Cancelled()


def test_a_job_cancelled_from_another_thread_while_it_runs(run, cancel):
    running = threading.Event()
    canceller = threading.Thread(target=lambda: running.wait() and cancel.set())
    canceller.start()
    body = "sys.stderr.write('working'); sys.stderr.flush()\nreport.progress(0.5)\nimport threading\nthreading.Event().wait()"
    result = run(body, on_progress=lambda *_: running.set())
    canceller.join()
    assert (result.outcome, result.stderr) == (Cancelled(), b"working")


@pytest.mark.parametrize("how", ["os.write(1, b'x' * 60000)", "print('x' * 60000)", "os.system('yes')"])
def test_a_flood_on_stdout_is_cut_at_its_limit(run, how):
    result = run(f"while True: {how}")
    assert result.outcome == OutputLimitExceeded(SMALL.stdout_bytes)
    assert len(result.stdout) == SMALL.stdout_bytes


def test_a_flood_on_stderr_keeps_its_beginning_and_ends_nobody(run):
    result = run("sys.stderr.write('begin'); sys.stderr.flush()\nfor _ in range(100): os.write(2, b'x' * 1_000_000)")
    assert result.outcome == Exited(0)
    assert len(result.stderr) == SMALL.stderr_bytes
    assert result.stderr.startswith(b"begin")


@pytest.mark.parametrize("how", ["f.write(bytes(1 << 20))", "try: f.write(bytes(1 << 20))\n    except OSError: pass", "os.truncate('/staging/big', 1 << 30)"])
def test_a_file_over_its_size_is_told_whatever_the_job_made_of_it(run, staging, how):
    body = f"f = open('/staging/big', 'wb', buffering=0)\nfor _ in range(6):\n    {how}\nreturn {{'code': 1}}"
    limits = replace(SMALL, staging_bytes=1 << 30)
    result = run(body, quota=staging, staging=staging.mount_source, limits=limits)
    assert result.outcome == FileSizeExceeded(SMALL.file_bytes)
    assert (staging.mount_source / "big").stat().st_size <= SMALL.file_bytes


def test_staging_over_its_quota_is_noticed_while_the_job_runs_and_when_it_ends(run, staging):
    fill = "for n in range(4):\n    open(f'/staging/{n}', 'wb').write(bytes(3 << 20))\n"
    wait = "import threading; threading.Event().wait()"
    for end in (wait, "pass"):
        result = run(fill + end, quota=staging, staging=staging.mount_source)
        assert result.outcome == StagingLimitExceeded("bytes", SMALL.staging_bytes)


@pytest.mark.parametrize("make", ["open(f'/staging/{n}', 'w')", "os.mkdir(f'/staging/{n}')", "os.symlink('x', f'/staging/{n}')", "os.makedirs(f'/staging/{n}/a/b')"])
def test_staging_with_too_many_files_is_noticed(run, staging, make):
    result = run(f"for n in range(60): {make}", quota=staging, staging=staging.mount_source)
    assert result.outcome == StagingLimitExceeded("files", SMALL.staging_files)


def test_scratch_is_bounded(run):
    body = "try:\n    open('/tmp/x', 'wb').write(bytes(1 << 20)); os.truncate('/tmp/x', 0)\n    for n in range(20): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))\nexcept OSError as e:\n    return {'code': 0, 'errno': e.errno}"
    result = run(body)
    assert (result.outcome, result.final["errno"]) == (Exited(0), 28)


def test_a_fork_bomb_is_held_by_the_number_of_processes_and_ends_with_its_job(run):
    bomb = """
made, told = 0, os.pipe()
while True:
    try:
        if os.fork() == 0:
            os.read(told[0], 1)
            os._exit(0)
        made += 1
    except OSError as error:
        return {'code': 0, 'made': made, 'errno': error.errno}
"""
    result = run(bomb)
    assert result.outcome == Exited(0)
    assert result.final["errno"] == 11  # EAGAIN
    assert 1 < result.final["made"] < SMALL.pids


FORGED = {
    "garbage": "os.write(wire, b'no frame at all')",
    "a frame of no kind": "os.write(wire, b'X' + bytes(4))",
    "ready again": "os.write(wire, b'R' + (2).to_bytes(4, 'big') + b'{}')",
    "an answer before the answer": "os.write(wire, b'F' + (10).to_bytes(4, 'big') + b'{\"code\":0}')",
    "a giant length": "os.write(wire, b'F' + b'\\xff' * 4)",
    "deep": "os.write(wire, b'F' + (60000).to_bytes(4, 'big') + b'[' * 60000)",
    "not a number": "os.write(wire, b'F' + (12).to_bytes(4, 'big') + b'{\"code\":NaN}')",
    "many attachments": "[report.attach(str(n), b'') for n in range(99)]",
    "a giant attachment": "report.attach('x', bytes(33 << 20))",
    "half a frame": "os.write(wire, b'O' + (99999).to_bytes(4, 'big') + b'x')",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_frame_is_a_violation_and_no_answer(run, name):
    body = f"wire = report._wire._descriptor\nsys.stderr.write('said'); sys.stderr.flush()\n{FORGED[name]}\nreturn {{'code': 0}}"
    result = run(body)
    assert isinstance(result.outcome, ProtocolViolated | Killed)
    assert result.stderr == b"said"


def test_a_forged_answer_of_a_job_that_goes_on_is_no_success(run, staging, monkeypatch):
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 0.5)
    body = "os.write(report._wire._descriptor, b'F' + (10).to_bytes(4, 'big') + b'{\"code\":0}')\nwhile True: pass"
    result = run(body, quota=staging, staging=staging.mount_source)
    assert isinstance(result.outcome, ProtocolViolated)


def test_a_job_that_closes_its_wire_and_goes_on_is_no_success(run, monkeypatch):
    monkeypatch.setattr(runner_module, "STOP_SECONDS", 1.0)
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 1.0)
    limits = replace(SMALL, wall_seconds=2.0)
    result = run("for number in range(1, 30):\n    try: os.close(number)\n    except OSError: pass\nwhile True: pass", limits=limits)
    assert not isinstance(result.outcome, Exited)


@pytest.mark.parametrize("prepare", ["import no_such_module", "import threading; threading.Event().wait()", "os._exit(0)", "print('early', flush=True)"])
def test_a_worker_that_never_becomes_ready_is_an_error_and_gets_no_job(runner, make_template, cancel, monkeypatch, prepare):
    monkeypatch.setattr(slot_module, "READY_SECONDS", 5.0 if "early" in prepare or "no_such" in prepare else 1.5)
    template = make_template(handler("pass", prepare=prepare))
    with pytest.raises(slot_module.SandboxError) as caught:
        runner.run(Job("call", template, {}), cancel)
    if "no_such" in prepare:
        assert isinstance(caught.value, EngineUnavailable)
        assert "no_such_module" in str(caught.value)


def test_all_that_is_printed_is_kept_in_order_whoever_prints_it(run):
    body = """
import ctypes, subprocess
library = ctypes.CDLL(None)
for number in range(20):
    print("python", number)
    library.puts(b"library %d" % number)
    os.write(1, b"descriptor %d\\n" % number)
subprocess.run(["echo", "child"], check=True)
print("end", end="")
"""
    result = run(body)
    each = [f"{who} {number}" for number in range(20) for who in ("python", "library", "descriptor")]
    assert result.stdout.decode().splitlines() == [*each, "child", "end"]


def test_attachments_come_whole_and_only_the_last_of_a_name_is_kept(run):
    body = "report.attach('a.png', bytes(range(256)) * 4000)\nreport.attach('b', b'old')\nreport.attach('b', b'new')"
    assert run(body).attachments == {"a.png": bytes(range(256)) * 4000, "b": b"new"}


def test_progress_comes_while_the_job_runs(run):
    told = []
    run("for n in range(5001): report.progress(n / 5000, str(n))", on_progress=lambda *step: told.append(step))
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(set(fractions))
    assert told[-1] == (1.0, "5000")


def test_jobs_side_by_side_do_not_mix(runner, make_template):
    results = {}

    def one(name):
        cancel = Cancellation()
        text = handler("print(job['name'] * 1000)\nreturn {'code': 0, 'name': job['name']}")
        results[name] = runner.run(Job(f"call-{name}", make_template(text), {"name": name}), cancel)
        cancel.close()

    threads = [threading.Thread(target=one, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: (found.final["name"], found.stdout) for name, found in results.items()} == {
        name: (name, name.encode() * 1000 + b"\n") for name in "abcd"
    }


def test_a_container_is_what_an_answer_says_it_is(run):
    status = run("pass").facts["status"]
    assert status["Uid"] == [str(USER[0])] * 4
    assert status["CapBnd"] == ["0000000000000000"]
