"""Finds the files that belong to one dataset, by their names only.

When a dataset is replaced, its companions are replaced with it: a stale `.aux.xml`, `.ovr` or world file would give
the new dataset wrong statistics, pixels or position, and SQLite replays a stale `-wal` or `-journal` into the
database next to it.

The table of companions is short on purpose. A file that could belong to two datasets (`x.prj` to `x.shp` and `x.asc`)
belongs to neither: a stale companion is better than one taken from its owner.

Invariant: indexing a folder takes one pass over its names. After that, the cost of a query is limited by the table,
about a hundred endings per stem in upper and lower case, and not by the number or similarity of the names.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.catalogue.endings import add_common_endings
from sandbox.errors import PathRefused
from sandbox.outputs.dirops import DirEntry
from sandbox.workspace import Identity, Workspace, WorkspacePath, open_folder

# names in all folders that a call lists: about two seconds, and 100 MB while the call is drafted
MAX_NAMES: Final = 500_000

_DATA = data_of("gdal_mcp.toolboxes.gdal.datasets", "sidecars.toml")


def _by_main(rows: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {
        main: frozenset(endings.split())
        for mains, endings in rows.items()
        for main in add_common_endings(frozenset(mains.split()))
    }


APPENDED = frozenset(_DATA["appended"].split())  # endings after the whole name
REPLACED = _by_main(_DATA["replaced"])  # endings after the stem, by the extension of the main file
_READ_APPENDED = APPENDED.union(_DATA["read"]["appended"].split())
_READ_WITH_ANY = frozenset(_DATA["read"]["with_any"].split())
_READ = _by_main(_DATA["read"]["with"])
SINGLE_DATASETS: Final[
    Mapping[str, frozenset[str]]
] = {  # how to recognise folders and files that are one dataset
    name: add_common_endings(frozenset(endings.split())) for name, endings in _DATA["whole"].items()
}
_BARE = frozenset({".ers"})  # the pixels of x.ers are in the file x
# every ending that assigns a file to a dataset
_KNOWN = frozenset(REPLACED).union(*REPLACED.values())


class Names:
    """Index of the names in one folder by the datasets that they could belong to."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all = dict.fromkeys(names)
        self._sharing: dict[str, list[str]] = {}
        self._appended: dict[str, list[str]] = {}
        self._groups: dict[str, dict[str, list[str]]] = {}  # stem -> ending -> names; created on demand
        for name in self.all:
            for stem, ending in _splits(name):
                if ending in _KNOWN:
                    self._sharing.setdefault(stem, []).append(name)
                if ending in APPENDED:
                    self._appended.setdefault(stem, []).append(name)

    def family(self, main: str) -> list[str]:
        """The sorted names that belong to `main` and to no other dataset. `main` itself need not exist."""
        stem, kind = _parted(main)
        group = self._by_ending(stem) if kind in REPLACED else {}
        own = shared_endings(main)
        if any(name != main for name in group.get(kind, ())):  # x.tif and x.TIF
            own = frozenset()
        rivals = (REPLACED.get(ending, ()) for ending in group if ending not in own and ending != kind)
        shared = (name for ending in own.difference(*rivals) for name in group.get(ending, ()))
        return sorted({*self._appended.get(main, ()), *shared})

    @cached_property
    def owners(self) -> dict[str, str]:
        """Maps each companion to the main file of its dataset."""
        owners: dict[str, str] = {}
        shared = (group for group in self._sharing.values() if len(group) > 1)
        mains = {name for group in shared for name in group if _parted(name)[1] in REPLACED}
        mains |= self._appended.keys()
        for main in self.all:
            if main in mains:
                for name in self.family(main):
                    owners[name] = main
        return {companion: _first(main, owners) for companion, main in owners.items()}

    def _by_ending(self, stem: str) -> dict[str, list[str]]:
        if stem not in self._groups:
            group = self._groups[stem] = dict[str, list[str]]()
            for name in self._sharing.get(stem, ()):
                group.setdefault(name[len(stem) :].lower(), []).append(name)
        return self._groups[stem]


def read_beside(mains: Collection[str], names: Iterable[str]) -> list[str]:
    """The names in a folder that formats read together with one of the main files, in the given order."""
    appended = frozenset(mains)
    # stem and ending -> the main files that such a file is read with
    beside: dict[tuple[str, str], set[str]] = {}
    for main in mains:
        stem, kind = _parted(main)
        world = {f"{kind}w", f"{kind[:2]}{kind[-1:]}w"}  # world files: x.tifw or x.tfw for x.tif
        bare = {""} if kind in _BARE else set[str]()
        own = REPLACED.get(kind, frozenset()) | _READ.get(kind, frozenset())
        for ending in _READ_WITH_ANY | own | world | bare:
            beside.setdefault((stem, ending), set()).add(main)

    def is_read(name: str) -> bool:
        for stem, ending in ((name, ""), *_splits(name)):
            others = beside.get((stem, ending), set[str]()) - {name}
            if others or (ending in _READ_APPENDED and stem in appended):
                return True
        return False

    return list(filter(is_read, names))


def shared_endings(name: str) -> frozenset[str]:
    """The endings that companions of a main file have instead of its extension."""
    return REPLACED.get(_parted(name)[1], frozenset())


