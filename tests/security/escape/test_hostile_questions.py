"""Hostile code that asks its host to read: out of turn, too much, without need, and without reading the answers."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.errors import AttestationFailed
from sandbox.outcome import Cancelled, Exited, HostReadFailed, ProtocolViolated, TimedOut
from sandbox.questions import FIRST_BYTES, MAX_IN_FLIGHT, Answer, Kind, Op, Question, Status, pack_look
from sandbox.runner import Job
from tests.conftest import SMALL, handler
from tests.security.escape.test_hostile_worker import WIRE

pytestmark = [pytest.mark.engine, pytest.mark.claim("content.questions-strict")]

BRIEF = replace(SMALL, wall_seconds=1.5)
# `ask(id, op, name, ranges)` as a raw frame
ASK = """
import struct
wire = report._wire
def question(number, op=1, name=b"0/a.tif", ranges=()):
    return struct.pack(">IBHH", number, op, len(name), len(ranges)) + name + b"".join(struct.pack(">QI", *one) for one in ranges)
def ask(*words): wire.send(b"Q", question(*words))
"""


class Library:
    """Answers from memory and counts the questions. While `shut` is set, it does not answer."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.shut, self.closed = threading.Event(), threading.Event()
        self.shut.set()
        self.many = threading.Event()

    def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        if len(self.asked) > 3:
            self.many.set()
        self.shut.wait(60)
        if question.name != "0/a.tif":
            return Answer(Status.ENOENT)
        if question.op is Op.LOOK:
            return Answer(Status.OK, pack_look(Kind.FILE, 1 << 40, 0, bytes(FIRST_BYTES)))
        parts = (bytes([offset % 251]) * length for offset, length in question.ranges)
        return Answer(Status.OK, b"".join(parts))

    def close(self) -> None:
        self.closed.set()
        self.shut.set()


@pytest.fixture
def library() -> Iterator[Library]:
    answerer = Library()
    yield answerer
    answerer.close()


def test_honest_job_is_answered_in_megabytes(run, library):
    body = """
asked = [report.ask(2, b"0/a.tif", [(i, 1 << 20), (i + 1, 3)]) for i in range(24)]
right = [one.wait() == (0, bytes([i]) * (1 << 20) + bytes([i + 1]) * 3) for i, one in enumerate(asked)]
return {"code": 0, "right": all(right), "none": report.ask(1, b"0/b.tif").wait()[0]}
"""
    result = run(body, answerer=library)
    assert (result.outcome, result.final["right"], result.final["none"]) == (Exited(0), True, Status.ENOENT)
    assert library.closed.is_set()


def test_unauthorised_or_untimely_questions_end_the_job(run, library, subtests):
    finished = "wire.send_json(b'F', {'code': 0})\n"
    for body, answerer in (
        ("ask(1)", None),
        (finished + "ask(1)", library),
        ("ask(1, 4)", library),
        ("ask(1, 2)", library),
        ("wire.send(b'Q', question(1) + b'!')", library),
        ("wire.send(b'Q', question(1, 1, b'x' * 5000))", library),
        ("ask(1, 2, b'0/a.tif', [(0, 1 << 26), (0, 1)])", library),
    ):
        with subtests.test(body=body):
            library.asked.clear()
            result = run(f"{ASK}{body}\nimport time\ntime.sleep(60)", answerer=answerer)
            assert isinstance(result.outcome, ProtocolViolated)
            assert library.asked == []


def test_talking_before_the_job_ends_the_questions(runner, make_template, cancel, library):
    source = handler("pass", f"os.write({WIRE}, b'Q\\0\\0\\0\\x09\\0\\0\\0\\1\\1\\0\\0\\0\\0')")
    with pytest.raises(AttestationFailed):
        runner.run(Job("call-0001", make_template(source), {}, answerer=library), cancel)
    assert library.asked == []


def test_flood_is_ended_and_ids_are_used_once(run, library, subtests):
    for body in (
        f"for i in range({MAX_IN_FLIGHT + 1}): ask(i)",
        "ask(1)\nask(1)",
        "while True: ask(1, 2, b'0/a.tif', [(0, 1 << 26)])",
    ):
        with subtests.test(body=body):
            library.shut.clear()
            ended = run(f"{ASK}{body}\nimport time\ntime.sleep(60)", answerer=library)
            assert isinstance(ended.outcome, ProtocolViolated)
            assert len(library.asked) <= MAX_IN_FLIGHT
            library.asked.clear()


DEAF = f"""
import os
kept, (silent, _) = os.dup(0), os.pipe()
os.dup2(silent, 0)  # the answers are heard by nobody
{ASK}
for i in range({MAX_IN_FLIGHT}): ask(i, 2, b"0/a.tif", [(0, 8 << 20)])
import time
time.sleep(60)
"""


def test_job_ignoring_its_answers_ends_at_deadline(run, library):
    assert run(DEAF, answerer=library, limits=BRIEF).outcome == TimedOut(BRIEF.wall_seconds)
    assert library.closed.is_set()
    assert len(library.asked) < MAX_IN_FLIGHT  # they wait for room


@pytest.mark.claim("remote.failed-read-fails-the-call")
def test_failed_read_ends_the_job_whatever_follows(run, library):
    """The code does not learn of the failure and would continue until its deadline."""
    library.answer = lambda _question: Answer(Status.EIO)
    for rest in ("while True: pass", "asked.wait()", "wire.send_json(b'F', {'code': 0})\nasked.wait()"):
        ended = run(f"{ASK}asked = report.ask(1, b'0/a.tif')\n{rest}", answerer=library)
        assert ended.outcome == HostReadFailed()


def test_a_cancellation_ends_what_is_being_read(run, library, cancel):
    """Open questions are given up at once: no thread waits for a host that does not answer."""
    library.shut.clear()
    body = "asked = [report.ask(1, b'0/a.tif') for _ in range(8)]\nfor one in asked: one.wait()"
    threading.Thread(target=lambda: (library.many.wait(60), cancel.set()), daemon=True).start()
    assert run(body, answerer=library).outcome == Cancelled()
    assert library.closed.is_set()
