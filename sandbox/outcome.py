"""What became of a job. Each way to end is its own type; none of them is an exception.

`SandboxResult.outcome` is decided from several independent facts (exit code, the engine's out-of-memory flag, the
final frame, the host's own clock and counters), never from one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_GONE: Final = -1  # the engine does not know the container any more
_ORPHANED: Final = 71  # sandbox/worker.py
_SIGKILL: Final = 128 + 9


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
class ProtocolViolated:
    """What came out of the container is not what a worker writes."""

    detail: str


Outcome = (
    Exited
    | TimedOut
    | Cancelled
    | Declined
    | OutOfMemory
    | OutputLimitExceeded
    | StagingLimitExceeded
    | DiskLow
    | FileSizeExceeded
    | Killed
    | ProtocolViolated
)


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
