"""What became of a job. Each way to end is its own type; none of them is an exception.

`SandboxResult.outcome` is decided from several independent facts (exit code, the engine's out-of-memory flag, the
final frame, the host's own clock and counters), never from one of them. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from sandbox.engine import ContainerState
from sandbox.template import Limits

_GONE: Final = -1  # the engine does not know the container any more
_ORPHANED: Final = 71  # sandbox/worker.py
_WORKER_DEADLINE: Final = 72  # likewise
_SIGKILL: Final = 128 + 9
_SIGXFSZ: Final = 153  # 128 + 25


@dataclass(frozen=True, slots=True)
class Exited:
    """The job ran to its end and said how: `code` is 0 for success."""

    code: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The host's clock ran out."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller did not want the answer any more."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The host ended the job for what it reported before it began to work."""


@dataclass(frozen=True, slots=True)
class HostReadFailed:
    """The host could not read what the job asked for, so it ended the job, whose result would be wrong."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The memory limit was reached: `killed` by the kernel, or refused an allocation and ended by itself."""

    limit_bytes: int
    killed: bool


@dataclass(frozen=True, slots=True)
class OutputLimitExceeded:
    """More was printed than is read."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class StagingLimitExceeded:
    """The output folder grew over its quota of bytes or files."""

    what: Literal["bytes", "files"]
    limit: int


@dataclass(frozen=True, slots=True)
class DiskLow:
    """So little was left of the disk of the output folder that the job was ended before it took the rest."""


@dataclass(frozen=True, slots=True)
class FileSizeExceeded:
    """One file grew over the size that a single file may have."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Killed:
    """The job died: of a signal, or with an exit code that no job uses."""

    exit_code: int

    @property
    def from_outside(self) -> bool:
        """Whether it was most likely ended from outside, as an engine does that is stopped or restarted.

        The first process of a container hears no SIGKILL from inside; a worker that loses its host says so, or ends in
        silence when it had no job yet; and a container may be gone without a trace. Hostile code can end like that too.
        """
        return self.exit_code in (_GONE, 0, _ORPHANED, _SIGKILL)


@dataclass(frozen=True, slots=True)
class Evicted:
    """A cluster took the container away: its node is drained or lost, or ran out of memory or disk."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProtocolViolated:
    """What came out of the container is not what a worker writes."""

    detail: str


_OverLimit = OutOfMemory | OutputLimitExceeded | StagingLimitExceeded | DiskLow | FileSizeExceeded
_Ended = Exited | TimedOut | Cancelled | Declined | HostReadFailed | Killed | Evicted | ProtocolViolated
Outcome = _Ended | _OverLimit


@dataclass(frozen=True, slots=True)
class Usage:
    """The receipt of one container. Times in seconds of the host's clock; what the worker says of itself is untrusted."""

    pool: Literal["cold", "warm"]
    create_seconds: float = 0.0
    start_seconds: float = 0.0  # engine's start until the worker said that it is ready
    run_seconds: float = 0.0
    remove_seconds: float = 0.0
    cpu_seconds: float | None = None  # user and system, as the worker measured itself
    peak_memory_bytes: int | None = None  # the worker's resident set, likewise

    def of_run(self, seconds: float, final: Mapping[str, Any] | None) -> "Usage":
        """With how long the job ran, and what of the worker's own figures can be true."""
        said = (final or {}).get("usage")
        said = said if isinstance(said, dict) else {}
        cpu, peak = _amount(said.get("cpu_seconds")), _amount(said.get("peak_memory_bytes"))
        memory = None if peak is None else int(peak)
        return replace(self, run_seconds=seconds, cpu_seconds=cpu, peak_memory_bytes=memory)


def _amount(said: object) -> float | None:
    if isinstance(said, int | float) and not isinstance(said, bool) and said >= 0:
        return float(said)
    return None


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """Everything one container left behind, after it is gone."""

    outcome: Outcome
    usage: Usage
    final: Mapping[str, Any] | None = None  # the job's own answer; untrusted
    stdout: bytes = b""
    stderr: bytes = b""  # partial when the job was cut; the first bytes up to the limit
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the container measured before its job


def judge(final: Mapping[str, Any] | None, state: ContainerState, limits: Limits) -> Outcome:
    """The outcome of a container that ended by itself, from its final answer and from how it ended."""
    if state.reason and (state.running or state.exit_code != 0):
        return Evicted(state.reason)
    if state.running:
        return ProtocolViolated("it closed its streams and went on")
    # a job that succeeded only lost a process of its own that it did not need; engines differ in whether they report that
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
