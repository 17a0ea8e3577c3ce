"""Chooses the engine: the one that the user named, or the first one on which a test container has started.

The candidates, in this order, are the daemons that answer (Docker, then Podman), crun, and runc. Each gets one trial
(`trial.py`). Its result is kept until the host changes.

Invariants:
* An engine that the user named is used, or the call fails. No other engine takes its place.
* Every candidate that was passed over is reported with the reason, in `OpenedEngine.passed_over` or in the error.
* Only a set-up that the user started installs anything (`open_or_install`).
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import docker

from sandbox.engine import ClusterOptions, Engine
from sandbox.engines.discovery import (
    DOCKER_SOCKET,
    NO_ENGINE,
    NO_PERMISSION,
    Endpoint,
    EngineRefused,
    connect,
    endpoints,
    open_endpoint,
)
from sandbox.engines.docker import DockerEngine
from sandbox.engines.k8s.cluster import SCHEME, Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.oci.confinement import security_options
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import archive_of, ensure_installed, fetch
from sandbox.engines.oci.kernel import obstacle
from sandbox.engines.oci.runtime import FLOORS, candidates, too_old
from sandbox.engines.oci.store import ImageStore
from sandbox.engines.podman import PodmanEngine
from sandbox.engines.trial import Results, fingerprint, try_engine
from sandbox.errors import EngineUnavailable, SandboxError

_KINDS: Final = ("docker", "podman")
OCI: Final = "oci"
OCI_FOLDER: Final = Path("/var/lib/gdal-mcp-oci")
OCI_FOLDER_OF_USER: Final = "~/.local/share/gdal-mcp-oci"
TIMEOUT: Final = 60.0  # seconds, for each request to a daemon

# packages that set-up installs as root on Debian and Ubuntu, in this order, by the program that they provide
INSTALLABLE: Final = {"crun": ("crun",), "runc": ("runc",), "dockerd": ("docker.io", "ca-certificates")}


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """A candidate that was not chosen, and the reason."""

    candidate: str
    reason: str
    # True if it is not installed or nothing listens there, so it is not a problem to report
    absent: bool = False

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason}"


@dataclass(frozen=True, slots=True)
class OpenedEngine:
    """The engine in use, its address, and the candidates that were tried first and passed over."""

    engine: Engine
    address: str
    passed_over: tuple[RejectedCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible engine. `open` raises OSError or SandboxError with the reason if it does not answer or is too old."""

    name: str
    address: str
    open: Callable[[], Engine]


_NO_OPTIONS: Final = ClusterOptions()


def open_engine(address: str | None = None, options: ClusterOptions = _NO_OPTIONS) -> Engine:
    """The engine that `open_first` opens."""
    return open_first(address, options=options).engine


def open_first(
    address: str | None = None,
    owner: str = "",
    options: ClusterOptions = _NO_OPTIONS,
    *,
    fresh: bool = False,
) -> OpenedEngine:
    """Opens the engine at `address`, or without an address the first candidate on which a container starts.

    Forms of an address:
    * `unix:///run/docker.sock`, a path, or `tcp://host:port`: where an engine listens; `docker:` or `podman:` in
      front of it requires that engine. `docker` or `podman` without a place searches for that engine.
    * `oci`, or `oci://` and a folder: containers without a daemon, created by the first of crun and runc that passes
      its trial.
    * `k8s://CONTEXT/NAMESPACE`: a cluster; `k8s://` is the cluster that this server runs in. `options` apply only to
      clusters.

    `owner` owns the containers that an engine creates for itself. `fresh` repeats trials whose results are known.
    Raises EngineUnavailable with every candidate and its reason if there is no usable engine, and EngineRefused if
    the named engine or the only engine cannot be used.
    """
    results = Results()
    kind, _, place = (address or "").partition(":")
    if kind == OCI:
        return first_that_starts([*_without_daemon(_folder(place))], results, owner, fresh=fresh)
    if address and address.startswith(SCHEME):
        return OpenedEngine(KubernetesEngine(Cluster.from_address(address, options), owner), address)
    if not address:
        return default_engine(results, owner, fresh=fresh)
    if kind not in _KINDS:
        return OpenedEngine(engine_of(connect(address)), address)
    engine = engine_of(connect(place or None, kind=kind))
    if (name := engine.info().name) != kind.capitalize():
        engine.close()
        raise EngineRefused(
            f"{address} was asked for, but {name} answers there. Correct the engine's address."
        )
    return OpenedEngine(engine, address)


def sockets(address: str | None = None) -> tuple[Path, ...]:
    """The Unix sockets on this host where the engine that `open_engine` would open may listen. Raises EngineRefused."""
    kind, _, place = (address or "").partition(":")
    named, kind = (place, kind) if kind in _KINDS else (address, "")
    return tuple(
        endpoint.socket for endpoint in endpoints(named or None, os.environ, kind) if endpoint.socket
    )


def default_engine(
    results: Results, owner: str = "", *, daemon: bool = False, fresh: bool = False
) -> OpenedEngine:
    """Without an address: the engine that the environment names, or the first candidate that starts a container."""
    places = endpoints(None, os.environ)
    if places[0].named:
        return OpenedEngine(engine_of(connect()), places[0].address)
    listening = [
        Candidate(str(endpoint), endpoint.address, partial(_daemon, endpoint)) for endpoint in places
    ]
    others = () if daemon else _without_daemon(_folder(""), obstacle())
    return first_that_starts([*listening, *others], results, owner, fresh=fresh)


