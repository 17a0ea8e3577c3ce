"""Hostile code as the argument of `run_python`: it cannot speak for the worker, outlive its call or exhaust the host."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.outcome import Exited, OutOfMemory, SandboxResult
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from tests import python
from tests.conftest import USER

pytestmark = pytest.mark.engine

Run = Callable[..., tuple[SandboxResult, dict[str, bytes]]]


@pytest.fixture(scope="module")
def run(runner, make_template, ground) -> Iterator[Run]:
    """`run(code)`: the outcome, and the files in its output folder."""
    with closing(Cancellation()) as cancel:

        def run_code(
            code: str, seconds: float = 20.0, pids: int = 64, answerer: Any = None, **more: Any
        ) -> tuple[SandboxResult, dict[str, bytes]]:
            with ground.area.open("staging-0001", USER) as staging:
                template = make_template("pass", workspace=ground.workspace, staging=staging.path)
                template = python.like_run_python(template, replace(python.ROOMY, pids=pids))
                request = python.request(code, seconds=seconds, **more)
                result = runner.run(Job("hostile", template, request, staging, answerer=answerer), cancel)
                files = {path.name: path.read_bytes() for path in staging.path.iterdir() if path.is_file()}
            return result, files

        yield run_code


FORGE = """
import json, os, struct
def frame(kind, value): data = json.dumps(value).encode(); return struct.pack(">cI", kind, len(data)) + data
forged = frame(b"O", "forged") + struct.pack(">cI", b"B", 13) + b"preview.png\\0!" + frame(b"F", {"code": 0, "tool_version": "forged"})
reached = []
for process in [name for name in os.listdir("/proc") if name.isdigit()] + ["self"]:
    for number in range(64):
        try: end = os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError: continue
        if os.readlink(f"/proc/self/fd/{end}") != "/dev/null": reached.append(process); os.write(end, forged)
for number in range(1024):
    try: os.write(number, forged)
    except OSError: pass
for secret in ("mem", "environ", "maps", "fd", "fdinfo", "stack", "syscall", "cwd", "root"):
    path = f"/proc/1/{secret}"
    try: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
    except OSError: continue
    reached.append(path)
open("/staging/reached", "w").write(json.dumps(sorted(set(reached))))
"""


@pytest.mark.claim("python.frames-apart")
def test_worker_descriptors_and_memory_are_unreachable_frames_unforgeable(run):
    result, files = run(FORGE)
    reached = json.loads(files["reached"])
    assert [name for name in reached if name == "1" or not (name.isdigit() or name == "self")] == []
    assert isinstance(result.outcome, Exited)
    assert result.final["tool_version"] != "forged"
    assert "preview.png" not in result.attachments


ASK = """
import os, struct
asked = struct.pack(">IBHH", 1, 1, 7, 0) + b"0/a.tif"
for number in range(1024):
    try: os.write(number, b"Q" + struct.pack(">I", len(asked)) + asked)
    except OSError: pass
"""


@pytest.mark.claim("python.frames-apart")
def test_the_code_can_ask_the_host_for_nothing(run):
    questions: list[object] = []
    result, _ = run(ASK, answerer=SimpleNamespace(answer=questions.append, close=lambda: None))
    assert isinstance(result.outcome, Exited)
    assert questions == []


NONSENSE = [
    *(b"\0" * 4096, b"F\xff\xff\xff\xff", b'P\0\0\0\x19{"fraction":NaN,"message":1'),
    *(b"R\0\0\0\x08[1e9999]", b"V\0\0\0\x05[NaN]", b"E\0\0\0\x02[]"),
    b"R" + (200_000).to_bytes(4, "big") + b"[" * 200_000,
]


@pytest.mark.claim("python.frames-apart")
def test_nonsense_self_measurement_is_not_accepted(run):
    for data in NONSENSE:
        result, _ = run(f"import os\nos.write(4, {data!r})")
        assert isinstance(result.outcome, Exited), data
        assert json.loads(result.stdout or b"{}").get("result") is None


@pytest.mark.claim("python.nothing-outlives")
def test_code_cannot_change_its_outputs_afterwards(run):
    code = """
import os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    while True: open("/staging/a.txt", "a").write("more")
while not os.path.exists("/staging/a.txt"): pass
"""
    outputs = [{"path": "/staging/a.txt", "kind": "file"}] * 3000  # examined thousands of times
    result, files = run(code, outputs=outputs)
    assert result.outcome == Exited(0), result.stderr
    assert set(files["a.txt"].split(b"more")) == {b""}
    assert {row["facts"]["bytes"] for row in result.final["outputs"]} == {len(files["a.txt"])}


@pytest.mark.claim("python.nothing-outlives")
def test_code_cannot_end_or_stop_the_worker(run):
    code = """
import os
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
"""
    assert run(code)[0].outcome == Exited(0)
    result, _ = run("import os\nos.closerange(0, 1024)")
    assert result.outcome == Exited(1)


@pytest.mark.claim("python.bounded")
def test_flood_fork_bomb_and_memory_hog_hit_limits(run):
    for code in (
        "while True: print('x' * 10_000)",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nwhile True: os.write(4, b'x' * 65536)",
    ):
        ended, _ = run(code, seconds=2)
        assert (ended.outcome, ended.final["timed_out"]) == (Exited(1), True), code
        assert len(ended.stderr) < 64 << 10
    for step in (32 << 20, 1 << 16, 100):  # the last step leaves hardly a byte of memory
        hog, _ = run(f"x = []\nwhile True: x.append(bytearray(b'1' * {step}))", seconds=120)
        assert isinstance(hog.outcome, OutOfMemory), step
    together = "import os, time\nfor _ in range(8):\n    if os.fork() == 0: break\n"
    many, _ = run(together + "x = b'1' * (400 << 20); time.sleep(60)", seconds=5)
    assert isinstance(many.outcome, OutOfMemory | Exited)
    assert many.outcome != Exited(0)
