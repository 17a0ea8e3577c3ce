"""Checks what a container mounts: that it is what was looked up, that its user may reach it, and what is mounted below it.

The host resolves a path without following any link. The engine opens the same path later, as root, and follows all of them.
In between another program may put a link there that leads anywhere. A mount cannot be exchanged any more, so the container
reports the device and inode that it sees, and gets no job unless they are those that were looked up. Where a container has a
kernel of its own, as in a virtual machine, its numbers say nothing about this host's files, and nothing is run either.
"""

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final

from sandbox.errors import IsolationRefused, PathRefused, PathReplaced
from sandbox.template import SandboxTemplate
from sandbox.workspace import Located

READ, ENTER = 0o4, 0o1  # of a folder's mode
_MOUNTINFO_FIELDS: Final = 10  # at least; proc(5). The fifth is the mount point, with odd characters in octal


def refuse_replaced(template: SandboxTemplate, facts: Mapping[str, Any], *, same_kernel: bool) -> None:
    """Compares what the container measured; malformed facts are a difference, never an exception.

    Raises PathReplaced, and IsolationRefused for a container whose numbers mean nothing here.
    """
    expected = {str(one.target): one.identity for one in template.mounts if one.identity is not None}
    if expected and not same_kernel:
        raise IsolationRefused(
            f"the engine's containers have a kernel of their own, so that {_some([*expected])} cannot be shown to be the file "
            "that was looked up, and nothing was run. Mount whole workspaces, or use an engine on this host's kernel."
        )
    rows = facts.get("mounts")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    seen = {str(row.get("target")): row.get("identity") for row in rows}
    if wrong := [target for target, identity in expected.items() if seen.get(target) != list(identity)]:
        raise PathReplaced(f"{_some(wrong)} was replaced since the call was planned, so nothing was run.")


def refuse_gone(template: SandboxTemplate) -> None:
    """Looks on the host, to tell why an engine could not mount something. Raises PathReplaced."""
    expected = [(one.source.path, one.identity) for one in template.mounts if one.identity is not None]
    if wrong := [source for source, identity in expected if device_and_inode(source) != identity]:
        raise PathReplaced(f"{_some(wrong)} was removed or replaced, so nothing was run.")


def refuse_closed(root: Path, located: Located, user: tuple[int, int]) -> None:
    """A file that is mounted by itself is reached past its folders: what `user` could not reach through them is refused.

    `root` is what would be mounted for its workspace. Raises PathRefused.
    """
    if located.identity is None:
        return
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with ExitStack() as stack:
            opened = os.open(root, flags)
            stack.callback(os.close, opened)
            for part in located.relative.parts:
                if not may(os.fstat(opened), user, ENTER):
                    raise PathRefused(f"a folder above {located.name!r} is closed to the calls' user.")
                opened = os.open(part, flags, dir_fd=opened)
                stack.callback(os.close, opened)
            status = os.fstat(opened)
    except OSError as error:
        raise PathReplaced(f"{located} was removed or replaced, so nothing was run.") from error
    if (status.st_dev, status.st_ino) != (located.identity.device, located.identity.inode):
        raise PathReplaced(f"{located} was replaced, so nothing was run.")


def may(status: os.stat_result, user: tuple[int, int], what: int) -> bool:
    """Whether a user (uid, gid) may do it, by the mode alone."""
    shift = 6 if status.st_uid == user[0] else 3 if status.st_gid == user[1] else 0
    return (status.st_mode >> shift) & what == what


def device_and_inode(path: str) -> tuple[int, int] | None:
    """Device and inode of what has that name on this host, be it a link; None when nothing can be seen there."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _some(paths: list[str]) -> str:
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]


def mount_fingerprint(template: SandboxTemplate) -> object:
    """What a container started now would see at its mounts, beyond their names.

    A folder may have been replaced by another of the same name, so may one that is masked in it, and a container that runs
    does not see a file system that is mounted later. Fingerprints are compared; one that cannot be taken equals no other.
    """
    try:
        table = mountinfo()
        folders = [Path(mount.source.path).stat() for mount in template.mounts]
    except OSError:
        return object()  # the launch itself will say what is wrong
    below = [submounts(mount.source.path, table) for mount in template.mounts]
    masked = [device_and_inode(str(mask)) for mask in template.masks]
    return [(one.st_dev, one.st_ino) for one in folders], below, masked


def mountinfo() -> str:
    """The mount table of this process. Raises OSError where /proc is not mounted."""
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")


def submounts(root: str | PurePath, table: str) -> tuple[str, ...]:
    """The mount points strictly below `root`, sorted, without repeats, from the text of /proc/self/mountinfo.

    They are the mounts of the process that read the text; the engine's may differ in another mount namespace.
    Raises IsolationRefused for a text that is not mountinfo.
    """
    below = f"{PurePosixPath(root)}".rstrip("/") + "/"
    return tuple(point for point in _mount_points(table) if point.startswith(below) and point != below)


def unescaped(point: str) -> str:
    """A path of mountinfo as it is, without its octal characters."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)


@lru_cache(maxsize=4)  # the table is long, and asked for at every claim of a slot
def _mount_points(table: str) -> tuple[str, ...]:
    points = set()
    for line in filter(None, table.split("\n")):  # other line ends occur in names
        fields = line.split(" ")
        if len(fields) < _MOUNTINFO_FIELDS or not fields[4].startswith("/"):
            raise IsolationRefused(
                f"mounts might be missed: this row of mountinfo is malformed: {line[:200]!r}"
            )
        points.add(unescaped(fields[4]))
    if not points:
        raise IsolationRefused("mountinfo is empty, so mounts would be missed. Mount /proc where this runs.")
    return tuple(sorted(points))
