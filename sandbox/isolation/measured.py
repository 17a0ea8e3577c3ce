"""Rules for the measurements that every worker makes of its own container before it gets a job. Pure.

For a Pod, the node decides some properties for all of its containers: the network interfaces, the process limit, and
the mounts of shared memory and some files. These are judged by their effect, which the container itself tries: no
socket can be opened, no program can be run from scratch, those files cannot be written, and the shared memory is one
read-only page.

The values of control groups are below /sys, which jobs cannot see. One additional container per server
(`cgroup_visible`) shows them, so that a limit that an engine ignores is noticed.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from sandbox.isolation.policy import CPU_PERIOD, HOSTNAME, masked_paths, rlimits
from sandbox.isolation.rows import Evidence, Judge, Judgement, Row, Rule, judged, none, same, verdict
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET, SandboxTemplate

# file systems that an engine mounts by default, without files of the host
OWN_TYPES: Final = frozenset({"proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2"})
ENGINE_NAMES: Final = frozenset({"HOSTNAME", "PATH", "HOME", "LC_CTYPE"})  # an engine or Python may add these
CAPABILITIES: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_WRITABLE: Final = ("/proc", "/dev", str(SCRATCH_TARGET), str(STAGING_TARGET))
# files that an engine writes for the container itself; without a network, at most the first one
_OWN_FILES: Final = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"})
# files that every Pod has; the gate makes them inaccessible
_OF_PODS: Final = ("/dev/termination-log", "/etc/hosts")
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a place in the container, where nothing is to be
# for example in gVisor, whose kernel is not Linux; a value that is not shown fails
_NOT_SHOWN: Final = "not shown"
_CPU_TOLERANCE: Final = 0.05
_PAGE: Final = 4096


def violations(
    template: SandboxTemplate, facts: Mapping[str, Any], *, limits_by_node: bool = False
) -> tuple[Row, ...]:
    """The rows in which a container is weaker than the request; empty if there are none."""
    rules = (*FACTS, *LIMITS_IN_FORCE) if template.cgroup_visible else FACTS
    return tuple(
        row for row in judged(rules, Evidence(template, facts, limits_by_node=limits_by_node)) if not row.ok
    )


# --- the process ---


def _user(evidence: Evidence) -> Iterator[Judgement]:
    """Compares the real, effective, saved and file system ids with the template's user."""
    uid, gid = evidence.template.user
    ids = ("/".join(sorted(set(_ids(evidence, name)))) for name in ("Uid", "Gid"))
    yield same(f"{uid}:{gid}", ":".join(ids))


def _groups(evidence: Evidence) -> Iterator[Judgement]:
    yield none(gid for gid in _ids(evidence, "Groups") if gid != str(evidence.template.user[1]))


def _ids(evidence: Evidence, name: str) -> list[str]:
    """Ids of the process. Root in a user namespace is replaced by its id outside, which is root without a namespace."""
    rows = evidence.facts["ids"]["uid" if name == "Uid" else "gid"]
    outside = next((number for inside, number, _ in rows if inside == "0"), "0")
    return [outside if number == "0" else number for number in evidence.facts["status"][name]]


def _capabilities(evidence: Evidence) -> Iterator[Judgement]:
    status = evidence.facts["status"]
    for name in CAPABILITIES:
        yield same("0", f"{int(status[name][0], 16):x}" if name in status else _NOT_SHOWN, name)


def _status(name: str, expected: str) -> Judge:
    return lambda evidence: [same(expected, evidence.facts["status"].get(name, [_NOT_SHOWN])[0])]


def _fact(name: str, expected: object) -> Judge:
    return lambda evidence: [same(expected, evidence.facts[name])]


def _environment(evidence: Evidence) -> Iterator[Judgement]:
    ours, theirs = evidence.template.environment, evidence.facts["environment"]
    foreign = sorted(name for name, value in theirs.items() if ours.get(name) != value)
    yield none((name for name in foreign if name in ours or name not in ENGINE_NAMES), "foreign environment")
    yield none(sorted(set(ours) - set(theirs)), "missing environment")


def _rlimits(evidence: Evidence) -> Iterator[Judgement]:
    for name, value in rlimits(evidence.template.limits).items():
        soft, hard = evidence.facts["rlimits"][name.upper()]
        yield same(value, soft if soft == hard else f"{soft}/{hard}", f"rlimit {name.upper()}")


# --- mounts ---

_Mount = Mapping[str, Any]


