"""Checks a folder that GDAL walks by itself: each entry must be a file or a folder inside the workspaces."""

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.filetree import Entry, walk
from sandbox.workspace import RESERVED, WorkspacePath, Workspaces, open_folder

# entries; a walk over them takes some seconds. Larger trees must be indexed folder by folder.
TREE_ENTRIES: Final = 100_000
TREE_LINKS: Final = 8  # nested links to folders


@dataclass(slots=True)
class Tree:
    """Walks a folder like GDAL, which follows every link. The numbers of entries and of nested links are limited."""

    workspaces: Workspaces
    left: int = field(default_factory=lambda: TREE_ENTRIES)  # remaining number of entries

    def check(self, top: WorkspacePath, holders: tuple[Path, ...]) -> None:
        """Raises PathRefused with the name of the entry. `holders` are the folders of the links that led here."""
        with open_folder(top.workspace, top.relative) as folder:
            try:
                for entry in walk(folder):
                    # the folder of staging and undo, hidden from containers
                    ours = not top.relative.parts and entry.path.partition("/")[0].casefold() == RESERVED
                    if not ours:
                        self._look(top, entry, holders)
            except OSError as error:
                raise PathRefused(f"folder {top.name!r} cannot be read: {error.strerror}.") from error

    def _look(self, top: WorkspacePath, entry: Entry, holders: tuple[Path, ...]) -> None:
        self.left -= 1
        if self.left < 0:
            raise PathRefused(f"the folder holds more than {TREE_ENTRIES} entries. Give a smaller one.")
        if entry.blocked:
            raise PathRefused(f"folder {entry.path!r} is too deep or not readable. Move it away first.")
        mode = entry.status.st_mode
        if stat.S_ISLNK(mode):
            self._follow(top.path / entry.path, holders)
        elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise PathRefused(f"{entry.path!r} is a device, pipe or socket. Move it away first.")

    def _follow(self, link: Path, holders: tuple[Path, ...]) -> None:
        try:
            target = self.workspaces.input(str(link))
        except PathMissing:
            return  # a dangling link
        except PathRefused as error:
            raise PathRefused(f"the link {link.name!r} leads out of the workspaces: {error}") from error
        if not target.is_folder:
            return
        inside = (*holders, link.parent)
        if any(holder.is_relative_to(target.path) for holder in inside):
            raise PathRefused(f"the link {link.name!r} leads in a circle. Take it away first.")
        if len(inside) > TREE_LINKS:
            raise PathRefused(f"{link.name!r} is more than {TREE_LINKS} links deep. Give another folder.")
        self.check(target, inside)
