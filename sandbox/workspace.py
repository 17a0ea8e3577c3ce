"""The allowlist of workspaces: turns the text of a path into a `WorkspacePath`.

Invariants:
* a `WorkspacePath` names a place inside exactly one workspace, free of `.`, `..` and symlinks at the time it was made;
* nothing outside a workspace is opened, listed or checked for existence, so a refusal reveals nothing;
* containment is decided component by component on open folder descriptors, never by comparing strings;
* the server's own folder (`RESERVED`), where staging and undo live, is never reachable;
* every later use on the host goes through `open_folder`/`open_file`, which follow no link at all.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sandbox import PRODUCT
from sandbox.errors import LaunchCancelled, PathMissing, PathRefused
from sandbox.path_text import path_of, refuse_unprintable
from sandbox.portable import file_system
from sandbox.template import SCRATCH_TARGET, STAGING_TARGET

RESERVED = f".{PRODUCT}"  # a folder in each workspace, for staging and undo
OUTSIDE = "the path is outside every workspace."
MAX_LINKS = 40  # the kernel's limit on symlinks in one path
# components of a path and of the links in it; every component costs system calls, and a walk of folders ends at 64
# levels
MAX_STEPS = 256
_SMB = frozenset({"cifs", "smb3"})
_JUST_WRITTEN = (
    60.0  # seconds; an SMB client delays closing a file by one second, or by the time that its mount sets
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# A workspace here would cover what the container itself needs, or expose the machine's own configuration.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"),
    *("/var/lib/docker", "/var/lib/containers", "/var/lib/containerd"),
    *("/run/user", "/run/docker", "/run/containerd", "/run/podman", "/run/systemd", "/run/dbus"),  # sockets
)
_TOO_WIDE = ("/", "/home", "/root", "/run", "/var", "/opt", "/srv", "/mnt", "/media", str(SCRATCH_TARGET))


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies the file or folder at a path, so that a replacement or a change is noticed."""

    device: int
    inode: int
    size: int  # bytes
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Identity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    @property
    def modified(self) -> float | None:
        """Seconds since the epoch. None if the date is not valid, because a file's owner can set any time."""
        seconds = self.mtime_ns / 1e9
        return seconds if -62_135_596_800 <= seconds < 253_402_300_799 else None  # the years 1 to 9999


