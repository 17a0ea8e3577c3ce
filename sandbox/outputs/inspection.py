"""What a job left in its staging folder: looked through (`collect`), then made ready to be published (`seal`).

The container is gone by then, but all that it wrote is hostile: only regular files with one name, and folders,
with printable UTF-8 names, within the limits, are let through. One bad entry refuses the whole output.
"""

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.errors import OutputRejected, PathRefused
from sandbox.mounted import mountinfo, submounts
from sandbox.outputs.filetree import (
    MAX_DEPTH,
    Entry,
    digest,
    opened_file,
    opened_folder,
    start_writing,
    sync_tree,
    walk,
)
from sandbox.outputs.journal import Mark
from sandbox.outputs.moves import Moves, Place
from sandbox.outputs.store import Part, Staged, StagingUsage
from sandbox.template import Limits
from sandbox.workspace import Identity, Located, open_folder

MAX_LISTED = 500_000  # names in a folder that is renamed or taken away; some seconds

_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, undecodable bytes, line separators
_STRICT_UMASK = 0o077


@dataclass(frozen=True, slots=True)
class Sealed:
    """A staged file or folder that is ready to be moved: what it holds and how to know it again.

    `sha256` of a folder is the SHA-256 over one line `<sha256>  <size>  <relative path>` and a line feed for each of
    `parts`, in UTF-8, sorted by the bytes of the path. Empty folders in it do not count.
    """

    identity: Identity
    is_folder: bool
    size: int
    sha256: str
    parts: tuple[Part, ...] = ()
    listing: str = ""

    @property
    def mark(self) -> Mark:
        return Mark.expected(self.identity, is_folder=self.is_folder)


@dataclass(frozen=True, slots=True)
class Manner:
    """Owner and modes that outputs get. `owner` is None where we may not give files away."""

    owner: tuple[int, int] | None
    file_mode: int
    folder_mode: int
    inner: "Manner | None" = None  # for what is in a folder, when it differs

    def apply(self, file: int, *, is_folder: bool) -> None:
        if self.owner is not None:
            os.fchown(file, *self.owner)
        os.fchmod(file, self.folder_mode if is_folder else self.file_mode)


def manner_of(replaced: os.stat_result | None, root: os.stat_result) -> Manner:
    """As what is replaced, else as the workspace's owner would make it. No file is executable or setuid."""
    masked = ~_umask()
    owned_by = root if replaced is None else replaced
    owner = (owned_by.st_uid, owned_by.st_gid) if os.geteuid() == 0 else None
    usual = Manner(owner, 0o666 & masked | 0o600, 0o777 & masked | 0o700)
    if replaced is None:
        return usual
    if stat.S_ISDIR(replaced.st_mode):
        return replace(usual, folder_mode=replaced.st_mode & 0o777, inner=usual)
    return replace(usual, file_mode=replaced.st_mode & 0o666)


def collect(top: int, limits: Limits) -> tuple[Staged, ...]:
    """The top-level entries of an open staging folder, sorted by name. Raises OutputRejected, OSError."""
    found: dict[str, Staged] = {}
    usage = StagingUsage()
    for entry in walk(top, repair=True):
        _refuse_unfit(entry)
        usage = usage.add(entry.status)
        if usage.exceeds(limits):
            raise OutputRejected(
                "the outputs are more or larger than the limits allow. Write less, or raise them."
            )
        name, _, inner = entry.path.partition("/")
        if not inner:
            found[name] = Staged(name, entry.is_folder, 0, 0, Identity.of(entry.status))
        if not entry.is_folder:
            one = found[name]
            found[name] = replace(one, size=one.size + entry.status.st_size, files=one.files + 1)
    return tuple(found[name] for name in sorted(found))


def seal(place: Place, mark: Mark, manner: Manner, moves: Moves) -> Sealed:
    """Gives a collected file or folder its owner and mode, digests it and puts it on disk."""
    with moves.step("seal"):
        if mark.is_folder:
            return _seal_folder(place, mark, manner)
        return _seal_file(place, mark, manner)


