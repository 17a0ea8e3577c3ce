"""Runs one job in one container, with deadline, output limits, staging limits and guaranteed removal."""

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sandbox.capacity import LockFileCapacity, MemoryReservation
from sandbox.engine import ContainerState, Engine
from sandbox.errors import LaunchCancelled
from sandbox.labels import labels
from sandbox.outcome import (
    Cancelled,
    DiskLow,
    Exited,
    HostReadFailed,
    Outcome,
    ProtocolViolated,
    SandboxResult,
    StagingLimitExceeded,
    TimedOut,
    Usage,
    judge,
)
from sandbox.outputs.staging import Staging
from sandbox.protocol import encode_job
from sandbox.questions import Answerer
from sandbox.read_broker import ReadBroker
from sandbox.session import Session
from sandbox.slot import Slot, launch
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation, HasDescriptor, readable, refuse_cancelled

# seconds after the host's deadline at which a worker ends by itself, in case the host is gone
WORKER_GRACE = 5.0
# seconds after the final answer; the worker has nothing left to do, but an engine may be busy
EXIT_SECONDS = 30.0
SEND_SECONDS = 10.0
QUOTA_PAUSE = 0.05  # minimum seconds between two checks of staging
QUOTA_SHARE = 10  # checks may take at most this fraction of the time
# seconds that a worker waits for its removal after it has sent its answer; sending most answers takes less
STAY_SECONDS = 0.2
MARK_PAUSE = 0.05  # seconds between two checks for the end of stderr
MEMORY_SECONDS = 30.0  # seconds to wait until another container's memory is free again
# the state of a container that disappeared without a trace
_GONE = ContainerState(running=False, exit_code=-1, out_of_memory=False)
_ANSWERED = ContainerState(running=False, exit_code=0, out_of_memory=False)


@dataclass(frozen=True)
class Job:
    """One request and all its limits."""

    call: str
    template: SandboxTemplate
    request: Mapping[str, Any]
    quota: Staging | None = None  # None: the job has no writable folder
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None
    # called with the job's report before it works; False ends the job. It runs in the reading thread, so it must be
    # quick
    on_interim: Callable[[Mapping[str, Any]], bool] = lambda _value: True
    answerer: Answerer | None = None  # answers its read requests; None if it may send none
    # True if only the final answer is needed, so that the container's end is not awaited
    result_only: bool = False

    @cached_property
    def end_mark(self) -> str:
        """The text that is printed at the end of stderr. It cannot be guessed."""
        return secrets.token_hex(8)

    @cached_property
    def message(self) -> bytes:
        """The bytes sent to the container. Raises ValueError for a request that is not JSON."""
        deadline = self.template.limits.wall_seconds + WORKER_GRACE
        return encode_job(self.request, deadline, self.end_mark, STAY_SECONDS if self.result_only else 0.0)

    def quota_exceeded(self) -> Outcome | None:
        if self.quota is None:
            return None
        limits = self.template.limits
        usage = self.quota.usage(limits)
        if usage.files > limits.staging_files:
            return StagingLimitExceeded("files", limits.staging_files)
        if usage.bytes > limits.staging_bytes:
            return StagingLimitExceeded("bytes", limits.staging_bytes)
        return DiskLow() if usage.disk_low else None


