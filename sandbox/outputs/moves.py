"""The few system calls that change what a name means, each between two named checkpoints.

Invariants:
* `move` and `create` never overwrite; `exchange` cannot, by its nature; only `over` replaces, and its one
  caller keeps a second name of what it replaces;
* every name is given as an open folder and one component, so no link in a path is ever followed;
* a test (or a fault drill) can end the process, or fail the call, at each of `POINTS`: before and after a step.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Checkpoint = Callable[[str], None]

STEPS = (
    "open.folder",  # the outer folder of one staging
    "open.lock",
    "open.out",  # the folder that the container gets
    "seal",  # mode, owner, digest and fsync of one staged file or folder
    "entry.folder",  # the folder in undo/ that one publication works in
    "entry.lock",
    "adopt",  # out/<name> -> undo/<call>/<slot>
    "record.write",  # the journal, under a temporary name, synced
    "record.rename",
    "record.sync",
    "swap.fetch",  # what gets another name: from its old one into the slot
    "swap.exchange",  # a replaced file or folder, where the file system can exchange two names
    "swap.create",  # a new file or folder
    "swap.remove",  # a stale companion, or on undo what was created
    "swap.link",  # the four steps that stand for an exchange elsewhere
    "swap.aside",
    "swap.over",
    "swap.settle",
    "swap.unlink",  # the second half of a link that stands for a rename
    "swap.sync",  # the folders whose names changed
    "drop.record",  # an entry that is no longer needed: its journal first, so that no half of it is believed
    "drop.folder",
    "discard",  # a staging folder with all that is in it
)
POINTS = tuple(f"{step}.{side}" for step in STEPS for side in ("before", "after"))

_NOREPLACE, _EXCHANGE = 1, 2  # linux/fs.h
_NOT_HERE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY})
# EPERM: no hard links at all (vfat), or fs.protected_hardlinks and a file that is not ours
_NO_LINKS = _NOT_HERE | {errno.EPERM, errno.EACCES, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder."""

    folder: int
    name: str

    def status(self) -> os.stat_result | None:
        """What the name points at, a link itself included; None when nothing is there."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def _unobserved(_point: str) -> None:
    return


class Moves:
    """Moves names. `native=False` behaves as on a file system without renameat2."""

    def __init__(self, checkpoint: Checkpoint = _unobserved, *, native: bool = True) -> None:
        self.checkpoint = checkpoint
        self._renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if native else None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.checkpoint(f"{name}.before")
        yield
        self.checkpoint(f"{name}.after")

    def exchange(self, step: str, one: Place, other: Place) -> bool:
        """Swaps two existing names at once; False, and nothing done, where the file system cannot."""
        with self.step(step):
            return self._rename(one, other, _EXCHANGE)

    def move(self, step: str, source: Place, target: Place) -> None:
        """Renames to a free name. Raises FileExistsError when it is taken.

        Without RENAME_NOREPLACE the name is looked at first; a file that appears in that instant is lost.
        """
        with self.step(step):
            if self._rename(source, target, _NOREPLACE):
                return
            _refuse_taken(target)
            os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)

    def create(self, source: Place, target: Place) -> None:
        """As `move`, for users' files: without RENAME_NOREPLACE a file is linked, which never overwrites."""
        with self.step("swap.create"):
            if self._rename(source, target, _NOREPLACE):
                return
            status = source.status()
            linked = status is not None and not stat.S_ISDIR(status.st_mode) and _link(source, target)
            if not linked:
                _refuse_taken(target)
                # onto an empty folder that appears in this instant; rename(2) refuses every other one
                os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
        if linked:
            self.unlink(source)

    def over(self, source: Place, target: Place) -> None:
        """Renames over an existing file at once."""
        with self.step("swap.over"):
            os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)

    def link(self, source: Place, target: Place) -> bool:
        """Gives a file a second name; False where the file system, or the file's owner, does not allow it."""
        with self.step("swap.link"):
            return _link(source, target)

    def unlink(self, place: Place) -> None:
        with self.step("swap.unlink"):
            os.unlink(place.name, dir_fd=place.folder)

    def sync(self, step: str, folder: int) -> None:
        """Makes the names in a folder survive a power cut."""
        with self.step(step):
            os.fsync(folder)

    def _rename(self, source: Place, target: Place, flags: int) -> bool:
        if self._renameat2 is None:
            return False
        ctypes.set_errno(0)
        names = os.fsencode(source.name), os.fsencode(target.name)
        if self._renameat2(source.folder, names[0], target.folder, names[1], flags) == 0:
            return True
        code = ctypes.get_errno()
        if code in _NOT_HERE:
            return False
        raise OSError(code, os.strerror(code), source.name, None, target.name)


def _link(source: Place, target: Place) -> bool:
    try:
        os.link(
            source.name,
            target.name,
            src_dir_fd=source.folder,
            dst_dir_fd=target.folder,
            follow_symlinks=False,
        )
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _refuse_taken(target: Place) -> None:
    if target.status() is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name)
