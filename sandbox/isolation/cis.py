"""Section 5 of the CIS Docker Benchmark: each check, what we ask of the engine for it, and what a container shows. Pure.

Numbers and titles are those of CIS Docker Benchmark 1.6.0 as `tests/5_container_runtime.sh` of docker-bench-security
1.6.0 has them. In benchmarks up to 1.5.0 swarm mode was elsewhere, so 5.2 to 5.32 here are 5.1 to 5.31 there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

BENCHMARK: Final = "CIS Docker Benchmark 1.6.0"
_SENSITIVE: Final = ("/", "/boot", "/dev", "/etc", "/lib", "/proc", "/sys", "/usr")  # docker-bench's list
_SOCKETS: Final = ("docker.sock", "containerd.sock", "podman.sock", "crio.sock")
_MOST_RETRIES: Final = 5  # of 5.15

Verdict = Literal["held", "failed", "warning", "note", "n/a"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the checks go by: a container as the engine inspects it, and what its job sees."""

    inspected: Mapping[str, Any]
    security_options: tuple[str, ...] = ()  # of the engine
    processes: int = 1  # that a job sees

    @property
    def host(self) -> Mapping[str, Any]:
        return dict(self.inspected["HostConfig"])

    @property
    def options(self) -> list[str]:
        return list(self.host["SecurityOpt"] or ())


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `settings` are fields of the create body; `how` says how it is held, or why it does not apply."""

    number: str
    title: str
    settings: tuple[str, ...]
    how: str
    judge: Callable[[Seen], tuple[Verdict, str]] | None = None  # None where it does not apply

    def found(self, seen: Seen) -> tuple[Verdict, str]:
        """The verdict and what it rests on. An inspection of another shape is a failure, never an exception."""
        if self.judge is None:
            return "n/a", self.how
        try:
            return self.judge(seen)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return "failed", f"malformed: {error!r}"[:200]


def _held(holds: object, found: object) -> tuple[Verdict, str]:
    return ("held" if holds else "failed"), str(found)


def _apparmor(seen: Seen) -> tuple[Verdict, str]:
    if not any("apparmor" in option for option in seen.security_options):
        return "warning", "this host's engine has no AppArmor"
    profile = seen.inspected.get("AppArmorProfile") or ""
    return _held(profile not in ("", "unconfined"), profile or "none")


def _selinux(seen: Seen) -> tuple[Verdict, str]:
    if not any("selinux" in option for option in seen.security_options):
        return "n/a", "this host's engine has no SELinux; AppArmor is 5.2"
    label = seen.inspected.get("ProcessLabel") or ""
    return _held(label and "label=disable" not in seen.options, label or "none")


def _capabilities(seen: Seen) -> tuple[Verdict, str]:
    added, dropped = seen.host["CapAdd"] or [], seen.host["CapDrop"] or []
    return _held(
        not added and dropped, f"added {' '.join(added) or 'none'}, dropped {' '.join(dropped) or 'none'}"
    )


def _mounted(seen: Seen) -> tuple[Verdict, str]:
    rows = [
        (str(row["Destination"]), str(row["Source"]))
        for row in seen.inspected["Mounts"] or ()
        if row.get("Type") == "bind"
    ]
    sensitive = [place for row in rows for place in row if place in _SENSITIVE]
    return _held(not sensitive, ", ".join(sensitive or [target for target, _ in rows]) or "no mounts")


def _socket_mounts(seen: Seen) -> tuple[Verdict, str]:
    text = [
        str(row.get(side)) for row in seen.inspected["Mounts"] or () for side in ("Source", "Destination")
    ]
    found = [one for one in text if one.endswith(_SOCKETS)]
    return _held(not found, ", ".join(found) or "no engine's socket")


def _ports(seen: Seen) -> tuple[Verdict, str]:
    ports = sorted(
        {
            *(seen.host["PortBindings"] or ()),
            *((seen.inspected.get("NetworkSettings") or {}).get("Ports") or ()),
        }
    )
    return _held(not ports and not seen.host.get("PublishAllPorts"), ", ".join(ports) or "none")


def _network(seen: Seen) -> tuple[Verdict, str]:
    mode = seen.host["NetworkMode"]
    return _held(mode == "none", mode)


def _ulimits(seen: Seen) -> tuple[Verdict, str]:
    rows = {row["Name"]: row["Hard"] for row in seen.host["Ulimits"] or ()}
    return _held(
        {"core", "cpu", "data", "fsize", "nofile"} <= set(rows),
        ", ".join(f"{one}={rows[one]}" for one in sorted(rows)) or "none",
    )


def _propagation(seen: Seen) -> tuple[Verdict, str]:
    modes = sorted({str(row.get("Propagation") or "none") for row in seen.inspected["Mounts"] or ()})
    return _held(not {"shared", "rshared"} & set(modes), ", ".join(modes) or "no mounts")


def _seccomp(seen: Seen) -> tuple[Verdict, str]:
    profiles = [option.partition("=")[2] for option in seen.options if option.startswith("seccomp=")]
    ours = [profile for profile in profiles if '"SCMP_ACT_ERRNO"' in profile]
    return _held(
        ours and "unconfined" not in profiles,
        "our own profile" if ours else ", ".join(profiles)[:40] or "the engine's",
    )


def _privileges(seen: Seen) -> tuple[Verdict, str]:
    found = [option for option in seen.options if option.startswith("no-new-privileges")]
    return _held(found and not found[0].endswith("false"), ", ".join(found) or "none")


def _user(seen: Seen) -> tuple[Verdict, str]:
    mode = seen.host["UsernsMode"]
    return _held(mode != "host", mode or "the engine's default")


def _not(section: str, shared: str) -> Callable[[Seen], tuple[Verdict, str]]:
    """The namespace of that field is not the host's."""
    return lambda seen: _held(
        not str(seen.host[section] or "").startswith((shared, "container:")), seen.host[section] or "its own"
    )


