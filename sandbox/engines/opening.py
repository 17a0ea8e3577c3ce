"""The engine behind an address, with the class that speaks to it.

`python -m sandbox.engines.opening` prints the address of the engine in use and ends with 0; with 1 when there is none, with 2 when
there is one that cannot be used, so that installing another would not help. `--daemon` after it wants one that listens.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import docker

from sandbox.engine import ClusterOptions, Engine
from sandbox.engines.discovery import EngineRefused, connect, discover, endpoints
from sandbox.engines.docker import DockerEngine
from sandbox.engines.k8s.cluster import SCHEME, Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.oci.confinement import security_options
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import ensure_installed
from sandbox.engines.oci.kernel import is_possible
from sandbox.engines.oci.runtime import installed
from sandbox.engines.podman import PodmanEngine
from sandbox.errors import EngineUnavailable

_KINDS: Final = ("docker", "podman")
OCI: Final = "oci"
OCI_FOLDER: Final = Path("/var/lib/gdal-mcp-oci")
OCI_FOLDER_OF_USER: Final = "~/.local/share/gdal-mcp-oci"


def open_engine(
    address: str | None = None,
    owner: str = "",
    options: ClusterOptions = ClusterOptions(),  # noqa: B008 - a frozen value
) -> Engine:
    """The engine in use: the one at `address`, or the one that discovery finds.

    An address is where an engine listens (`unix:///run/docker.sock`, a path, `tcp://host:port`), with `docker:` or `podman:`
    in front of it where it must be of that kind, or that word alone; `oci`, or `oci://` and a folder, for containers without a
    daemon. Where none is named and none listens, root gets `oci` if a runtime for it is installed. `k8s://CONTEXT/NAMESPACE` is
    a cluster, `k8s://` the one that this runs in; `options` are about clusters alone. `owner` is whose containers those are that an engine needs for itself. Raises
    EngineUnavailable when no engine answers, EngineRefused when one that was named or found cannot be used.
    """
    kind, _, place = (address or "").partition(":")
    if kind == OCI:
        # a home that nobody knows stays a ~, which is refused
        own = Path(os.path.expanduser(OCI_FOLDER_OF_USER))  # noqa: PTH111
        usual = OCI_FOLDER if os.geteuid() == 0 else own
        return OciEngine(Path(place.removeprefix("//")) if place else usual).prepared()
    if address and address.startswith(SCHEME):
        return KubernetesEngine(Cluster.named(address, options), owner)
    if not address:
        return _found()[1]
    if kind not in _KINDS:
        return engine_of(connect(address))
    engine = engine_of(connect(place or None, kind=kind))
    if (name := engine.info().name) != kind.capitalize():
        engine.close()
        raise EngineRefused(
            f"{address} was asked for, but {name} answers there. Correct the engine's address."
        )
    return engine


def sockets(address: str | None = None) -> tuple[Path, ...]:
    """Where on this host the engine may listen that `open_engine` would open. Raises EngineRefused."""
    kind, _, place = (address or "").partition(":")
    named, kind = (place, kind) if kind in _KINDS else (address, "")
    return tuple(one.socket for one in endpoints(named or None, os.environ, kind) if one.socket)


def _found(*, daemon: bool = False) -> tuple[str, Engine]:
    """The engine in use where nobody named one, and its address."""
    try:
        place, client = discover()
    except EngineUnavailable as error:
        if isinstance(error, EngineRefused) or daemon or not is_possible() or not installed():
            raise
        return OCI, OciEngine(OCI_FOLDER).prepared()
    return place.address, engine_of(client)


def open_or_install(address: str | None, report: Callable[[str], None]) -> Engine:
    """As `open_engine`, for a person's set-up: where there is no engine, root gets the runtime for one without a daemon.

    Raises PullFailed when that cannot be installed.
    """
    try:
        return open_engine(address)
    except EngineRefused:
        raise
    except EngineUnavailable:
        if (address or OCI).partition(":")[0] != OCI or not is_possible():
            raise
    packages = {"crun": "crun"}  # by the program that each brings
    if "name=apparmor" in security_options():  # our profile has to be loaded
        packages["apparmor_parser"] = "apparmor"
    ensure_installed([*packages], [*packages.values()], report)
    return open_engine(address)


def engine_of(client: docker.DockerClient) -> DockerEngine:
    """Of the class for the name that an engine gives itself. Raises EngineUnavailable when it gives none."""
    engine = DockerEngine(client)
    return PodmanEngine(client) if engine.info().name == "Podman" else engine


def main() -> int:
    try:
        address, engine = _found(daemon="--daemon" in sys.argv)
    except EngineUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, EngineRefused) else 1
    engine.close()
    sys.stdout.write(f"{address}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
