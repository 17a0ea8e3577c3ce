"""The files that belong to a dataset beside its main one, by name alone: those that go with it, and those read with it.

A dataset that is replaced takes its companions with it: a stale `.aux.xml`, `.ovr` or world file would give the
new one wrong statistics, pixels or position, and SQLite replays a stale `-wal` or `-journal` into whatever
database stands beside it, which corrupts it.

The table of those that go is short on purpose, and a file that would belong to two datasets (`x.prj` of `x.shp` and `x.asc`)
belongs to neither: better a stale companion than one taken from its owner.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import PurePosixPath

from sandbox.errors import PathRefused
from sandbox.files.moves import Place
from sandbox.workspace import Identity, Located, Workspace, open_folder

# after the whole name: x.tif.ovr
APPENDED = (".aux.xml", ".ovr", ".ovr.aux.xml", ".msk", ".msk.ovr", ".hdr", "-wal", "-shm", "-journal")

# after the stem, for each extension of a main file: x.tif has x.tfw. Compared without regard to case.
_SHAPEFILE = ".shx .dbf .prj .cpg .qpj .qix .sbn .sbx .idm .ind .fbn .fbx .ain .aih .ixs .mxs .atx .shp.xml"
_RAW = ".hdr .prj .clr .stx .blw .sta"
_TIFF = ".tfw .tifw .tiffw .wld .rpb .imd _rpc.txt"
_JPEG = ".jgw .jpgw .jpegw .wld"
REPLACED = {
    main: frozenset(names.split())
    for main, names in {
        ".shp": _SHAPEFILE,
        ".dbf": ".cpg",
        ".tab": ".dat .map .id .ind",  # MapInfo
        ".mif": ".mid",
        ".bil": _RAW,  # EHdr and ENVI
        ".bip": _RAW,
        ".bsq": _RAW,
        ".raw": _RAW,
        ".flt": ".hdr .prj",
        ".bin": ".hdr",
        ".dat": ".hdr",
        ".envi": ".hdr",
        ".img": ".hdr .ige .rrd .rde",  # ENVI and Erdas Imagine
        ".asc": ".prj",
        ".csv": ".csvt .prj",
        ".gml": ".gfs .xsd",
        ".mrf": ".idx .ppg .pjg .pjp .til .pzp .ptf .lrc .pzs",  # index, and data by compression
        ".rst": ".rdc .ref .smp",  # Idrisi
        ".sdat": ".sgrd .prj .mgrd",  # SAGA
        ".grd": ".gri",  # R
        ".tif": _TIFF,
        ".tiff": _TIFF,
        ".jpg": _JPEG,
        ".jpeg": _JPEG,
        ".png": ".pgw .pngw .wld",
        ".gif": ".gfw .gifw .wld",
        ".bmp": ".bpw .bmpw .wld",
        ".jp2": ".j2w .jp2w .wld",
        ".webp": ".wpw .webpw .wld",
    }.items()
}

# read with a dataset, though it may be another's: what is too much here shows a file more, what is missing hides one
_READ_APPENDED = (*APPENDED, ".ovr.ovr", ".aux", ".vat.dbf", ".vat.cpg", ".idx", ".rsc")
_READ_WITH_ANY = frozenset(".aux .rrd .hdr .prj .wld .tab .rpb .imd _rpc.txt".split())
_READ = {
    main: frozenset(names.split())
    for main, names in {
        ".dbf": f".shp {_SHAPEFILE}",
        ".shx": f".shp .dbf {_SHAPEFILE}",
        ".lbl": ".img .dat .raw .cub .qub",  # PDS
        ".vct": ".vdc .adc .avl .ref",  # Idrisi
    }.items()
}
_BARE = frozenset({".ers"})  # the pixels of x.ers are in x


def companions(located: Located) -> tuple[Located, ...]:
    """The existing files that belong to an existing dataset file, sorted; none for a folder or a new place.

    Raises PathRefused when one of them is a link or a device: it can neither go with the dataset nor stay.
    """
    if located.identity is None or located.is_folder:
        return ()
    with open_folder(located.workspace, located.relative.parent) as folder:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        found = ((name, Place(folder, name).status()) for name in _family(located.name, names))
        return tuple(_companion(located, name, status) for name, status in found if _counts(status))


def read_with(mains: Iterable[Located]) -> tuple[Located, ...]:
    """The existing regular files beside dataset files that their formats read with them. A link is none of them."""
    folders: dict[tuple[Workspace, PurePosixPath], list[str]] = {}
    for one in mains:
        if one.identity is not None and not one.is_folder:
            folders.setdefault((one.workspace, one.relative.parent), []).append(one.name)
    return tuple(
        found for (space, parent), names in folders.items() for found in _read_in(space, parent, names)
    )


def _read_in(space: Workspace, parent: PurePosixPath, mains: list[str]) -> list[Located]:
    with open_folder(space, parent) as folder:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        beside = dict.fromkeys(name for main in mains for name in _read_names(main, names))
        found = [(name, Place(folder, name).status()) for name in beside]
    return [
        Located(space, parent / name, Identity.of(status))
        for name, status in found
        if status is not None and stat.S_ISREG(status.st_mode)
    ]


def _read_names(main: str, names: list[str]) -> Iterator[str]:
    """Of the sorted names in a folder those that are read with one of them."""
    path = PurePosixPath(main)
    stem, kind = path.stem, path.suffix.lower()
    world = {f"{kind}w", f"{kind[:2]}{kind[-1:]}w"}  # x.tif has x.tifw or x.tfw
    own = world | _READ_WITH_ANY | _stem_endings(main) | _READ.get(kind, frozenset())
    for name in takewhile(lambda name: name.startswith(stem), names[bisect_left(names, stem) :]):
        whole, rest = name.removeprefix(main).lower(), name.removeprefix(stem).lower()
        appended = name.startswith(main) and whole in _READ_APPENDED
        if name != main and (appended or rest in own or (rest == "" and kind in _BARE)):
            yield name


def grouped(names: Collection[str]) -> dict[str, str]:
    """Of the names in one folder, each companion with the main file of the dataset that it belongs to."""
    owners = _appended_owners(frozenset(names))
    sharing: dict[str, list[str]] = {}
    for name in names:
        for stem in _stems(name):
            sharing.setdefault(stem, []).append(name)
    for main in names:
        if _stem_endings(main):
            family = _family(main, sharing[PurePosixPath(main).stem])
            owners |= dict.fromkeys(family, main)
    return {one: _first(main, owners) for one, main in owners.items()}


def _appended_owners(names: Collection[str]) -> dict[str, str]:
    found = ((name, ending) for name in names for ending in APPENDED if name.lower().endswith(ending))
    return {name: main for name, ending in found if (main := name[: -len(ending)]) in names}


def _first(main: str, owners: Mapping[str, str]) -> str:
    """The dataset itself, where a companion has companions: `x.tif` for `x.tif.ovr.aux.xml`."""
    return _first(owners[main], owners) if main in owners else main


def _stems(name: str) -> set[str]:
    """Every stem of a main file that the name could belong to: what comes before one of its dots."""
    parts = name.split(".")
    # no ending of a companion has more than two dots; a name of a hundred would belong to a hundred stems
    stems = {".".join(parts[:count]) for count in range(max(1, len(parts) - 2), len(parts))}
    return {PurePosixPath(name).stem, *stems, *(stem[:-4] for stem in stems if stem.lower().endswith("_rpc"))}


def _counts(status: os.stat_result | None) -> bool:
    return status is not None and not stat.S_ISDIR(status.st_mode)


def _companion(located: Located, name: str, status: os.stat_result | None) -> Located:
    if status is None or not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{name!r} beside {located.name!r} is not a regular file. Move it away first.")
    return Located(located.workspace, located.relative.parent / name, Identity.of(status))


def _family(main: str, names: list[str]) -> list[str]:
    """Of the names in a folder, those that belong to `main` and to no other dataset there."""
    appended = {name for name in names if name.startswith(main) and name[len(main) :].lower() in APPENDED}
    own = _stem_endings(main)
    stem = PurePosixPath(main).stem
    rest = {name: name[len(stem) :].lower() for name in names if name != main and name.startswith(stem)}
    others = [ending for ending in rest.values() if ending not in own]
    claimed = frozenset[str]().union(*(REPLACED.get(ending, ()) for ending in others))
    return sorted(appended | {name for name, ending in rest.items() if ending in own - claimed})


def _stem_endings(main: str) -> frozenset[str]:
    return REPLACED.get(PurePosixPath(main).suffix.lower(), frozenset())