def _above_zero(section: str) -> Callable[[Seen], tuple[Verdict, str]]:
    return lambda seen: _held((seen.host[section] or 0) > 0, f"{section} {seen.host[section]}")


def _empty(*sections: str) -> Callable[[Seen], tuple[Verdict, str]]:
    def judge(seen: Seen) -> tuple[Verdict, str]:
        found = [str(seen.host[section]) for section in sections if seen.host.get(section)]
        return _held(not found, ", ".join(found) or "none")

    return judge


def _restarts(seen: Seen) -> tuple[Verdict, str]:
    policy = seen.host["RestartPolicy"]
    found = str(policy["Name"] or "no")
    return _held(
        found == "no" or (found == "on-failure" and policy["MaximumRetryCount"] <= _MOST_RETRIES), found
    )


_NO_EXEC: Final = "about how an administrator enters a container; the product never calls exec"
CHECKS: Final = (
    Check("5.1", "swarm mode is not enabled", (), "about the engine; our containers are made alone, never as tasks of a swarm"),
    Check("5.2", "an AppArmor profile is enabled", ("SecurityOpt",), "the engine's default profile; an unconfined container is refused", _apparmor),
    Check("5.3", "SELinux security options are set", ("SecurityOpt",), "the engine's default label, never disabled", _selinux),
    Check("5.4", "capabilities are restricted", ("CapDrop", "CapAdd"), "all are dropped, none is added", _capabilities),
    Check("5.5", "privileged containers are not used", ("Privileged",), "never", _empty("Privileged")),
    Check("5.6", "sensitive host directories are not mounted", ("Mounts", "Binds"), "workspaces, read-only, and one private output folder", _mounted),
    Check("5.7", "sshd is not run", ("Entrypoint", "Cmd"), "the job is the only process when it begins", lambda seen: _held(seen.processes == 1, f"processes: {seen.processes}")),
    Check("5.8", "privileged ports are not mapped", ("PortBindings", "PublishAllPorts"), "no port is", _ports),
    Check("5.9", "only needed ports are open", ("PortBindings", "NetworkDisabled"), "none is", _ports),
    Check("5.10", "the host's network namespace is not shared", ("NetworkMode", "NetworkDisabled"), "a network namespace of its own, without an interface", _network),
    Check("5.11", "memory is limited", ("Memory", "MemorySwap"), "and no swap", _above_zero("Memory")),
    Check("5.12", "CPU priority is set", ("NanoCpus",), "a share of the processors that cannot be exceeded", _above_zero("NanoCpus")),
    Check("5.13", "the root file system is read-only", ("ReadonlyRootfs",), "always", lambda seen: _held(seen.host["ReadonlyRootfs"], seen.host["ReadonlyRootfs"])),
    Check("5.14", "incoming traffic is bound to one interface", ("PortBindings",), "none comes in", _ports),
    Check("5.15", "restarts on failure are five at most", ("RestartPolicy",), "a container is never started again", _restarts),
    Check("5.16", "the host's process namespace is not shared", ("PidMode",), "one of its own", _not("PidMode", "host")),
    Check("5.17", "the host's IPC namespace is not shared", ("IpcMode",), "one of its own, without /dev/shm", _not("IpcMode", "host")),
    Check("5.18", "host devices are not exposed", ("Devices", "DeviceRequests", "DeviceCgroupRules"), "none is", _empty("Devices", "DeviceRequests", "DeviceCgroupRules")),
    Check("5.19", "ulimits are set where needed", ("Ulimits",), "core, cpu, data, fsize and nofile, soft and hard", _ulimits),
    Check("5.20", "mount propagation is not shared", ("Mounts",), "rprivate", _propagation),
    Check("5.21", "the host's UTS namespace is not shared", ("UTSMode", "Hostname"), "one of its own, with a fixed name", _not("UTSMode", "host")),
    Check("5.22", "the seccomp profile is not disabled", ("SecurityOpt",), "our own, stricter than the default; a weaker one is refused", _seccomp),
    Check("5.23", "exec is not used with privileges", (), _NO_EXEC),
    Check("5.24", "exec is not used as root", (), _NO_EXEC),
    Check("5.25", "the control group is confirmed", ("CgroupParent", "CgroupnsMode"), "the engine's own place; limits are read back from inside", _empty("CgroupParent")),
    Check("5.26", "no additional privileges can be gained", ("SecurityOpt",), "no-new-privileges", _privileges),
    Check("5.27", "container health is checked", ("Healthcheck",), "a container lives for one call, and its host watches it; a health check would run programs in it"),
    Check("5.28", "the image is the latest version", ("Image",), "the image is fixed by its content; `gdal-mcp doctor` warns of a GDAL with known flaws"),
    Check("5.29", "the number of processes is limited", ("PidsLimit",), "always", _above_zero("PidsLimit")),
    Check("5.30", "the default bridge docker0 is not used", ("NetworkMode",), "no network is", _network),
    Check("5.31", "the host's user namespace is not shared", ("UsernsMode", "User"), "never asked for; the engine's remapping holds, and no container runs as root", _user),
    Check("5.32", "the engine's socket is not mounted", ("Mounts", "Binds"), "never", _socket_mounts),
)  # fmt: skip
