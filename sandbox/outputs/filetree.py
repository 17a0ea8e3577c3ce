"""Walks, measures and removes folders with untrusted contents, without following links.

Everything uses open folder descriptors and single path components. A walk needs two descriptors per level and is
limited to `MAX_DEPTH`; a removal needs only a few at any depth.
"""

import ctypes
import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

from sandbox.outputs.store import StagingUsage
from sandbox.template import Limits

MAX_DEPTH = 64  # levels of folders; the deepest dataset formats (Zarr, tile pyramids) use under ten
_CHUNK = 1 << 20  # bytes read at a time
_BATCH = 10_000  # names held in memory at a time
_REMOVAL_SECONDS = (
    # seconds; a hundred thousand files take a few, and only a folder that is still being filled takes longer
    60.0
)
# number of files above which one syncfs is faster than an fsync each (20 times faster for a thousand files)
_MANY = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# prefixes that NFS and FUSE give to removed files that are still open; removing such a file fails or creates another
# one
_STILL_OPEN = (".nfs", ".fuse_hidden")
_OURS = 0o700  # the mode that we need to read and empty a folder
_VANISHED = (FileNotFoundError, NotADirectoryError)  # raised if another process removed the entry


@dataclass(frozen=True, slots=True)
class Entry:
    """One name found on a walk.

    `blocked` is True for a folder that was not entered because it is too deep or not readable.
    """

    folder: int  # descriptor of the parent folder, open while the walk is at this entry
    name: str
    path: str  # relative to the top of the walk
    status: os.stat_result
    blocked: bool = False

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


@contextmanager
def opened_folder(folder: int, name: str, *, repair: bool = False) -> Iterator[int]:
    """Opens an inner folder and closes it on exit. `repair` first gives its owner all rights if it cannot be opened."""
    try:
        file = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        if not repair:
            raise
        _widen(folder, name, _OURS)
        file = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if repair and os.fstat(file).st_mode & _OURS != _OURS:
            os.fchmod(file, _OURS)
        yield file
    finally:
        os.close(file)


