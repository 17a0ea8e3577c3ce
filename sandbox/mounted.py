"""Checks the mounts of a container: their identity, that its user may reach them, and mounts below them.

The host resolves a path without following links. The engine opens the same path later, as root, and follows all
links. In between, another program may put a link there that leads anywhere. A mount cannot be exchanged after the
start. So the container reports the device and inode that it sees, and gets a job only if they are those of the
resolved path. If a container has its own kernel, as in a virtual machine, its numbers do not identify this host's
files, and nothing is run.
"""

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final, NamedTuple

from sandbox.errors import IsolationRefused, PathRefused, PathReplaced
from sandbox.portable import O_PATH_FLAG, mount_table
from sandbox.template import SandboxTemplate
from sandbox.workspace import WorkspacePath

READ, ENTER = 0o4, 0o1  # permission bits for one class of users
_SHARES: Final = frozenset({"9p", "drvfs", "fakeowner", "fuse", "grpcfuse", "osxfs", "virtiofs"})
_MOUNTINFO_FIELDS: Final = 6  # fields before the dash; proc(5). Special characters are in octal


def refuse_replaced(template: SandboxTemplate, facts: Mapping[str, Any], *, same_kernel: bool) -> None:
    """Compares the identities that the container measured with the resolved ones. Malformed facts count as a
    difference.

    Raises PathReplaced, and IsolationRefused for a container whose numbers do not identify this host's files.
    """
    expected = {str(mount.target): mount.identity for mount in template.mounts if mount.identity is not None}
    if expected and not same_kernel:
        raise IsolationRefused(
            f"the engine's containers have a kernel of their own, so that {_summarize([*expected])} cannot be shown to be the file "
            "that was looked up, and nothing was run. Mount whole workspaces, or use an engine on this host's kernel."
        )
    rows = facts.get("mounts")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    measured = {str(row.get("target")): row.get("identity") for row in rows}
    if wrong := [target for target, identity in expected.items() if measured.get(target) != list(identity)]:
        raise PathReplaced(
            f"{_summarize(wrong)} was replaced since the call was planned, so nothing was run."
        )


def check_sources(template: SandboxTemplate) -> None:
    """Checks that every mount source still exists. Raises PathReplaced."""
    expected = [
        (mount.source.path, mount.identity) for mount in template.mounts if mount.identity is not None
    ]
    if wrong := [source for source, identity in expected if device_and_inode(source) != identity]:
        raise PathReplaced(f"{_summarize(wrong)} was removed or replaced, so nothing was run.")


def check_traversable(root: Path, located: WorkspacePath, user: tuple[int, int]) -> None:
    """Checks that `user` can reach a file that is mounted by itself through its folders.

    `root` is what would be mounted for its workspace. Raises PathRefused.
    """
    if located.identity is None:
        return
    flags = O_PATH_FLAG | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with ExitStack() as stack:
            opened = os.open(root, flags)
            stack.callback(os.close, opened)
            for part in located.relative.parts:
                if not mode_allows(os.fstat(opened), user, ENTER):
                    raise PathRefused(f"a folder above {located.name!r} is closed to the calls' user.")
                opened = os.open(part, flags, dir_fd=opened)
                stack.callback(os.close, opened)
            status = os.fstat(opened)
    except OSError as error:
        raise PathReplaced(f"{located} was removed or replaced, so nothing was run.") from error
    if (status.st_dev, status.st_ino) != (located.identity.device, located.identity.inode):
        raise PathReplaced(f"{located} was replaced, so nothing was run.")


def mode_allows(status: os.stat_result, user: tuple[int, int], what: int) -> bool:
    """True if the mode alone gives a user (uid, gid) the permissions `what`."""
    shift = 6 if status.st_uid == user[0] else 3 if status.st_gid == user[1] else 0
    return (status.st_mode >> shift) & what == what


