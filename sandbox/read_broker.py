"""Answers the read requests of one job, in threads of its own.

Whoever writes to a container that does not read waits, and a container that writes to a host that does not listen waits as
well: so nothing is written in the thread that listens. Invariants:
* at most `MAX_IN_FLIGHT` questions wait for an answer, each with an id of its own; another one is a `ProtocolBreach`;
* at most `THREADS` are worked on at once, so that what they read takes at most `THREADS` times `MAX_READ_BYTES` of this
  process's memory;
* an answer is written whole, and after the end of the job none is;
* a read that failed is not answered but sets `failed`, at which the job is ended: GDAL would take some for data that is not
  there, and where several threads read a Zarr it would wait for ever.
"""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from sandbox.engine import AttachedStreams
from sandbox.protocol import ProtocolBreach, encode_answer
from sandbox.questions import MAX_IN_FLIGHT, Answer, Answerer, Question, Status
from sandbox.waiting import Cancellation

THREADS: Final = 8  # as many requests are under way for one job
_log = structlog.get_logger()


class ReadBroker:
    """The questions of one job. `seconds` is how long a container may leave an answer unread: all of its time."""

    def __init__(self, answerer: Answerer, wire: AttachedStreams, seconds: float) -> None:
        self.failed = Cancellation()
        self._answerer, self._wire, self._seconds = answerer, wire, seconds
        self._in_flight: set[int] = set()
        self._adding = threading.Lock()
        self._writing = threading.Lock()
        self._over = False
        self._threads = ThreadPoolExecutor(THREADS, "answering")

    def ask(self, question: Question) -> None:
        """Queues a request; returns at once. Raises ProtocolBreach."""
        with self._adding:
            if question.id in self._in_flight or len(self._in_flight) >= MAX_IN_FLIGHT:
                raise ProtocolBreach("a question with the id of another, or too many at once")
            self._in_flight.add(question.id)
        self._threads.submit(self._work, question)

    def close(self) -> None:
        """Answers no more requests. Does not wait for those under way, which end when their answerer returns."""
        self._over = True
        self._answerer.close()
        self.failed.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, question: Question) -> None:
        try:
            answer = self._answerer.answer(question)
        except Exception:  # noqa: BLE001 - the outermost handler of this thread: the job would wait for ever
            _log.exception("question_failed")
            answer = Answer(Status.EIO)
        if answer.status is Status.EIO:
            self.failed.set()
            return
        data = encode_answer(question.id, answer)
        with self._writing:
            self._in_flight.discard(question.id)  # before the worker can know, who may use it again
            if not self._over:
                with contextlib.suppress(
                    OSError
                ):  # the container has ended; the thread that reads its output finds out how
                    self._wire.send(data, self._seconds)
