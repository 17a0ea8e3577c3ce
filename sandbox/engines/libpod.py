"""Builds create requests for Podman's own API, and compares the runtime configuration with them. Pure.

Through its Docker-compatible API, Podman (tested with 4.3) drops masked paths and `IpcMode: none`, adds writable
mounts, and interprets a seccomp profile as a file name. Its own API supports all of these. The configuration that it
then writes for the low-level runtime is read back and compared. This is stricter than an inspection, because only
this configuration decides what runs.

The invariants are those of `sandbox.isolation.policy`, whose lists are used here.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from sandbox.isolation.policy import CPU_PERIOD, HOSTNAME, READ_ONLY, masked_paths, rlimits, tmpfs
from sandbox.isolation.rows import Row, differs
from sandbox.template import SCRATCH_TARGET, Limits, SandboxTemplate

_OWN_MARK: Final = "/run/.containerenv"  # this file shows a program that it runs in Podman; masked
# the image's resolv.conf contains the name servers of the machine that built it
_COVERED: Final = (_OWN_MARK, "/etc/resolv.conf")
_NAMESPACES: Final = ("pid", "network", "ipc", "uts", "mount", "cgroup")
_UNASKED_NAMES: Final = ("TERM", "container")  # variables that Podman sets by default
# pseudo file systems that Podman mounts by default, and two files from the container's own folder
_OWN_TYPES: Final = frozenset({"proc", "tmpfs", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"})
_OWN_PLACES: Final = ("/proc", "/dev", "/sys")
_OWN_FILES: Final = frozenset({_OWN_MARK, "/etc/hostname"})
# a default of Podman; without a network it has no effect
_HARMLESS_SYSCTL: Final = {"net.ipv4.ping_group_range"}


def create_spec(
    template: SandboxTemplate, labels: Mapping[str, str], seccomp_file: str, most_processes: int | None
) -> dict[str, Any]:
    """The body of a libpod create request.

    `most_processes` limits all processes of the user on the host. With None, Podman sets the highest limit that its
    own user may set.
    """
    uid, gid = template.user
    return {
        "image": template.image.removeprefix("sha256:"),
        "image_volume_mode": "ignore",
        "entrypoint": [template.command[0]],
        "command": list(template.command[1:]),
        "user": f"{uid}:{gid}",
        "work_dir": str(SCRATCH_TARGET),
        "env": dict(template.environment),
        "env_host": False,
        "httpproxy": False,
        "unsetenv_all": True,  # removes the variables of the image
        "unsetenv": [name for name in _UNASKED_NAMES if name not in template.environment],
        "hostname": HOSTNAME,
        "labels": dict(labels),
        "stdin": True,
        "terminal": False,
        "stop_signal": 9,
        "healthconfig": {"Test": ["NONE"]},
        "restart_policy": "no",
        "log_configuration": {"driver": "none"},
        "systemd": "false",
        "sdnotifyMode": "ignore",
        **({"oci_runtime": template.runtime} if template.runtime else {}),
        **_isolation(template, seccomp_file),
        "manage_password": False,  # Podman adds no passwd entry for the user
        "use_image_hosts": True,  # Podman then does not use the host's hosts file and resolv.conf
        "use_image_resolve_conf": True,
        "mounts": _request_mounts(template),
        **_limits(template.limits, most_processes),
    }


def _isolation(template: SandboxTemplate, seccomp_file: str) -> dict[str, Any]:
    return {
        "cap_drop": ["all"],
        "cap_add": [],
        "no_new_privileges": True,
        "seccomp_profile_path": seccomp_file,
        "read_only_filesystem": True,
        "read_write_tmpfs": False,
        "mask": [*masked_paths(template), *_COVERED],
        **{name: {"nsmode": "private"} for name in ("pidns", "utsns", "cgroupns")},
        **{name: {"nsmode": "none"} for name in ("netns", "ipcns")},
    }


def _limits(limits: Limits, most_processes: int | None) -> dict[str, Any]:
    processes = {} if most_processes is None else {"nproc": most_processes}
    return {
        "resource_limits": {
            "memory": {"limit": limits.memory_bytes, "swap": limits.memory_bytes},
            "cpu": {"quota": round(limits.cpus * CPU_PERIOD), "period": CPU_PERIOD},
            "pids": {"limit": limits.pids},
        },
        "r_limits": [
            {"type": name, "soft": value, "hard": value}
            for name, value in {**rlimits(limits), **processes}.items()
        ],
    }


def _request_mounts(template: SandboxTemplate) -> list[dict[str, Any]]:
    """The mounts of the create request. Bind mounts are not recursive, so submounts of a workspace are excluded."""
    binds = [
        {
            "destination": str(mount.target),
            "type": "bind",
            "source": mount.host_path,
            "options": ["bind", "ro" if mount.read_only else "rw", "rprivate", "nosuid", "nodev"],
        }
        for mount in template.mounts
    ]
    covers = [
        {
            "destination": str(mount.target),
            "type": "tmpfs",
            "source": "tmpfs",
            "options": [*mount.options, "notmpcopyup"],
        }
        for mount in tmpfs(template)
    ]
    return binds + covers


def differences(
    template: SandboxTemplate, profile: str, runtime: Mapping[str, Any], inspected: Mapping[str, Any]
) -> tuple[Row, ...]:
    """The differences between the request and the low-level runtime's configuration `runtime`, and in the image."""
    try:
        return tuple(
            differs(name, requested, actual)
            for name, requested, actual in _compared(template, profile, runtime, inspected)
            if json.dumps(requested, sort_keys=True) != json.dumps(actual, sort_keys=True)
        )
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        return (differs("config.json", "complete", f"malformed: {error!r}"),)


