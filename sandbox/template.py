"""Frozen values that define what one container may see and use."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType

from sandbox.errors import IsolationRefused

STAGING_TARGET = PurePosixPath("/staging")
SCRATCH_TARGET = PurePosixPath("/tmp")  # noqa: S108 - a path inside the container, on its own tmpfs


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one job in bytes, seconds and counts. All are enforced."""

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
        # engines treat 0 and less as "no limit"
        wrong = [name for name, value in asdict(self).items() if not 0 < value < math.inf]
        if wrong:
            raise ValueError(f"these limits are not above zero, so they would be none: {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class HostPath:
    """A file or folder on the engine's own host."""

    path: str  # as this process sees it
    on_host: str = ""  # as the engine's host sees it, if the server runs in a container and the paths differ


@dataclass(frozen=True, slots=True)
class VolumePath:
    """A file or folder in a volume that the engine mounts by name, on the machine where the container runs."""

    path: str  # as this process sees it
    volume: str
    subpath: PurePosixPath


MountSource = HostPath | VolumePath
SourceOf = Callable[[Path], MountSource]  # finds the engine's source for a path of this process


def host_source(path: str | PurePath) -> HostPath:
    """The `SourceOf` for an engine on this host."""
    return HostPath(str(path))


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder mounted in the container. Recursively read-only where the engine supports it."""

    source: MountSource
    target: PurePosixPath
    read_only: bool = True
    # device and inode that the container must find there; None accepts any
    identity: tuple[int, int] | None = None

    @property
    def host_path(self) -> str:
        """The host path, for engines that only mount paths of their own host. Raises IsolationRefused."""
        if isinstance(self.source, HostPath):
            return self.source.on_host or self.source.path
        raise IsolationRefused(
            f"{self.target} lies in volume {self.source.volume!r}, which this engine cannot mount. "
            "Configure a path of the engine's host instead."
        )


@dataclass(frozen=True, slots=True)
class SandboxTemplate:
    """Everything that defines a container. Equal templates make interchangeable containers."""

    image: str  # image id, `sha256:...`; never a tag
    command: tuple[str, ...]
    user: tuple[int, int]  # uid, gid on the engine's host; neither is ever 0
    limits: Limits
    mounts: tuple[Mount, ...] = ()
    masks: tuple[PurePosixPath, ...] = ()  # folders covered by an empty read-only tmpfs
    pipes: tuple[PurePosixPath, ...] = ()  # named pipes in the mounted folders, each covered by /dev/null
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    runtime: str = ""  # "" is the engine's default; "runsc" is gVisor
    program: bytes = b""  # bytes that are sent to its stdin when it starts; see `sandbox.program`
    # features that nodes of a cluster may lack without refusal: "landlock", "pids-limit"
    nodes_without: tuple[str, ...] = ()
    cgroup_visible: bool = False  # True shows /sys, read-only, for the attestation of limits; never for a job

    def __post_init__(self) -> None:
        if min(self.user) <= 0:
            raise ValueError(f"a sandbox never runs as root, but user is {self.user}")
        if not self.image.startswith("sha256:"):
            raise ValueError(f"a sandbox runs an image by content id, not {self.image!r}")
