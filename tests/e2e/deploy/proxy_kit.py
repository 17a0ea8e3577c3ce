"""The engine's proxy as deployed: with its own configuration, in a container without a network."""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from tests.e2e.deploy.server_image import proxy_image
from tests.waiting import until

ROOT = Path(__file__).parents[3]
LISTS = ROOT / "deploy" / "engine-proxy"


@dataclass(frozen=True)
class Proxy:
    socket: Path

    @property
    def address(self) -> str:
        return f"unix://{self.socket}"

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | str | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of one request, which is sent exactly as written."""
        text = json.dumps(body) if isinstance(body, Mapping) else body
        kind = {"Content-Type": "application/json"} if body is not None else {}
        with _connected(self.socket) as connection:
            connection.request(method, target, text, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()


@contextmanager
def _connected(path: Path) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(30)
    connection.sock.connect(str(path))
    try:
        yield connection
    finally:
        connection.close()


def engine_socket(client: docker.DockerClient) -> Path:
    """The socket of the engine in use."""
    address = client.api.base_url
    assert address.startswith("http+docker://"), f"the engine is reached at {address}, which is no socket"
    return Path(client.api.get_adapter(address).socket_path)


@contextmanager
def proxying(client: docker.DockerClient, folder: Path, sources: str) -> Iterator[Proxy]:
    """A proxy with its socket in `folder`; `sources` may be mounted."""
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    engine = engine_socket(client)
    binds = {
        str(LISTS): {"bind": "/etc/engine-proxy", "mode": "ro"},
        str(folder): {"bind": "/run/engine", "mode": "rw"},
        str(engine): {"bind": "/run/docker.sock", "mode": "rw"},
    }
    container = client.containers.run(
        proxy_image(client),
        ["haproxy", "-db", "-f", "/etc/engine-proxy/haproxy.cfg"],
        entrypoint=[],
        detach=True,
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        user=f"{os.geteuid() or 65534}:{os.getegid() or 65534}",
        group_add=[engine.stat().st_gid],
        volumes=binds,
        environment={
            "PROXY_SOCKET": "/run/engine/docker.sock",
            "ENGINE_SOCKET": "/run/docker.sock",
            "PROXY_LISTS": "/etc/engine-proxy",
            "MOUNT_SOURCES": sources,
        },
    )
    try:
        until(lambda: (folder / "docker.sock").exists() or _ended(container))
        assert (folder / "docker.sock").exists(), container.logs().decode()
        yield Proxy(folder / "docker.sock")
    finally:
        container.remove(force=True)


def _ended(container: Any) -> bool:
    container.reload()
    return container.status == "exited"
