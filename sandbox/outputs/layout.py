"""The store's folder in a workspace (`RESERVED`): staging, undo, and the locks that show if an owner is alive.

    .gdal-mcp/            0755, ours
      .gitignore          *
      lock                held briefly, while a folder below is created or claimed
      staging/            0700
        <id>/             0700
          lock            held as long as the staging is in use
          out/            the container's /staging
      undo/               0700
        <call>/           0700
          lock            held while it is published, undone, recovered or pruned
          manifest.json   the journal
          <n>             slots

A lock that can be taken means that its owner is dead: the kernel releases it with the last descriptor.
"""

import errno
import fcntl
import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sandbox.errors import StagingFailed
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.filetree import listed, opened_folder, remove
from sandbox.outputs.journal import MANIFEST, Record, save, valid_id
from sandbox.portable import file_system, try_lock
from sandbox.workspace import RESERVED, Workspace, open_folder

DROPPED = "dropped.json"  # the journal of an entry that is being removed
_LOCK = "lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = 0o022
# file systems whose files have the modes of the mount options, unless they are mounted differently
_WITHOUT_MODES = frozenset(
    {"9p", "cifs", "drvfs", "exfat", "fuse", "fuseblk", "msdos", "ntfs", "ntfs3", "smb3", "vfat", "virtiofs"}
)


@dataclass(frozen=True, slots=True)
class StagingLayout:
    """The open folders of one workspace's store."""

    workspace: Workspace
    base: int
    staging: int
    undo: int
    ops: DirOps

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the lock for creating and claiming folders. Waits while another process holds it."""
        lock = os.open(_LOCK, _LOCK_FLAGS, 0o600, dir_fd=self.base)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def make(self, parent: int, name: str, step: str) -> "LockedFolder":
        """Creates a folder in `staging` or `undo`, locked before any other process can see it. Raises FileExistsError."""
        locked = None
        with self.exclusive():
            try:
                with self.ops.step(f"{step}.folder"):
                    os.mkdir(name, 0o700, dir_fd=parent)
                with self.ops.step(f"{step}.lock"):
                    locked = self.claim(parent, name)
            except FileExistsError:
                raise
            except BaseException:  # re-raised: even after an interrupt, no folder without an owner may remain
                if locked is not None:
                    locked.close()
                remove(parent, name)
                raise
        if locked is None:
            raise StagingFailed(f"{name} was taken by another process as it was made. Try again.")
        return locked

    def claim(self, parent: int, name: str) -> "LockedFolder | None":
        """Locks and opens a folder. None if another process holds the lock, or if it is missing or not a folder."""
        with ExitStack() as undo:
            try:
                with opened_folder(parent, name) as opened:
                    folder = os.dup(opened)
                undo.callback(os.close, folder)
                lock = os.open(_LOCK, _LOCK_FLAGS, 0o600, dir_fd=folder)
                undo.callback(os.close, lock)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if (
                not try_lock(lock, fcntl.LOCK_EX) or not os.fstat(lock).st_nlink
            ):  # the lock file was removed between open and flock
                return None
            undo.pop_all()
            return LockedFolder(self, name, folder, lock)


@dataclass(slots=True)
class LockedFolder:
    """An open staging folder or undo entry, whose lock this process holds until `close`."""

    layout: StagingLayout
    name: str
    folder: int
    lock: int

    def close(self) -> None:
        """Closes the folder and its lock. Can be called several times."""
        if self.lock >= 0:
            os.close(self.folder)
            os.close(self.lock)
            self.lock = -1

    def remove(self, parent: int) -> None:
        """Removes the folder from `parent`, with its contents. Raises the errors of `filetree.remove`."""
        try:
            remove(parent, self.name)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            # NFS, FUSE and SMB keep a removed file while it is open, and our lock file is open
            self.close()
            remove(parent, self.name)

    def save(self, record: Record) -> None:
        save(record, self.folder, self.layout.ops)

    def drop(self) -> None:
        """Removes an undo entry. Its journal goes first, so that after a crash the rest is recognised as garbage."""
        with self.layout.ops.step("drop.record"):
            with suppress(FileNotFoundError):
                os.rename(MANIFEST, DROPPED, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            os.fsync(self.folder)
        with self.layout.ops.step("drop.folder"):
            self.remove(self.layout.undo)

    @property
    def undo_path(self) -> str:
        """The path of an undo entry on the host, for messages."""
        return str(self.layout.workspace.root / RESERVED / "undo" / self.name)


def ids(parent: int) -> list[str]:
    """The sorted names of folders that are valid ids. Other entries are ignored."""
    with listed(parent) as entries:
        return sorted(
            entry.name for entry in entries if valid_id(entry.name) and entry.is_dir(follow_symlinks=False)
        )


@contextmanager
def staging_errors(what: str) -> Iterator[None]:
    """Raises StagingFailed for an OSError in the block."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise StagingFailed(f"{what} failed: {why}. Check space and permissions.") from error