@dataclass(frozen=True, slots=True)
class Workspace:
    """One allowed folder. `root` is canonical; `aliases` are other spellings of it that users may type."""

    root: Path
    writable: bool
    aliases: tuple[Path, ...] = ()
    # the only folders in which a path can be named; None for no restriction
    shown: tuple[PurePosixPath, ...] | None = field(default=None, compare=False)

    def shows(self, relative: PurePosixPath) -> bool:
        return self.shown is None or any(relative.is_relative_to(folder) for folder in self.shown)

    @classmethod
    def at(cls, path: str | Path, *, writable: bool) -> "Workspace":
        """A workspace at an existing folder. Raises PathRefused for a folder that cannot be one."""
        absolute = Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 - keep symlinks as typed
        refuse_unprintable(str(absolute))
        try:
            root = absolute.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise PathMissing(
                f"the workspace {absolute} cannot be used: {reason}. Create the folder; for a server in a container, mount it "
                "there, as with docker run -v."
            ) from error
        if not root.is_dir():
            raise PathRefused(f"workspace {root} is not a folder.")
        inside = (*_SYSTEM, str(STAGING_TARGET))
        if str(root) in _TOO_WIDE or any(root.is_relative_to(place) for place in inside):
            raise PathRefused(
                f"{root} cannot be a workspace: the container needs that place, or it is too wide."
            )
        if RESERVED in root.parts:
            raise PathRefused(f"{root} lies inside {RESERVED}, the server's own folder.")
        return cls(root, writable, tuple({absolute, root}))


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A canonical path in a workspace. `identity` is that of the file or folder there, None if nothing exists."""

    workspace: Workspace
    relative: PurePosixPath
    identity: Identity | None = None
    is_folder: bool = False

    @property
    def path(self) -> Path:
        return self.workspace.root / self.relative

    @property
    def name(self) -> str:
        return self.relative.name

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    def __str__(self) -> str:
        return str(self.path)


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The workspaces of one server, at least one, none inside another. Relative paths start at the first.

    Once `stopped` returns True, because the caller was cancelled, looking up a path raises LaunchCancelled.
    """

    items: tuple[Workspace, ...]
    stopped: Callable[[], bool] = field(default=_never, compare=False)

    def __post_init__(self) -> None:
        if not self.items:
            raise PathRefused("no workspace is configured. Name one with --workspace DIR.")
        for workspace in self.items:
            for other in self.items:
                if workspace is not other and workspace.root.is_relative_to(other.root):
                    raise PathRefused(
                        f"workspace {workspace.root} lies in {other.root}. Name only one of them."
                    )

    def input(self, text: str) -> WorkspacePath:
        """An existing file or folder to read. Raises PathRefused or PathMissing."""
        located = self._locate(text)
        if located.identity is None:
            raise PathMissing(f"{text!r} does not exist in a workspace.")
        return located

    def output(self, text: str) -> WorkspacePath:
        """A path to write to: its folder exists and the workspace is writable. Raises PathRefused or PathMissing."""
        located = self._locate(text, follow_last=False)
        if not located.relative.parts:
            raise PathRefused("an output needs a name; this is the workspace itself.")
        if any(part.casefold() == RESERVED for part in located.relative.parts):
            # another server may serve that folder as its workspace, and would execute the journals in it
            raise PathRefused(
                f"{RESERVED} is the name of a server's own folder, which is reserved at every depth. Use another name."
            )
        if not located.workspace.writable:
            raise PathRefused(f"workspace {located.workspace.root} is read-only. Write to another one.")
        return located

    def _locate(self, text: str, *, follow_last: bool = True) -> WorkspacePath:
        if self.stopped():
            raise LaunchCancelled("cancelled while its files were looked up")
        path = path_of(text)
        start = PurePosixPath(path)
        absolute = start if start.is_absolute() else PurePosixPath(self.items[0].root) / start
        workspace, parts = self._enter(absolute)
        if not workspace.shows(PurePosixPath(os.path.normpath(PurePosixPath(*parts)))):
            raise PathRefused(OUTSIDE)  # the same, whether or not something is there
        located = self._walk(workspace, parts, follow_last=follow_last)
        if not located.workspace.shows(located.relative):
            raise PathRefused(OUTSIDE)
        if path.endswith(("/", "/.")) and located.identity is not None and not located.is_folder:
            raise PathRefused(f"{text!r} ends as a folder does but is a file.")
        return located

    def _enter(self, absolute: PurePosixPath) -> tuple[Workspace, list[str]]:
        """The workspace in which an absolute path starts, and the remaining components."""
        for workspace in self.items:
            for alias in (workspace.root, *workspace.aliases):
                if absolute.is_relative_to(alias):
                    return workspace, list(absolute.relative_to(alias).parts)
        raise PathRefused(OUTSIDE)

    def _walk(self, workspace: Workspace, parts: list[str], *, follow_last: bool) -> WorkspacePath:
        left = parts[::-1]
        with closing(_Trail(workspace)) as trail:
            for _ in range(MAX_STEPS + 1):
                if not left:
                    return _checked_path(trail.workspace, trail.names)
                part = left.pop()
                if part == "..":
                    trail.leave()
                    continue
                status = trail.look(part)
                if status is None:
                    if left:
                        raise PathMissing(f"folder {part!r} of the path does not exist.")
                    return WorkspacePath(trail.workspace, PurePosixPath(*trail.names, part))
                if not stat.S_ISLNK(status.st_mode):
                    trail.enter(part, is_last=not left)
                elif left or follow_last:
                    left += self._follow(trail, part)[::-1]
                else:
                    raise PathRefused(f"{part!r} is a symlink; an output is never written through one.")
        raise PathRefused(f"the path takes more than {MAX_STEPS} folders and links.")

    def _follow(self, trail: "_Trail", link: str) -> list[str]:
        """The components of a symlink's target. For an absolute target the walk starts again in a workspace."""
        target = trail.target(link)
        if not target.is_absolute():
            return list(target.parts)
        workspace, parts = self._enter(target)
        trail.begin(workspace)
        return parts


