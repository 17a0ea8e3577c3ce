"""What `attempts.py` and `looks.py` found in a container, judged row by row. Pure.

Invariants: an attempt that worked fails its row; so does a group of attempts that is missing or empty, and an answer of
another shape. What a container shows and cannot hide is a note.
"""

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.hardening import HOSTNAME
from sandbox.isolation.attest import ENGINE_NAMES
from sandbox.isolation.cis import BENCHMARK, CHECKS, Seen, Verdict
from sandbox.seccomp import rules
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET, SandboxTemplate

FOLDERS: Final = (str(SCRATCH_TARGET), str(STAGING_TARGET))  # what a job may write
_WORKED: Final = frozenset({"SUCCEEDED", "SIGALRM", "ENDED"})  # did it, did not come back, or ended untold
_ESCAPES, _SIGHT, _CONTAINER = "escape", "sight", "container"  # groups of rows
_SHOWN: Final = 8  # names in a row; the rest are counted

# group of attempts -> what was tried, CIS numbers that it puts to the test
_ATTEMPTS: Final = {
    "local sockets": ("reach other programs through local sockets", "5.32"),
    "namespaces": ("make and enter namespaces", "5.10, 5.16, 5.17, 5.21, 5.31"),
    "mounts": ("mount, unmount, change the root", "5.6, 5.13"),
    "writing": ("write outside scratch and output", "5.6, 5.13"),
    "kernel settings": ("write the kernel's settings", "5.5"),
    "nodes": ("make devices, pipes, sockets and links", "5.18"),
    "programs": ("run programs from scratch and memory", ""),
    "requests": ("ask prctl, ioctl and fcntl for more", "5.22"),
    "identities": ("become root", "5.26"),
    "limits": ("raise a limit", "5.19"),
    "crashes": ("have a crash dumped on the host", "5.19"),
}
_DEVICES: Final = frozenset(
    {"/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}
)
# file systems that hold nothing of the host's files
_OWN_TYPES: Final = frozenset(
    {"proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay"}
)
_SEPARATE: Final = ("ipc", "mnt", "net", "pid", "uts")
_CAPABILITIES: Final = (  # linux/capability.h, from bit 0
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service "
    "net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin "
    "sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override "
    "mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore"
).split()


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was tried. `cis` names the checks of the benchmark that it belongs to."""

    group: str
    tried: str
    found: str
    verdict: Verdict
    cis: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """All that one container showed: its job's answer, the engine's inspection, and the server's own namespaces."""

    template: SandboxTemplate
    answer: Mapping[str, Any]
    inspected: Mapping[str, Any]
    security_options: tuple[str, ...]
    own_namespaces: Mapping[str, str]


def rows(tried: Tried) -> tuple[Row, ...]:
    """Every row. An answer of another shape makes failing rows, never an exception."""
    parts: tuple[tuple[str, Callable[[Tried], Iterator[Row]]], ...] = (
        *((_ESCAPES, _escapes), (_ESCAPES, _calls), (_SIGHT, _sight)),
        *((_CONTAINER, _container), (BENCHMARK, _benchmark)),
    )
    return tuple(row for group, part in parts for row in _safely(group, part, tried))


def _safely(group: str, part: Callable[[Tried], Iterator[Row]], tried: Tried) -> list[Row]:
    try:
        return list(part(tried))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        return [Row(group, "understand the answer", f"malformed: {error!r}"[:200], "failed")]


def _escapes(tried: Tried) -> Iterator[Row]:
    for group, (what, cis) in _ATTEMPTS.items():
        yield _attempts(what, tried.answer["attempts"].get(group) or {}, cis)
    if foreign := tried.answer["attempts"]["other architectures"]:  # this one has others
        yield _attempts("call the kernel as another architecture", foreign, "5.22")
    yield _attempts("open sockets of other families", tried.answer["families"], "5.10, 5.22")


def _attempts(what: str, found: Mapping[str, str], cis: str) -> Row:
    worked = sorted(name for name, said in found.items() if said in _WORKED)
    if not found:
        return Row(_ESCAPES, what, "nothing was tried", "failed", cis)
    if worked:
        return Row(_ESCAPES, what, f"{len(worked)} of {len(found)} worked: {_few(worked)}", "failed", cis)
    return Row(_ESCAPES, what, f"{len(found)} refused: {', '.join(sorted(set(found.values())))}", "held", cis)


def _calls(tried: Tried) -> Iterator[Row]:
    """A call that the filter lets pass is told by another errno than the filter's: the kernel has looked at it."""
    answered = {name: group["errno"] for group in rules()["answered"] for name in group["names"]}
    found: Mapping[str, str] = tried.answer["calls"]
    passed = sorted(
        name
        for name, said in found.items()
        if said not in {answered.get(name, rules()["default"]), errno.errorcode[errno.ENOSYS]}
    )
    held = bool(found) and not passed
    text = f"{len(passed)} of {len(found)} pass: {_few(passed)}" if passed else f"{len(found)} blocked"
    yield Row(_ESCAPES, "make system calls that no job needs", text, _verdict(held), "5.22")


def _sight(tried: Tried) -> Iterator[Row]:
    looks = tried.answer["looks"]
    yield _none("read what tells of the host", looks["secrets"])
    yield _none("see below /sys", looks["sys"])
    yield _none("find an engine's socket", [*looks["engines"], *looks["specials"]], "5.32")
    yield _none("open devices", sorted(set(looks["devices"]) - _DEVICES), "5.18")
    yield _none("find writable settings of the kernel", looks["settings"], "5.5")
    yield _none("find open descriptors", looks["descriptors"])
    yield _none("find a network interface", [name for name in looks["interfaces"] if name != "lo"], "5.10")
    yield _none("see other processes", list(map(str, _other_processes(looks))), "5.16")
    yield Row(
        _SIGHT, "learn the host's name", looks["hostname"], _verdict(looks["hostname"] == HOSTNAME), "5.21"
    )
    foreign = set(looks["environment"]) - set(tried.template.environment) - ENGINE_NAMES
    yield _none("find the host's environment", sorted(foreign))
    yield Row(_SIGHT, "run a program from the output folder", _own_program(looks["staging program"]), "note")
    yield Row(_SIGHT, "learn from mounts, /proc and uname", _shown(looks), "note")


def _own_program(said: str) -> str:
    if said not in _WORKED:
        return f"refused: {said}"
    return "it runs, under the same filter and limits as the job: an engine cannot mount a folder without programs"


def _shown(looks: Mapping[str, Any]) -> str:
    roots = [
        str(row["root"])
        for row in looks["mounts"]
        if row["target"] in FOLDERS or row["type"] not in _OWN_TYPES
    ]
    paths = sorted({root for root in roots if root != "/"})
    return f"kernel {looks['kernel']}, processors, memory, load, the container's id; paths of this host: {_few(paths) or 'none'}"


def _container(tried: Tried) -> Iterator[Row]:
    """What amicontained tells of a container."""
    looks = tried.answer["looks"]
    status = looks["status"]
    yield Row(
        _CONTAINER, "runtime", str(tried.inspected["HostConfig"]["Runtime"] or "the engine's default"), "note"
    )
    yield from _namespaces(looks, tried.own_namespaces)
    profile = looks["apparmor"]
    confined = profile not in ("", "unconfined") and not profile.startswith("E")
    yield Row(_CONTAINER, "AppArmor profile", profile or "none", "held" if confined else "warning", "5.2")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        bits = int(status[name][0], 16)
        yield Row(_CONTAINER, f"capabilities {name}", _named(bits) or "none", _verdict(bits == 0), "5.4")
    mode = {"0": "disabled", "1": "strict", "2": "filtering"}.get(status["Seccomp"][0], "unknown")
    yield Row(_CONTAINER, "seccomp", mode, _verdict(mode == "filtering"), "5.22")
    gained = status["NoNewPrivs"][0]
    yield Row(_CONTAINER, "no new privileges", gained, _verdict(gained == "1"), "5.26")
    users = sorted({*status["Uid"], *status["Gid"], *status["Groups"]})
    yield Row(_CONTAINER, "user and groups", " ".join(users), _verdict("0" not in users), "5.26")


def _namespaces(looks: Mapping[str, Any], own: Mapping[str, str]) -> Iterator[Row]:
    shared = [name for name in _SEPARATE if looks["namespaces"][name] == own.get(name)]
    apart = [name for name in _SEPARATE if name not in shared]
    found = f"shared: {', '.join(shared)}" if shared else ", ".join(apart)
    yield Row(_CONTAINER, "namespaces of its own", found, _verdict(not shared), "5.10, 5.16, 5.17, 5.21")
    others = [name for name in ("cgroup", "time") if looks["namespaces"].get(name) == own.get(name)]
    yield Row(_CONTAINER, "namespaces of the host", ", ".join(others) or "none", "note")
    ranges = [f"{inside} is {outside}, {count} ids" for inside, outside, count in looks["uid_map"]]
    remapped = ranges and ranges != ["0 is 0, 4294967295 ids"]
    found = "; ".join(ranges) if remapped else "the host's: user ids are not remapped by this engine"
    yield Row(_CONTAINER, "user namespace", found, "held" if remapped else "note", "5.31")


def _benchmark(tried: Tried) -> Iterator[Row]:
    processes = 1 + len(_other_processes(tried.answer["looks"]))
    seen = Seen(tried.inspected, tried.security_options, processes)
    for check in CHECKS:
        verdict, found = check.found(seen)
        yield Row(BENCHMARK, check.title, found, verdict, check.number)


def _other_processes(looks: Mapping[str, Any]) -> list[int]:
    return [number for number in looks["processes"] if number not in looks["own"]]


def _none(what: str, found: list[str], cis: str = "") -> Row:
    return Row(_SIGHT, what, _few(found) or "none", _verdict(not found), cis)


def _verdict(held: object) -> Verdict:
    return "held" if held else "failed"


def _named(bits: int) -> str:
    known = [name for bit, name in enumerate(_CAPABILITIES) if bits >> bit & 1]
    return " ".join(known) or (f"{bits:x}" if bits else "")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
