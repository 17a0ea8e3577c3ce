"""Scenarios, and the means to kill a process or fail a call at any step of them."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from staging_kit import Trail, Tree, area_at, leftovers, rearrange, tree

from sandbox.moves import POINTS, Moves
from sandbox.staging import StagingArea
from sandbox.undo import Finding

KILLED = 9
SHAPEFILE = ("roads.shp", "roads.shx", "roads.dbf")


@dataclass(frozen=True)
class Scenario:
    """A workspace, something done in it, and the workspace that should come of it."""

    before: Tree
    staged: Tree
    after: Tree
    moves: Mapping[str, str] = field(default_factory=dict)
    removes: tuple[str, ...] = ()

    def run(self, area: StagingArea) -> None:
        rearrange(area, self.moves, self.removes, self.staged)


def replaces(old: Tree, new: Tree) -> Scenario:
    beside = {"keep.tif": b"somebody else's"}
    return Scenario({**beside, **old}, new, {**beside, **new})


def rearranges(before: Tree, after: Tree, moves: Mapping[str, str], *removes: str) -> Scenario:
    beside = {"keep.tif": b"somebody else's"}
    return Scenario({**beside, **before}, {}, {**beside, **after}, moves, removes)


PUBLICATIONS = {
    "a new file": replaces({}, {"dem.tif": b"new"}),
    "a new folder": replaces({}, {"cube.zarr/zarr.json": b"new", "cube.zarr/a/0": b"0"}),
    "a replaced file": replaces({"dem.tif": b"old"}, {"dem.tif": b"new and longer"}),
    "a database with a stale log": replaces({"a.gpkg": b"old", "a.gpkg-wal": b"log"}, {"a.gpkg": b"new"}),
    "a shapefile over one with an index": replaces(
        {**dict.fromkeys(SHAPEFILE, b"old"), "roads.sbn": b"stale"}, dict.fromkeys(SHAPEFILE, b"new")
    ),
    "a folder over a folder": replaces(
        {"cube.zarr/zarr.json": b"old", "cube.zarr/a/0": b"0", "cube.zarr/b/0": b"0"},
        {"cube.zarr/zarr.json": b"new", "cube.zarr/c/0": b"1"},
    ),
    "a removed file and a removed folder": rearranges(
        {"a.tif": b"a", "b.gdb/0": b"0", "b.gdb/c/1": b"1"}, {}, {}, "a.tif", "b.gdb"
    ),
    "a renamed file": rearranges(
        {"a.tif": b"a", "c/d": b""}, {"c/b.tif": b"a", "c/d": b""}, {"a.tif": "c/b.tif"}
    ),
    "a renamed folder": rearranges({"a.zarr/0": b"0"}, {"b.zarr/0": b"0"}, {"a.zarr": "b.zarr"}),
    "a shapefile renamed over one with an index": rearranges(
        {"a.shp": b"new", "a.dbf": b"more", "b.shp": b"old", "b.dbf": b"old", "b.sbn": b"stale"},
        {"b.shp": b"new", "b.dbf": b"more"},
        {"a.shp": "b.shp", "a.dbf": "b.dbf"},
        "b.sbn",
    ),
    "a folder renamed over a folder": rearranges(
        {"a.zarr/0": b"new", "b.zarr/0": b"old", "b.zarr/1": b"old"},
        {"b.zarr/0": b"new"},
        {"a.zarr": "b.zarr"},
    ),
}
ALL_AT_ONCE = Scenario(
    before={
        "a.shp": b"old",
        "a.sbn": b"stale",
        "cube.zarr/0": b"old",
        "keep.tif": b"somebody else's",
        "m.tif": b"m",
        "n.tif": b"old",
        "o.tif": b"o",
    },
    staged={"a.shp": b"new", "b.tif": b"new", "cube.zarr/1": b"new"},
    after={
        "a.shp": b"new",
        "b.tif": b"new",
        "cube.zarr/1": b"new",
        "keep.tif": b"somebody else's",
        "n.tif": b"m",
        "p.tif": b"o",
    },
    moves={"m.tif": "n.tif", "o.tif": "p.tif"},
)
FOLDER_OVER_FOLDER = PUBLICATIONS["a folder renamed over a folder"]
NATIVE = pytest.mark.parametrize("native", [True, False], ids=["renameat2", "links"])
EVERY = pytest.mark.parametrize(
    ("scenario", "native"),
    [
        *((scenario, True) for scenario in PUBLICATIONS.values()),
        (ALL_AT_ONCE, False),
        (FOLDER_OVER_FOLDER, False),
    ],
    ids=[*PUBLICATIONS, "all at once with links", "a folder renamed over a folder with links"],
)


def die(_point: str) -> None:
    os._exit(KILLED)


def fail(_point: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a child process that does some work; 0 when it came to the end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent must see that something else went wrong
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def each_step(
    tmp_path: Path, setup: Callable[[Path], None], work: Callable[[StagingArea], object], *, native: bool
) -> Iterator[tuple[int, str, Path]]:
    """For every checkpoint that some work passes: its number, its name and a fresh workspace."""
    trail = Trail()
    first = tmp_path / "first"
    first.mkdir()
    setup(first)
    work(area_at(first, Moves(trail, native=native)))
    assert set(trail.points) <= set(POINTS)
    for number, point in enumerate(trail.points):
        root = tmp_path / f"at-{number}"
        root.mkdir()
        setup(root)
        yield number, point, root


def killed(root: Path, number: int, work: Callable[[StagingArea], object], *, native: bool) -> None:
    area = area_at(root, Moves(Trail(die, number), native=native))
    assert in_child(lambda: work(area)) == KILLED


def settled(area: StagingArea) -> dict[str, bytes]:
    """The workspace after recovery, which must be complete in one go, need no person and leave nothing behind."""
    findings = {one.finding for one in area.recover()}
    assert not findings & {Finding.CONFLICT, Finding.DAMAGED}
    found = tree(area.workspace.root)
    assert leftovers(area.workspace.root) == []
    assert area.recover() == ()
    assert tree(area.workspace.root) == found
    return found


def first_point(
    tmp_path: Path,
    point: str,
    work: Callable[[StagingArea], object],
    setup: Callable[[Path], None],
    *,
    native: bool,
) -> int:
    """The number of the first checkpoint of a name, counted in a workspace of its own."""
    setup(tmp_path / "twin")
    trail = Trail()
    work(area_at(tmp_path / "twin", Moves(trail, native=native)))
    return next(number for number, passed in enumerate(trail.points) if passed.startswith(point))
