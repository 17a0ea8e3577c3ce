"""What a container engine must offer. Implementations live in `sandbox.engines`, siblings of each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sandbox.template import SandboxTemplate

STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Which engine this is; part of every receipt."""

    name: str  # "Docker", "Podman"
    version: str
    api_version: tuple[int, int]
    architecture: str  # as the kernel says it: x86_64, aarch64
    cgroup_version: str  # "1" or "2"
    security_options: tuple[str, ...]
    rootless: bool
    runtimes: tuple[str, ...]
    address: str
    identity: str  # the engine's own stable id
    cpus: int = 0  # of its machine; 0 when it does not say
    memory_bytes: int = 0  # likewise


@dataclass(frozen=True, slots=True)
class ContainerState:
    """How a container stands, or ended."""

    running: bool
    exit_code: int
    out_of_memory: bool


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container with our labels, whoever made it."""

    container: str
    labels: Mapping[str, str]


class Wire(Protocol):
    """The attached standard streams of one container. Closing it ends the container's stdin."""

    def fileno(self) -> int: ...

    def receive(self) -> list[tuple[int, bytes]] | None:
        """What has arrived, as (STDOUT or STDERR, bytes) pieces; possibly none; None at the end of the stream."""

    def send(self, data: bytes, seconds: float) -> None:
        """Writes everything to stdin. Raises TimeoutError or OSError when the container does not take it."""

    def close(self) -> None: ...


class Engine(Protocol):
    """A container engine. Every method raises `EngineUnavailable` when the engine does not answer."""

    def info(self) -> EngineInfo: ...

    def has_image(self, image: str) -> bool:
        """Whether an image is on its host, by content id."""

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        """A container that is not started yet, read back and compared with what was asked.

        Raises IsolationRefused after removing it when the engine made something else, ImageMissing without the image.
        """

    def attach(self, container: str) -> Wire: ...

    def start(self, container: str) -> None: ...

    def state(self, container: str) -> ContainerState | None:
        """None when the container is gone."""

    def process(self, container: str) -> int | None:
        """The number of its first process as the engine's host counts; None when it does not run."""

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        """The state once it has stopped, or the running state when `seconds` have passed."""

    def remove(self, container: str) -> None:
        """Kills and removes; returns when the engine does not know the container any more."""

    def leftovers(self) -> tuple[Leftover, ...]:
        """Every container that carries our labels."""
