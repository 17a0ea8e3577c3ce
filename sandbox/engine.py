"""The interface of container engines. Implementations are in `sandbox.engines`."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sandbox.errors import EngineUnavailable
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Identity and capabilities of an engine; part of every receipt."""

    name: str  # "Docker", "Podman"
    version: str
    api_version: tuple[int, int]
    architecture: str  # the kernel's name for the architecture: x86_64, aarch64
    cgroup_version: str  # "1" or "2"
    security_options: tuple[str, ...]
    rootless: bool  # True if it runs as an ordinary user, in a user namespace of that user
    runtimes: tuple[str, ...]
    address: str
    identity: str  # a stable id of the engine itself
    cpus: int = 0  # processors of its machine; 0 if not reported
    memory_bytes: int = 0  # bytes of memory of its machine; 0 if not reported
    host: str = ""  # the machine or cluster on which its containers run
    boot: str = ""  # id of the host kernel's boot; a new boot needs a new attestation. "" if unknown
    # True if containers share this process's kernel, so that device and inode numbers mean the same in both
    same_kernel: bool = False
    # True if containers run on machines other than this one, which servers on other machines use too
    other_hosts: bool = False
    # True if a node sets some limits for all its containers, so that they are judged by effect, from inside
    limits_by_node: bool = False
    # True if it reports a container's first process, so that its end can be watched here
    reports_process: bool = True
    end_seconds: float = 10.0  # seconds in which it reports the end of a container whose streams have ended
    removals: int = 2  # containers removed at once; more only makes each removal slower
    # True if it can cover single paths with /dev/null, such as named pipes in a workspace
    covers_paths: bool = True
    # True if it can limit swap; on a kernel without swap accounting it records "no limit" whatever was requested
    limits_swap: bool = True
    # limits that it cannot enforce on this host, of "memory", "cpu" and "pids"; it creates no container without them
    limits_missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Settings for a cluster."""

    # accepts a CA certificate that lacks what RFC 5280 requires, such as key identifiers, as kubectl does and as Python
    # did before 3.13. The chain, the dates and the host name are verified all the same
    lenient_ca: bool = False
    pull_secrets: tuple[str, ...] = ()  # secrets in the namespace of calls, with which nodes pull the image


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container: running, or how it ended."""

    running: bool
    exit_code: int
    out_of_memory: bool
    # why the engine ended it, such as an eviction; "" if it ended by itself
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContainerDetails:
    """Mounts and ports of a running container, which may belong to another program."""

    id: str
    mounts: Mapping[str, str]  # path inside the container -> folder, file or volume on the engine's host
    ports: Mapping[int, tuple[str, int]]  # port inside the container -> address and port on the host
    # True if the container uses the host's network, so that every port is the host's own
    shares_network: bool = False


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container with our labels, created by any server."""

    container: str
    labels: Mapping[str, str]


class AttachedStreams(Protocol):
    """The attached standard streams of one container. Closing them ends its stdin, and a `send` in another thread."""

    def fileno(self) -> int: ...

    def receive(self) -> list[tuple[int, bytes]] | None:
        """The next (STDOUT or STDERR, bytes) pieces, possibly none; None at the end of the stream."""

    def send(self, data: bytes, seconds: float) -> None:
        """Writes all of `data` to stdin. Raises TimeoutError or OSError when the container does not read it."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image that an engine has."""

    reference: str  # the requested reference
    id: str  # image id, `sha256:...`; containers are created from it
    digest: str  # the registry's digest for that reference; the image id for an image that was not pulled
    labels: Mapping[str, str]


class Images(Protocol):
    """The images on an engine's host. Every method raises `EngineUnavailable` if the engine does not answer."""

    def find(self, reference: str) -> ImageInfo | None:
        """The image of that name or id; None if it does not exist. Never pulls."""

    def names(self, *repositories: str) -> tuple[str, ...]:
        """The names, with tags, of the images in these repositories."""

    def check(self, _image: str, /) -> None:
        """Compares every file of an unpacked image with the list made when it was unpacked. Raises ImageMissing if
        one differs.

        The default does nothing: a daemon stores its images by content, and a node compares digests.
        """
        return

    def pull(self, reference: str, report: Callable[[str], None]) -> None:
        """Pulls from a registry. `report` gets lines of progress. Raises PullFailed, soon if the registry cannot be
        reached.
        """


@runtime_checkable
class Builds(Protocol):
    """Images of an engine that can build new ones."""

    def build(
        self,
        folder: str,
        reference: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        report: Callable[[str], None],
    ) -> None:
        """Builds an image from the `Dockerfile` in a folder, without network. Raises ImageMissing with the reason."""


class Container(Protocol):
    """One container of an engine. Every method raises `EngineUnavailable` if the engine does not answer.

    A container from `Engine.create` owns its streams, and with some engines its first process, until it is removed.
    One from `Engine.container` owns nothing and cannot be started.
    """

    @property
    def id(self) -> str: ...

    def start(self, cancel: Cancellation | None = None) -> AttachedStreams:
        """Starts the container and returns its streams, which were attached before it began. Can be called once.

        On a cluster, where a node has to be found and the image pulled, it ends soon after `cancel` is set. Raises
        LaunchCancelled, ImageMissing, and IsolationRefused if the container does not run as requested.
        """

    def state(self) -> ContainerState | None:
        """The state; None if the container does not exist."""

    def process(self) -> int | None:
        """The process id of its first process on the engine's host; None if it does not run."""

    def wait(self, seconds: float) -> ContainerState | None:
        """The state once it has stopped, or the running state after `seconds`."""

    def remove(self) -> None:
        """Kills and removes it, and returns when the engine no longer knows it. Safe to call again and from several
        threads.
        """


class Engine(Protocol):
    """A container engine. Every method raises `EngineUnavailable` if the engine does not answer."""

    @property
    def images(self) -> Images: ...

    def info(self) -> EngineInfo: ...

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], cancel: Cancellation | None = None
    ) -> Container:
        """Creates a container without starting it, reads it back and compares it with the request.

        An engine that has to wait for room stops waiting soon after `cancel` is set. Raises LaunchCancelled;
        ImageMissing without the image; IsolationRefused, after removing the container, if the engine made something
        else.
        """

    def container(self, id_: str, /) -> Container:
        """A container of this engine by its id, such as one that another server left. Does not check that it exists."""

    def describe(self, container: str) -> ContainerDetails | None:
        """Details of any running container of this engine. None for an unknown one, and for engines that do not
        report them.
        """

    def leftovers(self) -> tuple[Leftover, ...]:
        """All containers with our labels."""

    def close(self) -> None:
        """Closes its connections. Containers are not removed."""


@contextlib.contextmanager
def removed_on_failure(container: Container) -> Iterator[None]:
    """Removes a container that was not started if the block fails. Raises the first failure."""
    try:
        yield
    except BaseException:  # re-raised: whatever failed, the container must not stay
        with contextlib.suppress(EngineUnavailable):
            container.remove()
        raise