@dataclass(eq=False)
class Runner:
    """Runs jobs on one engine, each in its own container. Safe to use from several threads.

    `capacity` limits the memory of all containers together; None sets no limit.
    """

    engine: Engine
    owner: str
    capacity: LockFileCapacity | None = None
    # containers whose removal failed
    unremoved: set[str] = field(default_factory=set)

    def run(self, job: Job, cancel: Cancellation) -> SandboxResult:
        """Runs a job and returns when its container is gone. The result's outcome says what the job did.

        Raises:
            SandboxError: the sandbox itself failed. Everything that was created has been removed, or is left to the
            reaper if the engine no longer answers.
        """
        assert job.message
        if cancel.is_set:
            return SandboxResult(Cancelled(), Usage("cold"))
        try:
            slot = self.launch(job.template, job.call, cancel)
        except LaunchCancelled:
            return SandboxResult(Cancelled(), Usage("cold"))
        return self.serve(slot, job, cancel)

    def launch(
        self,
        template: SandboxTemplate,
        call: str,
        cancel: Cancellation | None = None,
        reservation: MemoryReservation | None = None,
        idle_seconds: float = 0.0,
    ) -> Slot:
        """Starts a slot that waits for its job for at most `idle_seconds`. Raises the errors of `slot.launch`, and
        CapacityExhausted.
        """
        limits = template.limits
        if reservation is None and self.capacity is not None:
            check = partial(refuse_cancelled, cancel)
            reservation = self.capacity.wait(limits.memory_bytes, MEMORY_SECONDS, check=check)
        marks = labels(self.owner, call, idle_seconds + limits.wall_seconds)
        try:
            slot = launch(self.engine, template, marks, self.unremoved, cancel)
        except BaseException:  # re-raised: memory of a container that did not start must be free
            if reservation is not None:
                reservation.release()
            raise
        slot.reservation = reservation
        return slot

    def serve(
        self, slot: Slot, job: Job, cancel: Cancellation, on_exited: Callable[[Slot], object] = Slot.remove
    ) -> SandboxResult:
        """Runs a job in a slot.

        `on_exited` removes a container that ended by itself, once the result is certain. One that was ended early is
        gone when this returns. Raises EngineUnavailable.
        """
        limits = job.template.limits
        broker = ReadBroker(job.answerer, slot.wire, limits.wall_seconds) if job.answerer else None
        mark = job.end_mark.encode()
        session = Session(limits, slot.frames, slot.stderr, job.on_progress, mark, job.on_interim, broker)
        started, exited = time.monotonic(), False
        try:
            early = _converse(slot, job, session, cancel)
            ran = time.monotonic() - started
            state = _end_of(slot, job, session) if early is None else _GONE
            exited = early is None and not state.running
        finally:
            if broker is not None:
                broker.close()
            if exited:
                on_exited(slot)
            else:
                slot.remove()
        outcome = early or judge(session.final, state, limits)
        if isinstance(outcome, Exited):  # it may have ended between two checks
            outcome = job.quota_exceeded() or outcome
        return SandboxResult(
            outcome,
            slot.usage.of_run(ran, session.final),
            session.final,
            bytes(session.stdout),
            session.printed_stderr,
            session.attachments,
            slot.facts,
        )


def _converse(slot: Slot, job: Job, session: Session, cancel: Cancellation) -> Outcome | None:
    """Sends the job and reads its output. Returns an outcome if the host ended the job early, None if it ended by
    itself.
    """
    broker = session.broker
    watch = _Watch(job, cancel, broker.failed if broker else None)
    with contextlib.suppress(OSError):  # the container ended before it read the job; its state has the reason
        slot.wire.send(job.message, SEND_SECONDS)
    slot.frames.allow_requests = broker is not None
    while (over := watch.over()) is None:
        if session.is_complete and (job.result_only or slot.has_exited):
            return None
        awaited: list[HasDescriptor] = [slot.wire, cancel, *([broker.failed] if broker else [])]
        pause = watch.pause()
        if session.final is not None and not session.is_complete:
            pause = min(pause, MARK_PAUSE)
        elif session.is_complete and slot.ending is not None:
            awaited.append(
                slot.ending
            )  # before that, its process may have ended while output is still in transit
        if slot.wire in readable(awaited, pause):
            pieces = slot.wire.receive()
            if pieces is None:
                return None
            if (outcome := session.feed(pieces)) is not None:
                return outcome
        if session.final is not None and not job.result_only:
            watch.answered()
    return over


class _Watch:
    """Deadline, cancellation and quota checks for one job."""

    def __init__(self, job: Job, cancel: Cancellation, failed: Cancellation | None) -> None:
        now = time.monotonic()
        self._job, self._cancel, self._failed = job, cancel, failed
        self._end = now + job.template.limits.wall_seconds
        self._next_look = now + QUOTA_PAUSE if job.quota is not None else math.inf
        self._answered = False

    def answered(self) -> None:
        """Records the final answer: only the end of the container is still awaited."""
        if not self._answered:
            self._answered, self._end = True, time.monotonic() + EXIT_SECONDS

    def over(self) -> Outcome | None:
        """The outcome if the job is cancelled or exceeds a limit; else None."""
        now = time.monotonic()
        if self._cancel.is_set:
            return Cancelled()
        if self._failed is not None and self._failed.is_set:
            return HostReadFailed()
        if now >= self._end:
            went_on = ProtocolViolated("it went on after its final answer")
            return went_on if self._answered else TimedOut(self._job.template.limits.wall_seconds)
        if now < self._next_look:
            return None
        exceeded = self._job.quota_exceeded()
        self._next_look = now + max(QUOTA_PAUSE, (time.monotonic() - now) * QUOTA_SHARE)
        return exceeded

    def pause(self) -> float:
        """Seconds until the next check."""
        return min(self._end, self._next_look) - time.monotonic()


def _end_of(slot: Slot, job: Job, session: Session) -> ContainerState:
    """The end of a container that ended by itself.

    If only the answer is needed, a success is returned without a request to the engine.
    """
    # after a failure, the engine reports whether the OOM killer ended a process
    succeeded = session.final is not None and session.final.get("code") == 0
    if succeeded and (job.result_only or slot.has_exited):
        return _ANSWERED
    return slot.container.wait(slot.engine.info().end_seconds) or _GONE
