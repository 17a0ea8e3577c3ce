"""What every container is created with, and the comparison with what the engine made of it. Pure: no I/O.

Invariants:
* a container gets no capability, no network, no device, no environment but the template's, and can write only
  to its scratch and to the mounts that the template makes writable;
* every field that is asked for is read back: one without a rule in `_CONFIG_RULES` or `_HOST_RULES` an error;
* what an image declares (command, environment, volumes, user, health check) is overridden or refused.

Left out on purpose: RLIMIT_NPROC, which counts every process of a user id on the host, so that one call would
starve another; `PidsLimit` counts per container.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from sandbox.errors import IsolationRefused
from sandbox.seccomp import profile
from sandbox.template import SCRATCH_TARGET, Limits, Mount, SandboxTemplate

HOSTNAME: Final = "sandbox"  # fixed, so that outputs and messages do not depend on the container
_OLDEST_API: Final = (1, 41)  # Docker 20.10: the first with private cgroup namespaces
READ_ONLY_RECURSIVE: Final = (1, 44)  # Docker 25: read-only also for what is mounted below
# core(5), fs/coredump.c: at 0 the kernel still hands cores to a program of the host's, as root, where core_pattern
# names one; at 1 it makes none, neither there nor as a file
_NO_CORES: Final = 1
CPU_PERIOD: Final = 100_000  # microseconds; what engines use when none is given
_ENGINE_ENVIRONMENT: Final = ("PATH", "HOSTNAME")  # what Docker adds when nobody sets it

# Docker's own list, repeated because a list in a create body replaces it; then what tells a job about
# the host's kernel and disks.
MASKED: Final = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/kallsyms", "/proc/modules"),
    "/proc/partitions",
    *("/dev/mqueue", "/dev/pts"),  # writable for everybody; terminals are kernel code that no job needs
    *(
        "/etc/passwd",
        "/etc/group",
    ),  # the image's, which a data file can name; nothing of ours looks a user up
)
_MASKED_BELOW_SYS: Final = ("/sys/devices/virtual/powercap", "/sys/firmware")
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the create body depends on, in the words of `docker info` ("name=seccomp,profile=default")."""

    api_version: tuple[int, int]
    architecture: str
    cgroup_version: str
    security_options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which a container is not what was asked."""

    field: str
    asked: Any
    got: Any


def create_body(
    template: SandboxTemplate,
    facts: EngineFacts,
    labels: Mapping[str, str],
    image_environment: Sequence[str] = (),
) -> dict[str, Any]:
    """The Docker API create body of a container for this template.

    `image_environment` is the image's own `Env`; none of it reaches the container. Only HOME is added unasked
    (by the low-level runtime, when the template does not set it). Raises IsolationRefused for an engine that
    cannot do what is asked.
    """
    _refuse_weak_engine(facts)
    return {
        "Image": template.image,
        **_program(template, image_environment),
        "Hostname": HOSTNAME,
        "Domainname": "",
        "Labels": dict(labels),
        "Tty": False,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin"), True),
        "StdinOnce": True,  # stdin ends with the client that attached, and the worker with its stdin
        "NetworkDisabled": True,
        "StopSignal": "SIGKILL",
        "HostConfig": _host_config(template, facts),
    }


def _program(template: SandboxTemplate, image_environment: Sequence[str]) -> dict[str, Any]:
    """What an image could say otherwise."""
    uid, gid = template.user
    return {
        "User": f"{uid}:{gid}",  # the group said too, or those of the image's /etc/group would be added
        "Entrypoint": [template.command[0]],  # not empty, so that no engine falls back on the image's
        "Cmd": list(template.command[1:]),
        "Env": _environment(template.environment, image_environment),
        "WorkingDir": str(SCRATCH_TARGET),  # GDAL looks for support files in it and some tools write there
        "Healthcheck": {"Test": ["NONE"]},
        "Volumes": {},
    }


def _host_config(template: SandboxTemplate, facts: EngineFacts) -> dict[str, Any]:
    return {
        **_privileges(facts),
        **_namespaces(facts),
        **_files(template, facts),
        **_limits(template),
        "Runtime": template.runtime,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,  # the exit code and the out-of-memory flag are read before removal
        "Init": False,  # the job is process 1: its end is the container's end
    }


def _privileges(facts: EngineFacts) -> dict[str, Any]:
    return {
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "GroupAdd": [],
        # without no-new-privileges the runtime would set the user after loading the filter, which refuses it
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile(facts.architecture)}"],
        "Devices": [],
        "DeviceRequests": [],
        "DeviceCgroupRules": [],
        "Sysctls": {},
    }


def _namespaces(facts: EngineFacts) -> dict[str, Any]:
    modern = {"CgroupnsMode": "private"} if facts.cgroup_version == "2" else {}
    return {
        **modern,
        "NetworkMode": "none",
        "PortBindings": {},
        "PublishAllPorts": False,
        "Dns": ["127.0.0.1"],  # otherwise resolv.conf shows the host's servers
        "DnsSearch": [],
        "DnsOptions": [],
        "ExtraHosts": [],
        "Links": [],
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "",
        "IpcMode": "none",
        "Cgroup": "",
        "CgroupParent": "",
    }


def _files(template: SandboxTemplate, facts: EngineFacts) -> dict[str, Any]:
    return {
        "ReadonlyRootfs": True,
        "Binds": [],
        "VolumesFrom": [],
        "Mounts": [_bind(mount, facts) for mount in template.mounts],
        "Tmpfs": {
            str(SCRATCH_TARGET): f"rw,noexec,nosuid,nodev,size={template.limits.scratch_bytes},mode=1777",
            # one page: nothing is ever in it, and 0 would mean no limit
            **{str(mask): "ro,noexec,nosuid,nodev,size=4096,mode=0555" for mask in template.masks},
        },
        "MaskedPaths": [*masked(template)],
        "ReadonlyPaths": list(READ_ONLY),
        "StorageOpt": {},
    }


def _limits(template: SandboxTemplate) -> dict[str, Any]:
    limits = template.limits
    return {
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # memory and swap together, so no swap
        "OomKillDisable": False,
        "OomScoreAdj": 0,
        "NanoCpus": round(limits.cpus * 1_000_000_000),
        "PidsLimit": limits.pids,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in rlimits(limits).items()],
    }


def masked(template: SandboxTemplate) -> tuple[str, ...]:
    """What a container sees nothing of; all below /sys but for one that shows its limits."""
    return (*MASKED, *(_MASKED_BELOW_SYS if template.cgroup_visible else ("/sys",)))


def rlimits(limits: Limits) -> dict[str, int]:
    """The resource limits of a process, by the names that engines use."""
    return {
        "core": _NO_CORES,
        "cpu": limits.cpu_seconds,
        "data": limits.data_bytes,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
    }


def _bind(mount: Mount, facts: EngineFacts) -> dict[str, Any]:
    """A bind that fails on a missing source. What is mounted below it is read-only too, or not there."""
    recursive = mount.read_only and facts.api_version >= READ_ONLY_RECURSIVE
    below = {"ReadOnlyForceRecursive": True} if recursive else {"NonRecursive": True}
    return {
        "Type": "bind",
        "Source": mount.host_path,
        "Target": str(mount.target),
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate", **below},
    }


def _environment(ours: Mapping[str, str], image: Sequence[str]) -> list[str]:
    """Ours as NAME=VALUE; every other name that the image or the engine would set, bare, which removes it."""
    foreign = {entry.partition("=")[0] for entry in image} | set(_ENGINE_ENVIRONMENT)
    return [*(f"{name}={value}" for name, value in ours.items()), *sorted(foreign - set(ours))]


def _refuse_weak_engine(facts: EngineFacts) -> None:
    spoken = ".".join(map(str, facts.api_version))
    if facts.api_version < _OLDEST_API:
        raise IsolationRefused(
            f"the engine speaks API {spoken}, which isolates too little. Use Docker 20.10 or newer."
        )
    if not any("seccomp" in option for option in facts.security_options):
        raise IsolationRefused(
            "the engine has no seccomp to filter system calls with. Use a kernel and engine that do."
        )


_Rule = Callable[[Any, Any], bool]


def differences(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Every field in which an inspected container is not what the create body asked; empty when it all is.

    Raises IsolationRefused when the body has a field that is not read back, or lacks one that must be there.
    """
    _refuse_incomplete(asked)
    host = asked["HostConfig"]
    return (
        *_compare("Config", asked, inspected, _CONFIG_RULES),
        *_compare("HostConfig", host, inspected, {name: _HOST_RULES[name] for name in host}),
        *_consequences(asked, inspected),
    )


