"""Rules for the findings of the probe of an attestation. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sandbox.isolation.rows import Evidence, Judge, Judgement, ProbedFolder, Rule, few, note, same, verdict
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET

WRITABLE: Final = (str(SCRATCH_TARGET), str(STAGING_TARGET))  # folders that a job may write to
WORKED: Final = frozenset(
    {"SUCCEEDED", "SIGALRM", "ENDED"}
)  # succeeded, did not return, or ended without a report
ESCAPE: Final = "escape"  # group of the rows
_LOADING: Final = "load code from /tmp"
FOREIGN: Final = "other architectures"
_CLOSED: Final = "EACCES"  # reported instead of a digest if the folder could not be opened
_NO_NAMES: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no data


# --- are the mounted folders this host's? ---


def _nonces(evidence: Evidence) -> Iterator[Judgement]:
    for path, nonce in evidence.nonces.items():
        answer = str(evidence.look["files"]["nonces"].get(path))
        place = path.rpartition("/")[0]
        shown = "its nonce" if answer == nonce else answer[:40]
        yield Judgement("its nonce", shown, verdict(answer == nonce), f"{place} is this host's folder")


def _folders(evidence: Evidence) -> Iterator[Judgement]:
    """Compares mounted folders with the server's own view, by device and inode if both use the same kernel.

    Another kernel, for example in a virtual machine, has other numbers, and so may each mount of a share. Then the
    names in a folder are compared, if it has any.
    """
    files = evidence.look["files"]
    same_kernel = bool(evidence.boot) and files["boot"] == evidence.boot
    for path, requested in evidence.folders.items():
        there = ProbedFolder(*files["folders"].get(path, (0, 0, "absent")))
        by_names = not same_kernel or path in evidence.shares
        same_one = same_kernel and (there.device, there.inode) == (requested.device, requested.inode)
        if by_names:
            same_one |= there.names == requested.names != _NO_NAMES
        shown = "the same" if same_one else f"another ({there.names})"[:60]
        if not same_one and there.names == _CLOSED:
            shown = closed_folder(path, evidence.template.user, evidence.security_options)
        if by_names and not same_one and requested.names == _NO_NAMES:
            shown = "empty, so that it cannot be told from others; put a file into it"
        yield same("the same", shown, f"{path} is this host's folder")


def closed_folder(path: str, user: tuple[int, int], security_options: Sequence[str] = ()) -> str:
    """The reason why the container's user cannot enter a mounted folder, and what to do about it."""
    who = f"the container's user {user[0]}:{user[1]}"
    if path.startswith("/root/"):
        # true for every image based on Debian, Ubuntu or Alpine
        return f"closed: {who} may not enter the image's own /root, whose mode is 0700. Move the workspace, for example to /srv"
    why = f"closed: {who} may not enter it, or a folder of the image above it. Give that user the folder, or move the workspace"
    if any("selinux" in option for option in security_options):
        # the server never does this itself: it does not change the labels of a user's files
        why += f". With SELinux, label the folder for containers: sudo chcon -Rt container_file_t {shlex.quote(path)}"
    return why


# --- attempts ---


def attempts_refused(group: str) -> Judge:
    def judge(evidence: Evidence) -> Iterator[Judgement]:
        attempts = evidence.look["attempts"]
        results: Mapping[str, str] = attempts.get(group) or {}
        # a Pod's scratch cannot be mounted noexec; code that is loaded from it has the same filter and Landlock rules
        # as its process
        accepted = _LOADING if evidence.limits_by_node else ""
        worked = sorted(name for name, result in results.items() if result in WORKED and name != accepted)
        if worked:
            yield Judgement("refused", f"{len(worked)} of {len(results)} worked: {few(worked)}", "failed")
        elif results:
            yield Judgement(
                "refused", f"{len(results)} refused: {', '.join(sorted(set(results.values())))}", "held"
            )
        elif group != FOREIGN or group not in attempts:  # only x86_64 has other architectures
            yield Judgement("refused", "nothing was tried", "failed")

    return judge


def _confined(evidence: Evidence) -> Iterator[Judgement]:
    """Judges if the container is confined by the security module of the engine's host, if there is one."""
    label = evidence.look["files"]["security label"]
    modules = [option for option in evidence.security_options if "apparmor" in option or "selinux" in option]
    if modules:
        yield Judgement("confined", label or "none", verdict(confines(label)))
    else:
        yield Judgement("", "this host's engine has neither AppArmor nor SELinux", "n/a")


def confines(label: str) -> bool:
    return label not in ("", "unconfined") and "unconfined_t" not in label


FILES: Final = (Rule("files", "nonces", _nonces), Rule("files", "folders", _folders))
CONFINED: Final = Rule("container", "security module", _confined, "5.2, 5.3")
# gVisor and Kata have their own kernel, different from the host's
KERNEL: Final = Rule(
    "container",
    "kernel",
    lambda evidence: [
        note(
            f"{evidence.look['files']['kernel']}, under {evidence.template.runtime or 'the default runtime'}"
        )
    ],
)
# rules by the probe's group of attempts: quick groups, each for a different barrier (seccomp filter, mounts, user)
QUICK: Final = {
    group: Rule(ESCAPE, name, attempts_refused(group), cis)
    for group, name, cis in (
        ("sockets", "open sockets of other families", "5.10, 5.22"),
        ("writing", "write outside scratch and output", "5.6, 5.13"),
        ("identities", "become another user", "5.26"),
    )
}
