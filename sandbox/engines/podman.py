"""Podman on this host: created through its own API, and checked against the low-level runtime's configuration.

Everything after the creation uses the Docker-compatible API of the same socket, as with Docker.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import docker.errors

from sandbox.engine import EngineInfo, removed_on_failure
from sandbox.engines.docker import DockerContainer, DockerEngine, refuse_undelegated, refuse_unlimited
from sandbox.engines.libpod import create_spec, differences
from sandbox.engines.wire import translate_errors
from sandbox.errors import ImageMissing, IsolationRefused
from sandbox.isolation.rows import failure_summary
from sandbox.isolation.seccomp import profile
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

_LIMITS: Final = ("memory", "cpu", "pids")
_READ_SECONDS: Final = 30.0
_API: Final = "/v4.0.0/libpod"  # the oldest version with all the fields; later versions also answer it


class PodmanEngine(DockerEngine):
    """A Podman whose service runs on this host, as root or as the current user."""

    @cached_property
    def _info(self) -> EngineInfo:
        """The engine's information from Docker's API, with `rootless` and the missing limits from Podman's own API."""
        info = super()._info
        with translate_errors("asked whether it is rootless"):
            host = self._libpod("GET", "/info")["host"]
        rootless = bool(host["security"]["rootless"])
        return replace(info, rootless=rootless, limits_missing=_limits_missing(host) if rootless else ())

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> DockerContainer:
        refuse_unlimited(self._info)
        self._refuse_submounts(template)
        rules = profile(self._info.architecture)
        # a file that Podman's service reads; the service runs as root or as the current user
        with tempfile.NamedTemporaryFile("w", prefix="seccomp-", suffix=".json", encoding="utf-8") as file:
            file.write(rules)
            file.flush()
            # the service may run as another user, and the filter contains no secrets
            os.fchmod(file.fileno(), 0o644)
            spec = create_spec(template, labels, file.name, None if self._info.rootless else _pid_max())
            if (
                self._info.rootless
                # maps the current user to itself; the other ids in the user namespace are not ids of host users
            ):
                spec["userns"] = {"nsmode": "keep-id"}
            with translate_errors("asked to create a container"):
                try:
                    container = self.container(str(self._libpod("POST", "/containers/create", spec)["Id"]))
                except docker.errors.APIError as error:
                    if self.images.find(template.image) is not None:
                        raise
                    raise ImageMissing(f"image {template.image} is not on the engine's host.") from error
            with removed_on_failure(container):
                inspected = self._prepare(container)
                failures = differences(template, rules, _runtime_configuration(inspected), inspected)
                if failures:
                    raise IsolationRefused(
                        f"Podman made another container than asked, so nothing was run: {failure_summary(failures)}"
                    )
        return container

    def _prepare(self, container: DockerContainer) -> dict[str, Any]:
        """Has Podman write the runtime configuration without running anything. Returns the result of an inspection."""
        rootless = self._info.rootless
        with refuse_undelegated(rootless=rootless), translate_errors("asked to prepare a container"):
            self._libpod("POST", f"/containers/{container.id}/init")
            return self._libpod("GET", f"/containers/{container.id}/json")

    def _libpod(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        response = self._api.request(method, f"{self._api.base_url}{_API}{path}", json=body)
        self._api._raise_for_status(response)  # type: ignore[attr-defined]  # noqa: SLF001 - the SDK's own way from a status to its errors
        value: dict[str, Any] = response.json() if response.content else {}
        return value


def _pid_max() -> int:
    """The highest pid, used to disable Podman's own limit on a user's processes; ours applies to one container."""
    return int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))


def _limits_missing(host: Mapping[str, Any]) -> tuple[str, ...]:
    """The limits that a rootless Podman silently omits.

    Only systemd sets limits for a user, in control groups of version 2. If the user lacks a controller there,
    creating a container fails. `cgroupControllers` does not help: it lists the service's own group, where systemd
    enables a controller on demand.
    """
    set_by_systemd = host.get("cgroupVersion") == "v2" and host.get("cgroupManager") == "systemd"
    return () if set_by_systemd else _LIMITS


def _runtime_configuration(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the low-level runtime. Raises IsolationRefused if this server cannot read it.

    It cannot be read if Podman runs on another host or as another user.
    """
    path = Path(str(inspected.get("OCIConfigPath") or "/absent"))
    try:
        value: dict[str, Any] = json.loads(_read(path, int(inspected["State"]["Pid"])))
    except (OSError, ValueError, KeyError) as error:
        raise IsolationRefused(
            f"what Podman made cannot be read back from {path}: {error}. Use a Podman of this host and of this user, "
            "or Docker."
        ) from error
    return value


def _read(path: Path, process: int) -> bytes:
    """The contents of a file, which with a rootless Podman belongs to an id of the container's user namespace.

    The container's process exists but has not run anything yet. The current user created the namespace and may enter
    it.
    """
    try:
        return path.read_bytes()
    except PermissionError:
        words = ["nsenter", f"--user=/proc/{process}/ns/user", "cat", "--", str(path)]
        done = subprocess.run(words, capture_output=True, check=False, timeout=_READ_SECONDS)  # noqa: S603 - our words, without a shell
        if done.returncode != 0:
            raise
        return done.stdout
