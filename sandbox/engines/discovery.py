"""Finds the container engine of this host from the environment, Docker's configuration and known sockets.

Invariants:
* An engine that the user named (an address, DOCKER_HOST, a docker context) is used, or the call fails. No other
  engine silently takes its place.
* Nothing is started, installed or changed.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests.exceptions
from docker.context.config import get_context_id

from sandbox.errors import EngineUnavailable

DOCKER_SOCKET = "/var/run/docker.sock"
PODMAN_SOCKET = "/run/podman/podman.sock"
# a running engine answers in milliseconds; one that systemd starts on demand takes seconds
PROBE_SECONDS = 10.0
_UNIX = "unix://"

NO_PERMISSION = (
    "You may not use an engine's socket. Add yourself to the group that owns it (sudo usermod -aG docker "
    "$USER, then log in again; for a container: docker run --group-add with its number); whoever may use it is as good as "
    "root on this host. Or use a rootless engine."
)
_NAMED = (
    "A named engine is the only one that is tried. Start it, correct its address, or name none: no --engine, GDAL_MCP_ENGINE "
    "or DOCKER_HOST, and `docker context use default`."
)
NO_ENGINE = (
    "Start Docker or Podman, or set DOCKER_HOST to where one listens. A server in a container needs its socket: docker run -v "
    "/var/run/docker.sock:/var/run/docker.sock. A server that is root needs none on Debian and Ubuntu: `gdal-mcp setup` as root "
    "installs what makes containers without one."
)


_REMOTE = "An engine of another machine cannot see this host's workspaces. Use a local engine."


class EngineRefused(EngineUnavailable):
    """The named engine does not answer, or the user has no permission to use an engine that is present."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address where an engine may listen. `named` is True if the user chose it, False for a well-known location."""

    address: str  # unix:///path or tcp://host:port
    origin: str
    named: bool = False

    @property
    def socket(self) -> Path | None:
        """The path of the Unix socket on this host; None for an engine reached over a network."""
        # unix://run/x.sock is an old spelling of unix:///run/x.sock
        if not self.address.startswith(_UNIX):
            return None
        return Path("/" + self.address.removeprefix(_UNIX).lstrip("/"))

    def __str__(self) -> str:
        return f"{self.address} ({self.origin})"


def connect(address: str | None = None, timeout: float = 60, kind: str = "") -> docker.DockerClient:
    """A client of the engine that `discover` finds."""
    return discover(address, timeout, kind)[1]


def discover(
    address: str | None = None, timeout: float = 60, kind: str = ""
) -> tuple[Endpoint, docker.DockerClient]:
    """The endpoint of the engine in use, and a client for it. `timeout` is in seconds and applies to each request.

    `kind` (docker, podman) limits the search. Raises EngineUnavailable with the list of tried endpoints if no engine
    answers, and EngineRefused if an engine was named or exists but cannot be used.
    """
    absent, lines, forbidden = [], [], False
    places = endpoints(address, os.environ, kind)
    for place in places:
        try:
            return place, open_endpoint(place, timeout)
        except FileNotFoundError:
            absent.append(str(place))
        except OSError as error:
            lines.append(f"\n  {place}: {error.strerror or error}")
            forbidden |= isinstance(error, PermissionError)
    if absent:
        lines.append(f"\n  nothing at {', '.join(absent)}")
    report = f"no container engine answers. Tried:{''.join(lines)}"
    if forbidden:
        raise EngineRefused(f"{report}\n{NO_PERMISSION}")
    if places[0].named:
        raise EngineRefused(f"{report}\n{_NAMED}")
    raise EngineUnavailable(f"{report}\n{NO_ENGINE}")


