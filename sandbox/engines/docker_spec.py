"""The policy in the words of Docker's API: a create body, and the comparison with what the engine made of it. Pure.

Every field that is asked for is read back, by the rule for its name or else by being the same. Fields that ask for nothing
are in the body for that reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from sandbox.engine import EngineInfo
from sandbox.errors import IsolationRefused
from sandbox.isolation.policy import HOSTNAME, READ_ONLY, masked, rlimits, tmpfs
from sandbox.isolation.rows import Row, differs
from sandbox.isolation.seccomp import profile
from sandbox.template import SCRATCH_TARGET, Mount, SandboxTemplate

_OLDEST_API: Final = (1, 41)  # Docker 20.10: the first with private cgroup namespaces
READ_ONLY_RECURSIVE: Final = (1, 44)  # Docker 25: read-only also for what is mounted below
_ENGINE_ENVIRONMENT: Final = ("PATH", "HOSTNAME")  # what Docker adds when nobody sets it
# what an engine or an image could set unasked
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
    """The Docker API create body of a container for this template.

    `image_environment` is the image's own `Env`; none of it reaches the container. Only HOME is added unasked
    (by the low-level runtime, when the template does not set it). Raises IsolationRefused for an engine that
    cannot do what is asked.
    """
    if info.api_version < _OLDEST_API:
        spoken = ".".join(map(str, info.api_version))
        raise IsolationRefused(
            f"the engine speaks API {spoken}, which isolates too little. Use Docker 20.10 or newer."
        )
    if not any("seccomp" in option for option in info.security_options):
        raise IsolationRefused(
            "the engine has no seccomp to filter system calls with. Use a kernel and engine that do."
        )
    uid, gid = user_inside(template.user, info)
    ours = template.environment
    # a bare name removes what the image or the engine would set
    foreign = {entry.partition("=")[0] for entry in image_environment} | set(_ENGINE_ENVIRONMENT)
    return {
        "Image": template.image,
        "User": f"{uid}:{gid}",  # with the group, because otherwise those of the image's /etc/group are added
        "Entrypoint": [template.command[0]],  # not empty, so that no engine falls back on the image's
        "Cmd": list(template.command[1:]),
        "Env": [*(f"{name}={value}" for name, value in ours.items()), *sorted(foreign - set(ours))],
        # libraries look for support files in it, and some programs write there
        "WorkingDir": str(SCRATCH_TARGET),
        "Healthcheck": {"Test": ["NONE"]},
        "Volumes": {},
        "Hostname": HOSTNAME,
        "Domainname": "",
        "Labels": dict(labels),
        "Tty": False,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin"), True),
        "StdinOnce": True,  # stdin ends with the client that attached, and the worker with its stdin
        "NetworkDisabled": True,
        "StopSignal": "SIGKILL",
        "HostConfig": _host_config(template, info),
    }


def user_inside(user: tuple[int, int], info: EngineInfo) -> tuple[int, int]:
    """The ids in a container of a user of the host.

    All containers of a rootless Docker share its user namespace, in which the user who runs it is root, without any power
    over the host; every other id in it belongs to nobody who may open that user's files. The ids are measured from inside.
    """
    return (0, 0) if _is_root_inside(info) else user


def _is_root_inside(info: EngineInfo) -> bool:
    return info.rootless and info.name == "Docker"


def _of_root(template: SandboxTemplate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a job that is root in its container could read or write by that alone: to be covered, and to be read-only."""
    home = PurePosixPath("/root")
    covered = () if any(mount.target.is_relative_to(home) for mount in template.mounts) else (str(home),)
    return covered, ("/dev",)


def _host_config(template: SandboxTemplate, info: EngineInfo) -> dict[str, Any]:
    limits = template.limits
    own_masks, own_read_only = _of_root(template) if _is_root_inside(info) else ((), ())
    return {
        **{name: [] for name in _NO_LIST},
        **{name: {} for name in _NO_MAP},
        **dict.fromkeys(_NO_NAME, ""),
        **dict.fromkeys(_NO_SWITCH, False),
        **({"CgroupnsMode": "private"} if info.cgroup_version == "2" else {}),
        "CapDrop": ["ALL"],
        # without no-new-privileges the runtime would set the user after loading the filter, which refuses it
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile(info.architecture)}"],
        "NetworkMode": "none",
        "Dns": ["127.0.0.1"],  # otherwise resolv.conf shows the host's servers
        "IpcMode": "none",
        "ReadonlyRootfs": True,
        "Mounts": [_bind(mount, info) for mount in template.mounts],
        "Tmpfs": {str(one.target): ",".join(one.options) for one in tmpfs(template)},
        "MaskedPaths": [*masked(template), *own_masks],
        "ReadonlyPaths": [*READ_ONLY, *own_read_only],
        "Runtime": template.runtime,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,  # the exit code and the out-of-memory flag are read before removal
        "Init": False,  # the job is process 1: its end is the container's end
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # memory and swap together, so no swap
        "OomScoreAdj": 0,
        "NanoCpus": round(limits.cpus * 1_000_000_000),
        "PidsLimit": limits.pids,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in rlimits(limits).items()],
    }


