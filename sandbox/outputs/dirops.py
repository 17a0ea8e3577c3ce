"""The few system calls that change names, each between two named checkpoints.

Invariants:
* Nothing is overwritten: `move` needs a free name as its target, and `exchange` swaps two names.
* Every name is an open folder and one path component, so no link in a path is followed.
* A test or a fault drill can end the process, or make the call fail, at each of `POINTS`: before and after a step.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sandbox.errors import OutputRejected
from sandbox.portable import EXCHANGE, NOREPLACE, rename

Checkpoint = Callable[[str], None]

STEPS = (
    "open.folder",  # the outer folder of one staging
    "open.lock",
    "open.out",  # the folder that is mounted in the container
    "seal",  # mode, owner, digest and fsync of one staged file or folder
    "entry.folder",  # the folder in undo/ of one publication
    "entry.lock",
    "adopt",  # out/<name> -> undo/<call>/<slot>
    "record.write",  # the journal, synced under a temporary name
    "record.rename",
    "record.sync",
    "swap.fetch",  # a renamed file: from its old name into the slot
    "swap.exchange",  # a replaced file or folder
    "swap.create",  # a new file or folder
    "swap.remove",  # a stale sidecar file, or, on undo, a file that was created
    "swap.unlink",  # the unlink of a link and unlink that replace a rename
    "swap.sync",  # the folders in which names changed
    # an entry that is no longer needed; its journal goes first, so that an incomplete entry is never used
    "drop.record",
    "drop.folder",
    "discard",  # a staging folder with its contents
)
POINTS = tuple(f"{step}.{side}" for step in STEPS for side in ("before", "after"))

_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY})
# EPERM: the file system has no hard links (vfat), or fs.protected_hardlinks is set and we do not own the file
_NO_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EACCES, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class DirEntry:
    folder: int
    name: str

    def status(self) -> os.stat_result | None:
        """The status of the entry at a name, without following a link; None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except OSError as error:
            # the name of a companion file may be too long for a name
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
                return None
            raise


@dataclass(eq=False)
class DirOps:
    """Moves names. With `native=False`, behaves as on a file system without the flags of renameat2, such as NFS."""

    checkpoint: Checkpoint = lambda _point: None
    native: bool = field(default=True, kw_only=True)
    _exchanges: bool = field(default=False, init=False)  # True once an exchange has worked

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.checkpoint(f"{name}.before")
        yield
        self.checkpoint(f"{name}.after")

    def require_exchange(self, folder: int) -> None:
        """Tries an exchange in a private folder. Raises OutputRejected if the file system does not support it."""
        if self._exchanges:
            return
        first, second = DirEntry(folder, "exchange-1"), DirEntry(folder, "exchange-2")
        try:
            for entry in (first, second):
                os.close(os.open(entry.name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
            self._exchanges = self._rename(first, second, EXCHANGE)
        finally:
            for entry in (first, second):
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=folder)
        if not self._exchanges:
            raise OutputRejected(
                "the workspace's file system cannot swap two names atomically, so nothing on it is replaced. "
                "Write to a new name, or keep the workspace on ext4, xfs, btrfs, tmpfs or overlayfs."
            )

    def exchange(self, entry: DirEntry, other: DirEntry) -> None:
        """Swaps two existing names atomically."""
        with self.step("swap.exchange"):
            if not self._rename(entry, other, EXCHANGE):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), entry.name, None, other.name)

    def move(self, step: str, source: DirEntry, target: DirEntry) -> None:
        """Renames to a name that is not in use. Raises FileExistsError if the name exists.

        Without RENAME_NOREPLACE, a file is linked and unlinked, which never overwrites. An entry that cannot be
        linked is renamed after a check that the name is free. If the name appears meanwhile, a folder can only
        replace an empty folder, because rename(2) refuses any other.
        """
        with self.step(step):
            if self._rename(source, target, NOREPLACE):
                return
            linked = _link(source, target)
            if not linked:
                if target.status() is not None:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name)
                os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
        if linked:
            self.unlink(source)

    def unlink(self, entry: DirEntry) -> None:
        with self.step("swap.unlink"):
            os.unlink(entry.name, dir_fd=entry.folder)

    def sync(self, step: str, folder: int) -> None:
        """Syncs the names in a folder, so that they survive a power cut."""
        with self.step(step):
            os.fsync(folder)

    def _rename(self, source: DirEntry, target: DirEntry, flags: int) -> bool:
        """Renames with the given flags. False, without any change, if the file system does not support them."""
        try:
            return self.native and rename((source.folder, source.name), (target.folder, target.name), flags)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return False
            raise


def _link(source: DirEntry, target: DirEntry) -> bool:
    """Creates a hard link. False for a folder, or if the file system or the file's owner does not allow it."""
    status = source.status()
    if status is None or stat.S_ISDIR(status.st_mode):
        return False
    folders = {"src_dir_fd": source.folder, "dst_dir_fd": target.folder}
    try:
        os.link(source.name, target.name, **folders, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True
