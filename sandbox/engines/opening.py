"""The engine in use: the one that was named, or the first on which a container of ours has just started.

Candidates, in this order: the daemons that answer (Docker, then Podman), crun, runc. Each gets one trial (`trial.py`); its result is
kept until the host changes. Invariants:
* an engine that a person named is used or is an error; no other one takes its place;
* every candidate that was passed over is named with the reason, in `Opened.passed_over` or in the error;
* only a person's set-up installs anything (`open_or_install`).

`python -m sandbox.engines.opening` prints the address of the engine in use and ends with 0, with the candidates that were passed over
on stderr; with 1 when there is none, with 2 when one that cannot be used was named or is the only one, so that installing another
would not help. `--daemon` after it wants one that listens.
"""

import errno
import os
import shutil
import sys
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

# what set-up installs as root on Debian and Ubuntu, in this order: the packages of each by the program that shows it is there
RUNGS: Final = {"crun": ("crun",), "runc": ("runc",), "dockerd": ("docker.io", "ca-certificates")}


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A candidate that is not used, and why."""

    candidate: str
    reason: str
    absent: bool = False  # nothing listens there or it is not installed, so that nothing is wrong with it

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason}"


@dataclass(frozen=True, slots=True)
class OpenedEngine:
    """The engine in use, its address, and the candidates that were tried before it and are not used."""

    engine: Engine
    address: str
    passed_over: tuple[PassedOver, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine that may serve. `open` raises OSError or SandboxError with the reason when it does not answer or is too old."""

    name: str
    address: str
    open: Callable[[], Engine]


_NO_OPTIONS: Final = ClusterOptions()


def open_engine(address: str | None = None, owner: str = "", options: ClusterOptions = _NO_OPTIONS) -> Engine:
    """The engine of `open_first`."""
    return open_first(address, owner, options).engine


def open_first(
    address: str | None = None,
    owner: str = "",
    options: ClusterOptions = _NO_OPTIONS,
    *,
    fresh: bool = False,
) -> OpenedEngine:
    """The engine at `address`, or the first candidate on which a container starts.

    An address is where an engine listens (`unix:///run/docker.sock`, a path, `tcp://host:port`), with `docker:` or `podman:`
    in front of it where it must be of that kind, or that word alone; `oci`, or `oci://` and a folder, for containers without a
    daemon, made by whichever of crun and runc passes its trial. `k8s://CONTEXT/NAMESPACE` is a cluster, `k8s://` the one that
    this runs in; `options` are about clusters alone. `owner` is whose containers those are that an engine needs for itself.
    `fresh` tries candidates again whose result is known. Raises EngineUnavailable with every candidate and its reason when none
    serves, EngineRefused when one that was named or is the only one cannot be used.
    """
    results = Results()
    kind, _, place = (address or "").partition(":")
    if kind == OCI:
        return first_that_starts([*_without_daemon(_folder(place))], results, owner, fresh=fresh)
    if address and address.startswith(SCHEME):
        return OpenedEngine(KubernetesEngine(Cluster.from_address(address, options), owner), address)
    if not address:
        return _found(results, owner, fresh=fresh)
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
    """Where on this host the engine may listen that `open_engine` would open. Raises EngineRefused."""
    kind, _, place = (address or "").partition(":")
    named, kind = (place, kind) if kind in _KINDS else (address, "")
    return tuple(one.socket for one in endpoints(named or None, os.environ, kind) if one.socket)


def _found(results: Results, owner: str = "", *, daemon: bool = False, fresh: bool = False) -> OpenedEngine:
    """The engine in use where no address was given: one that the environment names, or the first candidate that starts."""
    places = endpoints(None, os.environ)
    if places[0].named:
        return OpenedEngine(engine_of(connect()), places[0].address)
    listening = [Candidate(str(one), one.address, partial(_daemon, one)) for one in places]
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
    """The first candidate that opens and passes its trial. Raises as `open_first`."""
    passed_over: list[PassedOver] = []
    forbidden = False
    for one in candidates:
        try:
            engine = one.open()
        except FileNotFoundError as error:
            passed_over.append(PassedOver(one.name, error.strerror or str(error), absent=True))
            continue
        except (OSError, SandboxError) as error:
            forbidden |= isinstance(error, PermissionError)
            passed_over.append(PassedOver(one.name, getattr(error, "strerror", None) or str(error)))
            continue
        reason = _result(engine, results, owner, attempt, fresh=fresh)
        if not reason:
            results.save()
            return OpenedEngine(engine, one.address, tuple(passed_over))
        engine.close()
        passed_over.append(PassedOver(one.name, reason))
    kind = EngineRefused if forbidden else EngineUnavailable
    raise kind(
        f"no engine starts a container of ours here. Tried:{listed(passed_over)}\n{_advice(forbidden)}"
    )


