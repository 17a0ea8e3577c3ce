"""Rules for the findings of the complete probe. Pure."""

import errno
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.isolation.measured import ENGINE_NAMES, OWN_TYPES
from sandbox.isolation.probe_rules import ESCAPE, FOREIGN, QUICK, WORKED, WRITABLE, attempts_refused, confines
from sandbox.isolation.rows import Evidence, Judge, Judgement, Rule, few, finds_nothing, note, same, verdict
from sandbox.isolation.seccomp import rules
from sandbox.template import STAGING_TARGET

_HARMLESS: Final = {f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")}
_SEPARATE: Final = ("ipc", "mnt", "net", "pid", "uts")


# --- attempts ---


def _calls(evidence: Evidence) -> Iterator[Judgement]:
    """Judges if all system calls were refused. A call passed the filter if its errno is not one of the filter's."""
    answered = {name: group["errno"] for group in rules()["answered"] for name in group["names"]}
    results: Mapping[str, str] = evidence.look["calls"]
    usual, unknown = rules()["default"], errno.errorcode[errno.ENOSYS]
    # a name that is newer than a runtime's filter library gets the default answer instead of its own
    passed = sorted(
        name for name, result in results.items() if result not in (answered.get(name), usual, unknown)
    )
    text = f"{len(passed)} of {len(results)} pass: {few(passed)}" if passed else f"{len(results)} blocked"
    yield Judgement("refused", text, verdict(results and not passed))


# --- what is visible ---


def _unseen(*names: str) -> Judge:
    return finds_nothing(lambda evidence: [entry for name in names for entry in evidence.look["sight"][name]])


def _privileges(evidence: Evidence) -> Iterator[Judgement]:
    """Judges no-new-privileges, from the kernel's flag and from a set-user-id program if the image has one."""
    sight, (user, *_) = evidence.look["sight"], evidence.facts["status"]["Uid"]
    yield same(1, sight["no_new_privs"], "no new privileges")
    ids = sight["set-user-id"]
    shown = "none in the image" if ids is None else " ".join(ids)
    yield Judgement(user, shown, verdict(ids in (None, [user])), "user of a set-user-id program")


def _security_module(evidence: Evidence) -> Iterator[Judgement]:
    label, options = evidence.look["sight"]["security label"], " ".join(evidence.security_options)
    confined = confines(label)
    if "apparmor" in options:
        yield Judgement("a profile", label or "none", verdict(confined), "AppArmor", "5.2")
    else:
        yield Judgement("a profile", "this host's engine has no AppArmor", "warning", "AppArmor", "5.2")
    if "selinux" in options:
        yield Judgement("a label", label or "none", verdict(confined), "SELinux", "5.3")
    else:
        yield Judgement("a label", "this host's engine has no SELinux", "n/a", "SELinux", "5.3")


def _namespaces(evidence: Evidence) -> Iterator[Judgement]:
    measured, own = evidence.look["sight"]["namespaces"], evidence.namespaces
    shared = [name for name in _SEPARATE if measured[name] == own.get(name)]
    expected, cis = ", ".join(_SEPARATE), "5.10, 5.16, 5.17, 5.21"
    text = f"shared: {', '.join(shared)}" if shared else expected
    yield Judgement(expected, text, verdict(not shared), "namespaces of its own", cis)
    others = [name for name in ("cgroup", "time") if measured.get(name) == own.get(name)]
    yield note(", ".join(others) or "none", "namespaces of the host")


def _user_namespace(evidence: Evidence) -> Iterator[Judgement]:
    """Judges the user namespace: if the engine remaps user ids, the container's ids must be remapped."""
    rows = evidence.look["sight"]["uid_map"]
    ranges = [f"{inside} is {outside}, {count} ids" for inside, outside, count in rows]
    if ranges and ranges != ["0 is 0, 4294967295 ids"]:
        yield Judgement("remapped", "; ".join(ranges), "held")
    elif any("userns" in option for option in evidence.security_options):
        yield Judgement("remapped", "the host's, though this engine remaps user ids", "failed")
    else:
        yield note("the host's: user ids are not remapped by this engine")


def _own_programs(evidence: Evidence) -> Iterator[Judgement]:
    result = evidence.look["sight"]["programs"][str(STAGING_TARGET)]
    runs = "it runs, under the same filter and limits as the job: an engine cannot mount a folder without programs"
    yield note(runs if result in WORKED else f"refused: {result}")


def _shown(evidence: Evidence) -> Iterator[Judgement]:
    """Notes what the kernel shows to every process, and the host's paths that its mounts show."""
    kinds: Mapping[str, Any] = {row["target"]: row["type"] for row in evidence.facts["mounts"]}
    roots: Mapping[str, str] = evidence.look["sight"]["mount roots"]
    own = {*OWN_TYPES, "overlay"}
    paths = {root for target, root in roots.items() if target in WRITABLE or kinds.get(target) not in own}
    text = f"kernel {evidence.look['sight']['kernel']}, processors, memory, load, the container's id"
    yield note(f"{text}; paths of this host: {few(sorted(paths - {'/'})) or 'none'}")


ATTEMPTS: Final = QUICK | {  # rules by the probe's group of attempts
    group: Rule(ESCAPE, name, attempts_refused(group), cis)
    for group, name, cis in (
        ("local sockets", "reach other programs through local sockets", "5.32"),
        ("network", "reach an address", "5.10, 5.30"),
        ("namespaces", "make and enter namespaces", "5.10, 5.16, 5.17, 5.21, 5.31"),
        ("mounts", "mount, unmount, change the root", "5.6, 5.13"),
        ("kernel settings", "write the kernel's settings", "5.5"),
        ("nodes", "make devices, pipes, sockets and links", "5.18"),
        ("programs", "run programs from scratch and memory", ""),
        ("requests", "ask prctl, ioctl and fcntl for more", "5.22"),
        ("limits", "raise a limit", "5.19"),
        ("crashes", "have a crash dumped on the host", "5.19"),
        (FOREIGN, "call the kernel as another architecture", "5.22"),
    )
}
CALLS: Final = Rule(ESCAPE, "make system calls that no job needs", _calls, "5.22")
_SIGHT: Final = "sight"
SIGHT: Final = (
    Rule(_SIGHT, "read what tells of the host", _unseen("secrets")),
    Rule(_SIGHT, "see below /sys", _unseen("sys")),
    Rule(_SIGHT, "find an engine's socket", _unseen("engines", "specials"), "5.32"),
    Rule(
        _SIGHT,
        "open devices",
        finds_nothing(lambda evidence: sorted(set(evidence.look["sight"]["devices"]) - _HARMLESS)),
        "5.5, 5.18",
    ),
    Rule(_SIGHT, "find writable settings of the kernel", _unseen("settings"), "5.5"),
    Rule(_SIGHT, "find open descriptors", _unseen("descriptors")),
    Rule(
        _SIGHT,
        "see other processes",
        finds_nothing(
            lambda evidence: [
                pid for pid in evidence.look["sight"]["processes"] if pid != evidence.facts["pid"]
            ]
        ),
        "5.7, 5.16",
    ),
    Rule(
        _SIGHT,
        "find the host's environment",
        finds_nothing(
            lambda evidence: sorted(
                set(evidence.facts["environment"]) - set(evidence.template.environment) - ENGINE_NAMES
            )
        ),
    ),
    Rule(_SIGHT, "gain privileges", _privileges, "5.26"),
    Rule(
        _SIGHT,
        "make a local socket, as jobs do",
        lambda evidence: [same("SUCCEEDED", evidence.look["sight"]["local socket"])],
    ),
    Rule(_SIGHT, "run a program from the output folder", _own_programs),
    Rule(_SIGHT, "learn from mounts, /proc and uname", _shown),
    Rule(
        "container", "runtime", lambda evidence: [note(evidence.template.runtime or "the engine's default")]
    ),
    Rule("container", "namespaces", _namespaces),
    Rule("container", "user namespace", _user_namespace, "5.31"),
    Rule("container", "security module", _security_module),
    Rule(
        "container",
        "after its job",
        lambda evidence: [same("removed", "removed" if evidence.gone else "still there")],
        "5.15",
    ),
)
