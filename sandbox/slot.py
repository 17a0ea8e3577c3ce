"""One started container: launched, measured from inside, used for at most one job, and always removed."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox.capacity import MemoryReservation
from sandbox.engine import STDERR, AttachedStreams, Container, Engine
from sandbox.errors import AttestationFailed, EngineUnavailable, LaunchCancelled, SandboxError
from sandbox.isolation.measured import violations
from sandbox.isolation.rows import failure_summary
from sandbox.mounted import check_sources, refuse_replaced
from sandbox.outcome import Usage
from sandbox.protocol import FrameReader, ProtocolBreach, Ready
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation, HasDescriptor, Process, readable

# seconds; a loaded machine may need several to load GDAL. No client code runs before Ready
READY_SECONDS = 60.0
_ID_LENGTH = 64  # hexadecimal digits; a shorter text could be part of another id


@dataclass(slots=True)
class Slot:
    """A container that is ready for its job. `stderr` is its output so far."""

    engine: Engine
    template: SandboxTemplate
    container: Container
    wire: AttachedStreams
    frames: FrameReader
    facts: Mapping[str, Any]
    usage: Usage
    stderr: bytearray
    # a handle by which the kernel reports the container's end, some 20 ms before the engine. A container's first
    # process is the init of its process namespace: the kernel ends all other processes in it before that one counts as
    # ended. Only the engine knows the exit code
    ending: Process | None = None
    reservation: MemoryReservation | None = None
    # collects the containers whose removal failed
    unremoved: set[str] = field(default_factory=set)

    @property
    def is_idle(self) -> bool:
        """True while the container runs and has sent nothing since it was ready."""
        return not readable([self.wire], 0)

    @property
    def has_exited(self) -> bool:
        """True after the kernel has reported that all its processes have ended. Always False if the kernel reports
        nothing.
        """
        return self.ending is not None and bool(readable([self.ending], 0))

    def remove(self) -> Usage:
        """Kills and removes the container. Returns the usage including the time of removal. Raises EngineUnavailable."""
        started = time.monotonic()
        self.wire.close()
        if self.ending is not None:
            self.ending.close()
        try:
            self.container.remove()
        except EngineUnavailable:
            self.unremoved.add(self.container.id)
            raise
        finally:  # a worker ends with its stdin, even if the engine does not answer
            if self.reservation is not None:
                self.reservation.release()
        self.usage = replace(self.usage, remove_seconds=time.monotonic() - started)
        return self.usage


def launch(
    engine: Engine,
    template: SandboxTemplate,
    labels: Mapping[str, str],
    unremoved: set[str],
    cancel: Cancellation | None = None,
) -> Slot:
    """Starts and attests a container. If this raises, nothing is left except the ids in `unremoved`.

    Raises:
        IsolationRefused: the engine made, or the container measured, something weaker than requested.
        PathReplaced: a path to mount was replaced after it was resolved.
        EngineUnavailable: the engine or the worker did not answer.
        ImageMissing: the image does not exist.
        LaunchCancelled: `cancel` was set.
    """
    started = time.monotonic()
    try:
        container = engine.create(template, labels, cancel)
        created = time.monotonic()
        try:
            slot = _started(engine, template, container, cancel)
        except BaseException:  # re-raised: whatever failed, the container must not stay
            try:
                container.remove()
            except SandboxError:  # the first failure is the one to report
                unremoved.add(container.id)
            raise
    except EngineUnavailable:
        check_sources(template)  # a missing source of a mount is not a fault of the engine
        raise
    slot.usage = Usage("cold", create_seconds=created - started, start_seconds=time.monotonic() - created)
    slot.unremoved = unremoved
    return slot


def _started(
    engine: Engine, template: SandboxTemplate, container: Container, cancel: Cancellation | None
) -> Slot:
    """Waits until the worker is ready and checks its measurement."""
    wire = container.start(cancel)
    try:
        # a container that does not read its program ends or never becomes ready, and that error is more specific
        with contextlib.suppress(OSError):
            wire.send(template.program, READY_SECONDS)
        frames, stderr = FrameReader(), bytearray()
        facts = _await_ready(wire, frames, stderr, template.limits.stderr_bytes, cancel)
        refuse_replaced(template, facts, same_kernel=engine.info().same_kernel)
        verify_isolation(template, facts, limits_by_node=engine.info().limits_by_node)
        reported = engine.info().reports_process
        ending = ending_of(container.id, container.process()) if reported else None
    except BaseException:  # re-raised after the streams are closed
        wire.close()
        raise
    return Slot(engine, template, container, wire, frames, facts, Usage("cold"), stderr, ending)


def verify_isolation(template: SandboxTemplate, facts: Mapping[str, Any], *, limits_by_node: bool) -> None:
    if missing := violations(template, facts, limits_by_node=limits_by_node):
        raise AttestationFailed(
            f"the container is weaker than asked, so no job was sent: {failure_summary(missing)}"
        )


def _await_ready(
    wire: AttachedStreams,
    frames: FrameReader,
    stderr: bytearray,
    stderr_bytes: int,
    cancel: Cancellation | None,
) -> Mapping[str, Any]:
    """The measurement of the worker, once it is ready. Raises the errors of `launch`."""
    end, why = time.monotonic() + READY_SECONDS, f"was not ready after {READY_SECONDS:.0f} s"
    awaited: list[HasDescriptor] = [wire, *([cancel] if cancel else [])]
    while (left := end - time.monotonic()) > 0:
        ready = readable(awaited, left)
        if cancel is not None and cancel.is_set:
            raise LaunchCancelled("cancelled before the container was ready")
        if wire not in ready:
            continue
        pieces = wire.receive()
        if pieces is None:
            why = "ended before it was ready"
            break
        stderr += b"".join(data for stream, data in pieces if stream == STDERR)
        del stderr[stderr_bytes:]
        try:
            match [frame for stream, data in pieces if stream != STDERR for frame in frames.feed(data)]:
                case []:
                    continue
                case [Ready(facts)]:
                    return facts
        except ProtocolBreach as breach:
            raise AttestationFailed(f"the worker did not say how it runs: {breach}") from breach
        raise AttestationFailed("the container sent something before it got a job, so no job was sent")
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    message = f". Its last output: {lines[-1][:300]}" if lines else "."
    raise EngineUnavailable(f"the container {why}{message}")


def ending_of(container: str, process: int | None) -> Process | None:
    """A handle on the first process of a running container; None if it is not visible on this host.

    An engine in a virtual machine or another process namespace has other process ids. So the process must prove that
    it belongs to this container after the handle was opened, because ids are reused.
    """
    if not process or not hasattr(os, "pidfd_open"):
        return None
    try:
        ending = Process(process)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        groups = Path(f"/proc/{process}/cgroup").read_text(encoding="ascii", errors="replace")
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
        pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
        if len(container) >= _ID_LENGTH and container in groups and len(pids) > 1 and pids[-1] == "1":
            return ending
    ending.close()
    return None
