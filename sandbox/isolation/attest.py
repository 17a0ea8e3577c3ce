"""Compares what a container measured of itself with what its template asked. Pure.

Every container is compared before it gets its job. The control-group values lie under /sys, which jobs do not see; one
extra container per server (`cgroup_visible`) shows them, so that a limit that an engine ignores is noticed.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sandbox.hardening import CPU_PERIOD, MASKED, rlimits
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET, SandboxTemplate

# file systems that an engine mounts of its own accord and that hold nothing of the host's files
_OWN_TYPES = frozenset({"proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2"})
_WRITABLE = ("/proc", "/dev", str(SCRATCH_TARGET), str(STAGING_TARGET))
# files that an engine writes itself, for the container alone; without a network there is at most the first
_OWN_FILES = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"})
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a place in the container, where nothing is to be
ENGINE_NAMES = frozenset({"HOSTNAME", "PATH", "HOME", "LC_CTYPE"})  # an engine or Python may add them
_NOT_SHOWN = "not shown"  # by a kernel that is not Linux, as gVisor's; what cannot be seen is not believed
_CPU_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """One measured property."""

    name: str
    asked: str
    found: str
    ok: bool


def shortfalls(template: SandboxTemplate, facts: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows in which the container is weaker than asked; empty when all is well."""
    return tuple(row for row in rows(template, facts) if not row.ok)