def listing_of(located: Located) -> str:
    """The `listing` of a folder that is to be renamed or taken away, which has to be known whole.

    Raises PathRefused when something in it lies too deep or cannot be read, when it holds more than `MAX_LISTED`
    names, or a mount: forgetting the folder would later empty what is mounted there.
    """
    with open_folder(located.workspace, located.relative) as top:
        _refuse_mounts(located)
        device = os.fstat(top).st_dev
        for count, entry in enumerate(walk(top), 1):
            if entry.blocked:
                raise PathRefused(f"{entry.path[-80:]!a} in it lies too deep or cannot be read.")
            if entry.status.st_dev != device:
                raise PathRefused(f"{entry.path[-80:]!a} in it lies on another file system.")
            if count > MAX_LISTED:
                raise PathRefused(f"it holds more than {MAX_LISTED} files. Move it by other means.")
        return listing(top)


def _refuse_mounts(located: Located) -> None:
    if below := submounts(located.path, mountinfo()):
        raise PathRefused(f"{below[0][-80:]!a} in it is a mount. Unmount it first.")


def listing(top: int) -> str:
    """A digest of names, sizes, inodes and times below an open folder: cheap, and any change shows in it."""
    lines = []
    for entry in walk(top):
        status = entry.status
        what = "" if entry.is_folder else f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        lines.append(f"{what} {entry.path}\n".encode(errors="surrogateescape"))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


def _refuse_unfit(entry: Entry) -> None:
    shown = ascii(entry.path[-80:])
    if any(unicodedata.category(letter) in _UNPRINTABLE for letter in entry.name):
        raise OutputRejected(f"{shown} has a name with control characters or invalid UTF-8.")
    if entry.blocked:
        raise OutputRejected(f"{shown} lies deeper than {MAX_DEPTH} folders, or cannot be read.")
    if entry.is_folder:
        return
    if not stat.S_ISREG(entry.status.st_mode):
        raise OutputRejected(
            f"{shown} is a link, device, pipe or socket; only files and folders are let out."
        )
    if entry.status.st_nlink != 1:
        raise OutputRejected(f"{shown} has a second name; a published file has one.")


def _seal_file(place: Place, mark: Mark, manner: Manner) -> Sealed:
    with opened_file(place.folder, place.name) as file:
        status = _fit(file, place.name)
        if not mark.fits(status):
            raise OutputRejected(f"{place.name!r} was changed after it was collected.")
        manner.apply(file, is_folder=False)
        start_writing(file)  # the disk works while the processor digests
        sha256 = digest(file)
        os.fsync(file)
        return Sealed(Identity.of(os.fstat(file)), is_folder=False, size=status.st_size, sha256=sha256)


def _seal_folder(place: Place, mark: Mark, manner: Manner) -> Sealed:
    with opened_folder(place.folder, place.name, repair=True) as top:
        if not mark.fits(os.fstat(top)):
            raise OutputRejected(f"{place.name!r} was changed after it was collected.")
        parts = sorted(_seal_parts(top, manner.inner or manner), key=lambda part: part.relative.encode())
        manner.apply(top, is_folder=True)
        sync_tree(top, len(parts))
        return Sealed(
            identity=Identity.of(os.fstat(top)),
            is_folder=True,
            size=sum(part.size for part in parts),
            sha256=tree_digest(parts),
            parts=tuple(parts),
            listing=listing(top),
        )


def _seal_parts(top: int, manner: Manner) -> Iterator[Part]:
    for entry in walk(top, repair=True):
        _refuse_unfit(entry)
        if entry.is_folder:
            with opened_folder(entry.folder, entry.name) as folder:
                manner.apply(folder, is_folder=True)
            continue
        with opened_file(entry.folder, entry.name) as file:
            status = _fit(file, entry.path)
            manner.apply(file, is_folder=False)
            start_writing(file)
            yield Part(entry.path, status.st_size, digest(file))


def tree_digest(parts: list[Part]) -> str:
    """See `Sealed`."""
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{part.sha256}  {part.size}  {part.relative}\n".encode())
    return total.hexdigest()


def _fit(file: int, name: str) -> os.stat_result:
    """Asks the open file itself: a name may lead elsewhere from one call to the next."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OutputRejected(f"{name!r} is no regular file with one name.")
    return status


def _umask() -> int:
    """Read, not set and set back: another thread may be making a file."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return _STRICT_UMASK
