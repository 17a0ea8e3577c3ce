"""Docker, and what speaks its API. Never calls exec, archive or commit; an image is never pulled here."""

import contextlib
import math
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import docker
import docker.errors
import requests.exceptions
import structlog
import urllib3.exceptions

from sandbox.engine import ContainerState, EngineInfo, Leftover, Wire
from sandbox.errors import EngineUnavailable, ImageMissing, IsolationRefused
from sandbox.hardening import EngineFacts, create_body, differences, submounts
from sandbox.labels import OWNER
from sandbox.template import SandboxTemplate
from sandbox.waiting import writable

_HEADER = struct.Struct(">BxxxI")  # the engine's own stream framing: stdout or stderr, length
_CHUNK = 1 << 18
_REMOVAL_SECONDS = 20.0
_REMOVAL_PAUSE, _REMOVAL_PAUSE_LONGEST = 0.005, 0.5
_READ_ONLY_RECURSIVE = (1, 44)  # API version from which a read-only bind covers what is mounted below it

_log = structlog.get_logger()


class DockerEngine:
    """One Docker-compatible engine on this host, through the official SDK."""

    def __init__(self, client: docker.DockerClient, image_environment: Sequence[str] = ()) -> None:
        """`image_environment` names what the image itself would set, so that none of it reaches a container."""
        self._api = client.api
        # the SDK asks for a container's streams without a time limit: a silent engine would hold the call for ever
        self._api.request = partial(self._api.request, timeout=self._api.timeout)  # type: ignore[method-assign]
        self._image_environment = tuple(image_environment)
        if str(self._api.base_url).startswith("https://"):
            raise EngineUnavailable("a remote engine cannot see this host's workspaces. Use a local engine.")

    def info(self) -> EngineInfo:
        return self._info

    @cached_property
    def _info(self) -> EngineInfo:
        with _answering("asked for its version"):
            version, info = self._api.version(), self._api.info()
        options = tuple(info.get("SecurityOptions") or ())
        podman = any(
            "podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ()
        )
        major, minor = str(self._api.api_version).split(".")
        return EngineInfo(
            name="Podman" if podman else "Docker",
            version=str(version["Version"]),
            api_version=(int(major), int(minor)),
            architecture=str(info["Architecture"]),
            cgroup_version=str(info.get("CgroupVersion") or "1"),
            security_options=options,
            rootless=any("rootless" in option for option in options),
            runtimes=tuple(sorted(info.get("Runtimes") or ())),
            address=str(self._api.base_url),
            identity=str(info.get("ID") or ""),
            cpus=int(info.get("NCPU") or 0),
            memory_bytes=int(info.get("MemTotal") or 0),
        )

    @cached_property
    def _facts(self) -> EngineFacts:
        info = self._info
        return EngineFacts(info.api_version, info.architecture, info.cgroup_version, info.security_options)

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        self._refuse_submounts(template)
        body = create_body(template, self._facts, labels, self._image_environment)
        with _answering("asked to create a container"):
            try:
                made = self._api.create_container_from_config(body)  # type: ignore[no-untyped-call]
                container = str(made["Id"])
            except docker.errors.NotFound as error:
                raise ImageMissing(
                    f"image {template.image} is not on this host. Run `gdal-mcp setup`."
                ) from error
        try:
            self._read_back(container, body)
        except BaseException:
            # it was never started, and the first failure is the one to tell
            with contextlib.suppress(EngineUnavailable):
                self.remove(container)
            raise
        return container

    def _read_back(self, container: str, body: Mapping[str, Any]) -> None:
        with _answering("asked what it created"):
            found = differences(body, self._api.inspect_container(container))
        if found:
            rows = "; ".join(f"{one.field}: asked {one.asked!r}, got {one.got!r}" for one in found[:5])
            raise IsolationRefused(
                f"the engine made a weaker container than asked, so nothing was run: {rows[:1000]}"
            )

    def _refuse_submounts(self, template: SandboxTemplate) -> None:
        if self._info.api_version >= _READ_ONLY_RECURSIVE:
            return
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            mountinfo = file.read()
        for mount in template.mounts:
            if below := submounts(mount.source, mountinfo):
                raise IsolationRefused(
                    f"{mount.source} holds the mount {below[0]}, which this engine would leave writable. "
                    "Unmount it, choose another workspace, or use Docker 25 or newer."
                )

    def attach(self, container: str) -> Wire:
        with _answering("asked for a container's streams"):
            stream = self._api.attach_socket(container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        return DockerWire(stream)

    def start(self, container: str) -> None:
        with _answering("asked to start a container"):
            self._api.start(container)

    def state(self, container: str) -> ContainerState | None:
        with _answering("asked how a container stands"):
            try:
                state = self._api.inspect_container(container)["State"]
            except docker.errors.NotFound:
                return None
        running = bool(state.get("Running")) or state.get("Status") == "created"
        return ContainerState(running, int(state.get("ExitCode", 0)), bool(state.get("OOMKilled")))

    def process(self, container: str) -> int | None:
        with _answering("asked for a container's process"):
            try:
                return int(self._api.inspect_container(container)["State"].get("Pid") or 0) or None
            except docker.errors.NotFound:
                return None

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        with contextlib.suppress(requests.exceptions.RequestException, docker.errors.APIError):
            self._api.wait(container, timeout=math.ceil(seconds))
        return self.state(container)  # asked again: a wait also ends when the engine restarts

    def remove(self, container: str) -> None:
        end, pause = time.monotonic() + _REMOVAL_SECONDS, _REMOVAL_PAUSE
        while True:
            try:
                if self._is_gone(container):
                    return
            except EngineUnavailable as error:  # also 409: a removal is already under way
                if time.monotonic() > end:
                    raise EngineUnavailable(
                        f"container {container[:12]} could not be removed: {error}"
                    ) from error
                pause = min(pause * 2, _REMOVAL_PAUSE_LONGEST)
            time.sleep(pause)

    def _is_gone(self, container: str) -> bool:
        """Asks for its removal; true once the engine does not know it any more."""
        with _answering("asked to remove a container"):
            try:
                self._api.remove_container(container, force=True, v=True)
            except docker.errors.NotFound:
                return True
        return False

    def leftovers(self) -> tuple[Leftover, ...]:
        with _answering("asked for our containers"):
            rows: list[dict[str, Any]] = self._api.containers(all=True, filters={"label": OWNER})
        return tuple(Leftover(str(row["Id"]), dict(row.get("Labels") or {})) for row in rows)


class DockerWire:
    """The hijacked attach connection, demultiplexed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream  # kept: closing it would close the connection under the duplicate
        self._socket = socket.socket(fileno=os.dup(stream.fileno()))
        self._socket.settimeout(0)
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        return list(self._pieces())

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        """Whole and partial engine frames alike: a long one is passed on as it arrives, so memory stays bounded."""
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            have = min(length, len(self._buffer) - _HEADER.size)
            if have == 0 and length:
                return
            piece = bytes(self._buffer[_HEADER.size : _HEADER.size + have])
            del self._buffer[: _HEADER.size + have]
            if have < length:
                self._buffer[:0] = _HEADER.pack(kind, length - have)
            yield kind, piece

    def send(self, data: bytes, seconds: float) -> None:
        end = time.monotonic() + seconds
        view = memoryview(data)
        while view:
            left = end - time.monotonic()
            if left <= 0 or not writable(self._socket, left):
                raise TimeoutError("the container does not read its stdin")
            view = view[self._socket.send(view[:_CHUNK]) :]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        under = getattr(
            self._stream, "_sock", None
        )  # closing the SDK's object leaves the connection under it open
        for one in (self._stream, under):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()


@contextlib.contextmanager
def _answering(doing: str) -> Iterator[None]:
    """Turns what the SDK and its HTTP stack raise into our own error."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineUnavailable(
            f"the container engine refused when {doing}: {error.explanation or error}"
        ) from error
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise EngineUnavailable(
            f"the container engine does not answer (when {doing}). Start it, then call again; `gdal-mcp doctor` shows more."
        ) from error
