"""Docker and engines with a compatible API.

Never calls exec, archive or commit; creating a container never pulls an image.
"""

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import docker
import docker.errors
import requests.exceptions

from sandbox.engine import (
    AttachedStreams,
    ContainerDetails,
    ContainerState,
    EngineInfo,
    Leftover,
    removed_on_failure,
)
from sandbox.engines.docker_spec import READ_ONLY_RECURSIVE, create_body, differences
from sandbox.engines.images import DockerImages
from sandbox.engines.wire import DockerStreams, translate_errors
from sandbox.errors import EngineUnavailable, ImageMissing, IsolationRefused
from sandbox.isolation.rows import failure_summary
from sandbox.labels import OWNER, Moment
from sandbox.mounted import mountinfo, submounts
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

_REMOVAL_PAUSE, _REMOVAL_PAUSE_LONGEST = 0.005, 0.5
# fields of the engine's /info that report which limits it can enforce; a missing field counts as enforced, because the
# created container is compared with the request
_LIMIT_FIELDS: Final = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}


HOW_TO_DELEGATE: Final = (
    "Delegate them: in a drop-in of user@.service, `[Service]` and `Delegate=cpu memory pids`; then log in again. Without root "
    "only systemd sets limits, so Docker needs `native.cgroupdriver=systemd` among the `exec-opts` of "
    '~/.config/docker/daemon.json, and Podman `cgroup_manager = "systemd"` in containers.conf.'
)


def refuse_unlimited(info: EngineInfo) -> None:
    """Raises IsolationRefused for an engine that cannot enforce every limit and would silently leave some out."""
    if not info.limits_missing:
        return
    what = f"{info.name} cannot limit {', '.join(info.limits_missing)} here, so nothing was run."
    if info.rootless and info.cgroup_version == "1":
        raise IsolationRefused(
            f"{what} It runs without root, and this host has control groups of version 1, which only root can use. Start the "
            "host with version 2 (systemd.unified_cgroup_hierarchy=1), or use an engine that runs as root."
        )
    if info.rootless:
        raise IsolationRefused(
            f"{what} It runs without root, and its user has no such control groups. {HOW_TO_DELEGATE}"
        )
    raise IsolationRefused(f"{what} The host's kernel lacks these control groups, or they are not mounted.")