def device_and_inode(path: str) -> tuple[int, int] | None:
    """Device and inode of a path on this host, of a link itself. None if it does not exist or cannot be read."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _summarize(paths: list[str]) -> str:
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]


def mount_fingerprint(template: SandboxTemplate) -> object:
    """A fingerprint of what a container that is started now would see at its mounts, in addition to their names.

    A folder may have been replaced by another of the same name, as may a masked folder in it, and a running container
    does not see a file system that is mounted later. Fingerprints are compared; one that cannot be taken equals no
    other.
    """
    table = mount_table()
    try:
        folders = [Path(mount.source.path).stat() for mount in template.mounts]
    except OSError:
        return object()  # the launch itself reports the error
    if table is None:
        return object()
    below = [submounts(mount.source.path, table) for mount in template.mounts]
    masked = [device_and_inode(str(mask)) for mask in template.masks]
    return [(status.st_dev, status.st_ino) for status in folders], below, masked


def mountinfo() -> str:
    """The mount table of this process. Raises IsolationRefused if there is none."""
    if (table := mount_table()) is None:
        raise IsolationRefused(
            "this system does not tell what is mounted below a workspace, and this engine would leave it writable. Use Docker 25 "
            "or newer; on Linux, mount /proc."
        )
    return table


def submounts(root: str | PurePath, table: str) -> tuple[str, ...]:
    """The mount points strictly below `root`, sorted, without duplicates, from the text of /proc/self/mountinfo.

    They are the mounts of the process that read the text. The engine's may differ in another mount namespace. Raises
    IsolationRefused for malformed text.
    """
    below = f"{PurePosixPath(root)}".rstrip("/") + "/"
    places = {point.target for point in mount_points(table)}
    return tuple(sorted(place for place in places if place.startswith(below) and place != below))


class MountPoint(NamedTuple):
    """One row of mountinfo, with the names that a worker uses in its measurement."""

    root: str  # the folder or file of that file system that is mounted
    target: str
    type: str  # type of the file system, such as ext4
    id: str
    parent: str  # the id of the parent mount
    options: tuple[str, ...]
    shared: tuple[str, ...]  # how mounts propagate


def is_share(folder: str | PurePath, table: str) -> bool:
    """True if a folder's file system comes from outside this kernel, as shares of Docker Desktop do.

    It may give the same file another device and inode wherever it is mounted.
    """
    return kind_at(folder, table).partition(".")[0] in _SHARES


def kind_at(place: str | PurePath, table: str) -> str:
    """The type of the file system of an absolute path without links, such as ext4."""
    holding = [point for point in mount_points(table) if PurePosixPath(place).is_relative_to(point.target)]
    # of several mounts at one path the last one covers the others
    return (
        max(enumerate(holding), key=lambda numbered: (len(numbered[1].target), numbered[0]))[1].type
        if holding
        else ""
    )


# cached: the table is long, and read at every claim of a slot; tables of containers are read once
@lru_cache(maxsize=16)
def mount_points(table: str) -> tuple[MountPoint, ...]:
    """All rows, in the order of the table. Raises IsolationRefused for malformed text."""
    points = []
    for line in filter(None, table.split("\n")):  # other line ends occur in names
        fields, _, rest = line.partition(" - ")
        row = fields.split(" ")
        if len(row) < _MOUNTINFO_FIELDS or not row[4].startswith("/") or not rest:
            raise IsolationRefused(
                f"mounts might be missed: this row of mountinfo is malformed: {line[:200]!r}"
            )
        number, parent, _, *places, options = row[:_MOUNTINFO_FIELDS]
        root, place = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text) for text in places)
        shared = tuple(row[_MOUNTINFO_FIELDS:])
        kind = rest.split(" ")[0]
        points.append(MountPoint(root, place, kind, number, parent, tuple(options.split(",")), shared))
    if not points:
        raise IsolationRefused("mountinfo is empty, so mounts would be missed. Mount /proc where this runs.")
    return tuple(points)
