"""Scenarios, and work on a workspace that ends at any of its steps.

This module is sent to a small process (`crash_child.py`), so it imports nothing of pytest.
"""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from staging_kit import CALL, Trail, Tree, area_at, rearrange

from sandbox.outputs.dirops import DirOps
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.undo import Retention

KILLED = 9
SHAPEFILE = ("roads.shp", "roads.shx", "roads.dbf")


@dataclass(frozen=True)
class Scenario:
    """A workspace, an operation in it, and the expected workspace afterwards."""

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
        "a.shp": b"old", "a.sbn": b"stale", "cube.zarr/0": b"old", "keep.tif": b"somebody else's",
        "m.tif": b"m", "n.tif": b"old", "o.tif": b"o",
    },
    staged={"a.shp": b"new", "b.tif": b"new", "cube.zarr/1": b"new"},
    after={
        "a.shp": b"new", "b.tif": b"new", "cube.zarr/1": b"new", "keep.tif": b"somebody else's",
        "n.tif": b"m", "p.tif": b"o",
    },
    moves={"m.tif": "n.tif", "o.tif": "p.tif"},
)  # fmt: skip
NOTHING_REPLACED = Scenario(
    before={
        "gone.gdb/0": b"0", "keep.tif": b"somebody else's", "m.tif": b"m", "old.zarr/0": b"0",
        "stale.sbn": b"1",
    },
    staged={"b.tif": b"new", "cube.zarr/1": b"new"},
    after={
        "b.tif": b"new", "cube.zarr/1": b"new", "keep.tif": b"somebody else's", "p.tif": b"m",
        "q.zarr/0": b"0",
    },
    moves={"m.tif": "p.tif", "old.zarr": "q.zarr"},
    removes=("gone.gdb", "stale.sbn"),
)  # fmt: skip


def undo(area: StagingArea) -> None:
    area.undo(CALL)


def recover(area: StagingArea) -> None:
    area.recover()


def prune(area: StagingArea) -> None:
    StagingArea(area.workspace, Retention(calls=1), area.ops).prune()


def die(_point: str) -> None:
    os._exit(KILLED)


def fail(_point: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Work(Protocol):
    """An operation in a workspace."""

    def __call__(self, area: StagingArea) -> object: ...


@dataclass(frozen=True)
class Dying:
    """Work whose process ends at one of its checkpoints."""

    work: Work
    root: Path
    number: int
    native: bool

    def __call__(self) -> None:
        self.work(area_at(self.root, DirOps(Trail(die, self.number), native=self.native)))


@dataclass(frozen=True)
class FailingThenDying(Dying):
    """Work in which a step fails, and whose process ends some checkpoints later."""

    later: int

    def __call__(self) -> None:
        calls = Trail()

        def checkpoint(where: str) -> None:
            calls(where)
            if len(calls.points) - 1 == self.number:
                fail(where)
            if len(calls.points) - 1 == self.number + self.later:
                die(where)

        self.work(area_at(self.root, DirOps(checkpoint, native=self.native)))
