"""What is in a folder of a workspace, as far as it may be seen: a bounded walk that follows nothing.

Invariants:
* every step is one component on an open folder descriptor; no link is entered, whatever it leads to;
* `.gdal-mcp` is never reported;
* the order is that of the names' bytes in each folder, a folder before what it holds, so two walks over the same
  files say the same;
* whatever is left out is told: by `Found.closed`, or by `TreeTooLarge`.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath

from sandbox.errors import PathMissing, PathRefused
from sandbox.files.filetree import MAX_DEPTH, listed, opened_folder
from sandbox.workspace import RESERVED, Identity, Located, Workspace, Workspaces, open_folder

MAX_FOUND = 200_000  # names of one walk; about a second, and far above a dataset that one wants to see listed


class TreeTooLarge(PathRefused):
    """A folder holds more names than a walk may look at; what came before it stands."""


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a device, pipe or socket


class Leads(StrEnum):
    """Where a link leads, all links on the way followed as `Workspaces` does. It is never opened to find out."""

    INSIDE = "inside"  # to something in a workspace
    OUTSIDE = "outside"  # out of every workspace, or to what may not be opened
    NOWHERE = "nowhere"  # to a place in a workspace where nothing is


@dataclass(frozen=True, slots=True)
class Found:
    """One name met on a walk, with what `lstat` said of it."""

    workspace: Workspace
    relative: PurePosixPath  # from the workspace's root; bytes that are no UTF-8 are surrogates
    kind: Kind
    identity: Identity
    closed: bool = False  # a folder that was not entered: too deep, or not readable
    leads: Leads | None = None  # of a link
    target: Located | None = None  # of a link that leads inside

    @property
    def name(self) -> str:
        return self.relative.name

    @property
    def size(self) -> int:
        """Bytes; what `lstat` says, so of a folder the size of its list of names."""
        return self.identity.size

    @property
    def mtime_ns(self) -> int:
        return self.identity.mtime_ns

    @property
    def raw(self) -> bytes:
        """The path from the root as the file system has it."""
        return os.fsencode(self.relative)

    @property
    def shown(self) -> str:
        r"""The path from the root as text; bytes that are no UTF-8 as `\xff`. May still hold control characters."""
        return self.raw.decode("utf-8", "backslashreplace")

    @property
    def located(self) -> Located:
        """The place of a file or folder."""
        return Located(self.workspace, self.relative, self.identity, self.kind is Kind.FOLDER)


def walk(
    workspaces: Workspaces, located: Located, *, depth: int = MAX_DEPTH, limit: int = MAX_FOUND
) -> Iterator[Found]:
    """All that is below a folder, `depth` levels of folders down (1: what is directly in it).

    Raises PathMissing or PathRefused when the folder cannot be opened, and TreeTooLarge after `limit` names.
    What vanishes meanwhile is left out.
    """
    yield from _Walk(workspaces, located.workspace, min(depth, MAX_DEPTH), limit).folder(located.relative)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a folder holds: as many names as the walk may still look at, in order."""

    some: list[str]
    all: bool


@dataclass(slots=True)
class _Walk:
    """What a walk carries along. `left` is the number of names it may still look at."""

    workspaces: Workspaces
    workspace: Workspace
    depth: int
    left: int

    def folder(self, relative: PurePosixPath) -> Iterator[Found]:
        with open_folder(self.workspace, relative) as opened:
            names = self._names(opened, at_root=not relative.parts)
            yield from self._below(opened, names, relative, 1)

    def _below(self, folder: int, names: "_Names", relative: PurePosixPath, level: int) -> Iterator[Found]:
        for name in names.some:
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                yield from self._entry(folder, relative / name, status, level)
        if not names.all:
            raise TreeTooLarge("the folder holds more names than are looked at at once. Name a folder in it.")

    def _names(self, folder: int, *, at_root: bool = False) -> "_Names":
        with listed(folder) as found:
            own = (one.name for one in found if not (at_root and one.name.casefold() == RESERVED))
            names = list(islice(own, self.left + 1))
        some = sorted(names[: self.left], key=os.fsencode)
        self.left -= len(some)
        return _Names(some, all=len(names) == len(some))

    def _entry(
        self, folder: int, relative: PurePosixPath, status: os.stat_result, level: int
    ) -> Iterator[Found]:
        kind = _kind(status)
        identity = Identity.of(status)
        if kind is Kind.LINK:
            yield self._link(relative, identity)
        elif kind is not Kind.FOLDER:
            yield Found(self.workspace, relative, kind, identity)
        elif level >= self.depth:
            yield Found(self.workspace, relative, kind, identity, closed=True)
        else:
            yield from self._enter(folder, relative, identity, level)

    def _enter(self, folder: int, relative: PurePosixPath, identity: Identity, level: int) -> Iterator[Found]:
        found = Found(self.workspace, relative, Kind.FOLDER, identity)
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(opened_folder(folder, relative.name))
                names = self._names(opened)
            except PermissionError:
                yield replace(found, closed=True)
                return
            except (FileNotFoundError, NotADirectoryError):
                return  # became something else as it was looked at
            yield found
            yield from self._below(opened, names, relative, level + 1)

    def _link(self, relative: PurePosixPath, identity: Identity) -> Found:
        try:
            target = self.workspaces.input(str(self.workspace.root / relative))
        except PathMissing:
            return Found(self.workspace, relative, Kind.LINK, identity, leads=Leads.NOWHERE)
        except PathRefused:
            return Found(self.workspace, relative, Kind.LINK, identity, leads=Leads.OUTSIDE)
        return Found(self.workspace, relative, Kind.LINK, identity, leads=Leads.INSIDE, target=target)


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISLNK(status.st_mode):
        return Kind.LINK
    if stat.S_ISDIR(status.st_mode):
        return Kind.FOLDER
    return Kind.FILE if stat.S_ISREG(status.st_mode) else Kind.OTHER
