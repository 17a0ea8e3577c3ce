"""Frozen values that say what one container may see and use."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType

STAGING_TARGET = PurePosixPath("/staging")
SCRATCH_TARGET = PurePosixPath("/tmp")  # noqa: S108 - a path inside the container, on its own tmpfs


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one job. Bytes, seconds and counts; every one is enforced, none is advice."""

    memory_bytes: int = 2 << 30
    cpus: float = 2.0
    pids: int = 64
    wall_seconds: float = 120.0
    staging_bytes: int = 10 << 30
    staging_files: int = 10_000
    file_bytes: int = 8 << 30
    stdout_bytes: int = 4 << 20
    stderr_bytes: int = 1 << 20
    open_files: int = 1024
    scratch_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        # engines read 0 and less as "no limit"
        wrong = [name for name, value in asdict(self).items() if not 0 < value < math.inf]
        if wrong:
            raise ValueError(f"these limits are not above zero, so they would be none: {', '.join(wrong)}")

    @property
    def data_bytes(self) -> int:
        """RLIMIT_DATA: an eighth below the memory limit, so that an allocation fails readably before a kill."""
        return self.memory_bytes - self.memory_bytes // 8

    @property
    def cpu_seconds(self) -> int:
        """RLIMIT_CPU: ends an orphan that computes, should the host that watches the clock be gone."""
        return int(self.wall_seconds * max(self.cpus, 1.0)) + 30


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host seen inside the container. Recursive read-only where the engine can."""

    source: str
    target: PurePosixPath
    read_only: bool = True
    # device and inode that the container must find there, if it is told
    identity: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SandboxTemplate:
    """Everything that decides what a container is. Equal templates make interchangeable containers."""

    image: str  # content id, `sha256:...`; never a tag
    command: tuple[str, ...]
    user: tuple[int, int]  # uid, gid; neither is ever 0
    limits: Limits
    mounts: tuple[Mount, ...] = ()
    masks: tuple[PurePosixPath, ...] = ()  # folders covered by an empty read-only tmpfs
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    runtime: str = ""  # "" is the engine's default; "runsc" is gVisor
    program: bytes = b""  # what is sent to its stdin as soon as it runs; `sandbox.program`
    cgroup_visible: bool = False  # shows /sys, read-only, to the attestation of the limits; never to a job

    def __post_init__(self) -> None:
        if min(self.user) <= 0:
            raise ValueError(f"a sandbox never runs as root, but user is {self.user}")
        if not self.image.startswith("sha256:"):
            raise ValueError(f"a sandbox runs an image by content id, not {self.image!r}")