def _bind(mount: Mount, info: EngineInfo) -> dict[str, Any]:
    """A bind that fails on a missing source. What is mounted below it is read-only too, or not there."""
    recursive = mount.read_only and info.api_version >= READ_ONLY_RECURSIVE
    below = {"ReadOnlyForceRecursive": True} if recursive else {"NonRecursive": True}
    return {
        "Type": "bind",
        "Source": mount.host_path,
        "Target": str(mount.target),
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate", **below},
    }


# --- what came back ---


def differences(
    asked: Mapping[str, Any], inspected: Mapping[str, Any], *, limits_swap: bool = True
) -> tuple[Row, ...]:
    """Every field in which an inspected container is not what the create body asked; empty when it all is.

    An engine that cannot limit swap (`limits_swap`) records -1 for it. What is then in force is measured from inside.
    """
    found: list[Row] = []
    config = {name: value for name, value in asked.items() if name != "HostConfig"}
    for section, fields in {"Config": config, "HostConfig": asked["HostConfig"]}.items():
        got = inspected.get(section) or {}
        for name, value in fields.items():
            try:
                holds = _RULES.get(name, _same)(value, got.get(name))
            except (AttributeError, TypeError, ValueError):
                holds = False  # an answer of another shape is not what was asked
            unlimited = name == "MemorySwap" and not limits_swap and got.get(name) == _NO_LIMIT
            if not (holds or unlimited):
                found.append(differs(f"{section}.{name}", value, got.get(name)))
    return (*found, *_consequences(asked, inspected))


def _consequences(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> Iterator[Row]:
    """What the engine derived from the body: program, image, mounts, networks, AppArmor profile."""
    command, host = [*asked["Entrypoint"], *asked["Cmd"]], asked["HostConfig"]
    binds = [
        ["bind", row["Source"], row["Target"], not row["ReadOnly"], row["BindOptions"]["Propagation"]]
        for row in host["Mounts"]
    ]
    made = [  # the engine may list a tmpfs that we asked for, as Podman does
        [row.get(name) for name in ("Type", "Source", "Destination", "RW", "Propagation")]
        for row in inspected.get("Mounts") or ()
        if not (row.get("Type") == "tmpfs" and row.get("Destination") in host["Tmpfs"])
    ]
    derived: tuple[tuple[str, Any, Any], ...] = (
        ("Image", asked["Image"], inspected.get("Image")),
        ("Path, Args", command, [inspected.get("Path"), *(inspected.get("Args") or ())]),
        ("Mounts", sorted(binds, key=json.dumps), sorted(made, key=json.dumps)),
    )
    yield from (differs(name, want, got) for name, want, got in derived if not _same(want, got))
    networks = inspected.get("NetworkSettings") or {}
    attached = sorted({*(networks.get("Networks") or ()), *(networks.get("Ports") or ())} - {"none"})
    if attached:
        yield differs("NetworkSettings", [], attached)
    if inspected.get("AppArmorProfile") == "unconfined":
        yield differs("AppArmorProfile", "the engine's default", "unconfined")


def _same(asked: Any, got: Any) -> bool:
    """Equal, where null, false, zero and empty are one, as engines leave them out. 1 is not true."""
    return _canonical(asked) == _canonical(got)


def _all_dropped(asked: Any, got: Any) -> bool:
    """Docker repeats ALL; Podman lists what it took from its own default set."""
    names = {str(name).upper().removeprefix("CAP_") for name in got or ()}
    return asked == ["ALL"] and (names == {"ALL"} or names >= _PODMAN_DEFAULT)


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
        # to the last key: here an empty value says something, `{"/data": {}}` is a volume
        **dict.fromkeys((*_NO_MAP, "Tmpfs", "Volumes"), lambda asked, got: dict(asked) == dict(got or {})),
        **dict.fromkeys(
            ("SecurityOpt", "Mounts", "MaskedPaths", "ReadonlyPaths", "Ulimits", "Env"),
            lambda asked, got: sorted(map(_canonical, asked)) == sorted(map(_canonical, got or ())),
        ),
        "CapDrop": _all_dropped,
        # an image adds labels of its own, which decide nothing
        "Labels": lambda asked, got: asked.items() <= dict(got or {}).items(),
        # a health check that is off keeps the image's intervals, which then mean nothing
        "Healthcheck": lambda asked, got: _same(asked["Test"], (got or {}).get("Test")),
        "Runtime": lambda asked, got: not asked or _same(asked, got),  # the engine's own has a name
    }
)
