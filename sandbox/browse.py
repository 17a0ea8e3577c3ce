"""Lists a folder of a workspace: a bounded walk that follows no link.

Invariants:
* every step is one component on an open folder descriptor; links are never followed;
* `.gdal-mcp` is never reported;
* entries are sorted by the bytes of their names, so two walks over the same files give the same list;
* everything left out is reported: as a `SkipReason`, or as a folder that is not `complete`.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.filetree import MAX_DEPTH, listed, opened_folder
from sandbox.workspace import RESERVED, Identity, Workspace, WorkspacePath, Workspaces, open_folder

MAX_NAMES = 200_000  # names read in one walk: about a second of reading, and far more than a listing shows


class EntryKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a device, pipe or socket


_KINDS: Final = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}


class LinkTarget(StrEnum):
    """Where a link leads if all links on the way are followed, as `Workspaces` does. The target is never opened."""

    INSIDE = "inside"  # leads to a file or folder in a workspace
    OUTSIDE = "outside"  # leads out of every workspace, or to something that must not be opened
    NOWHERE = "nowhere"  # leads to a path in a workspace that does not exist


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry found on a walk, with the result of `lstat`."""

    workspace: Workspace
    relative: PurePosixPath  # relative to the workspace's root; bytes that are not UTF-8 are surrogates
    kind: EntryKind
    identity: Identity
    leads: LinkTarget | None = None  # where a link leads; None for other entries

    @property
    def name(self) -> str:
        return self.relative.name

    @property
    def shown(self) -> str:
        r"""The path from the root as text; bytes that are not UTF-8 as `\xff`. May still hold control characters."""
        return os.fsencode(self.relative).decode("utf-8", "backslashreplace")

    @property
    def located(self) -> WorkspacePath:
        """The path of a file or folder in its workspace."""
        return WorkspacePath(self.workspace, self.relative, self.identity, self.kind is EntryKind.FOLDER)


@contextmanager
def opened(
    workspaces: Workspaces, located: WorkspacePath, *, depth: int = MAX_DEPTH, limit: int = MAX_NAMES
) -> Iterator["Folder"]:
    """Opens a folder and reads its names only, for a caller that needs few of many entries.

    Raises PathMissing or PathRefused when the folder cannot be opened.
    """
    bounds = _Bounds(workspaces, located.workspace, min(depth, MAX_DEPTH), limit)
    with open_folder(located.workspace, located.relative) as file:
        yield Folder(bounds, file, located.relative, 1)


class SkipReason(StrEnum):
    """The reason why a folder was not entered."""

    CLOSED = "closed"  # too deep, or not readable
    GONE = "gone"  # it was replaced during the walk


@dataclass(slots=True)
class _Bounds:
    """Limits that all folders of one walk share. `left` is the number of names that may still be read."""

    workspaces: Workspaces
    workspace: Workspace
    depth: int
    left: int


class Folder:
    """An open folder: its names in order, each with its type from the directory. Its files were not inspected."""

    def __init__(self, bounds: _Bounds, file: int, relative: PurePosixPath, level: int) -> None:
        self._bounds, self._file, self._level = bounds, file, level
        self.relative = relative
        with listed(file) as entries:
            own = (entry for entry in entries if relative.parts or entry.name.casefold() != RESERVED)
            kinds = {entry.name: _listed_kind(entry) for entry in islice(own, bounds.left + 1)}
        self.complete = len(kinds) <= bounds.left
        if not self.complete:
            kinds.popitem()
        bounds.left -= len(kinds)
        self.names: Mapping[str, EntryKind] = {name: kinds[name] for name in sorted(kinds, key=os.fsencode)}

    def look(self, name: str) -> FolderEntry | None:
        """The entry of a name; None if it no longer exists."""
        try:
            status = os.stat(name, dir_fd=self._file, follow_symlinks=False)
        except FileNotFoundError:
            return None
        workspace, leads = self._bounds.workspace, None
        relative, kind = self.relative / name, _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
        if kind is EntryKind.LINK:
            try:
                self._bounds.workspaces.input(str(workspace.root / relative))
                leads = LinkTarget.INSIDE
            except PathMissing:
                leads = LinkTarget.NOWHERE
            except PathRefused:
                leads = LinkTarget.OUTSIDE
        return FolderEntry(workspace, relative, kind, Identity.of(status), leads)

    @contextmanager
    def enter(self, name: str) -> Iterator["Folder | SkipReason"]:
        """An inner folder with its names, or the reason why it was skipped."""
        if self._level >= self._bounds.depth:
            yield SkipReason.CLOSED
            return
        with ExitStack() as stack:
            inner: Folder | SkipReason
            try:
                file = stack.enter_context(opened_folder(self._file, name))
                inner = Folder(self._bounds, file, self.relative / name, self._level + 1)
            except PermissionError:
                inner = SkipReason.CLOSED
            except (FileNotFoundError, NotADirectoryError):
                inner = SkipReason.GONE
            yield inner


def _listed_kind(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return EntryKind.LINK
    if entry.is_dir(follow_symlinks=False):
        return EntryKind.FOLDER
    return EntryKind.FILE if entry.is_file(follow_symlinks=False) else EntryKind.OTHER
