"""Runs one job in one container: deadline, output caps, quota of staging, certain removal."""

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from sandbox.cancel import Cancellation
from sandbox.capacity import Capacity, Place
from sandbox.conversation import Conversation
from sandbox.engine import STDERR, ContainerState, Engine
from sandbox.labels import labels
from sandbox.outcome import (
    Cancelled,
    DiskLow,
    Exited,
    FileSizeExceeded,
    Killed,
    Outcome,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    SandboxResult,
    StagingLimitExceeded,
    TimedOut,
    Usage,
)
from sandbox.outputs.filetree import StagingUsage
from sandbox.protocol import ProtocolBreach, encode_job
from sandbox.slot import LaunchCancelled, Slot, launch, stopped
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import HasDescriptor, readable

WORKER_GRACE = 5.0  # seconds after the host's deadline when a worker ends by itself, should the host be gone
EXIT_SECONDS = 30.0  # after its final answer; a worker has nothing left to do then, but an engine may be busy
STOP_SECONDS = 10.0  # from the end of its streams to the end of a container
SEND_SECONDS = 10.0
WIRE_SLACK = 64 << 20  # bytes on the wire beyond the printed ones: attachments and the final answer
QUOTA_PAUSE = 0.05  # seconds between two looks at staging, at least
QUOTA_SHARE = 10  # a look may take at most one part in so many of the time
MARK_PAUSE = 0.05  # seconds between two looks whether the end of stderr is overdue
PLACE_SECONDS = 30.0  # for the memory of another container to be free again
_ANSWERED = ContainerState(running=False, exit_code=0, out_of_memory=False)
_SIGXFSZ_EXIT = 153
_WORKER_DEADLINE_EXIT = 72  # sandbox/worker.py


class Quota(Protocol):
    """The output folder as the runner needs it."""

    def usage(self, limits: Limits) -> StagingUsage: ...


@dataclass(frozen=True)
class Job:
    """One request and everything that bounds it."""

    call: str
    template: SandboxTemplate
    request: Mapping[str, Any]
    quota: Quota | None = None  # None: the job has nowhere to write
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None
    # what the job reports before it works; False ends the job. Called in the thread that listens, so it must be quick.
    on_interim: Callable[[Mapping[str, Any]], bool] = lambda _value: True
    answers: bool = False  # its final answer is all that counts, so that nobody waits for the container's end

    @cached_property
    def end_mark(self) -> str:
        """Printed at the end of stderr; nobody can say it before."""
        return secrets.token_hex(8)

    @cached_property
    def message(self) -> bytes:
        """What its container is sent. Raises ValueError for a request that is not JSON."""
        return encode_job(self.request, self.template.limits.wall_seconds + WORKER_GRACE, self.end_mark)


class _Watch:
    """The host's clock, its caller's patience and its looks at staging, for one job."""

    def __init__(self, job: Job, cancel: Cancellation) -> None:
        now = time.monotonic()
        self._limits, self._quota, self._cancel = job.template.limits, job.quota, cancel
        self._end = now + self._limits.wall_seconds
        self._look = now + QUOTA_PAUSE if self._quota is not None else math.inf
        self._answered = False

    def answered(self) -> None:
        """The job is done; all that is left is the end of its container."""
        if not self._answered:
            self._answered, self._end = True, time.monotonic() + EXIT_SECONDS

    def over(self) -> Outcome | None:
        """An outcome when the job has had enough of something."""
        now = time.monotonic()
        if self._cancel.is_set:
            return Cancelled()
        if now >= self._end:
            went_on = ProtocolViolated("it went on after its final answer")
            return went_on if self._answered else TimedOut(self._limits.wall_seconds)
        if now < self._look:
            return None
        over = _over_quota(self._quota, self._limits)
        self._look = now + max(QUOTA_PAUSE, (time.monotonic() - now) * QUOTA_SHARE)
        return over

    def fileno(self) -> int:
        """Readable once the caller has cancelled."""
        return self._cancel.fileno()

    def pause(self) -> float:
        """Seconds until there is something to look at again."""
        return min(self._end, self._look) - time.monotonic()