def could_belong(name: str) -> Iterator[tuple[str, str | None]]:
    """The main files that a name could belong to, ignoring other claims: a name, or a stem with an ending."""
    for stem, ending in _splits(name):
        if ending in APPENDED:
            yield stem, None
        if ending in _KNOWN:
            yield stem, ending


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """Every split of a name into stem and lower-case ending that the tables can contain.

    Splits are at the last three dots, the last dash and the last underscore.
    """
    at = len(name)
    for _ in range(3):
        if (at := name.rfind(".", 0, at)) <= 0:
            break
        yield name[:at], name[at:].lower()
    for mark in "-_":
        if (at := name.rfind(mark)) > 0:
            yield name[:at], name[at:].lower()


def _first(main: str, owners: dict[str, str]) -> str:
    """The main file of the dataset if a companion has companions: `x.tif` for `x.tif.ovr.aux.xml`."""
    return _first(owners[main], owners) if main in owners else main


def _parted(name: str) -> tuple[str, str]:
    """Stem and lower-case ending. A name whose last dot is its first or last character has no ending."""
    dot = name.rfind(".")
    return (name[:dot], name[dot:].lower()) if 0 < dot < len(name) - 1 else (name, "")


# --- the files themselves


@dataclass(slots=True)
class Listings:
    """The folder listings of one call; each folder is listed once. Not thread-safe.

    Methods raise PathRefused for more than `left` names in total.
    """

    left: int = MAX_NAMES  # number of names that may still be listed
    _folders: dict[tuple[Path, PurePosixPath], Names] = field(default_factory=dict)

    def companions(self, located: WorkspacePath) -> tuple[WorkspacePath, ...]:
        """The sorted existing companions of an existing dataset file; empty for a folder or a new path.

        Raises PathRefused if one of them is a link or a device, which can neither go with the dataset nor stay.
        """
        if located.identity is None or located.is_folder:
            return ()
        family, parent = self._names(located).family(located.name), located.relative.parent
        existing = []
        for name, status in _statuses(located.workspace, parent, family):
            if stat.S_ISREG(status.st_mode):
                existing.append(WorkspacePath(located.workspace, parent / name, Identity.of(status)))
            elif not stat.S_ISDIR(status.st_mode):
                why = f"{name!r} beside {located.name!r} is not a regular file. Move it away first."
                raise PathRefused(why)
        return tuple(existing)

    def owner(self, located: WorkspacePath) -> WorkspacePath | None:
        """The main file of the dataset that a file belongs to, in the same folder; None if there is none."""
        name = None if located.is_folder else self._names(located).owners.get(located.name)
        there = regular_files(located.workspace, located.relative.parent, [name] if name else [])
        return there[0] if there else None

    def names(self, space: Workspace, folder: PurePosixPath) -> list[str]:
        """The names in a folder. Raises PathRefused."""
        listed = []
        with open_folder(space, folder) as opened, os.scandir(opened) as entries:
            for entry in entries:
                if not self.left:  # further calls fail without listing anything
                    raise PathRefused(
                        f"the folders of this call hold more than {MAX_NAMES:,} names. "
                        "Move its files to folders of their own, or name fewer."
                    )
                self.left -= 1
                listed.append(entry.name)
        return listed

    def _names(self, beside: WorkspacePath) -> Names:
        key = (beside.workspace.root, beside.relative.parent)
        if key not in self._folders:
            self._folders[key] = Names(self.names(beside.workspace, beside.relative.parent))
        return self._folders[key]


def read_with(mains: Iterable[WorkspacePath]) -> tuple[WorkspacePath, ...]:
    """The existing regular files that formats read together with the dataset files; links are left out."""
    folders: dict[tuple[Workspace, PurePosixPath], list[str]] = {}
    for main in mains:
        if main.identity is not None and not main.is_folder:
            folders.setdefault((main.workspace, main.relative.parent), []).append(main.name)
    listings, read = Listings(), list[WorkspacePath]()
    for place, names in folders.items():
        read += regular_files(*place, read_beside(names, sorted(listings.names(*place))))
    return tuple(read)


def regular_files(space: Workspace, folder: PurePosixPath, names: Iterable[str]) -> list[WorkspacePath]:
    """The given names that are regular files in the folder; links are left out."""
    statuses = _statuses(space, folder, names)
    regular = [(name, status) for name, status in statuses if stat.S_ISREG(status.st_mode)]
    return [WorkspacePath(space, folder / name, Identity.of(status)) for name, status in regular]


def _statuses(
    space: Workspace, folder: PurePosixPath, names: Iterable[str]
) -> list[tuple[str, os.stat_result]]:
    with open_folder(space, folder) as opened:
        statuses = [(name, DirEntry(opened, name).status()) for name in names]
    return [(name, status) for name, status in statuses if status is not None]


def belongs(name: str, target: str) -> int:
    """Rank of a file name for an output; 0 if the file does not belong to it.

    3 is the output itself, 2 a companion such as `dem.tif.aux.xml`, 1 a file such as `dem.hdr` or the stem itself,
    because the pixels of `x.ers` are in `x`.
    """
    stem = target.rsplit(".", 1)[0]
    if name == target:
        return 3
    if name.startswith(f"{target}."):
        return 2
    return int(name == stem or name.startswith(f"{stem}."))
