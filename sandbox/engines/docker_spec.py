"""Translates the policy to Docker's API: a create body, and a comparison with the created container. Pure.

Every field of the create body is compared with the created container, by the rule for its name or else by equality.
Empty fields are in the body so that they are compared, too.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from sandbox.engine import EngineInfo
from sandbox.errors import IsolationRefused
from sandbox.isolation.policy import HOSTNAME, READ_ONLY, masked_paths, rlimits, tmpfs
from sandbox.isolation.rows import Row, differs
from sandbox.isolation.seccomp import profile
from sandbox.template import SCRATCH_TARGET, Mount, SandboxTemplate

_OLDEST_API: Final = (1, 41)  # Docker 20.10, the first version with private cgroup namespaces
READ_ONLY_RECURSIVE: Final = (1, 44)  # Docker 25, the first version that can make submounts read-only, too
_ENGINE_ENVIRONMENT: Final = ("PATH", "HOSTNAME")  # variables that Docker sets by default
# fields that an engine or an image could set although we did not ask for them
_NO_LIST: Final = (
    *("CapAdd", "GroupAdd", "Devices", "DeviceRequests", "DeviceCgroupRules", "Binds", "VolumesFrom"),
    *("DnsSearch", "DnsOptions", "ExtraHosts", "Links"),
)
_NO_MAP: Final = ("Sysctls", "PortBindings", "StorageOpt")
_NO_NAME: Final = ("PidMode", "UTSMode", "UsernsMode", "Cgroup", "CgroupParent")
_NO_SWITCH: Final = ("Privileged", "PublishAllPorts", "OomKillDisable")


def create_body(
    template: SandboxTemplate,
    info: EngineInfo,
    labels: Mapping[str, str],
    image_environment: Sequence[str] = (),
) -> dict[str, Any]:
    """The body of a Docker API create request for this template.

    `image_environment` is the image's own `Env`; none of it reaches the container. Only HOME is added (by the
    low-level runtime, if the template does not set it). Raises IsolationRefused if the engine cannot provide the
    isolation.
    """
    _require_isolation(info)
    uid, gid = user_inside(template.user, info)
    ours = template.environment
    # a name without a value removes a variable that the image or the engine would set
    foreign = {entry.partition("=")[0] for entry in image_environment} | set(_ENGINE_ENVIRONMENT)
    return {
        "Image": template.image,
        "User": f"{uid}:{gid}",  # without a group, the user's groups in the image's /etc/group would be added
        "Entrypoint": [template.command[0]],  # not empty, otherwise an engine uses the image's entrypoint
        "Cmd": list(template.command[1:]),
        "Env": [*(f"{name}={value}" for name, value in ours.items()), *sorted(foreign - set(ours))],
        # libraries look for support files in the working directory, and some programs write there
        "WorkingDir": str(SCRATCH_TARGET),
        "Healthcheck": {"Test": ["NONE"]},
        "Volumes": {},
        "Hostname": HOSTNAME,
        "Domainname": "",
        "Labels": dict(labels),
        "Tty": False,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin"), True),
        # stdin closes when the attached client disconnects, and the worker ends when its stdin closes
        "StdinOnce": True,
        "NetworkDisabled": True,
        "StopSignal": "SIGKILL",
        "HostConfig": _host_config(template, info),
    }


def _require_isolation(info: EngineInfo) -> None:
    """Raises IsolationRefused for an engine that cannot isolate a container."""
    if info.api_version < _OLDEST_API:
        version = ".".join(map(str, info.api_version))
        raise IsolationRefused(
            f"the engine has API version {version}, which cannot isolate a container well enough. Use Docker 20.10 or newer."
        )
    if not any("seccomp" in option for option in info.security_options):
        raise IsolationRefused(
            "the engine cannot filter system calls with seccomp. Use a kernel and an engine that can."
        )


def user_inside(user: tuple[int, int], info: EngineInfo) -> tuple[int, int]:
    """The uid and gid inside a container that correspond to a user of the host.

    All containers of a rootless Docker share its user namespace. In it, the user who runs Docker is root, without
    privileges on the host. No other id in the namespace can open that user's files. The ids are also measured inside
    the container.
    """
    return (0, 0) if _is_root_inside(info) else user


def _is_root_inside(info: EngineInfo) -> bool:
    return info.rootless and info.name == "Docker"


def _paths_of_root(template: SandboxTemplate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Extra masked and extra read-only paths for a job that is root in its container.

    Because it is root, such a job could otherwise read or write them.
    """
    home = PurePosixPath("/root")
    covered = () if any(mount.target.is_relative_to(home) for mount in template.mounts) else (str(home),)
    return covered, ("/dev",)


def _host_config(template: SandboxTemplate, info: EngineInfo) -> dict[str, Any]:
    limits = template.limits
    own_masks, own_read_only = _paths_of_root(template) if _is_root_inside(info) else ((), ())
    return {
        **{name: [] for name in _NO_LIST},
        **{name: {} for name in _NO_MAP},
        **dict.fromkeys(_NO_NAME, ""),
        **dict.fromkeys(_NO_SWITCH, False),
        **({"CgroupnsMode": "private"} if info.cgroup_version == "2" else {}),
        "CapDrop": ["ALL"],
        # without no-new-privileges, the runtime would set the user after it has loaded the filter, and the filter does
        # not allow that
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile(info.architecture)}"],
        "NetworkMode": "none",
        "Dns": ["127.0.0.1"],  # otherwise resolv.conf shows the host's name servers
        "IpcMode": "none",
        "ReadonlyRootfs": True,
        "Mounts": [_bind(mount, info) for mount in template.mounts],
        "Tmpfs": {str(mount.target): ",".join(mount.options) for mount in tmpfs(template)},
        "MaskedPaths": [*masked_paths(template), *own_masks],
        "ReadonlyPaths": [*READ_ONLY, *own_read_only],
        "Runtime": template.runtime,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,  # the exit code and the out-of-memory flag must be read before removal
        "Init": False,  # the job is process 1, so the container ends when the job ends
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # limit of memory and swap together, so swap is not used
        "OomScoreAdj": 0,
        "NanoCpus": round(limits.cpus * 1_000_000_000),
        "PidsLimit": limits.pids,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in rlimits(limits).items()],
    }


