"""What a container engine must offer. Implementations live in `sandbox.engines`, siblings of each other."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sandbox.errors import EngineUnavailable
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

STDOUT, STDERR = 1, 2
RLIMITS = frozenset({"core", "cpu", "data", "fsize", "nofile"})


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Which engine this is; part of every receipt."""

    name: str  # "Docker", "Podman"
    version: str
    api_version: tuple[int, int]
    architecture: str  # as the kernel says it: x86_64, aarch64
    cgroup_version: str  # "1" or "2"
    security_options: tuple[str, ...]
    rootless: bool  # it runs as an ordinary user, in a user namespace of that user
    runtimes: tuple[str, ...]
    address: str
    identity: str  # the engine's own stable id
    cpus: int = 0  # of its machine; 0 when it does not say
    memory_bytes: int = 0  # likewise
    host: str = ""  # the machine or cluster that its containers run on
    boot: str = ""  # id of that kernel's boot; a new boot needs a new attestation. "" when unknown
    # whether containers share this process's kernel, so that device and inode numbers mean the same in both
    same_kernel: bool = False
    # whether its containers run on machines other than this one, with servers of other machines beside this one
    other_hosts: bool = False
    # whether some limits are a node's for all its containers alike, so that they are judged by effect, from inside
    limits_by_node: bool = False
    reports_process: bool = (
        True  # whether it reports a container's first process, so that its end can be watched here
    )
    end_seconds: float = 10.0  # in which it reports the end of a container whose streams have ended
    removals: int = 2  # at once; removing more only makes each slower
    # the resource limits of a process that it sets; what is missing the container's program sets for itself before
    # anything else, as a Pod has none. Measured by every container either way
    rlimits: frozenset[str] = RLIMITS
    # whether it covers single paths with /dev/null, such as named pipes in a workspace
    covers_paths: bool = True
    # whether it can bound swap; on a kernel without swap accounting it records "no limit", whatever was asked
    limits_swap: bool = True
    # the limits of containers that it cannot enforce on this host, of "memory", "cpu" and "pids": it makes none without them
    limits_missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What an operator says of a cluster."""

    # accepts an authority's certificate that lacks what RFC 5280 asks for, such as the key identifiers, as kubectl does and as
    # Python did before 3.13. The chain, the dates and the host's name are verified all the same
    lenient_ca: bool = False
    pull_secrets: tuple[str, ...] = ()  # in the namespace of calls; for their nodes to fetch the image with


@dataclass(frozen=True, slots=True)
class ContainerState:
    """Whether a container runs, or how it ended."""

    running: bool
    exit_code: int
    out_of_memory: bool
    # why the engine ended it, such as an eviction; "" for a container that ended by itself
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContainerDetails:
    """Mounts and ports of a running container, which may be another program's."""

    id: str
    mounts: Mapping[str, str]  # place inside -> the folder, file or volume on the engine's host
    ports: Mapping[int, tuple[str, int]]  # port inside -> the address and port of the host that lead there
    shares_network: bool = False  # the host's, where every port is the host's own


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container with our labels, created by any server."""

    container: str
    labels: Mapping[str, str]


class AttachedStreams(Protocol):
    """The attached standard streams of one container. Closing it ends the container's stdin, and a `send` in another thread."""

    def fileno(self) -> int: ...

    def receive(self) -> list[tuple[int, bytes]] | None:
        """What has arrived, as (STDOUT or STDERR, bytes) pieces; possibly none; None at the end of the stream."""

    def send(self, data: bytes, seconds: float) -> None:
        """Writes everything to stdin. Raises TimeoutError or OSError when the container does not take it."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image that an engine has."""

    reference: str  # as it was asked for
    id: str  # content id, `sha256:...`; what containers are made from
    digest: str  # the registry's digest under that reference; the id for an image that came from no registry
    labels: Mapping[str, str]


class Images(Protocol):
    """The images of an engine's host. Every method raises `EngineUnavailable` when the engine does not answer."""

    def find(self, reference: str) -> ImageInfo | None:
        """The image of that name or content id; None when it is not there. Never fetches."""

    def names(self, *repositories: str) -> tuple[str, ...]:
        """The names, with their tags, under which images of these repositories are there."""

    def check(self, _image: str, /) -> None:
        """Compares every file with what was unpacked, where that is kept for it. Raises ImageMissing for another one.

        By default nothing: an engine of a daemon keeps its images by content itself, and a node compares digests.
        """
        return

    def pull(self, reference: str, report: Callable[[str], None]) -> None:
        """Fetches from a registry; `report` is given lines of progress. Raises PullFailed, soon when out of reach."""


@runtime_checkable
class Builds(Protocol):
    """Images of an engine that can make new ones."""

    def build(
        self,
        folder: str,
        reference: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        report: Callable[[str], None],
    ) -> None:
        """An image of that name from the `Dockerfile` in a folder, without network. Raises ImageMissing with the reason."""


class Container(Protocol):
    """One container of an engine. Every method raises `EngineUnavailable` when the engine does not answer.

    From `Engine.create` it holds the container's streams, and for some engines its first process, until it is removed. From
    `Engine.container` it holds nothing, so it cannot start what another object created.
    """

    @property
    def id(self) -> str: ...

    def start(self, cancel: Cancellation | None = None) -> AttachedStreams:
        """Starts the container and returns its streams, which were attached before it began. Once for each container.

        Where that may take long, as it has to find a node and to fetch an image there, it ends soon after `cancel` is set.

        Raises LaunchCancelled, ImageMissing, and IsolationRefused when it runs otherwise than asked.
        """

    def state(self) -> ContainerState | None:
        """None when the container does not exist."""

    def process(self) -> int | None:
        """The number of its first process as the engine's host counts; None when it does not run."""

    def wait(self, seconds: float) -> ContainerState | None:
        """The state once it has stopped, or the running state when `seconds` have passed."""

    def remove(self) -> None:
        """Kills and removes it; returns when the engine does not know it any more. May be called again, and by several threads."""


class Engine(Protocol):
    """A container engine. Every method raises `EngineUnavailable` when the engine does not answer."""

    @property
    def images(self) -> Images: ...

    def info(self) -> EngineInfo: ...

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], cancel: Cancellation | None = None
    ) -> Container:
        """A container that is not started yet, read back and compared with what was asked.

        An engine that has to wait for room stops waiting soon after `cancel` is set.

        Raises LaunchCancelled, IsolationRefused after removing it when the engine made something else, ImageMissing without the image.
        """

    def container(self, id_: str, /) -> Container:
        """Any container of this engine by its id, such as one that another server left. Does not ask whether it exists."""

    def describe(self, container: str) -> ContainerDetails | None:
        """Details of any running container of this engine; None for an unknown one, and for engines that do not report them."""

    def leftovers(self) -> tuple[Leftover, ...]:
        """Every container that carries our labels."""

    def close(self) -> None:
        """Closes its connections; containers are not removed."""


@contextlib.contextmanager
def removed_on_failure(container: Container) -> Iterator[None]:
    """Removes a container that was never started if the block fails. Raises the first failure."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(EngineUnavailable):
            container.remove()
        raise