def rows(template: SandboxTemplate, facts: Mapping[str, Any]) -> tuple[Row, ...]:
    """Every property of a container, asked and found. Malformed facts make failing rows, never an exception."""
    try:
        return (
            *_identity(template, facts),
            *_mounts(template, facts),
            *_limits(template, facts),
            *_cgroup(template, facts),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        return (Row("facts", "complete", f"malformed: {error!r}"[:200], ok=False),)


def _identity(template: SandboxTemplate, facts: Mapping[str, Any]) -> Iterator[Row]:
    status = facts["status"]
    uid, gid = (str(number) for number in template.user)
    yield _same("user", f"{uid}:{gid}", f"{_only(status['Uid'])}:{_only(status['Gid'])}")
    groups = [group for group in status["Groups"] if group != gid]
    yield _same("supplementary groups", "none", " ".join(groups) or "none")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        yield _same(name, "0", f"{int(status[name][0], 16):x}" if name in status else _NOT_SHOWN)
    for name, asked in (("NoNewPrivs", "1"), ("Seccomp", "2")):
        yield _same(name, asked, status[name][0] if name in status else _NOT_SHOWN)
    others = [name for name in facts["interfaces"] if name != "lo"]
    yield _same("network interfaces", "none", " ".join(others) or "none")
    added = ENGINE_NAMES - set(template.environment)
    others = sorted(set(facts["environment"].items()) - set(template.environment.items()))
    foreign = [name for name, _ in others if name not in added]
    yield _same("foreign environment", "none", " ".join(foreign) or "none")
    absent = sorted(set(template.environment) - set(facts["environment"]))
    yield _same("missing environment", "none", " ".join(absent) or "none")


def _mounts(template: SandboxTemplate, facts: Mapping[str, Any]) -> Iterator[Row]:
    seen = _reachable(facts["mounts"])
    asked = {str(mount.target): mount for mount in template.mounts}
    for target, mount in asked.items():
        want = "ro" if mount.read_only else "rw"
        yield _same(f"mount {target}", want, _mode(seen.get(target)))
    yield _same("mount /", "ro", _mode(seen.get("/")))
    for mask in template.masks:
        row = seen.get(str(mask))
        yield _same(f"mask {mask}", "tmpfs ro", f"{row['type']} {_mode(row)}" if row else "absent")
    scratch = seen.get(str(SCRATCH_TARGET))
    flags = {"noexec", "nosuid", "nodev"} & set(scratch["options"] if scratch else ())
    yield _same(f"scratch {SCRATCH_TARGET}", "nodev noexec nosuid", " ".join(sorted(flags)) or "none")
    memory = "mounted" if _SHARED_MEMORY in seen else "absent"
    yield _same("shared memory", "absent", memory)
    shared = [
        target for target, row in seen.items() if any(text.startswith("shared:") for text in row["shared"])
    ]
    yield _same("shared propagation", "none", " ".join(shared) or "none")
    yield _same("foreign mounts", "none", " ".join(_foreign(seen, asked)) or "none")
    shown = {"/sys/fs/cgroup"} if template.cgroup_visible else set()  # a tmpfs of root's on version 1
    yield _same("writable mounts", "none", " ".join(_writable(seen, {*asked, *shown})) or "none")


_Mount = Mapping[str, Any]


def _reachable(mounts: list[_Mount]) -> dict[str, _Mount]:
    """The mounts that a path leads to, by target. Which covers which is told by their numbers: their order tells nothing."""
    lying = {(row["parent"], row["target"]): row for row in mounts if row["parent"] != row["id"]}
    known = {row["id"] for row in mounts}
    (root,) = (row for row in mounts if row["parent"] not in known or row["parent"] == row["id"])
    return {row["target"]: row for row in mounts if _led_to(row["target"], root, lying) is row}


def _led_to(target: str, root: _Mount, lying: Mapping[tuple[str, str], _Mount]) -> _Mount:
    """The mount that is met at a place, on the way from the root through whatever is mounted on each folder."""
    here, path = root, PurePosixPath(target)
    for place in (*reversed(path.parents), path):
        for _ in lying:  # no more can lie on one another
            over = lying.get((here["id"], str(place)))
            if over is None:
                break
            here = over
    return here


def _is_in(target: str, top: str) -> bool:
    """Whether one mount point is another or lies in it. The kernel writes them absolute and without a slash at the end."""
    return target == top or target.startswith(f"{top.rstrip('/')}/")


def _foreign(seen: Mapping[str, Any], asked: Container[str]) -> list[str]:
    own = {target for target, row in seen.items() if target in _OWN_FILES or row["type"] in _OWN_TYPES}
    return [target for target in seen if target not in asked and target not in own and target != "/"]


def _writable(seen: Mapping[str, Any], asked: Container[str]) -> list[str]:
    """Writable mounts that nobody asked for, other than the engine's own pseudo file systems."""
    found = []
    for target, row in seen.items():
        own = any(_is_in(target, place) for place in _WRITABLE)
        own |= target in MASKED and row["type"] in _OWN_TYPES  # /dev/null, which is what a mask is
        if "rw" in row["options"] and target not in asked and not own:
            found.append(target)
    return found


def _limits(template: SandboxTemplate, facts: Mapping[str, Any]) -> Iterator[Row]:
    for name, value in rlimits(template.limits).items():
        soft, hard = facts["rlimits"][name.upper()]
        yield _same(f"rlimit {name.upper()}", str(value), str(soft) if soft == hard else f"{soft}/{hard}")


def _cgroup(template: SandboxTemplate, facts: Mapping[str, Any]) -> Iterator[Row]:
    if not template.cgroup_visible:
        return
    values, limits = facts["cgroup"], template.limits
    page = 4096
    memory = values["memory"] or "absent"
    near = memory.isdigit() and abs(int(memory) - limits.memory_bytes) < page
    yield Row("cgroup memory", str(limits.memory_bytes), memory, ok=near)
    swap = values["swap"] or "absent"
    # version 1 counts memory and swap together, version 2 swap alone; without swap accounting there is no file
    together = values["cpu_period"] is not None  # a file that only version 1 has
    yield Row(
        "cgroup swap",
        "0",
        swap,
        ok=swap in ("0", "absent") or (together and swap.isdigit() and int(swap) <= limits.memory_bytes),
    )
    yield _same("cgroup pids", str(limits.pids), values["pids"] or "absent")
    cpus = _cpus(values)
    yield Row(
        "cgroup cpus",
        f"{limits.cpus:g}",
        "absent" if cpus is None else f"{cpus:g}",
        ok=cpus is not None and abs(cpus - limits.cpus) <= _CPU_TOLERANCE,
    )


def _cpus(values: Mapping[str, Any]) -> float | None:
    parts = (values["cpu"] or "max").split()
    if not parts[0].isdigit():
        return None
    period = parts[1] if len(parts) > 1 else values["cpu_period"] or str(CPU_PERIOD)
    return int(parts[0]) / int(period)


def _mode(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "absent"
    return "ro" if "ro" in row["options"] else "rw"


def _only(values: list[str]) -> str:
    """The one id, when real, effective, saved and file system ids agree."""
    return values[0] if len(set(values)) == 1 else "/".join(values)


def _same(name: str, asked: str, found: str) -> Row:
    return Row(name, asked, found, ok=asked == found)
