"""Inspects what a job left in its staging folder (`collect`), and prepares it for publication (`seal`).

The container has ended by then, but everything that it wrote is untrusted. Accepted are regular files with one name,
and folders, if their names are printable UTF-8 and they are within the limits. One invalid entry refuses the whole
output.
"""

import hashlib
import os
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.errors import OutputRejected, PathRefused
from sandbox.mounted import submounts
from sandbox.outputs.dirops import DirEntry, DirOps
from sandbox.outputs.filetree import MAX_DEPTH, Entry, digest, opened_file, opened_folder, sync_tree, walk
from sandbox.outputs.store import Part, PublishedFile, Staged, StagingUsage
from sandbox.portable import mount_table
from sandbox.template import Limits
from sandbox.workspace import RESERVED, Identity, WorkspacePath, open_folder

MAX_LISTED = 500_000  # names in a folder that is renamed or removed; listing that many takes some seconds
# control characters, undecodable bytes, line and paragraph separators
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Permissions:
    """The owner and modes of outputs. `owner` is None if this process cannot change owners."""

    owner: tuple[int, int] | None
    file_mode: int
    folder_mode: int
    inner: "Permissions | None" = None  # for the contents of a folder, if they differ

    def apply(self, file: int, *, is_folder: bool) -> None:
        if self.owner is not None:
            os.fchown(file, *self.owner)
        os.fchmod(file, self.folder_mode if is_folder else self.file_mode)


def permissions_for(replaced: os.stat_result | None, root: os.stat_result) -> Permissions:
    """The permissions of the replaced file, or else those of a file that the workspace's owner would create.

    They never make a file executable or set-user-id.
    """
    status: list[str] = []
    with suppress(OSError):  # on systems other than Linux, the strict default below is used
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    # the umask is read from /proc, because setting it would affect other threads that create files
    allowed = ~next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o077)
    owned_by = root if replaced is None else replaced
    owner = (owned_by.st_uid, owned_by.st_gid) if os.geteuid() == 0 else None
    usual = Permissions(owner, 0o666 & allowed | 0o600, 0o777 & allowed | 0o700)
    if replaced is None:
        return usual
    if stat.S_ISDIR(replaced.st_mode):
        return replace(usual, folder_mode=replaced.st_mode & 0o777, inner=usual)
    return replace(usual, file_mode=replaced.st_mode & 0o666)


def collect(top: int, limits: Limits) -> tuple[Staged, ...]:
    """The top-level entries of an open staging folder, sorted by name. Raises OutputRejected, OSError."""
    outputs: dict[str, Staged] = {}
    usage = StagingUsage()
    for entry in walk(top, repair=True):
        _refuse_unfit(entry)
        usage = usage.add(entry.status)
        if usage.exceeds(limits):
            raise OutputRejected("the outputs exceed the limits. Write less, or raise the limits.")
        name, _, inner = entry.path.partition("/")
        if not inner:
            outputs[name] = Staged(name, entry.is_folder, 0, 0, Identity.of(entry.status))
        if not entry.is_folder:
            staged = outputs[name]
            outputs[name] = replace(staged, size=staged.size + entry.status.st_size, files=staged.files + 1)
    return tuple(outputs[name] for name in sorted(outputs))


def _refuse_unfit(entry: Entry) -> None:
    shown = ascii(entry.path[-80:])
    if any(unicodedata.category(letter) in _UNPRINTABLE for letter in entry.name):
        raise OutputRejected(f"{shown} has a name with control characters or invalid UTF-8.")
    if entry.name.casefold() == RESERVED:
        raise OutputRejected(f"{shown} has the name of a server's own folder, which is never published.")
    if entry.blocked:
        raise OutputRejected(f"{shown} lies deeper than {MAX_DEPTH} folders, or cannot be read.")
    if entry.is_folder:
        return
    if not stat.S_ISREG(entry.status.st_mode):
        raise OutputRejected(f"{shown} is a link, device, pipe or socket, which are never published.")
    if entry.status.st_nlink != 1:
        raise OutputRejected(f"{shown} has a second hard link; a published file has only one.")