def _bind(mount: Mount, info: EngineInfo) -> dict[str, Any]:
    """A bind mount that fails if the source is missing. Submounts are read-only, too, or are excluded."""
    recursive = mount.read_only and info.api_version >= READ_ONLY_RECURSIVE
    below = {"ReadOnlyForceRecursive": True} if recursive else {"NonRecursive": True}
    return {
        "Type": "bind",
        "Source": mount.host_path,
        "Target": str(mount.target),
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate", **below},
    }


# --- comparison with the created container ---


def differences(
    requested: Mapping[str, Any], inspected: Mapping[str, Any], *, limits_swap: bool = True
) -> tuple[Row, ...]:
    """The fields in which an inspected container differs from the create body; empty if there are none.

    An engine that cannot limit swap (`limits_swap` is False) reports -1 for it. The limit in force is measured inside
    the container.
    """
    failures: list[Row] = []
    config = {name: value for name, value in requested.items() if name != "HostConfig"}
    for section, fields in {"Config": config, "HostConfig": requested["HostConfig"]}.items():
        actual = inspected.get(section) or {}
        for name, value in fields.items():
            try:
                holds = _RULES.get(name, _same)(value, actual.get(name))
            except (AttributeError, TypeError, ValueError):
                holds = False  # a value of an unexpected type counts as a difference
            unlimited = name == "MemorySwap" and not limits_swap and actual.get(name) == _NO_LIMIT
            if not (holds or unlimited):
                failures.append(differs(f"{section}.{name}", value, actual.get(name)))
    return (*failures, *_consequences(requested, inspected))


def _consequences(requested: Mapping[str, Any], inspected: Mapping[str, Any]) -> Iterator[Row]:
    """Differences in what the engine derived from the body: program, image, mounts, networks, AppArmor profile."""
    command, host = [*requested["Entrypoint"], *requested["Cmd"]], requested["HostConfig"]
    binds = [
        ["bind", row["Source"], row["Target"], not row["ReadOnly"], row["BindOptions"]["Propagation"]]
        for row in host["Mounts"]
    ]
    mounts = [  # the engine may list a tmpfs that we requested, as Podman does
        [row.get(name) for name in ("Type", "Source", "Destination", "RW", "Propagation")]
        for row in inspected.get("Mounts") or ()
        if not (row.get("Type") == "tmpfs" and row.get("Destination") in host["Tmpfs"])
    ]
    derived: tuple[tuple[str, Any, Any], ...] = (
        ("Image", requested["Image"], inspected.get("Image")),
        ("Path, Args", command, [inspected.get("Path"), *(inspected.get("Args") or ())]),
        ("Mounts", sorted(binds, key=json.dumps), sorted(mounts, key=json.dumps)),
    )
    yield from (differs(name, want, actual) for name, want, actual in derived if not _same(want, actual))
    networks = inspected.get("NetworkSettings") or {}
    attached = sorted({*(networks.get("Networks") or ()), *(networks.get("Ports") or ())} - {"none"})
    if attached:
        yield differs("NetworkSettings", [], attached)
    if inspected.get("AppArmorProfile") == "unconfined":
        yield differs("AppArmorProfile", "the engine's default", "unconfined")


def _same(requested: Any, actual: Any) -> bool:
    """True if the values are equal. Null, false, zero and empty count as equal, because engines omit them.

    1 and true differ.
    """
    return _canonical(requested) == _canonical(actual)


def _all_dropped(requested: Any, actual: Any) -> bool:
    """True if all capabilities are dropped.

    Docker reports ALL; Podman lists the ones that it removed from its default set.
    """
    names = {str(name).upper().removeprefix("CAP_") for name in actual or ()}
    return requested == ["ALL"] and (names == {"ALL"} or names >= _PODMAN_DEFAULT)


def _canonical(value: Any) -> str:
    return _ENCODER.encode(_without_empty(value))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict | MappingProxyType):
        rows = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in rows.items() if inner is not None} or None
    if isinstance(value, list | tuple):
        return [_without_empty(inner) for inner in value] or None
    return value or None


_ENCODER: Final = json.JSONEncoder(sort_keys=True)
_NO_LIMIT: Final = -1
_PODMAN_DEFAULT: Final = {
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_RULES: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        # compared exactly, because an empty value has a meaning in these fields: `{"/data": {}}` is a volume
        **dict.fromkeys(
            (*_NO_MAP, "Tmpfs", "Volumes"), lambda requested, actual: dict(requested) == dict(actual or {})
        ),
        **dict.fromkeys(
            ("SecurityOpt", "Mounts", "MaskedPaths", "ReadonlyPaths", "Ulimits", "Env"),
            lambda requested, actual: (
                sorted(map(_canonical, requested)) == sorted(map(_canonical, actual or ()))
            ),
        ),
        "CapDrop": _all_dropped,
        # an image adds its own labels, which do not affect isolation
        "Labels": lambda requested, actual: requested.items() <= dict(actual or {}).items(),
        # a disabled health check keeps the image's intervals, which then have no effect
        "Healthcheck": lambda requested, actual: _same(requested["Test"], (actual or {}).get("Test")),
        # without a requested runtime, the engine reports the name of its default
        "Runtime": lambda requested, actual: not requested or _same(requested, actual),
    }
)
