"""Answers the read requests of one job, in separate threads.

A host that writes to a container that does not read must wait, and so must a container that writes to a host that
does not read. So the thread that reads never writes. Invariants:
* at most `MAX_IN_FLIGHT` questions are unanswered, each with its own id; another one is a `ProtocolBreach`;
* at most `THREADS` are processed at once, so that reads use at most `THREADS` times `MAX_READ_BYTES` of memory;
* an answer is written as a whole, and none is written after the job ended;
* a failed read is not answered but sets `failed`, which ends the job: GDAL would treat some failures as missing data,
  and would wait forever if several threads read a Zarr.
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

THREADS: Final = 8  # threads; the number of requests that one job can have in progress
_log = structlog.get_logger()


class ReadBroker:
    """The questions of one job. `seconds` limits how long the container may leave an answer unread."""

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
        """Stops answering. Does not wait for reads in progress, which end when their answerer returns."""
        self._over = True
        self._answerer.close()
        self.failed.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, question: Question) -> None:
        try:
            answer = self._answerer.answer(question)
        except Exception:  # noqa: BLE001 - the outermost handler of this thread: without an answer the job would wait until its deadline
            _log.exception("question_failed")
            answer = Answer(Status.EIO)
        if answer.status is Status.EIO:
            self.failed.set()
            return
        data = encode_answer(question.id, answer)
        with self._writing:
            # released before the answer is sent, because the worker may use the id again after it
            self._in_flight.discard(question.id)
            if not self._over:
                with contextlib.suppress(
                    OSError
                ):  # the container has ended; the thread that reads its output reports how
                    self._wire.send(data, self._seconds)
