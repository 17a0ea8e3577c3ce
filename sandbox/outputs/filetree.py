"""Walks, measures and removes folders with untrusted contents, without following links.

Everything works on open folder descriptors and single components. A walk holds two descriptors per level and
goes no deeper than `MAX_DEPTH`; a removal holds a handful at any depth.
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

MAX_DEPTH = 64  # folders in folders; the deepest dataset formats (Zarr, tile pyramids) use under ten
_CHUNK = 1 << 20  # bytes read at a time
_BATCH = 10_000  # names held in memory at a time
_REMOVAL_SECONDS = (
    60.0  # a hundred thousand files take a few; only a folder that keeps being filled takes more
)
_MANY = 32  # files from which one syncfs is quicker than an fsync each (20 times, at a thousand files)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# how NFS and FUSE name a removed file that is still open; removing it is refused, or creates another one
_STILL_OPEN = (".nfs", ".fuse_hidden")
_OURS = 0o700  # the mode that we need on a folder to read and to empty it
_VANISHED = (FileNotFoundError, NotADirectoryError)  # another process removed it


@dataclass(frozen=True, slots=True)
class Entry:
    """One name met on a walk. `blocked` is a folder that was not entered: too deep, or not readable."""

    folder: int  # open while the walk is at this entry
    name: str
    path: str  # relative to where the walk began
    status: os.stat_result
    blocked: bool = False

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


@contextmanager
def opened_folder(folder: int, name: str, *, repair: bool = False) -> Iterator[int]:
    """A descriptor of an inner folder, closed on exit; `repair` gives its owner all rights on it first."""
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
    """The current names in an open folder. Reopens the folder, because btrfs shows the names at the time of opening."""
    with opened_folder(folder, ".") as fresh, os.scandir(fresh) as found:
        yield found


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[int]:
    """A read-only descriptor of a name that is not a link, closed on exit. Widens a mode that denies us access."""
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
    if os.chmod in os.supports_follow_symlinks:  # as on macOS
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 - fchmod is refused on O_PATH, a name could be a link
    finally:
        os.close(handle)


def walk(top: int, *, repair: bool = False) -> Iterator[Entry]:
    """Yields every entry below an open folder, a folder before its contents. Skips entries that disappear meanwhile.

    Raises OSError when `top` itself cannot be read. `repair` opens folders whose mode denies their owner access.
    """
    if repair:
        os.fchmod(top, _OURS)  # "." cannot be opened in a folder that denies us access
    with opened_folder(top, ".", repair=repair) as folder:
        yield from _walk(folder, "", MAX_DEPTH - 1, repair=repair)


def _walk(folder: int, prefix: str, deeper: int, *, repair: bool) -> Iterator[Entry]:
    with os.scandir(folder) as names:
        for found in names:
            with suppress(*_VANISHED):
                status = os.stat(found.name, dir_fd=folder, follow_symlinks=False)
                entry = Entry(folder, found.name, prefix + found.name, status)
                if not entry.is_folder:
                    yield entry
                    continue
                with ExitStack() as opened:
                    inner = None
                    if deeper:
                        with suppress(PermissionError):
                            inner = opened.enter_context(opened_folder(folder, found.name, repair=repair))
                    if inner is None:
                        yield replace(entry, blocked=True)
                        continue
                    yield entry
                    yield from _walk(inner, entry.path + "/", deeper - 1, repair=repair)


def measure(top: int, limits: Limits) -> StagingUsage:
    """Measures an open folder in which a job may be writing. Stops counting once a limit is exceeded.

    A folder that the job made too deep or unreadable counts as too many files. Unlinked open files are not seen.
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
    """Bytes on disk of a file, or of a folder with all that can be reached in it; 0 when nothing is there."""
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

    No path is built and no descriptor kept per level: inner folders are moved to the top and emptied there. Raises OSError
    (TimeoutError) for a folder that keeps being filled, ENOTEMPTY for one in which NFS, FUSE or SMB keeps open files;
    the rest can be removed later.
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
                new = f"lifted-{secrets.token_hex(16)}"  # random, so no existing name can have been chosen to collide with it
                try:
                    os.rename(child, new, src_dir_fd=inner, dst_dir_fd=top)
                except PermissionError:  # a folder that is not writable cannot have its `..` changed
                    _widen(inner, child, _OURS)
                    os.rename(child, new, src_dir_fd=inner, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


def _each(folder: int, end: float) -> Iterator[str]:
    """Each name in the folder, again and again until it is gone.

    Ends when only files are left that a process has open: SMB lists them until they are closed, NFS and FUSE under another name.
    """
    before: list[str] = []
    while True:
        with listed(folder) as found:
            names = [entry.name for entry in islice(found, _BATCH)]
        if names == before or (before and _renamed(before, names)):
            return
        before = names
        for name in names:
            if time.monotonic() > end:
                raise TimeoutError("somebody keeps filling the folder")
            yield name


def _renamed(before: list[str], names: list[str]) -> bool:
    """True if the names are those of removed files that are still open. A job may use such names too, so each is tried first."""
    return len(before) <= len(names) < _BATCH and all(one.startswith(_STILL_OPEN) for one in names)


@contextmanager
def _taken(folder: int, name: str) -> Iterator[int]:
    """An inner folder to empty. Root becomes its owner, so that a process that holds it open cannot add files."""
    with opened_folder(folder, name, repair=True) as opened:
        if os.geteuid() == 0:
            with suppress(OSError):  # a file system without a root user, such as some network mounts
                os.fchown(opened, 0, 0)
                os.fchmod(opened, _OURS)
        yield opened


def _unlink(folder: int, name: str) -> bool:
    """False when the name is a folder. A file that NFS keeps for a process that has it open stays, and so does its folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    except OSError as error:
        if error.errno != errno.EBUSY or not name.startswith(_STILL_OPEN):
            raise
    return True