def seal(
    place: DirEntry, staged: Staged, target: WorkspacePath, permissions: Permissions, ops: DirOps
) -> PublishedFile:
    """Gives a collected file or folder the owner and mode of its target, computes its digest and syncs it.

    Raises OutputRejected.
    """
    changed = OutputRejected(f"{place.name!r} was changed after it was collected.")
    with ops.step("seal"):
        if not staged.is_folder:
            with opened_file(place.folder, place.name) as file:
                status = os.fstat(file)
                if Identity.of(status) != staged.identity:
                    raise changed
                sha256 = _seal_file(file, place.name, permissions)
                os.fsync(file)
                published = replace(target, identity=Identity.of(os.fstat(file)), is_folder=False)
                return PublishedFile(published, status.st_size, sha256)
        with opened_folder(place.folder, place.name, repair=True) as top:
            if os.fstat(top).st_ino != staged.identity.inode:
                raise changed
            inner = permissions.inner or permissions
            parts = []
            for entry in walk(top, repair=True):
                _refuse_unfit(entry)
                if entry.is_folder:
                    with opened_folder(entry.folder, entry.name) as folder:
                        inner.apply(folder, is_folder=True)
                    continue
                with opened_file(entry.folder, entry.name) as file:
                    sha256 = _seal_file(file, entry.path, inner)
                    parts.append(Part(entry.path, os.fstat(file).st_size, sha256))
            parts.sort(key=lambda part: part.relative.encode())
            permissions.apply(top, is_folder=True)
            sync_tree(top, len(parts))
            published = replace(target, identity=Identity.of(os.fstat(top)), is_folder=True)
            size = sum(part.size for part in parts)
            return PublishedFile(published, size, tree_digest(parts), tuple(parts), listing(top))


def _seal_file(file: int, name: str, permissions: Permissions) -> str:
    """Seals the open file and returns its digest. The name may refer to another file between two calls."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OutputRejected(f"{name!r} is no regular file with one name.")
    permissions.apply(file, is_folder=False)
    return digest(file)


def tree_digest(parts: list[Part]) -> str:
    """The digest of a folder, as in `PublishedFile`. `parts` must be sorted."""
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{part.sha256}  {part.size}  {part.relative}\n".encode())
    return total.hexdigest()


def listing_of(located: WorkspacePath) -> str:
    """The complete `listing` of a folder that is to be renamed or removed.

    Raises PathRefused if something in it is too deep or unreadable, or if it contains more than `MAX_LISTED` names,
    or a mount: the removal of an old undo entry would later delete what is mounted there.
    """
    with open_folder(located.workspace, located.relative) as top:
        table = mount_table()  # without a mount table, mounts are still found by their device number
        if table and (below := submounts(located.path, table)):
            raise PathRefused(f"{below[0][-80:]!a} in it is a mount. Unmount it first.")
        device = os.fstat(top).st_dev
        for count, entry in enumerate(walk(top), 1):
            if entry.blocked:
                raise PathRefused(f"{entry.path[-80:]!a} in it lies too deep or cannot be read.")
            if entry.status.st_dev != device:
                raise PathRefused(f"{entry.path[-80:]!a} in it lies on another file system.")
            if count > MAX_LISTED:
                raise PathRefused(f"it holds more than {MAX_LISTED} files. Move it by other means.")
        return listing(top)


def listing(top: int) -> str:
    """A digest of names, sizes, inodes and times below an open folder. It is cheap, and any change alters it."""
    lines = []
    for entry in walk(top):
        status = entry.status
        what = "" if entry.is_folder else f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        lines.append(f"{what} {entry.path}\n".encode(errors="surrogateescape"))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()