def endpoints(address: str | None, environment: Mapping[str, str], kind: str = "") -> tuple[Endpoint, ...]:
    """The endpoints to try, in order; a single one if the user named it. Docker's settings are ignored for Podman.

    Raises EngineRefused if the configuration that names the engine cannot be read.
    """
    home = Path(environment.get("HOME") or "/")
    if address:
        return (Endpoint(_UNIX + address if address.startswith("/") else address, "as named", named=True),)
    sockets = tuple(Endpoint(_UNIX + path, origin) for path, origin in _known_sockets(environment, home))
    if kind == "podman":
        return tuple(endpoint for endpoint in sockets if "Podman" in endpoint.origin)
    if host := environment.get("DOCKER_HOST"):
        # same rule as the docker command: any non-empty value means yes
        certified = environment.get("DOCKER_TLS_VERIFY") or environment.get("DOCKER_CERT_PATH")
        if certified and not host.startswith(_UNIX):
            raise EngineRefused(f"DOCKER_HOST is reached with certificates. {_REMOTE}")
        return (Endpoint(host, "DOCKER_HOST", named=True),)
    folder = Path(environment.get("DOCKER_CONFIG") or home / ".docker")
    context = environment.get("DOCKER_CONTEXT") or _current_context(folder)
    if context and context != "default":
        return (_context_endpoint(folder, context),)
    return tuple(endpoint for endpoint in sockets if kind != "docker" or "Podman" not in endpoint.origin)


def _known_sockets(environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, str]]:
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield DOCKER_SOCKET, "Docker"
    yield f"{runtime}/docker.sock", "rootless Docker"
    yield f"{home}/.docker/run/docker.sock", "Docker Desktop"
    yield f"{home}/.docker/desktop/docker.sock", "Docker Desktop"
    yield f"{home}/.colima/default/docker.sock", "Colima"
    yield f"{home}/.config/colima/default/docker.sock", "Colima"  # used if ~/.colima does not exist
    yield f"{home}/.lima/docker/sock/docker.sock", "Lima"
    yield f"{home}/.orbstack/run/docker.sock", "OrbStack"
    yield f"{home}/.rd/docker.sock", "Rancher Desktop"
    yield f"{runtime}/podman/podman.sock", "rootless Podman"
    yield PODMAN_SOCKET, "Podman"
    yield f"{home}/.local/share/containers/podman/machine/podman.sock", "Podman machine"


def _current_context(folder: Path) -> str | None:
    file = folder / "config.json"
    try:
        name = _read(file).get("currentContext")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineRefused(f"{file}, which may name an engine, cannot be read: {error}.") from error
    return str(name) if name else None


def _context_endpoint(folder: Path, name: str) -> Endpoint:
    """The endpoint of a docker context.

    The context is read here because `docker.context.ContextAPI` falls back to the default context if it cannot read
    the file.
    """
    place = get_context_id(name)
    try:
        described = _read(folder / "contexts" / "meta" / place / "meta.json")
        host = str(described["Endpoints"]["docker"]["Host"])
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise EngineRefused(
            f"docker context {name!r} does not exist or names no engine. See `docker context ls`."
        ) from error
    if not host.startswith(_UNIX) and (folder / "contexts" / "tls" / place / "docker").is_dir():
        raise EngineRefused(f"docker context {name!r} is reached with certificates. {_REMOTE}")
    return Endpoint(host, f"docker context {name}", named=True)


def _read(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineRefused(f"{file}, which may name an engine, is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise EngineRefused(f"{file}, which may name an engine, does not hold a JSON object.")
    return value


def open_endpoint(endpoint: Endpoint, timeout: float) -> docker.DockerClient:
    """A client whose engine has just answered. Raises OSError with the reason if it does not answer."""
    if endpoint.address.lower().startswith(("ssh://", "https://")):
        raise OSError(_REMOTE)
    if endpoint.socket is not None:
        # connect directly first, to get the kernel's own error; the SDK would hide it inside another error
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
            knocking.settimeout(PROBE_SECONDS)
            knocking.connect(str(endpoint.socket))
    probing = max(1, round(min(timeout, PROBE_SECONDS)))
    try:  # the constructor asks the engine for its version
        client = docker.DockerClient(base_url=endpoint.address, timeout=probing)
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise OSError(f"does not answer as an engine: {error}") from error
    client.api.timeout = max(1, round(timeout))
    # without this, requests searches the environment for a proxy at every request, which takes a fifth of the request's
    # time
    client.api.trust_env = endpoint.socket is None
    return client