_Compared = Iterator[tuple[str, Any, Any]]


def _compared(
    template: SandboxTemplate, profile: str, runtime: Mapping[str, Any], inspected: Mapping[str, Any]
) -> _Compared:
    yield "Image", template.image.removeprefix("sha256:"), str(inspected["Image"]).removeprefix("sha256:")
    yield "OpenStdin", True, inspected["Config"]["OpenStdin"]
    yield "LogConfig", "none", inspected["HostConfig"]["LogConfig"]["Type"]
    yield "Privileged", False, inspected["HostConfig"]["Privileged"]
    yield "root.readonly", True, runtime["root"]["readonly"]
    yield "hostname", HOSTNAME, runtime["hostname"]
    yield "hooks", {}, {name: hooks for name, hooks in (runtime.get("hooks") or {}).items() if hooks}
    yield from _process(template, runtime["process"])
    yield from _mounts(template, runtime["mounts"], str(inspected["StaticDir"]))
    yield from _kernel(template, runtime["linux"])
    yield "seccomp", _filter(json.loads(profile)), _filter(runtime["linux"]["seccomp"])


def _process(template: SandboxTemplate, process: Mapping[str, Any]) -> _Compared:
    uid, gid = template.user
    user = process["user"]
    yield "user", [uid, gid], [user["uid"], user["gid"]]
    yield "groups", [], sorted(set(user.get("additionalGids") or ()) - {gid})
    yield "args", list(template.command), process["args"]
    expected_environment = {"HOSTNAME": HOSTNAME, **template.environment}  # Podman always sets HOSTNAME
    yield (
        "env",
        sorted(f"{name}={value}" for name, value in expected_environment.items()),
        sorted(process["env"]),
    )
    yield "cwd", str(SCRATCH_TARGET), process["cwd"]
    yield "terminal", False, process.get("terminal", False)
    capabilities = {name: names for name, names in (process.get("capabilities") or {}).items() if names}
    yield "capabilities", {}, capabilities
    yield "noNewPrivileges", True, process.get("noNewPrivileges")
    requested = {f"RLIMIT_{name.upper()}": [value, value] for name, value in rlimits(template.limits).items()}
    actual = {row["type"]: [row["soft"], row["hard"]] for row in process["rlimits"]}
    yield "rlimits", requested, {name: pair for name, pair in actual.items() if name != "RLIMIT_NPROC"}


def _mounts(template: SandboxTemplate, rows: list[Mapping[str, Any]], own: str) -> _Compared:
    requested = _request_mounts(template)
    places = {row["destination"] for row in requested}
    actual = [row for row in rows if row["destination"] in places]
    yield "mounts", sorted(map(_mount, requested)), sorted(map(_mount, actual))
    strange = [row for row in rows if row["destination"] not in places and not _is_own(row, own)]
    yield "mounts of others", [], [row["destination"] for row in strange]
    memory = [row["destination"] for row in rows if row["destination"] == "/dev/shm"]  # noqa: S108 - looked for
    yield "shared memory", [], memory


def _mount(row: Mapping[str, Any]) -> str:
    """The destination, type, source and options of a mount, without the options that engines add or omit harmlessly."""
    options = sorted(set(row["options"]) - {"rprivate", "bind", "notmpcopyup"})
    source = row["source"] if row["type"] == "bind" else ""
    return json.dumps([row["destination"], row["type"], source, options])


def _is_own(row: Mapping[str, Any], own: str) -> bool:
    place = row["destination"]
    if place in _OWN_FILES:  # must be read-only and come from Podman's folder for this container
        container = PurePosixPath(own).parent.name
        return "ro" in row["options"] and f"/{container}/" in row["source"]
    below = any(
        place == folder or PurePosixPath(folder) in PurePosixPath(place).parents for folder in _OWN_PLACES
    )
    return row["type"] in _OWN_TYPES and below


def _kernel(template: SandboxTemplate, linux: Mapping[str, Any]) -> _Compared:
    limits, resources = template.limits, linux.get("resources") or {}
    memory, cpu, pids = (resources.get(name) or {} for name in ("memory", "cpu", "pids"))
    yield "memory", [limits.memory_bytes] * 2, [memory.get("limit"), memory.get("swap")]
    yield "cpu", [round(limits.cpus * CPU_PERIOD), CPU_PERIOD], [cpu.get("quota"), cpu.get("period")]
    yield "pids", limits.pids, pids.get("limit")
    allowed = [row for row in resources.get("devices") or () if row.get("allow")]
    yield "devices", [], [*(linux.get("devices") or ()), *allowed]
    namespaces = {row["type"]: row.get("path", "") for row in linux["namespaces"]}
    yield "namespaces", {}, {name: "its own" for name in _NAMESPACES if namespaces.get(name) != ""}
    yield "maskedPaths", [], sorted({*masked_paths(template), *_COVERED} - set(linux["maskedPaths"]))
    yield "readonlyPaths", [], sorted(set(READ_ONLY) - set(linux["readonlyPaths"]))
    yield "sysctl", [], sorted(set(linux.get("sysctl") or ()) - _HARMLESS_SYSCTL)


def _filter(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of a seccomp profile in a canonical form, in which omitted and empty fields are equal."""

    def rule(row: Mapping[str, Any]) -> str:
        arguments = [
            [argument["index"], argument["value"], argument.get("valueTwo") or 0, argument["op"]]
            for argument in row.get("args") or ()
        ]
        return json.dumps([sorted(row["names"]), row["action"], row.get("errnoRet"), arguments])

    return {
        "default": [profile["defaultAction"], profile.get("defaultErrnoRet")],
        "architectures": sorted(profile.get("architectures") or ()),
        "rules": sorted(map(rule, profile["syscalls"])),
    }
