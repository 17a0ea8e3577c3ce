"""The rules over what the probe of an attestation saw and tried in a container. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from sandbox.isolation.rows import Evidence, Judge, Judgement, ProbedFolder, Rule, few, note, same, verdict
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET

WRITABLE: Final = (str(SCRATCH_TARGET), str(STAGING_TARGET))  # what a job may write
WORKED: Final = frozenset(
    {"SUCCEEDED", "SIGALRM", "ENDED"}
)  # did it, did not come back, or ended without a report
ESCAPE: Final = "escape"  # the group of the rows
_LOADING: Final = "load code from /tmp"
FOREIGN: Final = "other architectures"
_CLOSED: Final = "EACCES"  # in place of names, where the folder could not be opened
_NO_NAMES: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing


# --- whose folders they are ---


def _nonces(evidence: Evidence) -> Iterator[Judgement]:
    for path, nonce in evidence.nonces.items():
        found = str(evidence.look["files"]["nonces"].get(path))
        place = path.rpartition("/")[0]
        shown = "its nonce" if found == nonce else found[:40]
        yield Judgement("its nonce", shown, verdict(found == nonce), f"{place} is this host's folder")


def _folders(evidence: Evidence) -> Iterator[Judgement]:
    """By device and inode where the kernel is the server's own. Another one, as of a virtual machine, has numbers of its
    own, and so may each mount of a share: there the names in a folder tell, if there are any.
    """
    files = evidence.look["files"]
    same_kernel = bool(evidence.boot) and files["boot"] == evidence.boot
    for path, asked in evidence.folders.items():
        there = ProbedFolder(*files["folders"].get(path, (0, 0, "absent")))
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


def attempts_refused(group: str) -> Judge:
    def judge(evidence: Evidence) -> Iterator[Judgement]:
        attempts = evidence.look["attempts"]
        found: Mapping[str, str] = attempts.get(group) or {}
        # nobody can mount a Pod's scratch without it; what is loaded runs under the same filter and fence as what loads it
        apart = _LOADING if evidence.limits_by_node else ""
        worked = sorted(name for name, said in found.items() if said in WORKED and name != apart)
        if worked:
            yield Judgement("refused", f"{len(worked)} of {len(found)} worked: {few(worked)}", "failed")
        elif found:
            yield Judgement(
                "refused", f"{len(found)} refused: {', '.join(sorted(set(found.values())))}", "held"
            )
        elif group != FOREIGN or group not in attempts:  # only x86_64 has other architectures
            yield Judgement("refused", "nothing was tried", "failed")

    return judge


def _confined(evidence: Evidence) -> Iterator[Judgement]:
    """Where the engine's host has a security module, it confines the container."""
    label = evidence.look["files"]["security label"]
    modules = [one for one in evidence.security_options if "apparmor" in one or "selinux" in one]
    if modules:
        yield Judgement("confined", label or "none", verdict(confines(label)))
    else:
        yield Judgement("", "this host's engine has neither AppArmor nor SELinux", "n/a")


def confines(label: str) -> bool:
    return label not in ("", "unconfined") and "unconfined_t" not in label


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
# by the group of attempts of the probe: quick, and each a barrier of its own (the filter of system calls, mounts, the user)
QUICK: Final = {
    group: Rule(ESCAPE, name, attempts_refused(group), cis)
    for group, name, cis in (
        ("sockets", "open sockets of other families", "5.10, 5.22"),
        ("writing", "write outside scratch and output", "5.6, 5.13"),
        ("identities", "become another user", "5.26"),
    )
}