def _mounts(evidence: Evidence) -> Iterator[Judgement]:
    """Judges the requested mounts and masks, the root and scratch, and then all other mounts."""
    table = _reachable(evidence.facts["mounts"])
    yield from _requested_mounts(evidence.template, table)
    yield same("ro", _mode(table.get("/")), "mount /", "5.13")
    yield _scratch(evidence, table.get(str(SCRATCH_TARGET)))
    yield _shared_memory(evidence, table.get(_SHARED_MEMORY))
    shared = (
        target for target, row in table.items() if any(word.startswith("shared:") for word in row["shared"])
    )
    yield none(shared, "shared propagation", "5.20")
    pod_files = {target for target in _OF_PODS if evidence.limits_by_node and target in table}
    if evidence.limits_by_node:
        opened = none(
            sorted(target for target in pod_files if not table[target]["closed"]), "open files of the Pod"
        )
        yield _or_accepted(evidence, "landlock", opened)
    expected = {*pod_files, *(str(mount.target) for mount in evidence.template.mounts)}
    yield from _other_mounts(
        evidence.template, {target: row for target, row in table.items() if target not in expected}
    )


def _requested_mounts(template: SandboxTemplate, table: Mapping[str, _Mount]) -> Iterator[Judgement]:
    for target, mount in {str(mount.target): mount for mount in template.mounts}.items():
        yield same("ro" if mount.read_only else "rw", _mode(table.get(target)), f"mount {target}")
    for mask in template.masks:
        row = table.get(str(mask))
        yield same("tmpfs ro", f"{row['type']} {_mode(row)}" if row else "absent", f"mask {mask}")
    for pipe in map(str, template.pipes):
        # the engine was compared with the request; a pipe that is gone from the host cannot be covered
        covered = pipe in table and table[pipe]["type"] in OWN_TYPES
        yield Judgement(
            "covered",
            "covered" if covered else "gone, or open to a job",
            "held" if covered else "warning",
            f"named pipe {pipe}",
        )


def _scratch(evidence: Evidence, row: _Mount | None) -> Judgement:
    # in a Pod, the filter and no-new-privileges prevent set-user-id programs and device nodes everywhere
    if evidence.limits_by_node and row:
        runs = "runs programs" if evidence.facts["programs"] else "runs nothing"
        return _or_accepted(evidence, "landlock", same("runs nothing", runs, f"scratch {SCRATCH_TARGET}"))
    flags = {"noexec", "nosuid", "nodev"} & set(row["options"] if row else ())
    return same("nodev noexec nosuid", " ".join(sorted(flags)) or "none", f"scratch {SCRATCH_TARGET}")


def _shared_memory(evidence: Evidence, row: _Mount | None) -> Judgement:
    one_page = {"type": "tmpfs", "bytes": _PAGE}
    if evidence.limits_by_node and _mode(row) == "ro" and one_page.items() <= (row or {}).items():
        return same("one page, read-only", "one page, read-only", "shared memory", "5.17")
    return same("absent", "absent" if row is None else "mounted", "shared memory", "5.17")


def _other_mounts(template: SandboxTemplate, table: Mapping[str, _Mount]) -> Iterator[Judgement]:
    """Judges the mounts that were not requested: those of the engine are expected, others are not."""
    engines = {"/", *_OWN_FILES, *(target for target, row in table.items() if row["type"] in OWN_TYPES)}
    yield none((target for target in table if target not in engines), "foreign mounts", "5.6, 5.32")
    # in version 1, a tmpfs that belongs to root
    shown = "/sys/fs/cgroup" if template.cgroup_visible else None
    writable = [target for target, row in table.items() if "rw" in row["options"] and target != shown]
    hidden = masked_paths(template)
    # /dev/null mounted on a path
    masks = {target for target in writable if target in hidden and table[target]["type"] in OWN_TYPES}
    own = {
        target
        for target in writable
        for place in _WRITABLE
        if target == place or target.startswith(f"{place}/")
    }
    yield none((target for target in writable if target not in masks | own), "writable mounts", "5.6, 5.13")


def _or_accepted(evidence: Evidence, lack: str, judgement: Judgement) -> Judgement:
    """Changes a failure to a warning if the operator accepts nodes without that feature (`nodes_without`)."""
    if judgement.verdict != "failed" or lack not in evidence.template.nodes_without:
        return judgement
    return judgement._replace(
        found=f"{judgement.found}; accepted by nodes_without = {lack}", verdict="warning"
    )


def _mode(row: _Mount | None) -> str:
    if row is None:
        return "absent"
    return "ro" if "ro" in row["options"] else "rw"


def _reachable(mounts: list[_Mount]) -> dict[str, _Mount]:
    """The mounts that are visible at their target, by target.

    Which mount covers which follows from their ids, not from their order.
    """
    lying = {(row["parent"], row["target"]): row for row in mounts if row["parent"] != row["id"]}
    known = {row["id"] for row in mounts}
    (root,) = (row for row in mounts if row["parent"] not in known or row["parent"] == row["id"])

    def led_to(target: str) -> _Mount:
        """The visible mount at a path, found by following the mounts from the root on."""
        here = root
        for place in ("/", *accumulate(f"/{name}" for name in target.split("/") if name)):
            for _ in lying:  # an upper bound for the number of mounts on top of each other
                over = lying.get((here["id"], place))
                if over is None:
                    break
                here = over
        return here

    return {row["target"]: row for row in mounts if led_to(row["target"]) is row}


