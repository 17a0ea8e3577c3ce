"""The ways in which a job can end. Each is a type of its own; none is an exception. Pure.

`SandboxResult.outcome` is decided from several independent facts (exit code, the engine's out-of-memory flag, the
final frame, the host's clock and counters), never from one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from sandbox.engine import ContainerState
from sandbox.template import Limits

_GONE: Final = -1  # the engine no longer knows the container
_ORPHANED: Final = 71  # exit code in sandbox/worker.py
_WORKER_DEADLINE: Final = 72  # exit code in sandbox/worker.py
_SIGKILL: Final = 128 + 9
_SIGXFSZ: Final = 153  # 128 + 25


@dataclass(frozen=True, slots=True)
class Exited:
    """The job ended by itself with a code; 0 is success."""

    code: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The deadline passed on the host's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller cancelled."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The host ended the job because of its report before the work began."""


@dataclass(frozen=True, slots=True)
class HostReadFailed:
    """The host could not read data that the job requested. It ended the job, because its result would be wrong."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The memory limit was reached: the kernel `killed` a process, or an allocation failed and the job ended by
    itself.
    """

    limit_bytes: int
    killed: bool


@dataclass(frozen=True, slots=True)
class OutputLimitExceeded:
    """The job printed more than the output limit."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class StagingLimitExceeded:
    """The output folder exceeded its limit of bytes or files."""

    what: Literal["bytes", "files"]
    limit: int


@dataclass(frozen=True, slots=True)
class DiskLow:
    """The job was ended because the disk of its output folder was nearly full."""


@dataclass(frozen=True, slots=True)
class FileSizeExceeded:
    """One file exceeded the file size limit."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Killed:
    """The job died from a signal, or with an exit code that no job uses."""

    exit_code: int

    @property
    def from_outside(self) -> bool:
        """True if the container was most likely ended from outside, as by an engine that is stopped or restarted.

        The first process of a container receives no SIGKILL from inside. A worker that loses its host reports that,
        or ends without output if it had no job yet. A container may also disappear without a trace. Hostile code can
        end in the same ways.
        """
        return self.exit_code in (_GONE, 0, _ORPHANED, _SIGKILL)


@dataclass(frozen=True, slots=True)
class Evicted:
    """A cluster ended the container: its node is drained or lost, or ran out of memory or disk."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProtocolViolated:
    """The container's output does not follow the protocol."""

    detail: str


_OverLimit = OutOfMemory | OutputLimitExceeded | StagingLimitExceeded | DiskLow | FileSizeExceeded
_Ended = Exited | TimedOut | Cancelled | Declined | HostReadFailed | Killed | Evicted | ProtocolViolated
Outcome = _Ended | _OverLimit


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that one container used. Times are seconds of the host's clock; the worker's own figures are
    untrusted.
    """

    pool: Literal["cold", "warm"]
    create_seconds: float = 0.0
    start_seconds: float = 0.0  # from the engine's start until the worker was ready
    run_seconds: float = 0.0
    remove_seconds: float = 0.0
    cpu_seconds: float | None = None  # user and system time, as measured by the worker
    peak_memory_bytes: int | None = None  # resident set of the worker in bytes, as measured by the worker

    def of_run(self, seconds: float, final: Mapping[str, Any] | None) -> "Usage":
        """Adds the job's duration and those of the worker's figures that are plausible."""
        reported = (final or {}).get("usage")
        reported = reported if isinstance(reported, dict) else {}
        cpu, peak = _amount(reported.get("cpu_seconds")), _amount(reported.get("peak_memory_bytes"))
        memory = None if peak is None else int(peak)
        return replace(self, run_seconds=seconds, cpu_seconds=cpu, peak_memory_bytes=memory)


def _amount(reported: object) -> float | None:
    if isinstance(reported, int | float) and not isinstance(reported, bool) and reported >= 0:
        return float(reported)
    return None


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """The result of one container, after it was removed."""

    outcome: Outcome
    usage: Usage
    final: Mapping[str, Any] | None = None  # the job's answer; untrusted
    stdout: bytes = b""
    stderr: bytes = b""  # the first bytes, up to the limit; partial if the job was ended early
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # the measurement before the job


def judge(final: Mapping[str, Any] | None, state: ContainerState, limits: Limits) -> Outcome:
    """The outcome of a container that ended by itself, from its final answer and its exit state."""
    if state.reason and (state.running or state.exit_code != 0):
        return Evicted(state.reason)
    if state.running:
        return ProtocolViolated("it closed its streams and went on")
    # a successful job only lost a process that it did not need; engines differ in reporting that
    succeeded = state.exit_code == 0 and final is not None and final.get("code") == 0
    if state.out_of_memory and not succeeded:
        return OutOfMemory(limits.memory_bytes, killed=True)
    if state.exit_code == _SIGXFSZ or (final is not None and final.get("file_limit_reached") is True):
        return FileSizeExceeded(limits.file_bytes)
    if state.exit_code == _WORKER_DEADLINE:
        return TimedOut(limits.wall_seconds)
    if final is None or state.exit_code != 0:
        return Killed(state.exit_code)
    if final.get("memory_exhausted") is True:
        return OutOfMemory(limits.memory_bytes, killed=False)
    code = final.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return ProtocolViolated("a final answer without a code")
    return Exited(code)
