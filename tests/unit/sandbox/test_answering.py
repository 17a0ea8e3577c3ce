"""Questions are answered in a separate thread: each once, completely, and within bounds."""

import threading

import pytest

from sandbox.protocol import ANSWER, ProtocolBreach
from sandbox.questions import MAX_IN_FLIGHT, MAX_READ_BYTES, Answer, Op, Question, Status
from sandbox.read_broker import THREADS, ReadBroker
from tests.waiting import until


class Wire:
    """Stores what is sent, slowly, so that interleaved parts of two answers would show."""

    def __init__(self):
        self.sent, self.taken = bytearray(), threading.Event()
        self.taken.set()

    def send(self, data, _seconds):
        self.taken.wait(30)
        for start in range(0, len(data), 7):
            self.sent += data[start : start + 7]

    @property
    def answers(self):
        by_number, data = {}, bytes(self.sent)
        while data:
            number, status, length = ANSWER.unpack_from(data)
            assert number not in by_number
            by_number[number] = (status, data[ANSWER.size : ANSWER.size + length])
            data = data[ANSWER.size + length :]
        return by_number


class Held:
    """Answers with the name once `gate` is set; `most` is the highest number of simultaneous questions."""

    def __init__(self):
        self.gate, self.lock, self.closed = threading.Event(), threading.Lock(), False
        self.under_way, self.most = 0, 0

    def answer(self, question):
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.gate.wait(30)
        with self.lock:
            self.under_way -= 1
        if question.name == "broken":
            raise RuntimeError
        return Answer(Status.OK, question.name.encode() * 50)

    def close(self):
        self.closed = True
        self.gate.set()


@pytest.fixture
def answerer():
    answerer = Held()
    yield answerer
    answerer.gate.set()


def test_every_question_is_answered_once_and_whole(answerer):
    wire = Wire()
    answering = ReadBroker(answerer, wire, 30.0)
    for number in range(MAX_IN_FLIGHT):
        answering.ask(Question(number, Op.LOOK, f"{number}/a.tif"))
    answerer.gate.set()
    until(lambda: len(wire.sent) >= MAX_IN_FLIGHT * (ANSWER.size + 50 * len("0/a.tif")) + 54 * 50)
    assert wire.answers == {n: (Status.OK, f"{n}/a.tif".encode() * 50) for n in range(MAX_IN_FLIGHT)}
    assert answerer.most <= THREADS
    answering.ask(Question(0, Op.LOOK, "again"))  # an id is free again once its answer is sent
    answering.close()


@pytest.mark.claim("content.questions-strict")
def test_duplicate_id_or_excess_question_is_a_breach(answerer):
    answering = ReadBroker(answerer, Wire(), 30.0)
    for number in range(MAX_IN_FLIGHT - 1):
        answering.ask(Question(number, Op.LOOK, "a"))
    with pytest.raises(ProtocolBreach):
        answering.ask(Question(0, Op.LOOK, "a"))
    answering.ask(Question(99, Op.LOOK, "a"))
    with pytest.raises(ProtocolBreach):
        answering.ask(Question(100, Op.LOOK, "a"))
    answering.close()


def test_nothing_is_sent_or_awaited_after_the_end(answerer):
    wire = Wire()
    answering = ReadBroker(answerer, wire, 30.0)
    wire.taken.clear()
    for number in range(20):
        answering.ask(Question(number, Op.READ, "a", ((0, MAX_READ_BYTES),)))
    answering.close()
    assert answerer.closed
    wire.taken.set()
    until(lambda: not answerer.under_way)
    assert len(wire.answers) <= 1


def test_broken_answerer_is_a_failed_read(answerer):
    wire = Wire()
    answerer.gate.set()
    answering = ReadBroker(answerer, wire, 30.0)
    answering.ask(Question(1, Op.LOOK, "broken"))
    until(lambda: answering.failed.is_set)
    assert not wire.sent
    answering.close()
