"""The output of one container while its job runs: limited in size, and untrusted."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.engine import STDERR
from sandbox.outcome import Declined, Outcome, OutputLimitExceeded, ProtocolViolated
from sandbox.protocol import Attachment, Final, Frame, FrameReader, Interim, Printed, Progress, ProtocolBreach
from sandbox.questions import Question
from sandbox.read_broker import ReadBroker
from sandbox.template import Limits

PROGRESS_GAP = 0.05  # seconds; half of a worker's interval, so that no report of a real worker is dropped
PROGRESS_AT_ONCE = 8  # reports that may come sooner, such as the first of each stage of a short job
# seconds to wait for the end of stderr after the final answer; a job may have closed stderr
MARK_SECONDS = 0.5
WIRE_SLACK = 64 << 20  # bytes transferred beyond the printed ones: attachments and the final answer


@dataclass(slots=True)
class Session:
    """The output of one job.

    `end_mark` is what its worker prints at the end of stderr; `on_interim` is as in `Job`. `broker` is set for a job
    that may send read requests; otherwise they are a breach.
    """

    limits: Limits
    frames: FrameReader
    stderr: bytearray
    on_progress: Callable[[float, str], None]
    end_mark: bytes
    on_interim: Callable[[Mapping[str, Any]], bool] = lambda _value: True
    broker: ReadBroker | None = None
    stdout: bytearray = field(default_factory=bytearray)
    attachments: dict[str, bytes] = field(default_factory=dict)
    final: Mapping[str, Any] | None = None
    _wire_bytes: int = 0
    _end_of_stderr: bytes = b""
    _fraction: float = -1.0
    _next_progress: float = 0.0
    _early: int = PROGRESS_AT_ONCE
    _answered: float = 0.0

    @property
    def has_all_stderr(self) -> bool:
        return self._end_of_stderr == self.end_mark

    @property
    def is_complete(self) -> bool:
        """True if the final answer has arrived, and all of stderr, unless its end is overdue."""
        if self.final is None:
            return False
        return self.has_all_stderr or time.monotonic() > self._answered + MARK_SECONDS

    @property
    def printed_stderr(self) -> bytes:
        """The stored part of stderr, without the mark at its end or the beginning of that mark."""
        stored = bytes(self.stderr)
        if not self.has_all_stderr:
            return stored
        parts = (self.end_mark[:length] for length in range(len(self.end_mark), 0, -1))
        return next((stored.removesuffix(part) for part in parts if stored.endswith(part)), stored)

    def feed(self, pieces: Iterable[tuple[int, bytes]]) -> Outcome | None:
        """Processes pieces from `AttachedStreams.receive`. Returns an outcome if they end the job."""
        for stream, data in pieces:
            if stream == STDERR:
                self.stderr += data[: max(0, self.limits.stderr_bytes - len(self.stderr))]
                self._end_of_stderr = (self._end_of_stderr + data)[-len(self.end_mark) :]
                continue
            self._wire_bytes += len(data)
            if self._wire_bytes > self.limits.stdout_bytes + WIRE_SLACK:
                return OutputLimitExceeded(self.limits.stdout_bytes)
            try:
                for frame in self.frames.feed(data):
                    if (outcome := self._take(frame)) is not None:
                        return outcome
            except ProtocolBreach as breach:
                return ProtocolViolated(str(breach))
        return None

    def _take(self, frame: Frame) -> Outcome | None:
        match frame:
            case Printed(data):
                self.stdout += data
                if len(self.stdout) > self.limits.stdout_bytes:
                    del self.stdout[self.limits.stdout_bytes :]
                    return OutputLimitExceeded(self.limits.stdout_bytes)
            case Progress(fraction, message):
                now = time.monotonic()
                early = now < self._next_progress
                if fraction > self._fraction and (not early or self._early > 0 or fraction >= 1.0):
                    self._early -= early
                    self._fraction, self._next_progress = fraction, now + PROGRESS_GAP
                    self.on_progress(fraction, message)
            case Interim(value):
                return None if self.on_interim(value) else Declined()
            case Attachment(name, data):
                self.attachments[name] = data
            case Question() if self.broker is not None:
                self.broker.ask(frame)
            case Final(value):
                self.final, self._answered = value, time.monotonic()
        return None
