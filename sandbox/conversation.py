"""What is heard from one container while its job runs: bounded, and nothing of it believed."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.outcome import Declined, Outcome, OutputLimitExceeded
from sandbox.protocol import Attachment, Final, Frame, Interim, Printed, Progress
from sandbox.template import Limits

PROGRESS_GAP = 0.05  # seconds; half of a worker's, so that only what no worker sends is left out
MARK_SECONDS = 0.5  # after the final answer, for the end of stderr; a job may have closed it


@dataclass(slots=True)
class Conversation:
    """Of one container. `end_mark` is what its worker prints as the last thing on stderr; `on_interim` as in `Job`."""

    limits: Limits
    stderr: bytearray
    on_progress: Callable[[float, str], None]
    end_mark: bytes = b""
    on_interim: Callable[[Mapping[str, Any]], bool] = lambda _value: True
    stdout: bytearray = field(default_factory=bytearray)
    attachments: dict[str, bytes] = field(default_factory=dict)
    final: Mapping[str, Any] | None = None
    wire_bytes: int = 0
    _last_errors: bytes = b""
    _fraction: float = -1.0
    _next_progress: float = 0.0
    _answered: float = 0.0

    @property
    def errors_ended(self) -> bool:
        """Whether all of stderr is here."""
        return self._last_errors == self.end_mark

    @property
    def told(self) -> bool:
        """Whether all is said: the final answer, and stderr to its end unless that does not come."""
        if self.final is None:
            return False
        return self.errors_ended or time.monotonic() > self._answered + MARK_SECONDS

    def hear_error(self, data: bytes) -> None:
        self.stderr += data[: max(0, self.limits.stderr_bytes - len(self.stderr))]
        self._last_errors = (self._last_errors + data)[-len(self.end_mark) :] if self.end_mark else b""

    def errors(self) -> bytes:
        """What was printed on stderr, as far as it is kept, without the mark at its end or what is kept of that."""
        kept = bytes(self.stderr)
        if not self.errors_ended:
            return kept
        parts = (self.end_mark[:length] for length in range(len(self.end_mark), 0, -1))
        return next((kept.removesuffix(part) for part in parts if kept.endswith(part)), kept)

    def hear(self, frame: Frame) -> Outcome | None:
        """Takes in one frame; an outcome when it ends the job."""
        match frame:
            case Printed(data):
                self.stdout += data
                if len(self.stdout) > self.limits.stdout_bytes:
                    del self.stdout[self.limits.stdout_bytes :]
                    return OutputLimitExceeded(self.limits.stdout_bytes)
            case Progress(fraction, message):
                self._hear_progress(fraction, message)
            case Interim(value):
                return None if self.on_interim(value) else Declined()
            case Attachment(name, data):
                self.attachments[name] = data
            case Final(value):
                self.final, self._answered = value, time.monotonic()
        return None

    def _hear_progress(self, fraction: float, message: str) -> None:
        now = time.monotonic()
        if fraction > self._fraction and (now >= self._next_progress or fraction >= 1.0):
            self._fraction, self._next_progress = fraction, now + PROGRESS_GAP
            self.on_progress(fraction, message)
