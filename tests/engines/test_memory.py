"""The engine in memory has the lifecycle of a real engine and isolates nothing, which the product notices."""

from pathlib import Path

import pytest

from tests.engines import bench as programs
from tests.engines.bench import Bench
from tests.engines.checks import conforms
from tests.engines.known import MEMORY
from tests.engines.memory import Box, MemoryEngine

IMAGE = "sha256:" + "a" * 64


def speak(box: Box) -> int:
    box.say(b"out")
    box.complain(b"err")
    return int(box.template.command[-1])


def wait_for_the_end(box: Box) -> int:
    box.say(b"ready")
    box.read(1)
    return 3


def repeat(box: Box) -> int:
    while data := box.read(65536):
        box.say(data)
    return 0


def print_much(box: Box) -> int:
    for number in range(int(box.template.command[-1])):
        box.say(b"%08d" % number * 512)
    return 0


def leave_a_mark(box: Box) -> int:
    Path(box.template.mounts[1].host_path, "started").touch()
    return 0


def without_bound(data: bytes) -> object:
    return lambda box: box.say(data) or 0


PROGRAMS = {
    programs.SPEAK: speak, programs.WAIT_FOR_THE_END: wait_for_the_end, programs.REPEAT: repeat,
    programs.PRINT_MUCH: print_much, programs.LEAVE_A_MARK: leave_a_mark,
    programs.TAKE_MEMORY: without_bound(b"held\n"), programs.FORK: without_bound(b'[400, "none"]\n'),
}  # fmt: skip


def program(box: Box) -> int:
    """The programs of the suite as functions; any other program is missing."""
    function = next((function for text, function in PROGRAMS.items() if text in box.template.command), None)
    return function(box) if function else 127


def gone() -> MemoryEngine:
    engine = MemoryEngine(program)
    engine.gone = True
    return engine


def test_memory_engine_behaves_like_a_real_one(tmp_path: Path, subtests: pytest.Subtests) -> None:
    bench = Bench(MemoryEngine(program, frozenset({IMAGE})), IMAGE, tmp_path / "bench", gone=gone)
    conforms(bench, subtests, MEMORY.exemptions)
    assert bench.ours() == {}