def first_that_starts(
    candidates: list[Candidate],
    results: Results,
    owner: str = "",
    *,
    fresh: bool = False,
    attempt: Callable[[Engine, str], str] = try_engine,
) -> OpenedEngine:
    """The first candidate that opens and passes its trial. Raises the same errors as `open_first`."""
    passed_over: list[RejectedCandidate] = []
    forbidden = False
    for candidate in candidates:
        try:
            engine = candidate.open()
        except FileNotFoundError as error:
            passed_over.append(RejectedCandidate(candidate.name, error.strerror or str(error), absent=True))
            continue
        except (OSError, SandboxError) as error:
            forbidden |= isinstance(error, PermissionError)
            passed_over.append(
                RejectedCandidate(candidate.name, getattr(error, "strerror", None) or str(error))
            )
            continue
        reason = _result(engine, results, owner, attempt, fresh=fresh)
        if not reason:
            results.save()
            return OpenedEngine(engine, candidate.address, tuple(passed_over))
        engine.close()
        passed_over.append(RejectedCandidate(candidate.name, reason))
    kind, advice = (EngineRefused, NO_PERMISSION) if forbidden else (EngineUnavailable, NO_ENGINE)
    raise kind(f"no engine starts a container of ours here. Tried:{listed(passed_over)}\n{advice}")


def _result(
    engine: Engine,
    results: Results,
    owner: str,
    attempt: Callable[[Engine, str], str],
    *,
    fresh: bool,
) -> str:
    """The result of an engine's trial, from the cache if it is known; "" if it passed."""
    try:
        key = fingerprint(engine.info())
    except SandboxError as error:
        return str(error)
    known = None if fresh else results.find(key)
    if known is not None:
        return known
    reason = attempt(engine, owner)
    results.add(key, reason)
    return reason


def listed(passed_over: list[RejectedCandidate]) -> str:
    """One line for each candidate; candidates that are not installed are grouped at the end."""
    lines = [f"\n  {skipped}" for skipped in passed_over if not skipped.absent]
    absent: dict[str, list[str]] = {}
    for skipped in passed_over:
        if skipped.absent:
            absent.setdefault(skipped.reason, []).append(skipped.candidate)
    return "".join((*lines, *(f"\n  {reason}: {', '.join(names)}" for reason, names in absent.items())))


def _daemon(place: Endpoint) -> Engine:
    """Opens a daemon.

    Raises FileNotFoundError if nothing listens, and OSError or EngineUnavailable if it does not answer.
    """
    try:
        return engine_of(open_endpoint(place, TIMEOUT))
    except FileNotFoundError as error:
        if place.address.endswith(DOCKER_SOCKET) and shutil.which("dockerd"):
            raise OSError(
                "Docker is installed and not running (sudo systemctl start docker, or sudo service docker start)"
            ) from error
        raise FileNotFoundError(errno.ENOENT, "nothing listens") from error


def _without_daemon(folder: Path, blocked: str = "") -> Iterator[Candidate]:
    """The low-level runtimes as candidates. `blocked` is the reason why this process can use neither; "" if it can."""
    for name in candidates():
        opened = partial(_of_runtime, folder, name, blocked)
        yield Candidate(f"{name}, without a daemon", f"{OCI}://{folder}", opened)


def _of_runtime(folder: Path, name: str, blocked: str) -> Engine:
    """Opens a runtime. Raises FileNotFoundError if it is not installed, EngineUnavailable if it cannot be used."""
    if blocked:
        raise EngineUnavailable(blocked)
    runtime = candidates()[name]
    if runtime is None:
        raise FileNotFoundError(errno.ENOENT, "not installed")
    if reason := too_old(runtime):
        raise EngineUnavailable(reason)
    return OciEngine(folder, name).prepared()


def _folder(place: str) -> Path:
    # if the home folder is unknown, the path keeps its `~`, and such a path is refused
    own = Path(os.path.expanduser(OCI_FOLDER_OF_USER))  # noqa: PTH111
    usual = OCI_FOLDER if os.geteuid() == 0 else own
    return Path(place.removeprefix("//")) if place else usual


def open_or_install(address: str | None, report: Callable[[str], None]) -> Engine:
    """Opens an engine as `open_engine` does, and if there is none, installs one as root on Debian and Ubuntu.

    Tries crun, then runc, then Docker. Reports each candidate that is passed over with its reason. Raises PullFailed
    if a package cannot be installed.
    """
    try:
        return _reported(address, report)
    except EngineRefused:
        raise
    except EngineUnavailable as error:
        if (address or OCI).partition(":")[0] != OCI or obstacle():
            raise
        failure = error
    for program, packages in INSTALLABLE.items():
        if shutil.which(program) or (address and program not in FLOORS):
            continue
        report(listed_in(failure))
        _install(program, packages, report)
        try:
            return _reported(address, report)
        except EngineUnavailable as error:
            failure = error
    raise failure


def listed_in(failure: EngineUnavailable) -> str:
    """The text of an error of `first_that_starts` without its advice."""
    return str(failure).rpartition("\n")[0] or str(failure)


def _reported(address: str | None, report: Callable[[str], None]) -> Engine:
    opened = open_first(address)
    for skipped in opened.passed_over:
        if not skipped.absent:
            report(f"passed over {skipped}")
    return opened.engine


def _install(program: str, packages: tuple[str, ...], report: Callable[[str], None]) -> None:
    needed = {program: packages}
    if "name=apparmor" in security_options():  # loading our profile needs apparmor_parser
        needed["apparmor_parser"] = ("apparmor",)
    ensure_installed([*needed], [package for group in needed.values() for package in group], report)


def engine_of(client: docker.DockerClient) -> DockerEngine:
    """The engine object for a client, by the name that the engine reports.

    Raises EngineUnavailable if it does not answer.
    """
    engine = DockerEngine(client)
    if engine.info().name == "Podman":
        engine = PodmanEngine(client)
    engine.images.archives = partial(archive_of, ImageStore(_folder(""), fetch))
    return engine