@contextmanager
def open_layout(workspace: Workspace, ops: DirOps) -> Iterator[StagingLayout]:
    """Opens the store's folder and creates missing folders. Raises StagingFailed if other users could write to it."""
    if not workspace.writable:
        raise StagingFailed(f"workspace {workspace.root} is read-only; nothing is staged there.")
    with ExitStack() as opened:
        root = opened.enter_context(open_folder(workspace, PurePosixPath()))
        with staging_errors(f"opening {RESERVED} in {workspace.root}"):
            place = workspace.root / RESERVED
            base = opened.enter_context(_own_folder(root, place, 0o755))
            staging = opened.enter_context(_own_folder(base, place / "staging", 0o700))
            undo = opened.enter_context(_own_folder(base, place / "undo", 0o700))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with (
                suppress(FileExistsError),
                os.fdopen(os.open(".gitignore", flags, 0o644, dir_fd=base), "w") as text,
            ):
                text.write("*\n")
        yield StagingLayout(workspace, base, staging, undo, ops)


@contextmanager
def _own_folder(parent: int, place: Path, mode: int) -> Iterator[int]:
    """Opens or creates the folder at `place` in `parent`.

    Raises StagingFailed if it belongs to another user or other users can write to it.
    """
    is_new = False
    with suppress(FileExistsError):
        os.mkdir(place.name, 0o700, dir_fd=parent)
        is_new = True
    with opened_folder(parent, place.name) as folder:
        if is_new:
            with os.scandir(folder) as inside:
                if next(inside, None) is None:  # otherwise, another folder took its place meanwhile
                    os.fchmod(folder, mode)
                    os.fsync(parent)
        status = os.fstat(folder)
        if status.st_uid != os.geteuid():
            raise StagingFailed(_of_another_user(place, status.st_uid))
        if status.st_mode & _OTHERS_WRITE:
            raise StagingFailed(_open_to_others(place, file_system(status.st_dev)))
        yield folder


def _open_to_others(place: Path, kind: str) -> str:
    """The message for a store that other users could write to."""
    if kind not in _WITHOUT_MODES:
        return f"{place} can be written by users other than its owner. Check its contents, then run: chmod go-w {shlex.quote(str(place))}"
    return (
        f"{place} can be written by every user: as it is mounted, this file system ({kind}) shows each folder as open to all. Move the "
        f"workspace to a Linux file system, or mount this one so that only its owner writes: for a Windows drive in WSL, put `[automount]` "
        f'and `options = "metadata,umask=022"` into /etc/wsl.conf and run `wsl --shutdown`; for vfat, exfat and ntfs use umask=022, for '
        f"CIFS file_mode=0644,dir_mode=0755."
    )


def no_owners(workspace: Workspace, folder: int) -> str:
    """The message for a file system on which root cannot give a folder to the calls' user."""
    kind = file_system(os.fstat(folder).st_dev) or "of unknown type"
    return (
        f"the file system of {workspace.root} ({kind}) cannot give a folder to the calls' user, who is not root. Mount it for an ordinary "
        f"user, as with uid=1000,gid=1000 for vfat, exfat and CIFS, and start the server as that user; to read only, name the folder "
        f"with --workspace-ro in place of --workspace."
    )


def _of_another_user(place: Path, owner: int) -> str:
    """The message for a store that belongs to another user.

    Stores are not shared, because their journals control what is renamed and removed.
    """
    base = place if place.name == RESERVED else place.parent
    if os.geteuid() == 0:
        return (
            f"{place} belongs to user {_name(owner)}, and this server is root. Start it as that user (sudo -u {_name(owner)} ...), or "
            f"add --run-as owner; to read only, name the folder with --workspace-ro in place of --workspace."
        )
    return (
        f"{place} belongs to user {_name(owner)}, and this server is user {_name(os.geteuid())}. Give the folder to this user (sudo chown "
        f"-R {os.geteuid()} {shlex.quote(str(base))}), or start the server as {_name(owner)}; to read only, name the folder with "
        f"--workspace-ro in place of --workspace."
    )


def _name(uid: int) -> str:
    """A user's name, or `#` and the user id if it has no name, as in sudo."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
