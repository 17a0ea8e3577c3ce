"""Ends that a job may try to hide or to draw out, in real containers; the plain ones are in test_outcomes."""

from dataclasses import replace

import pytest

from sandbox import runner as runner_module
from sandbox.labels import OWNER
from sandbox.outcome import (
    Exited,
    FileSizeExceeded,
    Killed,
    OutputLimitExceeded,
    ProtocolViolated,
    StagingLimitExceeded,
    TimedOut,
)
from sandbox.runner import Job
from tests.conftest import SMALL, handler

pytestmark = pytest.mark.engine

FOREVER = "import threading\nthreading.Event().wait()"
ANSWER = "os.write(report._wire._descriptor, b'F' + (10).to_bytes(4, 'big') + b'{\"code\":0}')\n"  # forged


@pytest.fixture(autouse=True)
def _nothing_is_left(client, owner):
    yield
    assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner.id}"}) == []


def test_a_job_that_ends_without_an_answer_did_not_succeed_even_with_code_zero(run, subtests):
    for body, code in (
        ("sys.exit(0)", 70),
        ("os._exit(0)", 0),
        ("os.abort()", 139),  # process 1 ignores its own SIGABRT; the C library then makes it fault
        (
            "import threading; threading.Thread(target=lambda: os._exit(9)).start(); threading.Event().wait()",
            9,
        ),
    ):
        with subtests.test(body=body, code=code):
            result = run(f"os.write(2, b'last words')\n{body}")
            assert result.outcome == Killed(code)
            assert result.stderr.startswith(b"last words")
            assert result.final is None


def test_a_job_cannot_kill_itself_as_it_is_process_1(run):
    result = run("os.kill(os.getpid(), 9)\nreturn {'code': 0, 'pid': os.getpid()}")
    assert (result.outcome, result.final["pid"]) == (Exited(0), 1)


def test_a_job_that_somebody_on_the_host_killed_was_killed_and_not_out_of_memory(run, client, owner):
    def kill(_fraction, _message):
        (found,) = client.api.containers(filters={"label": f"{OWNER}={owner.id}"})
        client.api.kill(found["Id"])

    assert run(f"report.progress(0.5)\n{FOREVER}", on_progress=kill).outcome == Killed(137)


@pytest.mark.claim("resources.output-capped")
@pytest.mark.parametrize("flood", ["print('x' * 60000)", "subprocess.run(['yes'])"])
def test_a_flood_by_whatever_way_is_cut_at_its_limit(run, flood):
    result = run(f"import subprocess\nwhile True: {flood}")
    assert result.outcome == OutputLimitExceeded(SMALL.stdout_bytes)
    assert len(result.stdout) == SMALL.stdout_bytes


@pytest.mark.parametrize("grow", ["os.pwrite(file, b'x', LAST + 1)", "os.ftruncate(file, 1 << 30)"])
def test_a_file_over_its_size_is_told_of_a_job_that_fell_over_it(run, staging, grow):
    body = f"""
LAST = {SMALL.file_bytes} - 1
file = os.open('/staging/big', os.O_RDWR | os.O_CREAT)
os.pwrite(file, b'x', LAST)
{grow}
"""
    result = run(body, staging=staging.path, quota=staging)
    assert result.outcome == FileSizeExceeded(SMALL.file_bytes)
    assert (staging.path / "big").stat().st_size == SMALL.file_bytes


@pytest.mark.claim("resources.staging-capped")
@pytest.mark.parametrize("make", ["os.mkdir(str(n))", "os.makedirs('a/' * (n + 1))", "os.link('x', str(n))"])
def test_staging_is_bounded_in_names_of_every_kind(run, staging, make):
    body = f"""
os.chdir('/staging')
open('x', 'w').close()
for n in range(70):
    try: {make}
    except FileExistsError: pass
"""
    result = run(body, quota=staging, staging=staging.path)
    assert result.outcome == StagingLimitExceeded("files", SMALL.staging_files)


def test_a_fork_bomb_that_still_holds_its_stdout_does_not_hold_the_answer(run):
    bomb = """
told = os.pipe()
try:
    while True:
        if os.fork() == 0: os.read(told[0], 1)
except OSError as error:
    print('held', flush=True)
    return {'code': 0, 'errno': error.errno}
"""
    result = run(bomb)
    assert (result.outcome, result.stdout) == (Exited(0), b"held\n")
    assert result.final["errno"] == 11  # EAGAIN


@pytest.mark.claim("content.frames-strict")
def test_a_frame_that_would_burden_the_host_ends_the_job(run, subtests):
    for frame in (
        "b'F' + (60000).to_bytes(4, 'big') + b'[' * 60000",
        "(b'B' + (2).to_bytes(4, 'big') + b'a\\0') * 99",
        "b'B' + (1 << 26).to_bytes(4, 'big')",
    ):
        with subtests.test(frame=frame):
            result = run(f"os.write(report._wire._descriptor, {frame})\n{FOREVER}")
            assert isinstance(result.outcome, ProtocolViolated)


@pytest.mark.claim("content.frames-strict")
def test_a_forged_answer_of_a_job_that_goes_on_is_no_success(run, monkeypatch):
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 0.5)
    assert isinstance(run(ANSWER + FOREVER).outcome, ProtocolViolated)


def test_a_job_that_answers_and_closes_every_stream_and_goes_on_is_no_success(run, monkeypatch):
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 1.0)
    monkeypatch.setattr(runner_module, "STOP_SECONDS", 1.0)
    close = "for number in range(1, 30):\n    try: os.close(number)\n    except OSError: pass\n"
    assert isinstance(run(ANSWER + close + FOREVER).outcome, ProtocolViolated)


@pytest.mark.claim("resources.deadline")
def test_the_deadline_bounds_a_job_that_does_not_read_its_request(runner, make_template, cancel, monkeypatch):
    monkeypatch.setattr(runner_module, "SEND_SECONDS", 0.5)
    limits = replace(SMALL, wall_seconds=1.0)
    deaf = "\n    import threading, __main__ as w\n    w.read_exactly = lambda _: threading.Event().wait()"
    template = make_template(handler("pass", prepare=deaf), limits)
    result = runner.run(Job("call-0001", template, {"text": "x" * 5_000_000}), cancel)
    assert result.outcome == TimedOut(1.0)