@contextlib.contextmanager
def refuse_undelegated(*, rootless: bool) -> Iterator[None]:
    """Raises IsolationRefused if the low-level runtime cannot set a limit because its user lacks that control group.

    An engine without root may report a limit that it has only above the user's own control group.
    """
    try:
        yield
    except EngineUnavailable as error:
        if rootless and "cgroup" in str(error):
            raise IsolationRefused(f"{error}. {HOW_TO_DELEGATE}") from error
        raise


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """One container of a Docker-compatible engine. All its state is kept by the engine."""

    _api: docker.APIClient
    id: str
    removal_seconds: float
    rootless: bool = False

    def start(self, _cancel: Cancellation | None = None) -> AttachedStreams:
        with translate_errors("asked for a container's streams"):
            stream = self._api.attach_socket(self.id, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        wire = DockerStreams(stream)
        try:
            with (
                refuse_undelegated(rootless=self.rootless),
                translate_errors("asked to start a container"),
            ):
                self._api.start(self.id)
        except BaseException:  # re-raised after the streams are closed
            wire.close()
            raise
        return wire

    def inspect(self) -> Mapping[str, Any] | None:
        """The engine's description of the container; None if the container does not exist."""
        with translate_errors("asked about a container"), contextlib.suppress(docker.errors.NotFound):
            inspected: dict[str, Any] = self._api.inspect_container(self.id)
            return inspected
        return None

    def state(self) -> ContainerState | None:
        if (inspected := self.inspect()) is None:
            return None
        state = inspected["State"]
        running = bool(state.get("Running")) or state.get("Status") == "created"
        return ContainerState(running, int(state.get("ExitCode", 0)), bool(state.get("OOMKilled")))

    def process(self) -> int | None:
        # a container that is initialized but not started already has a process, which is not yet its program
        state = (self.inspect() or {}).get("State", {})
        return int(state.get("Pid") or 0) or None if state.get("Running") else None

    def wait(self, seconds: float) -> ContainerState | None:
        with contextlib.suppress(requests.exceptions.RequestException, docker.errors.APIError):
            self._api.wait(self.id, timeout=math.ceil(seconds))
        return self.state()  # the state is read again, because a wait also ends when the engine restarts

    def remove(self) -> None:
        end, pause = time.monotonic() + self.removal_seconds, _REMOVAL_PAUSE
        while True:  # until the engine no longer has the container
            try:
                with translate_errors("asked to remove a container"):
                    self._api.remove_container(self.id, force=True, v=True)
            except EngineUnavailable as error:  # includes status 409: a removal is already in progress
                if isinstance(error.__cause__, docker.errors.NotFound):
                    return
                if time.monotonic() > end:
                    raise EngineUnavailable(
                        f"container {self.id[:12]} could not be removed: {error}"
                    ) from error
                pause = min(pause * 2, _REMOVAL_PAUSE_LONGEST)
            time.sleep(pause)


class DockerEngine:
    """A Docker-compatible engine on this host, used through the official SDK."""

    removal_seconds = 20.0  # seconds for which a failing removal is repeated

    def __init__(self, client: docker.DockerClient) -> None:
        self._api = client.api
        self.images = DockerImages(self._api)
        # the SDK attaches to a container's streams without a timeout, so an engine that does not answer would block the
        # call forever
        self._api.request = partial(self._api.request, timeout=self._api.timeout)  # type: ignore[method-assign]

    def close(self) -> None:
        self._api.close()

    def info(self) -> EngineInfo:
        return self._info

    @cached_property
    def _info(self) -> EngineInfo:
        with translate_errors("asked for its version"):
            version, info = self._api.version(), self._api.info()
        options = tuple(info.get("SecurityOptions") or ())
        components = version.get("Components") or ()
        podman = any("podman" in str(part.get("Name", "")).lower() for part in components)
        major, minor = str(self._api.api_version).split(".")
        # an engine in a virtual machine, such as Docker Desktop, has a different kernel
        same_kernel = info.get("KernelVersion") == os.uname().release
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
            host=str(info.get("Name") or ""),
            boot=Moment.now().boot if same_kernel else "",
            same_kernel=same_kernel,
            limits_swap=bool(info.get("SwapLimit", True)),
            limits_missing=tuple(name for name, field in _LIMIT_FIELDS.items() if info.get(field) is False),
        )

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> DockerContainer:
        refuse_unlimited(self._info)
        self._refuse_submounts(template)
        body = create_body(template, self._info, labels, self.images.environment(template.image))
        with translate_errors("asked to create a container"):
            try:
                created = self._api.create_container_from_config(body)  # type: ignore[no-untyped-call]
                container = replace(self.container(str(created["Id"])), rootless=self._info.rootless)
            except docker.errors.NotFound as error:
                raise ImageMissing(f"image {template.image} is not on the engine's host.") from error
        with removed_on_failure(container):
            with translate_errors("asked what it created"):
                inspected = self._api.inspect_container(container.id)
                failures = differences(body, inspected, limits_swap=self._info.limits_swap)
            if failures:
                raise IsolationRefused(
                    f"the engine made a weaker container than asked, so nothing was run: {failure_summary(failures)}"
                )
        return container

    def _refuse_submounts(self, template: SandboxTemplate) -> None:
        if self._info.api_version >= READ_ONLY_RECURSIVE:
            return
        table = mountinfo()
        for mount in template.mounts:
            if below := submounts(mount.source.path, table):
                raise IsolationRefused(
                    f"{mount.source.path} holds the mount {below[0]}, which this engine would leave writable. "
                    "Unmount it, choose another workspace, or use Docker 25 or newer."
                )

    def container(self, id_: str) -> DockerContainer:
        return DockerContainer(self._api, id_, self.removal_seconds)

    def describe(self, container: str) -> ContainerDetails | None:
        if (inspected := self.container(container).inspect()) is None or not inspected["State"].get(
            "Running"
        ):
            return None
        mounts = {
            str(mount["Destination"]): str(mount["Source"])
            for mount in inspected["Mounts"]
            if mount.get("Source")
        }
        published = (inspected.get("NetworkSettings") or {}).get("Ports") or {}
        ports = {
            int(port.removesuffix("/tcp")): (str(places[0].get("HostIp") or ""), int(places[0]["HostPort"]))
            for port, places in published.items()
            if places and port.endswith("/tcp")
        }
        shares_network = (inspected.get("HostConfig") or {}).get("NetworkMode") == "host"
        return ContainerDetails(str(inspected["Id"]), mounts, ports, shares_network)

    def leftovers(self) -> tuple[Leftover, ...]:
        with translate_errors("asked for our containers"):
            rows: list[dict[str, Any]] = self._api.containers(all=True, filters={"label": OWNER})
        return tuple(Leftover(str(row["Id"]), dict(row.get("Labels") or {})) for row in rows)
