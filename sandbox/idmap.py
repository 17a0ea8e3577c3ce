"""Lets a container that does not run as root read a workspace that belongs to root, without changing the workspace.

Containers never run as root, and the owner of a user's file is never changed. A workspace that only root may enter is
mounted through an id-mapped view, in which root's files appear to belong to the container's user. The view is
read-only and is mounted in the server's state folder. It needs a server that runs as root, Linux 5.12 and a file
system with id-mapped mounts (ext4, xfs, btrfs, tmpfs ...). Without them there is no view, and `gdal-mcp doctor`
reports that the workspace cannot be read.
"""

import ctypes
import os
import platform
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sandbox.owner import Owner
from sandbox.portable import call

# these numbers are the same on every 64-bit architecture, as for all calls added since 2019
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_AT_FDCWD, _AT_EMPTY_PATH, _MOVE_FROM_DESCRIPTOR = -100, 0x1000, 0x4
_READ_ONLY, _NOSUID, _NODEV, _IDMAP = 0x1, 0x2, 0x4, 0x00100000
_CLONE_NEWUSER, _DETACH = 0x10000000, 2
_LAST_ID = 2**32 - 2
_READ_AND_ENTER = 0o5


class Views:
    """The id-mapped views of one server. They are removed by `close`, or by the `sweep` of the next server."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self._folder = folder / owner.id
        self._views: dict[
            tuple[Path, int, int], Path
        ] = {}  # by path, device and inode, because a folder may be replaced

    def source(self, root: Path, user: tuple[int, int]) -> Path:
        """The path to mount for a workspace: its own, or that of a view if `user` could not read it otherwise."""
        status = root.stat()
        key = (root, status.st_dev, status.st_ino)
        # closed to all users except root
        closed = stat.S_IMODE(status.st_mode) & _READ_AND_ENTER != _READ_AND_ENTER
        needed = os.geteuid() == 0 and status.st_uid == 0 and closed and platform.system() == "Linux"
        if needed and key not in self._views:
            # not supported here: the workspace itself is mounted, and doctor reports the consequence
            with suppress(OSError):
                self._views[key] = self._make(root, user)
        return self._views.get(key, root)

    def _make(self, root: Path, user: tuple[int, int]) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = Path(tempfile.mkdtemp(dir=self._folder))
        with ExitStack() as failed, ExitStack() as stack:
            failed.callback(place.rmdir)
            namespace = stack.enter_context(_user_namespace(user))
            # a detached copy of the mount at `root`, without what is mounted below it
            tree = call("syscall", _OPEN_TREE, _AT_FDCWD, os.fsencode(root), _OPEN_TREE_CLONE | _CLOEXEC)
            stack.callback(os.close, tree)
            flags = _READ_ONLY | _NOSUID | _NODEV | _IDMAP
            attributes = struct.pack("=QQQQ", flags, 0, 0, namespace)
            call("syscall", _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, len(attributes))
            call("syscall", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(place), _MOVE_FROM_DESCRIPTOR)
            failed.pop_all()
        return place

    def close(self) -> None:
        self._views.clear()
        _remove(self._folder)


def sweep(folder: Path, owner: Owner) -> None:
    """Unmounts the views of dead servers."""
    if folder.is_dir():
        for view in folder.iterdir():
            if owner.is_dead(view.name):
                _remove(view)


def _remove(folder: Path) -> None:
    if not folder.is_dir():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for place in folder.iterdir():
        libc.umount2(os.fsencode(place), _DETACH)
        with suppress(OSError):  # only rmdir: nothing that is still mounted there is ever deleted
            place.rmdir()
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def _user_namespace(user: tuple[int, int]) -> Iterator[int]:
    """A user namespace that maps root to `user` and every other id to itself. It exists while its descriptor is open.

    Raises OSError if it cannot be created.
    """
    ready, tell_ready = os.pipe()
    mapped, tell_mapped = os.pipe()
    # loaded before the fork, because loading takes a lock that another thread may hold
    libc = ctypes.CDLL(None)
    child = os.fork()
    if child == 0:
        if libc.unshare(_CLONE_NEWUSER) == 0:
            os.write(tell_ready, b"!")
            os.close(tell_mapped)  # otherwise the child would keep its own pipe open after its parent died
            os.read(mapped, 1)
        os._exit(0)
    os.close(tell_ready)  # reading then ends when the child ends
    try:
        if not os.read(ready, 1):
            raise OSError("no user namespace could be made")
        for kind, number in zip(("uid", "gid"), user, strict=True):
            # 0 maps to `number`, which is itself not mapped
            rows = [(0, number, 1), (1, 1, number - 1), (number + 1, number + 1, _LAST_ID - number)]
            text = "".join(f"{inside} {outside} {count}\n" for inside, outside, count in rows if count > 0)
            Path(f"/proc/{child}/{kind}_map").write_text(text, encoding="ascii")
        namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(tell_mapped)  # the child notices the end of the pipe
        os.waitpid(child, 0)
        for descriptor in (ready, mapped):
            os.close(descriptor)
    try:
        yield namespace
    finally:
        os.close(namespace)