class _Trail:
    """The state of a walk: the resolved components, and the open folders from the workspace's root."""

    def __init__(self, workspace: Workspace) -> None:
        self.links = 0
        self.opened: list[int] = []
        self.begin(workspace)

    def begin(self, workspace: Workspace) -> None:
        self.close()
        self.workspace, self.names = workspace, list[str]()
        self.opened.append(_open_root(workspace))

    def look(self, part: str) -> os.stat_result | None:
        if not self.names and part.casefold() == RESERVED:  # some file systems ignore case
            raise PathRefused(f"{RESERVED} is where the server keeps staging and undo; it is never opened.")
        return _look(self.opened[-1], part)

    def enter(self, part: str, *, is_last: bool) -> None:
        self.names.append(part)
        if not is_last:
            self.opened.append(_open_inner(self.opened[-1], part))

    def leave(self) -> None:
        if not self.names:
            raise PathRefused("the path leaves its workspace. Use a path inside one of them.")
        self.names.pop()
        os.close(self.opened.pop())

    def target(self, link: str) -> PurePosixPath:
        self.links += 1
        if self.links > MAX_LINKS:
            raise PathRefused("too many symlinks in the path.")
        try:
            text = os.readlink(link, dir_fd=self.opened[-1])
        except OSError as error:
            raise PathRefused(f"{link!r} changed while it was resolved.") from error
        refuse_unprintable(text)
        return PurePosixPath(text)

    def close(self) -> None:
        while self.opened:
            os.close(self.opened.pop())


def _checked_path(workspace: Workspace, names: list[str]) -> WorkspacePath:
    """Checks the end of a walk again, from the workspace's root."""
    *above, name = names or ["."]
    with open_folder(workspace, PurePosixPath(*above)) as folder:
        status = _look(folder, name)
        if status is None:
            raise PathMissing(f"{name!r} was removed while it was resolved.")
        status = _settle(folder, name, status)
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{name!r} is a device, pipe or socket; only files and folders are opened.")
    return WorkspacePath(workspace, PurePosixPath(*names), Identity.of(status), is_folder)


def _settle(folder: int, name: str, status: os.stat_result) -> os.stat_result:
    """The status of a file, with the modification time that its server has.

    An SMB client only estimates the time of a file that was just written, until it really closes the file. The later
    change to the server's time would look like a change of the file. Opening and flushing the file fetches that time
    now.
    """
    recent = stat.S_ISREG(status.st_mode) and abs(time.time() - status.st_mtime) < _JUST_WRITTEN
    # file systems without a block device have major number 0; the mount table is read only for them
    if not recent or os.major(status.st_dev) or file_system(status.st_dev) not in _SMB:
        return status
    with suppress(OSError):  # the call that needs the contents reports it
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(file)
            return os.fstat(file)
        finally:
            os.close(file)
    return status


def _look(folder: int, part: str) -> os.stat_result | None:
    try:
        return os.stat(part, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathRefused(f"{part!r} in the path cannot be looked at: {error.strerror}.") from error


def _open_root(workspace: Workspace) -> int:
    try:
        return os.open(workspace.root, _FOLDER)
    except OSError as error:
        raise PathMissing(f"workspace {workspace.root} cannot be opened: {error.strerror}.") from error


def _open_inner(folder: int, part: str) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError as error:
        raise PathMissing(f"folder {part!r} of the path does not exist.") from error
    except OSError as error:
        raise PathRefused(f"{part!r} in the path is not a folder that can be opened.") from error


@contextmanager
def open_folder(workspace: Workspace, relative: PurePosixPath) -> Iterator[int]:
    """A descriptor of a folder inside a workspace, reached without following any link. Closed on exit."""
    folder = _open_root(workspace)
    try:
        for part in relative.parts:
            inner = _open_inner(folder, part)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_file(located: WorkspacePath) -> Iterator[int]:
    """A read-only descriptor of a regular file, reached without following any link. Closed on exit."""
    with open_folder(located.workspace, located.relative.parent) as folder:
        try:
            # O_NONBLOCK: a pipe that replaced the file must not block the host
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(located.name, flags, dir_fd=folder)
        except FileNotFoundError as error:
            raise PathMissing(f"{located} no longer exists.") from error
        except OSError as error:
            raise PathRefused(f"{located} cannot be opened: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise PathRefused(f"{located} is not a regular file.")
        yield file
    finally:
        os.close(file)
