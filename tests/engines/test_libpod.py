"""The requests to Podman; no other setting in the low-level runtime's configuration is accepted in their place."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from operator import setitem
from typing import Any

import pytest

from sandbox.engines.libpod import create_spec, differences
from sandbox.isolation.policy import MASKED, READ_ONLY
from sandbox.isolation.seccomp import profile
from tests.unit.sandbox.hardening_kit import STAGING, TEMPLATE, WORKSPACE

pytestmark = pytest.mark.claim("engine.podman-is-read-back", "engine.podman-does-what-an-engine-must")

LABELS = {"owner": "me"}
CONTAINER = "c" * 64
OWN = f"/var/lib/containers/storage/overlay-containers/{CONTAINER}/userdata"
RULES = profile("x86_64")
PLAIN = replace(TEMPLATE, runtime="")
Change = Callable[[dict[str, Any], dict[str, Any]], object]


def spec(**changes: object) -> dict[str, Any]:
    return create_spec(replace(PLAIN, **changes), LABELS, "/tmp/rules.json", 32768)


def own_mount(place: str, kind: str, *options: str, source: str = "none") -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": source, "options": list(options)}


def truthful() -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration and the description of a container that match the request."""
    request = spec()
    mounts = copy.deepcopy(request["mounts"])
    mounts += [own_mount("/proc", "proc"), own_mount("/dev", "tmpfs"), own_mount("/sys", "sysfs", "ro")]
    mounts += [own_mount("/run/.containerenv", "bind", "ro", source=f"{OWN}/.containerenv")]
    runtime = {
        "root": {"readonly": True},
        "hostname": "sandbox",
        "process": {
            "user": {"uid": 1000, "gid": 1001, "additionalGids": [1001]},
            "args": list(PLAIN.command),
            "env": ["PATH=/usr/bin", "HOME=/nonexistent", "HOSTNAME=sandbox"],
            "cwd": "/tmp",
            "capabilities": {},
            "noNewPrivileges": True,
            "rlimits": [{**row, "type": f"RLIMIT_{row['type'].upper()}"} for row in request["r_limits"]],
        },
        "mounts": mounts,
        "linux": {
            "resources": {
                **copy.deepcopy(request["resource_limits"]),
                "devices": [{"allow": False, "access": "rwm"}],
            },
            "namespaces": [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount", "cgroup")],
            "maskedPaths": ["/proc/acpi", *request["mask"]],
            "readonlyPaths": list(READ_ONLY),
            "sysctl": {"net.ipv4.ping_group_range": "0 0"},
            "seccomp": json.loads(RULES),
        },
    }
    inspected = {
        "Image": PLAIN.image.removeprefix("sha256:"),
        "StaticDir": OWN,
        "Config": {"OpenStdin": True},
        "HostConfig": {"LogConfig": {"Type": "none"}, "Privileged": False},
    }
    return runtime, inspected


def difference_names(runtime: dict[str, Any], inspected: dict[str, Any]) -> list[str]:
    return [difference.name for difference in differences(PLAIN, RULES, runtime, inspected)]


def test_what_is_as_asked_passes() -> None:
    assert difference_names(*truthful()) == []


def test_request_takes_nothing_from_image_or_engine() -> None:
    request = spec()
    assert request["unsetenv_all"]
    assert not request["env_host"]
    assert not request["httpproxy"]
    assert request["image_volume_mode"] == "ignore"
    assert request["netns"] == request["ipcns"] == {"nsmode": "none"}
    assert (request["cap_drop"], request["cap_add"]) == (["all"], [])
    assert set(MASKED) < set(request["mask"])
    assert not any("rbind" in row["options"] for row in request["mounts"])


def test_control_groups_are_shown_to_the_attestation_alone() -> None:
    for visible in (False, True):
        assert ("/sys" in spec(cgroup_visible=visible)["mask"]) is not visible


def inner(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def at(*path: str | int, value: object) -> Change:
    """Sets one value of the configuration."""
    return lambda runtime, _inspected: setitem(inner(runtime, path[:-1]), path[-1], value)


def more(*path: str | int, value: object) -> Change:
    """Adds one entry to a list of the configuration."""
    return lambda runtime, _inspected: inner(runtime, path).append(value)


def mount(runtime: dict[str, Any], place: object) -> dict[str, Any]:
    return next(row for row in runtime["mounts"] if row["destination"] == str(place))


def option(place: object, old: str, *new: str) -> Change:
    """Replaces one option of a mount with others."""

    def change(runtime: dict[str, Any], _inspected: dict[str, Any]) -> None:
        row = mount(runtime, place)
        assert old in row["options"]
        row["options"] = [*(flag for flag in row["options"] if flag != old), *new]

    return change


ALLOW_ALL = {**json.loads(RULES), "defaultAction": "SCMP_ACT_ALLOW"}
# the difference that must be noticed, and the change that causes it
WEAK: tuple[tuple[str, Change], ...] = (
    ("Image", lambda _runtime, inspected: inspected.update(Image="f" * 64)),
    ("Privileged", lambda _runtime, inspected: inspected["HostConfig"].update(Privileged=True)),
    ("LogConfig", lambda _runtime, inspected: inspected["HostConfig"]["LogConfig"].update(Type="k8s-file")),
    ("OpenStdin", lambda _runtime, inspected: inspected["Config"].update(OpenStdin=False)),
    ("root.readonly", at("root", "readonly", value=False)),
    ("hostname", at("hostname", value="host")),
    ("hooks", at("hooks", value={"prestart": [{"path": "/bin/evil"}]})),
    ("user", at("process", "user", "uid", value=0)),
    ("groups", more("process", "user", "additionalGids", value=0)),
    ("args", more("process", "args", value="more")),
    ("env", more("process", "env", value="SECRET=1")),
    ("cwd", at("process", "cwd", value="/")),
    ("terminal", at("process", "terminal", value=True)),
    ("capabilities", at("process", "capabilities", value={"bounding": ["CAP_SYS_ADMIN"]})),
    ("noNewPrivileges", at("process", "noNewPrivileges", value=False)),
    ("rlimits", at("process", "rlimits", 0, "hard", value=1 << 40)),
    ("memory", at("linux", "resources", "memory", value={})),
    ("cpu", at("linux", "resources", "cpu", value={})),
    ("pids", at("linux", "resources", "pids", value=None)),
    ("devices", more("linux", "resources", "devices", value={"allow": True, "type": "b", "access": "rwm"})),
    ("namespaces", at("linux", "namespaces", 1, value={"type": "network", "path": "/proc/1/ns/net"})),
    ("maskedPaths", at("linux", "maskedPaths", value=["/proc/acpi"])),
    ("readonlyPaths", at("linux", "readonlyPaths", value=[])),
    ("sysctl", at("linux", "sysctl", value={"kernel.core_pattern": "|/bin/evil"})),
    ("seccomp", at("linux", "seccomp", value=ALLOW_ALL)),
    ("mounts of others", more("mounts", value=own_mount("/host", "bind", "rw", source="/"))),
    ("shared memory", more("mounts", value=own_mount("/dev/shm", "tmpfs", "rw"))),
    ("mounts", option(WORKSPACE, "ro", "rw")),
    ("mounts", option("/tmp", "noexec")),
    ("mounts", lambda runtime, _inspected: mount(runtime, STAGING).update(source="/etc")),
    (
        "mounts of others",
        more("mounts", value=own_mount("/etc/hostname", "bind", "ro", source="/etc/shadow")),
    ),
    (
        "mounts of others",
        more("mounts", value=own_mount("/run/.containerenv", "bind", "ro", source="/etc/shadow")),
    ),
    ("seccomp", lambda runtime, _inspected: runtime["linux"]["seccomp"]["syscalls"].pop()),
)


def test_each_weaker_point_is_noticed(subtests: pytest.Subtests) -> None:
    for number, (name, change) in enumerate(WEAK):
        with subtests.test(name=name, number=number):
            runtime, inspected = truthful()
            change(runtime, inspected)
            assert difference_names(runtime, inspected) == [name]


def test_a_configuration_of_another_shape_is_refused() -> None:
    for missing in ("root", "process", "mounts", "linux"):
        runtime, inspected = truthful()
        del runtime[missing]
        assert "config.json" in difference_names(runtime, inspected), missing
