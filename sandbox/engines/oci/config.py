"""Translates the policy to the OCI runtime specification: the `config.json` of a container. Pure.

It is stricter than for Docker where that costs nothing: no shared memory, no terminals, no message queues, no
writable /dev, a separate control group namespace with both versions of control groups, and bind mounts whose options
also apply to all submounts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox import PRODUCT
from sandbox.isolation.policy import CPU_PERIOD, HOSTNAME, READ_ONLY, masked_paths, rlimits, tmpfs
from sandbox.isolation.seccomp import profile
from sandbox.template import SCRATCH_TARGET, Limits, Mount, SandboxTemplate

ROOTFS: Final = "rootfs"  # name in the container's bundle
IMAGE: Final = f"io.{PRODUCT}.image"
NAMESPACES: Final = ("pid", "network", "ipc", "uts", "mount", "cgroup")
_SETS: Final = ("bounding", "effective", "inheritable", "permitted", "ambient")
_SAFE: Final = ("nosuid", "nodev", "noexec")
_PSEUDO: Final = (
    {"destination": "/proc", "type": "proc", "source": "proc", "options": [*_SAFE]},
    # the runtime creates its harmless device nodes in it before it becomes read-only
    {
        "destination": "/dev",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "noexec", "mode=755", "size=64k", "ro"],
    },
)
_CONTROL_GROUPS: Final = (
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*_SAFE, "ro"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": [*_SAFE, "ro"]},
)


@dataclass(frozen=True, slots=True)
class SecurityLabels:
    """The container's labels for the host's security modules; empty for a module that is not active."""

    apparmor: str = ""  # name of a loaded profile
    selinux: str = ""  # label of the process
    selinux_files: str = ""  # label of the mounts that only this container has


def config(
    template: SandboxTemplate,
    cgroups_path: str,
    architecture: str,
    labels: SecurityLabels = SecurityLabels(),
    *,
    rootless: bool = False,
) -> dict[str, Any]:
    """The configuration for the runtime.

    `rootless` means that the runtime is root in a user namespace with one user, which is then also the container's
    user. Raises IsolationRefused for an architecture without a profile, and for a mount of a volume.
    """
    return {
        "ociVersion": "1.0.2",
        "annotations": {IMAGE: template.image},  # read when unused images are removed
        "process": _process(template, labels, rootless=rootless),
        "root": {"path": ROOTFS, "readonly": True},
        "hostname": HOSTNAME,
        "mounts": _mounts(template),
        "linux": {
            **_namespaces(template.user, rootless=rootless),
            "rootfsPropagation": "rprivate",
            "maskedPaths": list(masked_paths(template)),
            "readonlyPaths": list(READ_ONLY),
            "cgroupsPath": cgroups_path,
            "resources": _resources(template.limits, rootless=rootless),
            "seccomp": json.loads(profile(architecture)),
            **({"mountLabel": labels.selinux_files} if labels.selinux_files else {}),
        },
    }


def _process(template: SandboxTemplate, labels: SecurityLabels, *, rootless: bool) -> dict[str, Any]:
    uid, gid = template.user
    return {
        "terminal": False,
        "user": {"uid": uid, "gid": gid, "additionalGids": []},
        "args": list(template.command),
        "env": [f"{name}={value}" for name, value in template.environment.items()],
        "cwd": str(SCRATCH_TARGET),
        "capabilities": {name: [] for name in _SETS},
        "rlimits": [
            {"type": f"RLIMIT_{name.upper()}", "soft": value, "hard": value}
            for name, value in rlimits(template.limits).items()
        ],
        "noNewPrivileges": True,
        # an unprivileged user cannot lower a score that systemd raised
        **({} if rootless else {"oomScoreAdj": 0}),
        **({"apparmorProfile": labels.apparmor} if labels.apparmor else {}),
        **({"selinuxLabel": labels.selinux} if labels.selinux else {}),
    }


def _namespaces(user: tuple[int, int], *, rootless: bool) -> dict[str, Any]:
    if not rootless:
        return {"namespaces": [{"type": name} for name in NAMESPACES]}
    uid, gid = user
    return {
        "namespaces": [{"type": name} for name in (*NAMESPACES, "user")],
        "uidMappings": [{"containerID": uid, "hostID": 0, "size": 1}],
        "gidMappings": [{"containerID": gid, "hostID": 0, "size": 1}],
    }


def _resources(limits: Limits, *, rootless: bool) -> dict[str, Any]:
    # the runtime also allows its default devices: null, zero, full, random, urandom, tty; device nodes can only be
    # created in the initial user namespace
    devices = {} if rootless else {"devices": [{"allow": False, "access": "rwm"}]}
    return {
        **devices,
        # limit of memory and swap together, so swap is not used
        "memory": {"limit": limits.memory_bytes, "swap": limits.memory_bytes},
        "cpu": {"quota": round(limits.cpus * CPU_PERIOD), "period": CPU_PERIOD},
        "pids": {"limit": limits.pids},
    }


def _mounts(template: SandboxTemplate) -> list[Mapping[str, Any]]:
    scratch, *masks = (
        {"destination": str(mount.target), "type": "tmpfs", "source": "tmpfs", "options": [*mount.options]}
        for mount in tmpfs(template)
    )
    groups = _CONTROL_GROUPS if template.cgroup_visible else ()
    return [*_PSEUDO, *groups, scratch, *map(_bind, template.mounts), *masks]


def _bind(mount: Mount) -> dict[str, Any]:
    """A bind mount. If it is read-only, its submounts are, too; if it is writable, submounts are excluded."""
    if mount.read_only:
        options = ["rbind", "rro", *(f"r{option}" for option in _SAFE), "rprivate"]
    else:
        options = ["bind", "rw", *_SAFE, "rprivate"]
    return {"destination": str(mount.target), "type": "bind", "source": mount.host_path, "options": options}
