"""Runs one job in one container: deadline, output caps, quota of staging, certain removal."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sandbox.cancel import Cancellation
from sandbox.engine import STDERR, ContainerState, Engine
from sandbox.filetree import StagingUsage
from sandbox.labels import labels
from sandbox.outcome import (
    Cancelled,
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
from sandbox.protocol import Attachment, Final, Frame, Printed, Progress, ProtocolBreach, encode_job
from sandbox.slot import LaunchCancelled, Slot, launch, stopped
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import readable

WORKER_GRACE = (
    5.0  # seconds after the host's deadline at which a worker ends by itself, should the host be gone
)
EXIT_SECONDS = 10.0  # a worker that has said its last word has nothing left to do
SEND_SECONDS = 10.0
WIRE_SLACK = 64 << 20  # bytes on the wire beyond the printed ones: attachments and the final answer
QUOTA_PAUSE = 0.05  # seconds between two looks at staging, at least
QUOTA_SHARE = 10  # a look may take at most one part in so many of the time
_SIGXFSZ_EXIT, _SIGKILL_EXIT = 153, 137
_WORKER_DEADLINE_EXIT = 72  # sandbox/worker.py


class Quota(Protocol):
    """The output folder as the runner needs it."""

    def usage(self, limits: Limits) -> StagingUsage: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One request and everything that bounds it."""

    call: str
    template: SandboxTemplate
    request: Mapping[str, Any]
    quota: Quota | None = None  # None: the job has nowhere to write
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None


@dataclass(slots=True)
class _Conversation:
    """What has been heard from one container."""

    limits: Limits
    stderr: bytearray
    on_progress: Callable[[float, str], None]
    stdout: bytearray = field(default_factory=bytearray)
    attachments: dict[str, bytes] = field(default_factory=dict)
    final: Mapping[str, Any] | None = None
    wire_bytes: int = 0
    fraction: float = -1.0

    def hear_error(self, data: bytes) -> None:
        self.stderr += data[: max(0, self.limits.stderr_bytes - len(self.stderr))]

    def hear(self, frame: Frame) -> Outcome | None:
        """Takes in one frame; an outcome when it ends the job."""
        match frame:
            case Printed(data):
                self.stdout += data
                if len(self.stdout) > self.limits.stdout_bytes:
                    del self.stdout[self.limits.stdout_bytes :]
                    return OutputLimitExceeded(self.limits.stdout_bytes)
            case Progress(fraction, message) if fraction > self.fraction:
                self.fraction = fraction
                self.on_progress(fraction, message)
            case Attachment(name, data):
                self.attachments[name] = data
            case Final(value):
                self.final = value
        return None


class Runner:
    """Runs jobs on one engine, each in a container of its own. Safe to use from several threads."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self.engine = engine
        self._owner = owner

    def run(self, job: Job, cancel: Cancellation) -> SandboxResult:
        """Blocks until the container is gone. What the job did is the result's outcome.

        Raises:
            SandboxError: the sandbox itself failed; whatever was created has been removed, or is left to the reaper
                when the engine does not answer any more.
        """
        marks = labels(self._owner, job.call, job.template.limits.wall_seconds)
        try:
            slot = launch(self.engine, job.template, marks, cancel)
        except LaunchCancelled:
            return SandboxResult(Cancelled(), Usage("cold"))
        heard = _Conversation(job.template.limits, slot.stderr, job.on_progress)
        begun = time.monotonic()
        try:
            cut = _converse(slot, job, heard, cancel)
            ran = time.monotonic() - begun
            state = _end(slot, cut, heard)
        finally:
            slot.remove()
        outcome = cut or _judge(heard.final, state, job.template.limits)
        return SandboxResult(
            outcome,
            _receipt(slot.usage, heard, ran),
            heard.final,
            bytes(heard.stdout),
            bytes(heard.stderr),
            heard.attachments,
            slot.facts,
        )


def _converse(slot: Slot, job: Job, heard: _Conversation, cancel: Cancellation) -> Outcome | None:
    """Sends the job and listens. An outcome when the host cut it short, None when the container had its say."""
    limits = job.template.limits
    deadline = time.monotonic() + limits.wall_seconds
    with contextlib.suppress(OSError):  # it died before it read the job: the state says how
        slot.wire.send(encode_job(job.request, limits.wall_seconds + WORKER_GRACE), SEND_SECONDS)
    look_at_quota = time.monotonic() + QUOTA_PAUSE
    while True:
        now = time.monotonic()
        if cancel.is_set:
            return Cancelled()
        if now >= deadline:
            return TimedOut(limits.wall_seconds)
        if job.quota is not None and now >= look_at_quota:
            if over := _over_quota(job.quota, limits):
                return over
            took = time.monotonic() - now
            look_at_quota = now + max(QUOTA_PAUSE, took * QUOTA_SHARE)
        pause = min(deadline, look_at_quota if job.quota is not None else deadline) - now
        if slot.wire not in readable([slot.wire, cancel], pause):
            continue
        pieces = slot.wire.receive()
        if pieces is None:
            return None
        if (ending := _listen(slot, pieces, heard)) is not None:
            return ending
        if heard.final is not None:
            return None


def _listen(slot: Slot, pieces: list[tuple[int, bytes]], heard: _Conversation) -> Outcome | None:
    for stream, data in pieces:
        heard.wire_bytes += len(data)
        if heard.wire_bytes > heard.limits.stdout_bytes + WIRE_SLACK:
            return OutputLimitExceeded(heard.limits.stdout_bytes)
        if stream == STDERR:
            heard.hear_error(data)
            continue
        try:
            for frame in slot.frames.feed(data):
                if (ending := heard.hear(frame)) is not None:
                    return ending
        except ProtocolBreach as breach:
            return ProtocolViolated(str(breach))
    return None


def _over_quota(quota: Quota, limits: Limits) -> Outcome | None:
    usage = quota.usage(limits)
    if usage.files > limits.staging_files:
        return StagingLimitExceeded("files", limits.staging_files)
    if usage.bytes > limits.staging_bytes:
        return StagingLimitExceeded("bytes", limits.staging_bytes)
    return None


def _end(slot: Slot, cut: Outcome | None, heard: _Conversation) -> ContainerState:
    """The state of the container after its last word; it is still there when the host cut it short."""
    if cut is not None:
        return stopped(None)
    state = stopped(slot.engine.wait(slot.container, EXIT_SECONDS))
    while (pieces := slot.wire.receive()) and _listen(slot, pieces, heard) is None:
        pass  # what was still on its way, such as the last lines of stderr
    return state


def _judge(final: Mapping[str, Any] | None, state: ContainerState, limits: Limits) -> Outcome:
    """The outcome of a container that ended by itself, from what it said and from how it ended."""
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


def _receipt(usage: Usage, heard: _Conversation, ran: float) -> Usage:
    said = (heard.final or {}).get("usage")
    said = said if isinstance(said, dict) else {}
    cpu, peak = said.get("cpu_seconds"), said.get("peak_memory_bytes")
    return replace(
        usage,
        run_seconds=ran,
        cpu_seconds=float(cpu) if isinstance(cpu, int | float) else None,
        peak_memory_bytes=peak if isinstance(peak, int) else None,
        printed_bytes=len(heard.stdout),
    )
