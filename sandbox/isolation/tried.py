"""The rules over what the look program saw and tried in a container. Pure."""

import errno
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.isolation.measured import ENGINE_NAMES, OWN_TYPES
from sandbox.isolation.rows import Evidence, Folder, Found, Judge, Rule, few, note, nothing, same, verdict
from sandbox.isolation.seccomp import rules
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET

WRITABLE: Final = (str(SCRATCH_TARGET), str(STAGING_TARGET))  # what a job may write
_WORKED: Final = frozenset({"SUCCEEDED", "SIGALRM", "ENDED"})  # did it, did not come back, or ended untold
_HARMLESS: Final = {f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")}
_SEPARATE: Final = ("ipc", "mnt", "net", "pid", "uts")
_LOADING: Final = "load code from /tmp"
_FOREIGN: Final = "other architectures"
_CLOSED: Final = "EACCES"  # in place of names, where the folder could not be opened
_NO_NAMES: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing


# --- whose folders they are ---


def _nonces(evidence: Evidence) -> Iterator[Found]:
    for path, nonce in evidence.nonces.items():
        found = str(evidence.look["files"]["nonces"].get(path))
        place = path.rpartition("/")[0]
        shown = "its nonce" if found == nonce else found[:40]
        yield Found("its nonce", shown, verdict(found == nonce), f"{place} is this host's folder")


def _folders(evidence: Evidence) -> Iterator[Found]:
    """By device and inode where the kernel is the server's own. Another one, as of a virtual machine, has numbers of its
    own, and so may each mount of a share: there the names in a folder tell, if there are any.
    """
    files = evidence.look["files"]
    same_kernel = bool(evidence.boot) and files["boot"] == evidence.boot
    for path, asked in evidence.folders.items():
        there = Folder(*files["folders"].get(path, (0, 0, "absent")))
        by_names = not same_kernel or path in evidence.shares
        same_one = same_kernel and (there.device, there.inode) == (asked.device, asked.inode)
        if by_names:
            same_one |= there.names == asked.names != _NO_NAMES
        found = "the same" if same_one else f"another ({there.names})"[:60]
        if not same_one and there.names == _CLOSED:
            found = closed_folder(path, evidence.template.user)
        if by_names and not same_one and asked.names == _NO_NAMES:
            found = "empty, so that it cannot be told from others; put a file into it"
        yield same("the same", found, f"{path} is this host's folder")


def closed_folder(path: str, user: tuple[int, int]) -> str:
    """Why the container's user cannot enter a mounted folder, and what to do about it."""
    who = f"the container's user {user[0]}:{user[1]}"
    if path.startswith("/root/"):
        # as in every image that is made from Debian, Ubuntu or Alpine
        return f"closed: {who} may not enter the image's own /root, whose mode is 0700. Move the workspace, for example to /srv"
    return f"closed: {who} may not enter it, or a folder of the image above it. Give that user the folder, or move the workspace"


# --- what was tried ---


def _refused(group: str) -> Judge:
    def judge(evidence: Evidence) -> Iterator[Found]:
        attempts = evidence.look["attempts"]
        found: Mapping[str, str] = attempts.get(group) or {}
        # nobody can mount a Pod's scratch without it; what is loaded runs under the same filter and fence as what loads it
        apart = _LOADING if evidence.limits_by_node else ""
        worked = sorted(name for name, said in found.items() if said in _WORKED and name != apart)
        if worked:
            yield Found("refused", f"{len(worked)} of {len(found)} worked: {few(worked)}", "failed")
        elif found:
            yield Found("refused", f"{len(found)} refused: {', '.join(sorted(set(found.values())))}", "held")
        elif group != _FOREIGN or group not in attempts:  # only x86_64 has other architectures
            yield Found("refused", "nothing was tried", "failed")

    return judge


def _calls(evidence: Evidence) -> Iterator[Found]:
    """A call that the filter lets pass is told by another errno than the filter's: the kernel has looked at it."""
    answered = {name: group["errno"] for group in rules()["answered"] for name in group["names"]}
    found: Mapping[str, str] = evidence.look["calls"]
    usual, unknown = rules()["default"], errno.errorcode[errno.ENOSYS]
    # a name that is newer than a runtime's filter library gets the usual answer instead of its own
    passed = sorted(name for name, said in found.items() if said not in (answered.get(name), usual, unknown))
    text = f"{len(passed)} of {len(found)} pass: {few(passed)}" if passed else f"{len(found)} blocked"
    yield Found("refused", text, verdict(found and not passed))


# --- what was seen ---


def _unseen(*names: str) -> Judge:
    return nothing(lambda evidence: [one for name in names for one in evidence.look["sight"][name]])


def _privileges(evidence: Evidence) -> Iterator[Found]:
    """As the kernel says it, and as a set-user-id program of the image shows, if there is one."""
    sight, (user, *_) = evidence.look["sight"], evidence.facts["status"]["Uid"]
    yield same(1, sight["no_new_privs"], "no new privileges")
    ids = sight["set-user-id"]
    shown = "none in the image" if ids is None else " ".join(ids)
    yield Found(user, shown, verdict(ids in (None, [user])), "user of a set-user-id program")


def _confined(evidence: Evidence) -> Iterator[Found]:
    """Where the engine's host has a security module, it confines the container."""
    label = evidence.look["files"]["security label"]
    modules = [one for one in evidence.security_options if "apparmor" in one or "selinux" in one]
    if modules:
        yield Found("confined", label or "none", verdict(_confines(label)))
    else:
        yield Found("", "this host's engine has neither AppArmor nor SELinux", "n/a")


def _confines(label: str) -> bool:
    return label not in ("", "unconfined") and "unconfined_t" not in label


def _security_module(evidence: Evidence) -> Iterator[Found]:
    label, options = evidence.look["sight"]["security label"], " ".join(evidence.security_options)
    confined = _confines(label)
    if "apparmor" in options:
        yield Found("a profile", label or "none", verdict(confined), "AppArmor", "5.2")
    else:
        yield Found("a profile", "this host's engine has no AppArmor", "warning", "AppArmor", "5.2")
    if "selinux" in options:
        yield Found("a label", label or "none", verdict(confined), "SELinux", "5.3")
    else:
        yield Found("a label", "this host's engine has no SELinux", "n/a", "SELinux", "5.3")


def _namespaces(evidence: Evidence) -> Iterator[Found]:
    found, own = evidence.look["sight"]["namespaces"], evidence.namespaces
    shared = [name for name in _SEPARATE if found[name] == own.get(name)]
    asked, cis = ", ".join(_SEPARATE), "5.10, 5.16, 5.17, 5.21"
    text = f"shared: {', '.join(shared)}" if shared else asked
    yield Found(asked, text, verdict(not shared), "namespaces of its own", cis)
    others = [name for name in ("cgroup", "time") if found.get(name) == own.get(name)]
    yield note(", ".join(others) or "none", "namespaces of the host")


def _user_namespace(evidence: Evidence) -> Iterator[Found]:
    """An engine that remaps user ids must have done so."""
    rows = evidence.look["sight"]["uid_map"]
    ranges = [f"{inside} is {outside}, {count} ids" for inside, outside, count in rows]
    if ranges and ranges != ["0 is 0, 4294967295 ids"]:
        yield Found("remapped", "; ".join(ranges), "held")
    elif any("userns" in option for option in evidence.security_options):
        yield Found("remapped", "the host's, though this engine remaps user ids", "failed")
    else:
        yield note("the host's: user ids are not remapped by this engine")


def _own_programs(evidence: Evidence) -> Iterator[Found]:
    said = evidence.look["sight"]["programs"][str(STAGING_TARGET)]
    runs = "it runs, under the same filter and limits as the job: an engine cannot mount a folder without programs"
    yield note(runs if said in _WORKED else f"refused: {said}")


def _shown(evidence: Evidence) -> Iterator[Found]:
    """What the kernel shows to everybody. Of the host's paths, those of mounts that are not the kernel's own."""
    kinds: Mapping[str, Any] = {row["target"]: row["type"] for row in evidence.facts["mounts"]}
    roots: Mapping[str, str] = evidence.look["sight"]["mount roots"]
    own = {*OWN_TYPES, "overlay"}
    paths = {root for target, root in roots.items() if target in WRITABLE or kinds.get(target) not in own}
    text = f"kernel {evidence.look['sight']['kernel']}, processors, memory, load, the container's id"
    yield note(f"{text}; paths of this host: {few(sorted(paths - {'/'})) or 'none'}")


FILES: Final = (Rule("files", "nonces", _nonces), Rule("files", "folders", _folders))
CONFINED: Final = Rule("container", "security module", _confined, "5.2, 5.3")
# of gVisor and Kata another one than the host's
KERNEL: Final = Rule(
    "container",
    "kernel",
    lambda one: [
        note(f"{one.look['files']['kernel']}, under {one.template.runtime or 'the default runtime'}")
    ],
)
_OUT: Final = "escape"
ATTEMPTS: Final = {  # by the group of attempts in the look program
    group: Rule(_OUT, name, _refused(group), cis)
    for group, name, cis in (
        ("local sockets", "reach other programs through local sockets", "5.32"),
        ("sockets", "open sockets of other families", "5.10, 5.22"),
        ("network", "reach an address", "5.10, 5.30"),
        ("namespaces", "make and enter namespaces", "5.10, 5.16, 5.17, 5.21, 5.31"),
        ("mounts", "mount, unmount, change the root", "5.6, 5.13"),
        ("writing", "write outside scratch and output", "5.6, 5.13"),
        ("kernel settings", "write the kernel's settings", "5.5"),
        ("nodes", "make devices, pipes, sockets and links", "5.18"),
        ("programs", "run programs from scratch and memory", ""),
        ("requests", "ask prctl, ioctl and fcntl for more", "5.22"),
        ("identities", "become another user", "5.26"),
        ("limits", "raise a limit", "5.19"),
        ("crashes", "have a crash dumped on the host", "5.19"),
        (_FOREIGN, "call the kernel as another architecture", "5.22"),
    )
}
CALLS: Final = Rule(_OUT, "make system calls that no job needs", _calls, "5.22")
_SIGHT: Final = "sight"
SIGHT: Final = (
    Rule(_SIGHT, "read what tells of the host", _unseen("secrets")),
    Rule(_SIGHT, "see below /sys", _unseen("sys")),
    Rule(_SIGHT, "find an engine's socket", _unseen("engines", "specials"), "5.32"),
    Rule(
        _SIGHT,
        "open devices",
        nothing(lambda one: sorted(set(one.look["sight"]["devices"]) - _HARMLESS)),
        "5.5, 5.18",
    ),
    Rule(_SIGHT, "find writable settings of the kernel", _unseen("settings"), "5.5"),
    Rule(_SIGHT, "find open descriptors", _unseen("descriptors")),
    Rule(
        _SIGHT,
        "see other processes",
        nothing(lambda one: [pid for pid in one.look["sight"]["processes"] if pid != one.facts["pid"]]),
        "5.7, 5.16",
    ),
    Rule(
        _SIGHT,
        "find the host's environment",
        nothing(
            lambda one: sorted(set(one.facts["environment"]) - set(one.template.environment) - ENGINE_NAMES)
        ),
    ),
    Rule(_SIGHT, "gain privileges", _privileges, "5.26"),
    Rule(
        _SIGHT,
        "make a local socket, as jobs do",
        lambda one: [same("SUCCEEDED", one.look["sight"]["local socket"])],
    ),
    Rule(_SIGHT, "run a program from the output folder", _own_programs),
    Rule(_SIGHT, "learn from mounts, /proc and uname", _shown),
    Rule("container", "runtime", lambda one: [note(one.template.runtime or "the engine's default")]),
    Rule("container", "namespaces", _namespaces),
    Rule("container", "user namespace", _user_namespace, "5.31"),
    Rule("container", "security module", _security_module),
    Rule(
        "container",
        "after its job",
        lambda one: [same("removed", "removed" if one.gone else "still there")],
        "5.15",
    ),
)