# --- limits that the kernel enforces for the whole container ---


def _cgroup(evidence: Evidence) -> Iterator[Judgement]:
    values, limits = evidence.facts["cgroup"], evidence.template.limits
    memory, swap, pids = (values[name] or "absent" for name in ("memory", "swap", "pids"))
    near = memory.isdigit() and abs(int(memory) - limits.memory_bytes) < _PAGE
    yield Judgement(str(limits.memory_bytes), memory, verdict(near), "cgroup memory", "5.11, 5.25")
    # version 1 limits memory and swap together, version 2 only swap; without swap accounting the file does not exist
    together = values["cpu_period"] is not None  # this file exists only in version 1
    no_swap = swap in ("0", "absent") or (together and swap.isdigit() and int(swap) <= limits.memory_bytes)
    yield Judgement("0", swap, verdict(no_swap), "cgroup swap", "5.11")
    # the node sets a Pod's process limit one level above the control group that the container sees
    if not evidence.limits_by_node:
        yield same(limits.pids, pids, "cgroup pids", "5.25, 5.29")


def _processes(evidence: Evidence) -> Iterator[Judgement]:
    """Judges the process limit of a Pod, from an attempt to start more processes."""
    if evidence.limits_by_node:
        (started, why), most = evidence.look["processes"], evidence.template.limits.pids
        text = f"{started + 1}, then {why or 'no end'}"
        tried = Judgement(f"at most {most}", text, verdict(started < most and why == "EAGAIN"))
        yield _or_accepted(evidence, "pids-limit", tried)


def _cgroup_cpus(evidence: Evidence) -> Iterator[Judgement]:
    values, requested = evidence.facts["cgroup"], evidence.template.limits.cpus
    quota, *period = (values["cpu"] or "max").split()
    if not quota.isdigit():
        yield Judgement(f"{requested:g}", "absent", "failed")
        return
    cpus = int(quota) / int(period[0] if period else values["cpu_period"] or CPU_PERIOD)
    yield Judgement(f"{requested:g}", f"{cpus:g}", verdict(abs(cpus - requested) <= _CPU_TOLERANCE))


def _network(evidence: Evidence) -> Iterator[Judgement]:
    interfaces = [name for name in evidence.facts["interfaces"] if name != "lo"]
    if evidence.limits_by_node and interfaces and evidence.facts["sockets"] == []:
        yield Judgement(
            "none", f"{', '.join(map(str, interfaces))}, for which no socket can be opened", "held"
        )
    else:
        yield none(interfaces)


def _fence(evidence: Evidence) -> Judgement:
    """Judges if a job can write to named pipes.

    A read-only mount does not prevent that; Landlock does if the kernel has it.
    """
    inside = [
        mount.target for mount in evidence.template.mounts if mount.target.is_relative_to(SCRATCH_TARGET)
    ]
    if not evidence.facts.get("fence"):
        return Judgement("closed", "open to a job, as this kernel has no Landlock (Linux 5.19)", "warning")
    if inside:  # a rule applies to a folder and everything below it
        return Judgement("closed", f"open to a job below {inside[0]}, which lies in its scratch", "warning")
    return Judgement("closed", "closed", "held")


_GROUP: Final = "container"
FACTS: Final = (
    Rule(_GROUP, "user", _user, "5.26"),
    Rule(
        _GROUP,
        "supplementary groups",
        _groups,
        "5.26",
    ),
    Rule(_GROUP, "capabilities", _capabilities, "5.4, 5.5"),
    Rule(_GROUP, "NoNewPrivs", _status("NoNewPrivs", "1"), "5.26"),
    Rule(_GROUP, "Seccomp", _status("Seccomp", "2"), "5.22"),
    Rule(_GROUP, "network interfaces", _network, "5.8, 5.9, 5.10, 5.14, 5.30"),
    Rule(_GROUP, "process", _fact("pid", 1), "5.16"),
    Rule(_GROUP, "host name", _fact("hostname", HOSTNAME), "5.21"),
    Rule(_GROUP, "working folder", _fact("folder", SCRATCH_TARGET)),
    Rule(_GROUP, "environment", _environment),
    Rule(_GROUP, "mounts", _mounts),  # its rows have their own numbers
    Rule(_GROUP, "rlimits", _rlimits, "5.19"),
    Rule(_GROUP, "writing to named pipes", lambda evidence: [_fence(evidence)]),
)
LIMITS_IN_FORCE: Final = (
    Rule("limits", "cgroup", _cgroup),
    Rule("limits", "cgroup cpus", _cgroup_cpus, "5.12, 5.25"),
)
PROCESSES: Final = Rule("limits", "processes", _processes, "5.25, 5.29")