def _refuse_incomplete(asked: Mapping[str, Any]) -> None:
    outer = set(asked) ^ {*_CONFIG_RULES, "HostConfig"}
    inner = set(asked.get("HostConfig", ())) ^ set(_HOST_RULES)
    if unmatched := sorted((outer | inner) - {"CgroupnsMode"}):  # only on cgroup version 2
        raise IsolationRefused(
            f"asked and read back are not the same fields: {unmatched}. This is a bug; report it."
        )


def _compare(
    section: str, asked: Mapping[str, Any], inspected: Mapping[str, Any], rules: Mapping[str, _Rule]
) -> Iterator[Difference]:
    found = inspected.get(section) or {}
    for name, holds in rules.items():
        if not _agree(holds, asked[name], found.get(name)):
            yield Difference(f"{section}.{name}", asked[name], found.get(name))


def _agree(holds: _Rule, asked: Any, got: Any) -> bool:
    try:
        return holds(asked, got)
    except (AttributeError, TypeError, ValueError):  # an answer of another shape is not what was asked
        return False


def _consequences(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> Iterator[Difference]:
    """What the engine derived from the body: program, image, mounts, networks, AppArmor profile."""
    command = [*asked["Entrypoint"], *asked["Cmd"]]
    derived: tuple[tuple[str, Any, Any], ...] = (
        ("Image", asked["Image"], inspected.get("Image")),
        ("Path, Args", command, [inspected.get("Path"), *(inspected.get("Args") or ())]),
        ("Mounts", _asked_mounts(asked), _made_mounts(asked, inspected)),
    )
    for name, want, got in derived:
        if not _same(want, got):
            yield Difference(name, want, got)
    networks = inspected.get("NetworkSettings") or {}
    attached = sorted({*(networks.get("Networks") or ()), *(networks.get("Ports") or ())} - {"none"})
    if attached:
        yield Difference("NetworkSettings", [], attached)
    if inspected.get("AppArmorProfile") == "unconfined":
        yield Difference("AppArmorProfile", "the engine's default", "unconfined")


def _asked_mounts(asked: Mapping[str, Any]) -> list[list[Any]]:
    rows = [
        ["bind", row["Source"], row["Target"], not row["ReadOnly"], row["BindOptions"]["Propagation"]]
        for row in asked["HostConfig"]["Mounts"]
    ]
    return sorted(rows, key=json.dumps)


def _made_mounts(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> list[list[Any]]:
    """The mounts that the engine lists. A tmpfs that we asked for may be among them, as Podman does it."""
    rows = [
        [row.get(name) for name in ("Type", "Source", "Destination", "RW", "Propagation")]
        for row in inspected.get("Mounts") or ()
        if not (row.get("Type") == "tmpfs" and row.get("Destination") in asked["HostConfig"]["Tmpfs"])
    ]
    return sorted(rows, key=json.dumps)


def _same(asked: Any, got: Any) -> bool:
    """Equal, where null, false, zero and empty are one, as engines leave them out. 1 is not true."""
    return _canonical(asked) == _canonical(got)


def _same_map(asked: Any, got: Any) -> bool:
    """Equal to the last key: here an empty value says something, `{"/data": {}}` is a volume."""
    return dict(asked) == dict(got or {})


def _same_members(asked: Any, got: Any) -> bool:
    return sorted(map(_canonical, asked)) == sorted(map(_canonical, got or ()))


def _same_if_asked(asked: Any, got: Any) -> bool:
    return not asked or _same(asked, got)


def _contained(asked: Any, got: Any) -> bool:
    """Labels: an image adds its own, which decide nothing."""
    return all((got or {}).get(name) == value for name, value in asked.items())


def _same_test(asked: Any, got: Any) -> bool:
    """A health check that is off keeps the image's intervals, which then mean nothing."""
    return _same(asked["Test"], (got or {}).get("Test"))


def _all_dropped(asked: Any, got: Any) -> bool:
    """Docker repeats ALL; Podman lists what it took from its own default set."""
    names = {str(name).upper().removeprefix("CAP_") for name in got or ()}
    return asked == ["ALL"] and (names == {"ALL"} or names >= _PODMAN_DEFAULT)


def _canonical(value: Any) -> str:
    return json.dumps(_without_empty(value), sort_keys=True)


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        rows = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in rows.items() if inner is not None} or None
    if isinstance(value, list | tuple):
        return [_without_empty(inner) for inner in value] or None
    return value or None


_PODMAN_DEFAULT: Final = {
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_CONFIG_SAME: Final = (
    *("Image", "User", "Entrypoint", "Cmd", "WorkingDir", "Hostname", "Domainname", "NetworkDisabled"),
    *("StopSignal", "AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce", "Tty"),
)
_CONFIG_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_CONFIG_SAME, _same),
        "Volumes": _same_map,
        "Env": _same_members,
        "Healthcheck": _same_test,
        "Labels": _contained,
    }
)
_HOST_SAME: Final = (
    *("Privileged", "CapAdd", "GroupAdd", "Devices", "DeviceRequests", "DeviceCgroupRules"),
    *("NetworkMode", "PublishAllPorts", "Dns", "DnsSearch", "DnsOptions", "ExtraHosts", "Links"),
    *("PidMode", "UTSMode", "UsernsMode", "IpcMode", "CgroupnsMode", "Cgroup", "CgroupParent"),
    *("ReadonlyRootfs", "Binds", "VolumesFrom", "LogConfig", "RestartPolicy", "AutoRemove", "Init"),
    *("Memory", "MemorySwap", "OomKillDisable", "OomScoreAdj", "NanoCpus", "PidsLimit"),
)
_HOST_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_HOST_SAME, _same),
        **dict.fromkeys(("PortBindings", "StorageOpt", "Sysctls", "Tmpfs"), _same_map),
        **dict.fromkeys(("SecurityOpt", "Mounts", "MaskedPaths", "ReadonlyPaths", "Ulimits"), _same_members),
        "CapDrop": _all_dropped,
        "Runtime": _same_if_asked,
    }
)