def _result(
    engine: Engine,
    results: Results,
    owner: str,
    attempt: Callable[[Engine, str], str],
    *,
    fresh: bool,
) -> str:
    """What the trial of an engine found, now or earlier."""
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


def listed(passed_over: list[PassedOver]) -> str:
    """One line for each candidate, those that are not there together at the end."""
    lines = [f"\n  {one}" for one in passed_over if not one.absent]
    absent: dict[str, list[str]] = {}
    for one in passed_over:
        if one.absent:
            absent.setdefault(one.reason, []).append(one.candidate)
    return "".join((*lines, *(f"\n  {reason}: {', '.join(names)}" for reason, names in absent.items())))


def _advice(forbidden: bool) -> str:  # noqa: FBT001 - the question itself
    return NO_PERMISSION if forbidden else NO_ENGINE


def _daemon(place: Endpoint) -> Engine:
    """Raises FileNotFoundError where nothing is, OSError or EngineUnavailable for a daemon that does not answer."""
    try:
        return engine_of(open_endpoint(place, TIMEOUT))
    except FileNotFoundError as error:
        if place.address.endswith(DOCKER_SOCKET) and shutil.which("dockerd"):
            raise OSError(
                "Docker is installed and not running (sudo systemctl start docker, or sudo service docker start)"
            ) from error
        raise FileNotFoundError(errno.ENOENT, "nothing listens") from error


def _without_daemon(folder: Path, blocked: str = "") -> Iterator[Candidate]:
    """The low-level runtimes. `blocked`: why this process can use neither."""
    for name in candidates():
        opened = partial(_of_runtime, folder, name, blocked)
        yield Candidate(f"{name}, without a daemon", f"{OCI}://{folder}", opened)


def _of_runtime(folder: Path, name: str, blocked: str) -> Engine:
    """Raises FileNotFoundError for a runtime that is not installed, EngineUnavailable for one that cannot be used."""
    if blocked:
        raise EngineUnavailable(blocked)
    found = candidates()[name]
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "not installed")
    if reason := too_old(found):
        raise EngineUnavailable(reason)
    return OciEngine(folder, name).prepared()


def _folder(place: str) -> Path:
    # an unknown home folder stays a ~, which is refused
    own = Path(os.path.expanduser(OCI_FOLDER_OF_USER))  # noqa: PTH111
    usual = OCI_FOLDER if os.geteuid() == 0 else own
    return Path(place.removeprefix("//")) if place else usual


def open_or_install(address: str | None, report: Callable[[str], None]) -> Engine:
    """As `open_engine`, for a person's set-up: where no engine serves, root on Debian and Ubuntu gets crun, then runc, then Docker.

    Each candidate that is passed over is reported with its reason. Raises PullFailed when a package cannot be installed.
    """
    try:
        return _reported(address, report)
    except EngineRefused:
        raise
    except EngineUnavailable as error:
        if (address or OCI).partition(":")[0] != OCI or obstacle():
            raise
        failure = error
    for program, packages in RUNGS.items():
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
    """What an error of `first_that_starts` says, without its advice."""
    return str(failure).rpartition("\n")[0] or str(failure)


def _reported(address: str | None, report: Callable[[str], None]) -> Engine:
    opened = open_first(address)
    for one in opened.passed_over:
        if not one.absent:
            report(f"passed over {one}")
    return opened.engine


def _install(program: str, packages: tuple[str, ...], report: Callable[[str], None]) -> None:
    wanted = {program: packages}
    if "name=apparmor" in security_options():  # our profile has to be loaded
        wanted["apparmor_parser"] = ("apparmor",)
    ensure_installed([*wanted], [one for some in wanted.values() for one in some], report)


def engine_of(client: docker.DockerClient) -> DockerEngine:
    """Of the class for the name that an engine gives itself. Raises EngineUnavailable when it gives none."""
    engine = DockerEngine(client)
    if engine.info().name == "Podman":
        engine = PodmanEngine(client)
    engine.images.archives = partial(archive_of, ImageStore(_folder(""), fetch))
    return engine


def main() -> int:
    try:
        opened = _found(Results(), daemon="--daemon" in sys.argv)
    except EngineUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, EngineRefused) else 1
    opened.engine.close()
    sys.stdout.write(f"{opened.address}\n")
    sys.stdout.flush()
    for one in opened.passed_over:
        if not one.absent:
            sys.stderr.write(f"  passed over {one}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
