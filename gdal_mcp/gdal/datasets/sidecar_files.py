"""The files that belong to a dataset beside its main one: those that go with it, and those read with it.

A dataset that is replaced takes its companions with it: a stale `.aux.xml`, `.ovr` or world file would give the
new one wrong statistics, pixels or position, and SQLite replays a stale `-wal` or `-journal` into whatever
database stands beside it, which corrupts it.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from gdal_mcp.gdal.datasets.sidecars import Names, read_beside
from sandbox.errors import PathRefused
from sandbox.outputs.dirops import DirEntry
from sandbox.workspace import Identity, Located, Workspace, open_folder

# in all folders that a call has listed: some two seconds, and 100 MB while it is drafted
MAX_NAMES: Final = 500_000


class TooManyNames(PathRefused):
    """The folders of a call hold more names than are looked through for it."""


@dataclass(slots=True)
class Listings:
    """The folders of one call, each listed once however many files of it are named. Not for several threads.

    Raises TooManyNames for more than `left` names in all.
    """

    left: int = MAX_NAMES  # that may still be listed
    _folders: dict[tuple[Path, PurePosixPath], Names] = field(default_factory=dict)

    def companions(self, located: Located) -> tuple[Located, ...]:
        """The existing files that belong to an existing dataset file, sorted; none for a folder or a new place.

        Raises PathRefused when one of them is a link or a device: it can neither go with the dataset nor stay.
        """
        if located.identity is None or located.is_folder:
            return ()
        family = self._names(located).family(located.name)
        with open_folder(located.workspace, located.relative.parent) as folder:
            found = [(name, DirEntry(folder, name).status()) for name in family]
        return tuple(_companion(located, name, status) for name, status in found if _counts(status))

    def owner(self, located: Located) -> Located | None:
        """The dataset in the same folder that a file belongs to, if it is a file itself."""
        name = None if located.is_folder else self._names(located).owner(located.name)
        if name is None:
            return None
        with open_folder(located.workspace, located.relative.parent) as folder:
            status = DirEntry(folder, name).status()
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return Located(located.workspace, located.relative.parent / name, Identity.of(status))

    def _names(self, beside: Located) -> Names:
        key = (beside.workspace.root, beside.relative.parent)
        if key not in self._folders:
            try:
                names = _listed(beside.workspace, beside.relative.parent, self.left)
            except TooManyNames:
                self.left = 0  # a second refusal costs nothing
                raise
            self.left -= len(names)
            self._folders[key] = Names(names)
        return self._folders[key]


def companions(located: Located) -> tuple[Located, ...]:
    """See `Listings.companions`; for a single question."""
    return Listings().companions(located)


def read_with(mains: Iterable[Located]) -> tuple[Located, ...]:
    """The existing regular files beside dataset files that their formats read with them. A link is none of them."""
    folders: dict[tuple[Workspace, PurePosixPath], list[str]] = {}
    for one in mains:
        if one.identity is not None and not one.is_folder:
            folders.setdefault((one.workspace, one.relative.parent), []).append(one.name)
    left, read = MAX_NAMES, list[Located]()
    for (space, parent), names in folders.items():
        listed = _listed(space, parent, left)
        left -= len(listed)
        read += _regular(space, parent, read_beside(names, sorted(listed)))
    return tuple(read)


def _regular(space: Workspace, parent: PurePosixPath, names: list[str]) -> list[Located]:
    with open_folder(space, parent) as folder:
        found = [(name, DirEntry(folder, name).status()) for name in names]
    return [
        Located(space, parent / name, Identity.of(status))
        for name, status in found
        if status is not None and stat.S_ISREG(status.st_mode)
    ]


def _listed(space: Workspace, parent: PurePosixPath, most: int) -> list[str]:
    names: list[str] = []
    with open_folder(space, parent) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if len(names) == most:
                raise TooManyNames(
                    f"the folders of this call hold more than {MAX_NAMES:,} names. "
                    "Move its files to folders of their own, or name fewer."
                )
            names.append(entry.name)
    return names


def _counts(status: os.stat_result | None) -> bool:
    return status is not None and not stat.S_ISDIR(status.st_mode)


def _companion(located: Located, name: str, status: os.stat_result | None) -> Located:
    if status is None or not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{name!r} beside {located.name!r} is not a regular file. Move it away first.")
    return Located(located.workspace, located.relative.parent / name, Identity.of(status))