@contextmanager
def listed(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Lists the current names in an open folder.

    Reopens the folder, because btrfs lists the names that existed when the folder was opened.
    """
    with opened_folder(folder, ".") as fresh, os.scandir(fresh) as entries:
        yield entries


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[int]:
    """Opens a name that is not a link for reading, and closes it on exit. Widens a mode that denies us access."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        _widen(folder, name, 0o600)
        file = os.open(name, _FILE, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _widen(folder: int, name: str, mode: int) -> None:
    if os.chmod in os.supports_follow_symlinks:  # on macOS, for example
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 - fchmod is refused on O_PATH, a name could be a link
    finally:
        os.close(handle)


def walk(top: int, *, repair: bool = False) -> Iterator[Entry]:
    """Yields every entry below an open folder, a folder before its contents. Skips entries that disappear meanwhile.

    Raises OSError if `top` itself cannot be read. `repair` opens folders whose mode denies their owner access.
    """
    if repair:
        os.fchmod(top, _OURS)  # "." cannot be opened in a folder that denies us access
    with opened_folder(top, ".", repair=repair) as folder:
        yield from _walk(folder, "", MAX_DEPTH - 1, repair=repair)


def _walk(folder: int, prefix: str, deeper: int, *, repair: bool) -> Iterator[Entry]:
    with os.scandir(folder) as names:
        for dir_entry in names:
            with suppress(*_VANISHED):
                status = os.stat(dir_entry.name, dir_fd=folder, follow_symlinks=False)
                entry = Entry(folder, dir_entry.name, prefix + dir_entry.name, status)
                if not entry.is_folder:
                    yield entry
                    continue
                with ExitStack() as opened:
                    inner = None
                    if deeper:
                        with suppress(PermissionError):
                            inner = opened.enter_context(opened_folder(folder, dir_entry.name, repair=repair))
                    if inner is None:
                        yield replace(entry, blocked=True)
                        continue
                    yield entry
                    yield from _walk(inner, entry.path + "/", deeper - 1, repair=repair)


def measure(top: int, limits: Limits) -> StagingUsage:
    """Measures an open folder in which a job may be writing. Stops counting once a limit is exceeded.

    A folder that the job made too deep or unreadable counts as too many files. Files that were unlinked while open
    are not counted.
    """
    usage = StagingUsage()
    hidden = StagingUsage(files=limits.staging_files + 1)
    try:
        for entry in walk(top):
            usage = usage.add(entry.status)
            if entry.blocked:
                return hidden
            if usage.exceeds(limits):
                break
    except PermissionError:
        return hidden
    return usage


def disk_bytes(folder: int, name: str) -> int:
    """Bytes on disk of a file, or of a folder with everything readable in it; 0 if it does not exist."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_blocks * 512
    with suppress(PermissionError), opened_folder(folder, name) as top:
        return sum(entry.status.st_blocks * 512 for entry in walk(top))
    return 0


def digest(file: int) -> str:
    """SHA-256 of an open file's contents, in hex."""
    total, offset = hashlib.sha256(), 0
    while chunk := os.pread(file, _CHUNK, offset):
        total.update(chunk)
        offset += len(chunk)
    return total.hexdigest()


def sync_tree(top: int, files: int) -> None:
    """Syncs an open folder and everything below it, so that it survives a power cut."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if files > _MANY and syncfs is not None and syncfs(top) == 0:
        return
    for entry in walk(top):
        opened = opened_folder if entry.is_folder else opened_file
        with opened(entry.folder, entry.name) as file:
            os.fsync(file)
    os.fsync(top)


def remove(folder: int, name: str) -> None:
    """Removes an entry and everything below it, of any depth, size and mode. Does nothing if it does not exist.

    Does not build paths or keep a descriptor per level: inner folders are moved to the top and emptied there. Raises
    TimeoutError for a folder that is still being filled, ENOTEMPTY for one in which NFS, FUSE or SMB keeps open
    files, and other OSErrors. What is left can be removed later.
    """
    end = time.monotonic() + _REMOVAL_SECONDS
    with suppress(FileNotFoundError):
        if _unlink(folder, name):
            return
        with _taken(folder, name) as top:
            for inner in _each(top, end):
                with suppress(*_VANISHED):
                    _flatten(top, inner, end)
        os.rmdir(name, dir_fd=folder)


def _flatten(top: int, name: str, end: float) -> None:
    if _unlink(top, name):
        return
    with _taken(top, name) as inner:
        for child in _each(inner, end):
            with suppress(*_VANISHED):
                if _unlink(inner, child):
                    continue
                # random, so that no name can have been chosen to collide with it
                new = f"lifted-{secrets.token_hex(16)}"
                try:
                    os.rename(child, new, src_dir_fd=inner, dst_dir_fd=top)
                except PermissionError:  # the `..` of a folder without write permission cannot be changed
                    _widen(inner, child, _OURS)
                    os.rename(child, new, src_dir_fd=inner, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


def _each(folder: int, end: float) -> Iterator[str]:
    """Yields each name in the folder, repeatedly until the folder is empty.

    Stops when only removed files that are still open remain. SMB lists them until they are closed; NFS and FUSE list
    them under another name.
    """
    before: list[str] = []
    while True:
        with listed(folder) as entries:
            names = [entry.name for entry in islice(entries, _BATCH)]
        if names == before or (before and _renamed(before, names)):
            return
        before = names
        for name in names:
            if time.monotonic() > end:
                raise TimeoutError("somebody keeps filling the folder")
            yield name


def _renamed(before: list[str], names: list[str]) -> bool:
    """True if only removed files that are still open can remain.

    A job may use such names, too, so each is tried first.
    """
    return len(before) <= len(names) < _BATCH and all(name.startswith(_STILL_OPEN) for name in names)


@contextmanager
def _taken(folder: int, name: str) -> Iterator[int]:
    """Opens an inner folder to empty it.

    Root becomes its owner, so that a process that has it open cannot add files.
    """
    with opened_folder(folder, name, repair=True) as opened:
        if os.geteuid() == 0:
            with suppress(OSError):  # some network file systems have no root user
                os.fchown(opened, 0, 0)
                os.fchmod(opened, _OURS)
        yield opened


def _unlink(folder: int, name: str) -> bool:
    """Removes a file. False if the name is a folder.

    A file that NFS keeps because a process has it open remains, and so does its folder.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    except OSError as error:
        if error.errno != errno.EBUSY or not name.startswith(_STILL_OPEN):
            raise
    return True
