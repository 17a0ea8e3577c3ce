"""Copies a dataset into staging, for algorithms that write into their input."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sandbox.errors import PathRefused, StagingFailed
from sandbox.mounted import ENTER, READ, mode_allows
from sandbox.outputs.filetree import opened_folder, walk
from sandbox.outputs.store import StagingUsage
from sandbox.template import Limits
from sandbox.workspace import Identity

_CHUNK = 1 << 20
_FICLONE = 0x40049409  # linux/fs.h: share the blocks of another file
# free space on staging's disk that no job may use: the server needs it for its records, and people to log in
_RESERVE_BYTES = 256 << 20
_RESERVE_PARTS = 50  # on a small disk, the reserve is one part in this many


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies files and folders within limits. Messages name the source as `named`.

    `user` (uid, gid) owns the copy. It also decides what may be copied: only what its mode allows that user to read.
    None is this process's user. A `trusted` source is the server's own and need not be readable by `user`.
    `check_cancelled` is called before each part of a file; an exception from it ends the copy.
    """

    named: str
    limits: Limits
    user: tuple[int, int] | None
    trusted: bool = False
    check_cancelled: Callable[[], object] = lambda: None

    def file(self, source: int, folder: int, name: str) -> None:
        """Copies an open file to a name that is not in use.

        Raises PathRefused if the user may not read it, StagingFailed if it changes meanwhile or the disk is nearly
        full, and OSError.
        """
        before = os.fstat(source)
        self._refuse_closed(before, READ)
        self._refuse_more(StagingUsage().add(before))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            copy(source, target, lambda: self._refuse_full(target))
            # GDAL's sync skips a destination that is newer, so the copy keeps the time
            os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
            self._give(target)
        finally:
            os.close(target)
        if Identity.of(os.fstat(source)) != Identity.of(before):
            raise StagingFailed(f"{name!r} changed while it was copied. Try again when nobody writes to it.")

    def folder(self, source: int, folder: int, name: str) -> None:
        """Copies everything below an open folder to a name that is not in use.

        Raises the errors of `file`, and StagingFailed for special files.
        """
        usage = StagingUsage()
        levels = [("", self._make(folder, name))]
        try:
            for entry in walk(source):
                usage = usage.add(entry.status)
                self._refuse_more(usage)
                # checks the open folder, because its name may refer to another one in the meantime
                self._refuse_closed(os.fstat(entry.folder), READ | ENTER)
                while levels[-1][0] != entry.path.rpartition("/")[0]:
                    os.close(levels.pop()[1])
                if entry.is_folder and not entry.blocked:
                    levels.append((entry.path, self._make(levels[-1][1], entry.name)))
                    continue
                if not stat.S_ISREG(entry.status.st_mode):
                    raise StagingFailed(f"{entry.path!r} is no readable file or folder; nothing was copied.")
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                try:  # the mode is not widened, because the file belongs to the user
                    opened = os.open(entry.name, flags, dir_fd=entry.folder)
                except PermissionError as error:
                    raise StagingFailed(f"{entry.path!r} may not be read; nothing was copied.") from error
                try:
                    self.file(opened, levels[-1][1], entry.name)
                finally:
                    os.close(opened)
        finally:
            for _, level in levels:
                os.close(level)

    def _make(self, folder: int, name: str) -> int:
        os.mkdir(name, 0o700, dir_fd=folder)
        with opened_folder(folder, name) as created:
            self._give(created)
            return os.dup(created)

    def _give(self, folder: int) -> None:
        if self.user is not None:
            os.fchown(folder, *self.user)

    def _refuse_closed(self, status: os.stat_result, what: int) -> None:
        if self.user is not None and not self.trusted and not mode_allows(status, self.user, what):
            raise PathRefused(
                f"{self.named!r}, or a part of it, is not readable by the user that calls run as, so it is not copied. "
                "Let that user read it, or name another file."
            )

    def _refuse_more(self, usage: StagingUsage) -> None:
        if usage.exceeds(self.limits):
            raise StagingFailed("the dataset is larger than the limits of staging allow. Raise them.")

    def _refuse_full(self, target: int) -> None:
        self.check_cancelled()
        if is_nearly_full(os.fstatvfs(target)):
            raise StagingFailed(
                f"too little of the disk is left to copy {self.named!r}. Make room, or use another disk."
            )


def is_nearly_full(disk: os.statvfs_result) -> bool:
    """True if the free space of a disk is below the reserve that no job may use."""
    reserve = min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _RESERVE_PARTS)
    return disk.f_bavail * disk.f_frsize < reserve


def copy(source: int, target: int, check_cancelled: Callable[[], object]) -> None:
    """Fills an empty file with the contents of another, by sharing its blocks if the file system supports it.

    `check_cancelled` is called before each part. Holes are preserved. The contents are not synced, because
    publication does that.
    """
    # file systems report missing support with different errors; a real fault occurs again below
    with suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    offset = 0
    while offset < size:
        try:
            offset = os.lseek(source, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end
                return
            raise
        end = os.lseek(source, offset, os.SEEK_HOLE)
        while offset < end and (data := os.pread(source, min(end - offset, _CHUNK), offset)):
            check_cancelled()
            offset += os.pwrite(target, data, offset)
        offset = end
