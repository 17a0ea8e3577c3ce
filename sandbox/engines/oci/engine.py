"""An engine without a daemon: crun or runc create containers on an image that is unpacked on this host.

Invariants:
* A container's folder is created first and removed last, so that `leftovers` finds every container.
* The kernel's view of a container is compared with the request before its first instruction.
"""

import os
import secrets
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from sandbox.engine import EngineInfo, Leftover, removed_on_failure
from sandbox.engines.oci.bundle import Bundle, bundles, sweep
from sandbox.engines.oci.config import config
from sandbox.engines.oci.confinement import confinement, security_options
from sandbox.engines.oci.container import OciContainer, refuse_absent
from sandbox.engines.oci.fetching import fetch
from sandbox.engines.oci.kernel import ControlGroup, deviations, lower_weight, parent_group
from sandbox.engines.oci.runtime import Runtime, installed, usable
from sandbox.engines.oci.store import ImageStore
from sandbox.errors import EngineUnavailable, IsolationRefused
from sandbox.isolation.policy import tmpfs
from sandbox.isolation.rows import failure_summary
from sandbox.labels import OWNER, Moment
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

SCHEME: Final = "oci://"
_OTHERS_WRITE: Final = 0o022
_PSEUDO: Final = (PurePosixPath("/proc"), PurePosixPath("/dev"), PurePosixPath("/sys"))


class OciEngine:
    """The containers and images below one folder of this host, which must belong to one user.

    `prepared` creates the folder.
    """

    def __init__(self, root: Path, runtime: str = "") -> None:
        """`runtime` (crun, runc) is used if a template names no runtime; the default is the first that is installed."""
        self.root, self._preferred, self._rootless = root, runtime, os.geteuid() != 0
        self.images = ImageStore(root, fetch)
        self._containers, self._states = root / "containers", root / "runtime"

    def prepared(self) -> "OciEngine":
        """Creates the folders and returns this engine. Raises EngineUnavailable if it cannot be used."""
        # the path cannot contain the separators of overlay options
        if set(":,\\") & set(str(self.root)) or not self.root.is_absolute():
            raise EngineUnavailable(
                f"{self.root} cannot be an engine's folder: name one without : , and \\, from the root on."
            )
        parent_group()
        try:
            for folder in (self.root, self._containers, self._states, self.images.folder):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                status = folder.stat()
                # anyone who can write to it controls which programs run and which processes are killed
                if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                    raise EngineUnavailable(
                        f"{folder} belongs to user {status.st_uid}, or others may write to it. Name a folder of this user's alone."
                    )
        except OSError as error:
            raise EngineUnavailable(f"{self.root} cannot be made: {error.strerror or error}.") from error
        self.info()
        sweep(self._containers)
        return self

    def close(self) -> None:
        """Does nothing: all resources belong to its containers."""

    def info(self) -> EngineInfo:
        refuse_absent(self._containers)
        return self._info

    @cached_property
    def _info(self) -> EngineInfo:
        runtimes = self._runtimes
        return EngineInfo(
            name=runtimes[0].name,
            version=runtimes[0].version,
            api_version=(1, 0),  # version of the runtime specification
            architecture=os.uname().machine,
            # as other engines report it: 2 only if version 1 has no controllers
            cgroup_version="2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "1",
            security_options=("name=seccomp", *security_options()),
            rootless=self._rootless,
            runtimes=tuple(runtime.name for runtime in runtimes),
            address=f"{SCHEME}{self.root}",
            identity=str(self.root),
            host=os.uname().nodename,
            boot=Moment.now().boot,
            same_kernel=True,
        )

    @cached_property
    def _runtimes(self) -> tuple[Runtime, ...]:
        return tuple(sorted(usable(installed()), key=lambda runtime: runtime.name != self._preferred))

    def _runtime(self, name: str) -> Runtime:
        for runtime in self._runtimes:
            if name in ("", runtime.name):
                return runtime
        raise EngineUnavailable(
            f"there is no runtime {name!r} that this engine may use. Leave the setting out."
        )

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> OciContainer:
        refuse_absent(self._containers)
        image, runtime = self.images.rootfs(template.image), self._runtime(template.runtime)
        runtime.require_memory(template.limits.memory_bytes)
        container = self.container(secrets.token_hex(32))
        parent = parent_group()
        group = ControlGroup(f"{parent}/{container.id}")
        machine = os.uname().machine
        oci_spec = config(template, group.path, machine, confinement(), rootless=self._rootless)
        try:
            Bundle(self._containers, container.id).write(labels, oci_spec)
        except OSError as error:
            raise EngineUnavailable(f"{self.root} cannot be written to: {error}") from error
        with removed_on_failure(container):
            pid = container.create(image, _mount_points(template), runtime)
            lower_weight(parent)
            try:
                # crun applies the seccomp filter only at the start
                failures = deviations(template, pid, group, filtered=runtime.name == "runc")
            except OSError as error:
                raise EngineUnavailable(f"a container ended before its start: {error}") from error
            if failures:
                raise IsolationRefused(
                    f"{runtime.name} made a weaker container than asked, so nothing was run: {failure_summary(failures)}"
                )
        return container

    def container(self, id_: str) -> OciContainer:
        return OciContainer(self._containers, self._states, id_)

    def describe(self, _container: str) -> None:
        """None: this engine only knows its own containers, and the server does not run inside one of them."""

    def leftovers(self) -> tuple[Leftover, ...]:
        refuse_absent(self._containers)
        labelled = ((name, Bundle(self._containers, name).labels) for name in bundles(self._containers))
        return tuple(Leftover(name, labels) for name, labels in labelled if OWNER in labels)


def _mount_points(template: SandboxTemplate) -> list[tuple[PurePosixPath, bool]]:
    """The mount points of a template, each with True if it is a file."""
    binds = [(mount.target, Path(mount.host_path).is_file()) for mount in template.mounts]
    folders = (*_PSEUDO, *(mount.target for mount in tmpfs(template)))
    return [*binds, *((folder, False) for folder in folders)]
