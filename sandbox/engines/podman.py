"""Podman on this host: made through its own API and read back from the low-level runtime's configuration.

Everything after the creation goes through the Docker-compatible API of the same socket, as with Docker.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import docker.errors

from sandbox.engine import EngineInfo, removed_on_failure
from sandbox.engines.docker import DockerContainer, DockerEngine, refuse_unlimited
from sandbox.engines.libpod import create_spec, differences
from sandbox.engines.wire import translate_errors
from sandbox.errors import ImageMissing, IsolationRefused
from sandbox.isolation.rows import failure_summary
from sandbox.isolation.seccomp import profile
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

_CONTROLLERS: Final = ("memory", "cpu", "pids")
_API: Final = "/v4.0.0/libpod"  # the oldest that has all the fields; later ones answer it too


class PodmanEngine(DockerEngine):
    """A Podman whose service runs on this host, as root or as this user."""

    @cached_property
    def _info(self) -> EngineInfo:
        """As Docker's API says it, which does not tell whether a Podman is rootless."""
        info = super()._info
        with translate_errors("asked whether it is rootless"):
            host = self._libpod("GET", "/info")["host"]
        # what Docker's API says of limits is of the host, and not of what was delegated to the service's user
        controllers = host.get("cgroupControllers") or ()
        missing = tuple(name for name in _CONTROLLERS if name not in controllers)
        rootless = bool(host["security"]["rootless"])
        return replace(info, rootless=rootless, limits_missing=missing if rootless else ())

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> DockerContainer:
        refuse_unlimited(self._info)
        self._refuse_submounts(template)
        rules = profile(self._info.architecture)
        # for the service to read; it runs as root or as this user
        with tempfile.NamedTemporaryFile("w", prefix="seccomp-", suffix=".json", encoding="utf-8") as file:
            file.write(rules)
            file.flush()
            os.fchmod(file.fileno(), 0o644)  # the service may run as another user, and a filter is not secret
            # as many as there are numbers for: Podman sets a limit unasked, of a user's processes on the whole host, and ours
            # counts per container
            most_processes = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
            spec = create_spec(template, labels, file.name, most_processes)
            if self._info.rootless:  # its users are others than the host's, but for this one
                spec["userns"] = {"nsmode": "keep-id"}
            with translate_errors("asked to create a container"):
                try:
                    container = self.container(str(self._libpod("POST", "/containers/create", spec)["Id"]))
                except docker.errors.APIError as error:
                    if self.images.find(template.image) is not None:
                        raise
                    raise ImageMissing(f"image {template.image} is not on the engine's host.") from error
            with removed_on_failure(container):
                # has the low-level runtime's configuration written, without running anything
                with translate_errors("asked to prepare a container"):
                    self._libpod("POST", f"/containers/{container.id}/init")
                    inspected = self._libpod("GET", f"/containers/{container.id}/json")
                found = differences(template, rules, _runtime_configuration(inspected), inspected)
                if found:
                    raise IsolationRefused(
                        f"Podman made another container than asked, so nothing was run: {failure_summary(found)}"
                    )
        return container

    def _libpod(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        response = self._api.request(method, f"{self._api.base_url}{_API}{path}", json=body)
        self._api._raise_for_status(response)  # type: ignore[attr-defined]  # noqa: SLF001 - the SDK's own way from a status to its errors
        value: dict[str, Any] = response.json() if response.content else {}
        return value


def _runtime_configuration(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """Raises IsolationRefused where this host or this user does not see it."""
    path = Path(str(inspected.get("OCIConfigPath") or "/absent"))
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise IsolationRefused(
            f"what Podman made cannot be read back from {path}: {error}. Use a Podman of this host and of this user, "
            "or Docker."
        ) from error
    return value