class Runner:
    """Runs jobs on one engine, each in a container of its own. Safe to use from several threads."""

    def __init__(self, engine: Engine, owner: str, capacity: Capacity | None = None) -> None:
        """`capacity` bounds the memory of all containers together; None is for an engine that has nothing else to do."""
        self.engine = engine
        self.capacity = capacity
        self.unremoved: set[str] = set()  # containers that the engine did not remove when it was asked
        self._owner = owner

    def run(self, job: Job, cancel: Cancellation) -> SandboxResult:
        """Blocks until the container is gone. What the job did is the result's outcome.

        Raises:
            SandboxError: the sandbox itself failed; whatever was created has been removed, or is left to the reaper
                when the engine does not answer any more.
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
        place: Place | None = None,
        idle_seconds: float = 0.0,
    ) -> Slot:
        """A slot that waits for its job, for `idle_seconds` at most. Raises as `slot.launch`, and CapacityExhausted."""
        limits = template.limits
        if place is None and self.capacity is not None:
            place = self.capacity.wait(limits.memory_bytes, PLACE_SECONDS)
        marks = labels(self._owner, call, idle_seconds + limits.wall_seconds)
        try:
            slot = launch(self.engine, template, marks, cancel, self.unremoved)
        except BaseException:
            if place is not None:
                place.release()
            raise
        slot.place = place
        return slot

    def serve(
        self, slot: Slot, job: Job, cancel: Cancellation, bury: Callable[[Slot], object] = Slot.remove
    ) -> SandboxResult:
        """Gives a slot its job. `bury` sees to the removal of a container that ended by itself, as soon as the result is
        sure; one that had to be cut short is gone when this returns. Raises EngineUnavailable.
        """
        limits = job.template.limits
        heard = Conversation(limits, slot.stderr, job.on_progress, job.end_mark.encode(), job.on_interim)
        begun, ended = time.monotonic(), False
        try:
            cut = _converse(slot, job, heard, _Watch(job, cancel))
            ran = time.monotonic() - begun
            state = _end_of(slot, job, cut, heard)
            ended = cut is None and not state.running
        finally:
            if ended:
                bury(slot)
            else:
                slot.remove()
        outcome = cut or _judge(heard.final, state, limits)
        if isinstance(outcome, Exited):  # it may have ended between two looks
            outcome = _over_quota(job.quota, limits) or outcome
        return _result(slot, outcome, heard, ran)


def _end_of(slot: Slot, job: Job, cut: Outcome | None, heard: Conversation) -> ContainerState:
    """How the container ended; of one whose answer is all that counts, that it gave it."""
    if cut is not None:
        return stopped(None)
    if heard.final is not None and (job.answers or _has_ended(slot)):
        return _ANSWERED
    return stopped(slot.engine.wait(slot.container, STOP_SECONDS))


def _has_ended(slot: Slot) -> bool:
    return slot.ending is not None and bool(readable([slot.ending], 0))


def _converse(slot: Slot, job: Job, heard: Conversation, watch: _Watch) -> Outcome | None:
    """Sends the job and listens to the end. An outcome when the host cut it short, None when it ended by itself."""
    with contextlib.suppress(OSError):  # it died before it read the job: the state says how
        slot.send(job.message, SEND_SECONDS)
    while (over := watch.over()) is None:
        if heard.told and (job.answers or _has_ended(slot)):
            return None
        if slot.wire in readable(_awaited(slot, job, heard, watch), _pause(heard, watch)):
            pieces = slot.wire.receive()
            if pieces is None:
                return None
            if (ending := _listen(slot, pieces, heard)) is not None:
                return ending
        if heard.final is not None and not job.answers:
            watch.answered()
    return over


def _awaited(slot: Slot, job: Job, heard: Conversation, watch: _Watch) -> list[HasDescriptor]:
    """What may happen next. The end of its process is of no use before all is said, which it may come before."""
    ending = [slot.ending] if slot.ending is not None and heard.told and not job.answers else []
    return [slot.wire, watch, *ending]


def _pause(heard: Conversation, watch: _Watch) -> float:
    """Seconds until there is something to look at again; between the answer and the end of stderr, soon."""
    waits_for_mark = heard.final is not None and not heard.told
    return min(watch.pause(), MARK_PAUSE) if waits_for_mark else watch.pause()


def _listen(slot: Slot, pieces: list[tuple[int, bytes]], heard: Conversation) -> Outcome | None:
    for stream, data in pieces:
        if stream == STDERR:
            heard.hear_error(data)
            continue
        heard.wire_bytes += len(data)
        if heard.wire_bytes > heard.limits.stdout_bytes + WIRE_SLACK:
            return OutputLimitExceeded(heard.limits.stdout_bytes)
        try:
            for frame in slot.frames.feed(data):
                if (ending := heard.hear(frame)) is not None:
                    return ending
        except ProtocolBreach as breach:
            return ProtocolViolated(str(breach))
    return None


def _over_quota(quota: Quota | None, limits: Limits) -> Outcome | None:
    if quota is None:
        return None
    usage = quota.usage(limits)
    if usage.files > limits.staging_files:
        return StagingLimitExceeded("files", limits.staging_files)
    if usage.bytes > limits.staging_bytes:
        return StagingLimitExceeded("bytes", limits.staging_bytes)
    return DiskLow() if usage.disk_low else None


def _judge(final: Mapping[str, Any] | None, state: ContainerState, limits: Limits) -> Outcome:
    """The outcome of a container that ended by itself, from what it said and from how it ended."""
    if state.running:
        return ProtocolViolated("it closed its streams and went on")
    if state.out_of_memory:
        return OutOfMemory(limits.memory_bytes, killed=True)
    if state.exit_code == _SIGXFSZ_EXIT or (final is not None and final.get("file_limit_reached") is True):
        return FileSizeExceeded(limits.file_bytes)
    if state.exit_code == _WORKER_DEADLINE_EXIT:
        return TimedOut(limits.wall_seconds)
    if final is None or state.exit_code != 0:
        return Killed(state.exit_code)
    if final.get("memory_exhausted") is True:
        return OutOfMemory(limits.memory_bytes, killed=False)
    code = final.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return ProtocolViolated("a final answer without a code")
    return Exited(code)


def _result(slot: Slot, outcome: Outcome, heard: Conversation, ran: float) -> SandboxResult:
    return SandboxResult(
        outcome,
        _receipt(slot.usage, heard, ran),
        heard.final,
        bytes(heard.stdout),
        heard.errors(),
        heard.attachments,
        slot.facts,
    )


def _receipt(usage: Usage, heard: Conversation, ran: float) -> Usage:
    said = (heard.final or {}).get("usage")
    said = said if isinstance(said, dict) else {}
    cpu, peak = _amount(said.get("cpu_seconds")), _amount(said.get("peak_memory_bytes"))
    return replace(
        usage,
        run_seconds=ran,
        cpu_seconds=cpu,
        peak_memory_bytes=None if peak is None else int(peak),
    )


def _amount(said: object) -> float | None:
    """A number that a container said of itself, if it is one that can be."""
    if isinstance(said, int | float) and not isinstance(said, bool) and said >= 0:
        return float(said)
    return None
