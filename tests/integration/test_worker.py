"""The worker as a process, without a container: its frames, captured output, and ends."""

import hashlib
import json
import os
import select
import signal
import subprocess
import sys

import pytest

from sandbox import worker
from sandbox.program import worker_command
from sandbox.protocol import (
    LENGTH,
    Attachment,
    Final,
    FrameReader,
    Printed,
    Progress,
    Ready,
    encode_answer,
    encode_job,
)
from sandbox.questions import MAX_IN_FLIGHT, Answer, Op, Question, Status

FORM = "import os, sys\n\ndef prepare():\n    {prepare}\n\ndef run(job, report):\n{body}\n    return {{'code': 0}}\n"


class Worker:
    """A worker process and everything that it has written."""

    def __init__(self, body, prepare="pass", warm="", idle=60.0, **options):
        lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
        text = FORM.format(prepare=prepare, body=lines) + warm
        self.process = subprocess.Popen(
            [sys.executable, *worker_command(text, idle_seconds=idle)[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.reader, self.frames = FrameReader(), []
        self.reader.allow_requests = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        with self.process:
            pass

    def wait_for(self, kind):
        """Reads until a frame of that kind has arrived, and returns it."""
        while not (matches := [frame for frame in self.frames if isinstance(frame, kind)]):
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, self.process.stderr.read().decode()
            self.frames += self.reader.feed(data)
        return matches[0]

    def give(self, request=None, deadline=60.0, stay=0.0):
        self.process.stdin.write(encode_job(request or {}, deadline, stay_seconds=stay))
        self.process.stdin.flush()

    def run(self, *request, **options):
        """Like `finish`, with a job that is sent once the worker is ready."""
        self.wait_for(Ready)
        self.give(*request, **options)
        return self.finish()

    def finish(self):
        """Reads to the end and returns the exit code."""
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.frames += self.reader.feed(data)
        return self.process.wait()

    @property
    def printed(self):
        return b"".join(frame.data for frame in self.frames if isinstance(frame, Printed))

    @property
    def final(self):
        return next(frame.value for frame in self.frames if isinstance(frame, Final))


@pytest.fixture
def work():
    """`work(body, request={}, prepare="pass")` is a worker that received its job and has ended, with its exit code."""
    started = []

    def run_worker(body, request=None, **options):
        child = Worker(body, **options)
        started.append(child)
        return child, child.run(request)

    yield run_worker
    for child in started:
        child.__exit__()


def test_worker_measures_itself_first_and_answers_once(work):
    done, code = work("return {'code': job['n'], 'cwd': os.getcwd()}", {"n": 7})
    assert code == 0
    first, *_, last = done.frames
    assert first.facts["status"]["Uid"] == [str(os.getuid())] * 4
    assert first.facts["mounts"]
    assert (last.value["code"], last.value["cwd"]) == (7, "/tmp")
    assert last.value["usage"]["peak_memory_bytes"] > 1 << 20


def test_printed_text_keeps_order_from_all_writers(work):
    body = """
        import ctypes, subprocess
        library = ctypes.CDLL(None)
        print("1 python")
        library.puts(b"2 library")
        os.write(1, b"3 descriptor\\n")
        subprocess.run(["echo", "4 child"], check=True)
        library.printf(b"5 library\\n")
        print("6 python")
        sys.stdout.write("7 python, no newline ")
        sys.stdout.flush()
        library.printf(b"8 library, no newline")
    """
    done, _ = work("\n".join(line.strip() for line in body.strip().splitlines()))
    assert done.printed.decode().replace(" no newline", "").splitlines() == [
        *("1 python", "2 library", "3 descriptor", "4 child", "5 library", "6 python"),
        "7 python, 8 library,",
    ]


def test_orphan_child_with_stdout_does_not_hold_job(work):
    done, code = work(
        "import subprocess\nprint('before', flush=True)\njob['p'] = subprocess.Popen(['sleep', '1000']).pid\nreturn {'code': 0, 'pid': job['p']}"
    )
    os.kill(done.final["pid"], signal.SIGKILL)  # a container would have ended this process
    assert (code, done.printed) == (0, b"before\n")


def test_a_job_that_closes_its_streams_still_answers(work, subtests):
    for how in ("sys.stdout.close()", "os.close(1)", "sys.stdout = None", "os.close(2)"):
        with subtests.test(how=how):
            done, code = work(f"print('before', flush=True)\n{how}")
            assert (code, done.final["code"]) == (0, 0)
            assert done.printed == b"before\n"


def test_what_was_printed_before_a_crash_is_there(work):
    done, code = work("print('before', end='')\nraise ValueError('a fault')")
    assert (code, done.printed) == (worker.EXIT_CRASHED, b"before")
    assert b"ValueError: a fault" in done.process.stderr.read()
    assert not any(isinstance(frame, Final) for frame in done.frames)


def test_job_without_answer_is_a_crash_despite_zero(work, subtests):
    for body in (
        "sys.exit(0)", "sys.exit('gone')", "raise KeyboardInterrupt", "return None",
        "return {'code': float('nan')}", "return {'code': object()}",
    ):  # fmt: skip
        with subtests.test(body=body):
            done, code = work(body)
            assert code == worker.EXIT_CRASHED
            assert not any(isinstance(frame, Final) for frame in done.frames)


def test_crash_is_reported_despite_threads_and_closed_stderr(work):
    _, code = work(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nos.close(2)\nsys.stderr.close()\nraise ValueError"
    )
    assert code == worker.EXIT_CRASHED


_FILL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with open({path!r}, "wb", buffering=0) as file:
    for _ in range(3):
        {write}
"""


def test_job_that_continues_reports_the_file_limit(work, tmp_path):
    write = "try:\n            file.write(bytes(600))\n        except OSError:\n            pass"
    done, code = work(_FILL.format(path=str(tmp_path / "big"), write=write))
    assert (code, done.final["file_limit_reached"]) == (0, True)


def test_progress_rises_at_most_ten_times_per_second(work):
    body = """
start = time.monotonic()
for step in [-1, 0.2, 0.1, *(n / 100_000 for n in range(100_000)), 1.0, 1.0, 2.0]:
    report.progress(step, "ä" * 500)
return {"code": 0, "seconds": time.monotonic() - start}
"""
    done, _ = work("import time" + body)
    fractions = [frame.fraction for frame in done.frames if isinstance(frame, Progress)]
    assert fractions == sorted(set(fractions))
    assert fractions[-1] == 1.0
    assert len(fractions) <= done.final["seconds"] / worker.PROGRESS_GAP + 4


def test_phase_is_reported_right_after_another_report(work):
    done, _ = work("for n in range(5): report.progress(n / 10, f'{n}', at_once=n > 2)")
    assert [frame.message for frame in done.frames if isinstance(frame, Progress)] == ["0", "3", "4"]


def test_many_threads_write_whole_frames(work):
    body = """
import threading
def speak(name):
    for n in range(4):
        report.attach(f"{name}-{n}", name.encode() * 100_000)
        os.write(1, b"o" * 50_000)
threads = [threading.Thread(target=speak, args=(name,)) for name in "abcd"]
for one in threads: one.start()
for one in threads: one.join()
"""
    done, code = work(body)
    attachments = {frame.name: frame.data for frame in done.frames if isinstance(frame, Attachment)}
    assert attachments == {f"{name}-{n}": name.encode() * 100_000 for name in "abcd" for n in range(4)}
    assert (code, done.printed) == (0, b"o" * 50_000 * 16)


@pytest.mark.claim("sandbox.ends-by-itself")
def test_slot_without_timely_job_ends_quietly():
    for closed, idle in ((True, 60.0), (False, 0.05)):
        with Worker("pass", idle=idle) as child:
            child.wait_for(Ready)
            if closed:
                child.process.stdin.close()
            assert child.finish() == 0
            assert [type(frame) for frame in child.frames] == [Ready]
            assert child.process.stderr.read() == b""


def test_timely_job_may_outlast_the_idle_limit():
    with Worker(
        "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass", idle=0.2
    ) as child:
        child.give()
        assert child.finish() == 0
        assert child.final["code"] == 0


STEPS = """
import threading
done, where = [], []
def warm():
    try:
        while True:
            done.append(1)
            where.append(threading.get_ident())
            if len(done) < 5:
                os.write(2, b"step\\n")
                print("not the job's")
            yield {pause}
    finally:
        os.write(2, b"closed\\n")
"""
COUNT = "import threading\nprint('job')\nreturn {'code': 0, 'steps': len(done), 'same': where == [threading.get_ident()] * len(done)}"


def test_waiting_worker_warms_up_in_job_thread():
    with Worker(COUNT, warm=STEPS.format(pause="")) as child:
        child.wait_for(Ready)
        for _ in range(3):
            while child.process.stderr.readline() != b"step\n":
                pass
        child.give()
        assert child.finish() == 0
        assert child.final["steps"] >= 3
        assert child.final["same"] is True
        assert child.printed == b"job\n"
        assert b"closed\n" in child.process.stderr.read()


def test_immediate_job_does_not_wait_for_warm_up():
    with Worker(COUNT, warm=STEPS.format(pause="")) as child:
        child.give()
        assert child.finish() == 0
        assert child.final["steps"] == 0


def test_job_arriving_during_pause_of_warm_up_starts():
    with Worker(COUNT, idle=1000.0, warm=STEPS.format(pause="1000.0")) as child:
        child.wait_for(Ready)
        child.process.stderr.readline()
        child.give()
        assert child.finish() == 0
        assert child.final["steps"] == 1


@pytest.mark.parametrize("pause", ["", "1000.0"])
def test_warm_up_ends_within_the_idle_limit(pause):
    with Worker("pass", idle=0.1, warm=STEPS.format(pause=pause)) as child:
        assert child.finish() == 0
        assert [type(frame) for frame in child.frames] == [Ready]


def test_failed_warm_up_reports_reason_without_taking_jobs():
    failing = "\ndef warm():\n    yield\n    raise ValueError('a fault')\n"
    for options, why in (({"warm": failing}, b"a fault"), ({"prepare": "import no_such"}, b"no_such")):
        with Worker("pass", **options) as child:
            assert child.finish() == worker.EXIT_CRASHED
            assert why in child.process.stderr.read()
            assert [frame for frame in child.frames if not isinstance(frame, Ready)] == []


def test_host_dying_while_sending_job_ends_the_worker():
    with Worker("pass") as child:
        child.wait_for(Ready)
        child.process.stdin.write(LENGTH.pack(1000) + b"{")
        child.process.stdin.close()
        assert child.finish() == worker.EXIT_ORPHANED


BUSY = {
    "python": "while True: pass",
    "waiting": "import time\ntime.sleep(1000)",
    "library": "import ctypes\nctypes.CDLL(None).pause()",
    "many": "import threading\n[threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start() for _ in range(4)]\nwhile True: pass",
    "stubborn": "while True:\n    try:\n        __import__('time').sleep(1000)\n    except BaseException:\n        pass",
}


@pytest.mark.claim("sandbox.ends-by-itself")
def test_worker_without_host_ends_whatever_it_does(subtests):
    for name in BUSY:
        with subtests.test(name=name), Worker("report.progress(0.5)\n" + BUSY[name]) as child:
            child.wait_for(Ready)
            child.give()
            child.wait_for(Progress)
            child.process.stdin.close()
            assert child.finish() == worker.EXIT_ORPHANED


@pytest.mark.claim("sandbox.ends-by-itself")
def test_worker_ends_at_own_deadline_whatever_it_does(subtests):
    for name in BUSY:
        with subtests.test(name=name), Worker(BUSY[name]) as child:
            assert child.run(deadline=0.1) == worker.EXIT_DEADLINE


def test_successful_worker_waits_for_host_but_failed_ends():
    with Worker("pass") as child:
        child.wait_for(Ready)
        child.give(stay=3600.0)
        child.wait_for(Final)
        assert child.process.poll() is None
        child.process.stdin.close()
        assert child.finish() == worker.EXIT_ORPHANED
    with Worker("return {'code': 1}") as child:
        assert child.run(stay=3600.0) == 0


@pytest.mark.claim("sandbox.single-use")
def test_more_than_one_job_is_never_taken():
    with Worker("print(job['n'])") as child:
        child.wait_for(Ready)
        child.process.stdin.write(encode_job({"n": 1}, 60) + encode_job({"n": 2}, 60))
        child.process.stdin.flush()
        assert child.finish() == 0
        assert child.printed == b"1\n"


def test_a_job_of_many_pieces_is_read_whole():
    with Worker("return {'code': 0, 'length': len(job['text'])}") as child:
        child.wait_for(Ready)
        data = encode_job({"text": "x" * 300_000}, 60)
        for start in range(0, len(data), 50_000):
            child.process.stdin.write(data[start : start + 50_000])
            child.process.stdin.flush()
            select.select([], [child.process.stdin], [])
        assert child.finish() == 0
        assert child.final["length"] == 300_000


def test_text_printed_while_loading_is_not_output():
    loading = (
        "import ctypes; print('python', end=''); ctypes.CDLL(None).printf(b'library'); os.write(1, b'raw')"
    )
    with Worker("print('job')", prepare=loading) as child:
        assert child.run() == 0
        assert child.printed == b"job\n"
        assert sorted(child.process.stderr.read()) == sorted(b"rawpythonlibrary")


@pytest.mark.parametrize(
    "name", ["plain", "a b", "tab\there", "new\nline", "back\\slash", "\\040", "nbsp\u00a0", "ls\u2028", "ä"]
)
def test_mount_target_is_decoded_from_kernel_escapes(tmp_path, monkeypatch, name):
    written = name.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")
    table = tmp_path / "mountinfo"
    table.write_text(
        f"1 2 8:1 / / rw shared:1 - ext4 /dev/a rw\n3 1 8:1 /x /data/{written} ro,nosuid - ext4 /dev/a rw\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(worker, "open", lambda _path, **how: open(table, **how), raising=False)
    root, inner = worker._mounts()
    assert (root["target"], root["shared"]) == ("/", ["shared:1"])
    assert inner == {
        "id": "3", "parent": "1", "target": f"/data/{name}", "options": ["ro", "nosuid"], "shared": [],
        "type": "ext4", "identity": None, "bytes": None, "closed": False,
    }  # fmt: skip
    json.dumps(inner)


ASKS = """
import hashlib, threading
def one(number):
    status, body = report.ask(2, b"0/a.tif", [(number, 5 << 20)]).wait()
    found[number] = [status, hashlib.sha256(body).hexdigest()]
found = {}
threads = [threading.Thread(target=one, args=(i,)) for i in range(request.get("count", 1))]
for thread in threads: thread.start()
for thread in threads: thread.join()
return {"code": 0, "found": found}
"""


def test_each_thread_gets_the_answer_to_its_question():
    """More questions than may be pending, answered in another order, with megabytes each."""
    count = MAX_IN_FLIGHT + 8
    with Worker(ASKS.replace("request", "job")) as child:
        child.wait_for(Ready)
        child.give({"count": count})
        pending, answered = [], 0
        while answered < count:
            questions = [frame for frame in child.frames if isinstance(frame, Question)][
                answered + len(pending) :
            ]
            pending += questions
            assert len(pending) <= MAX_IN_FLIGHT
            if len(pending) < min(MAX_IN_FLIGHT, count - answered):
                data = os.read(child.process.stdout.fileno(), 65536)
                assert data, child.process.stderr.read().decode()
                child.frames += child.reader.feed(data)
                continue
            question = pending.pop()
            assert (question.op, question.name) == (Op.READ, "0/a.tif")
            ((offset, length),) = question.ranges
            body = bytes([offset]) * length
            child.process.stdin.write(encode_answer(question.id, Answer(Status.OK, body)))
            child.process.stdin.flush()
            answered += 1
        assert child.finish() == 0
    right = {str(i): [0, hashlib.sha256(bytes([i]) * (5 << 20)).hexdigest()] for i in range(count)}
    assert child.final["found"] == right


def test_host_leaving_during_an_answer_ends_the_worker():
    with Worker(ASKS.replace("request", "job")) as child:
        child.wait_for(Ready)
        child.give({})
        question = child.wait_for(Question)
        child.process.stdin.write(encode_answer(question.id, Answer(Status.OK, b"x" * (5 << 20)))[: 1 << 20])
        child.process.stdin.close()
        assert child.finish() == worker.EXIT_ORPHANED


def test_job_waiting_for_an_answer_ends_at_deadline():
    with Worker(ASKS.replace("request", "job")) as child:
        child.wait_for(Ready)
        child.give({}, deadline=0.3)
        child.wait_for(Question)
        assert child.finish() == worker.EXIT_DEADLINE


def test_answer_without_memory_is_a_failed_read():
    body = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
answers = [report.ask(2, b"a", [(0, 1)]).wait() for _ in range(2)]
return {"code": 0, "found": [[status, len(body)] for status, body in answers]}
"""
    with Worker(body) as child:
        child.wait_for(Ready)
        child.give({})
        for number, length in ((1, 600 << 20), (2, 9)):
            while not [frame for frame in child.frames if isinstance(frame, Question) and frame.id == number]:
                child.frames += child.reader.feed(os.read(child.process.stdout.fileno(), 65536))
            child.process.stdin.write(encode_answer(number, Answer(Status.OK, bytes(length))))
            child.process.stdin.flush()
        assert child.finish() == 0
    assert child.final["found"] == [[worker.NO_MEMORY, 0], [0, 9]]
