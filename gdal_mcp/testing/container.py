"""The server in a container, as testcontainers starts services.

Use `with GdalMcpContainer(workspace) as server: server.client()`. It needs the server's image (`docker build -t
gdal-mcp .`), the GDAL image, and a local engine, whose socket the server gets: a process that may use that socket is
root on this host, so start nothing that you do not trust. `engine_socket` may name that of a proxy.
"""

import os
import shutil
import socket
import tempfile
import time
from contextlib import AbstractContextManager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, Self

from docker.errors import ImageNotFound
from testcontainers.core.container import DockerContainer

from gdal_mcp.testing.client import GdalMcpClient, connected, over_http

IMAGE: Final = "gdal-mcp"
READY_SECONDS: Final = 120.0  # seconds; the host is attested first, which takes longer on a busy one
STOP_SECONDS: Final = 30
SCOPES: Final = ("gdal:read", "gdal:write")
_PORT: Final = 8000  # port in the container
_NOBODY: Final = 65534
_PAUSE: Final = 0.1  # seconds between two checks whether it is ready
_SOCKET: Final = "/run/engine/docker.sock"


class GdalMcpContainer(DockerContainer):
    """One server with one workspace. `url` and `token` are valid after it has started."""

    def __init__(  # noqa: PLR0913 - each is one fact of the deployment, and all but one have a default
        self,
        workspace: Path,
        *,
        image: str = IMAGE,
        inside: str | None = None,
        engine_socket: str = "/var/run/docker.sock",
        scopes: tuple[str, ...] = SCOPES,
        host_network: bool = False,
    ) -> None:
        """`inside` is the workspace's path in the server's container: by default its own path, else mapped with
        path_map.

        `host_network` is for an engine that publishes no ports; the server then listens on loopback only.
        """
        super().__init__(image)
        self.token = ""
        self._scopes = scopes
        self._state = Path(tempfile.mkdtemp(prefix="gdal-mcp-state-"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = int(listener.getsockname()[1])
        # the owner of the workspace, so that new files belong to the same user; never root
        status = workspace.stat()
        self._user = (status.st_uid or _NOBODY, status.st_gid or _NOBODY)
        if os.geteuid() == 0:
            os.chown(self._state, *self._user)
        self.tmpfs["/tmp"] = "mode=1777"  # noqa: S108 - inside the container
        self._place(workspace, inside or str(workspace), engine_socket)
        if host_network:
            self.with_envs(GDAL_MCP_HOST="127.0.0.1", GDAL_MCP_PORT=str(self._port))
            self.with_kwargs(network_mode="host")
        else:  # published on loopback only, because its tokens are not encrypted
            self.ports[str(_PORT)] = ("127.0.0.1", self._port)  # type: ignore[assignment]
            self.with_envs(GDAL_MCP_PUBLIC_URL=f"http://127.0.0.1:{self._port}", GDAL_MCP_BEHIND_PROXY="1")
        group = Path(engine_socket).stat().st_gid
        self.with_kwargs(**self._kwargs, **self._confined(), group_add=[group])

    @property
    def url(self) -> str:
        """The address of the MCP endpoint."""
        return f"http://127.0.0.1:{self._port}/mcp"

    def client(self) -> AbstractContextManager[GdalMcpClient]:
        """A connected client with the server's token, which answers yes to every question."""
        return connected(over_http(self.url, self.token))

    def start(self) -> Self:
        """Makes a token, starts the server, and returns once it is ready. Raises RuntimeError if its image is
        missing, or with its last output.
        """
        try:
            self.token = self._new_token()
            super().start()
            self._await_ready()
        except BaseException:  # re-raised: even after an interrupt, no container may remain
            self.stop()
            raise
        return self

    def stop(self, *arguments: Any, **named: Any) -> None:
        """Ends the server first, so that it removes its waiting containers. Safe to call twice."""
        if self._container is not None:
            self._container.stop(timeout=STOP_SECONDS)
        super().stop(*arguments, **named)
        self._container = None
        shutil.rmtree(self._state, ignore_errors=True)

    def _place(self, workspace: Path, inside: str, engine_socket: str) -> None:
        """Mounts the workspace, the state and the engine's socket.

        The state has the same path on both sides, so that only the workspace may need a map.
        """
        self.with_volume_mapping(str(workspace), inside, "rw")
        self.with_volume_mapping(str(self._state), str(self._state), "rw")
        self.with_volume_mapping(engine_socket, _SOCKET, "rw")
        self.with_envs(
            GDAL_MCP_WORKSPACES=inside,
            GDAL_MCP_STATE_DIR=str(self._state),
            GDAL_MCP_ENGINE=f"unix://{_SOCKET}",
        )
        if inside != str(workspace):
            self.with_env("GDAL_MCP_PATH_MAP", f"{inside}:{workspace},{self._state}:{self._state}")
        if named := os.environ.get("GDAL_MCP_IMAGE"):
            self.with_env("GDAL_MCP_IMAGE", named)

    def _confined(self) -> dict[str, Any]:
        return {
            "user": f"{self._user[0]}:{self._user[1]}",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
        }

    def _new_token(self) -> str:
        """A new token, made in the server's image, which stores it where the server looks for it."""
        try:
            self.get_docker_client().client.images.get(self.image)
        except ImageNotFound:
            text = f"the server's image {self.image} is not on this engine. In a clone of the project run: docker build -t {self.image} ."
            raise RuntimeError(text) from None
        output: bytes = self.get_docker_client().client.containers.run(
            self.image,
            ["token", "new", "testing", *(word for scope in self._scopes for word in ("--scope", scope))],
            environment=self.env,
            volumes={
                place: {"bind": mount["bind"], "mode": mount["mode"]} for place, mount in self.volumes.items()
            },
            tmpfs=self.tmpfs,
            network_mode="none",
            remove=True,
            **self._confined(),
        )
        return output.decode("ascii").strip().splitlines()[-1]

    def _await_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            container = self.get_wrapped_container()
            container.reload()
            if container.status != "running" or time.monotonic() > end:
                output = container.logs(tail=20).decode("utf-8", "replace")
                raise RuntimeError(
                    f"the server is {container.status} and not ready. Its last output: {output}"
                )
            time.sleep(_PAUSE)

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=READY_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
