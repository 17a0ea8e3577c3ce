"""The cost of a draft for the host: each folder is listed once, few files are examined, and all of it is bounded.

A model may send any arguments, and drafts are made before any queue. Operations are counted, because seconds depend
on the machine.
"""

import itertools
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import ImmediateResult
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.datasets.listing import MAX_ROWS, Query, page
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths, Reading, family
from gdal_mcp.toolboxes.gdal.datasets.sidecars import APPENDED, REPLACED, Listings, Names, read_with
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.notation import MAX_DEPTH
from gdal_mcp.tools.pipelines import MAX_ALL_STEPS
from sandbox.browse import opened
from sandbox.errors import PathRefused
from sandbox.workspace import MAX_STEPS, Workspace, Workspaces
from tests.boxes import preflight, surface
from tests.quick import quick
from tests.unit.sandbox.staging_kit import write

pytestmark = pytest.mark.claim("resources.drafting-bounded")

MANY = 300
COUNTED = ("scandir", "stat", "open", "readlink")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of operating system calls so far."""
    counts: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            counts[name] += 1
            return real(*args, **named)

        return call

    for name in COUNTED:
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    return counts


def desk_of(root: Path, listings: Listings | None = None) -> DraftContext:
    settings = Settings(workspaces=[root], state_dir=root.parent / "state")
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    paths = Paths(workspaces, "outputs", "0123456789abcdef", 2, listings=listings or Listings())
    return DraftContext(paths, settings, surface(settings), preflight(settings), packaged())


def draft(root: Path, tool: str, **arguments: Any) -> Draft | ImmediateResult:
    desk = desk_of(root)
    return desk.surface.callable[tool].draft(arguments, desk)


def writing(root: Path, algorithm: str, **arguments: Any) -> Draft | ImmediateResult:
    return draft(root, "gdal_write", algorithm=algorithm, arguments=arguments)


def tiles(root: Path, count: int = MANY) -> list[str]:
    names = [f"tile_{number:04}.tif" for number in range(count)]
    write(root, dict.fromkeys(names, b""))
    return names


def step(name: str, branches: Any = None, **arguments: Any) -> dict[str, Any]:
    return {"step": name, "arguments": arguments, **({"branches": branches} if branches else {})}


def test_many_inputs_list_their_folder_once(root, counted):
    names = tiles(root)
    counted.clear()
    writing(root, "raster mosaic", input=names, output="new.tif")
    assert counted["scandir"] == 1
    assert counted["open"] < 10 * MANY


def test_deleting_many_datasets_lists_their_folder_once(root, counted):
    names = tiles(root)
    write(root, {"tile_0001.tfw": b""})
    counted.clear()
    draft = writing(root, "dataset delete", filename=names)
    assert isinstance(draft, Draft)
    assert len(draft.files.removes) == MANY + 1
    assert counted["scandir"] == 1


def test_describing_one_of_many_files_lists_nothing(root, counted):
    tiles(root)
    counted.clear()
    draft(root, "info", path="tile_0000.tif")
    assert counted["scandir"] == 0
    assert sum(counted.values()) < 50


def test_mounts_for_many_inputs_need_one_listing(root, counted):
    names = tiles(root)
    write(root, {"tile_0007.tfw": b"", "tile_0007.tif.aux.xml": b"", "other.tfw": b""})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    mains = [workspaces.input(name) for name in names]
    counted.clear()
    assert [file.name for file in read_with(mains)] == ["tile_0007.tfw", "tile_0007.tif.aux.xml"]
    assert counted["scandir"] == 1
    assert counted["stat"] == 2


def test_overfull_folder_is_refused_and_not_read_again(root, counted):
    tiles(root, 9)
    write(root, {"sub/x.tif": b""})
    desk = desk_of(root, Listings(left=9))
    counted.clear()
    for name in ("a.tif", "b.tif"):
        with pytest.raises(ToolError) as caught:
            desk.paths.output(name, inputs=(), overwrite=True)
        assert caught.value.code is Code.PATH_NOT_ALLOWED
    assert desk.paths.listings.left == 0
    with pytest.raises(PathRefused):
        Listings(left=9).companions(desk.paths.input("tile_0000.tif"))
    assert len(Listings(left=10).companions(desk.paths.input("tile_0000.tif"))) == 0


def test_deleted_folder_leaves_room_for_others(root):
    write(root, {"sub/x.tif": b"", "y.tif": b""})
    desk = desk_of(root)
    gone = desk.paths.input("sub/x.tif")
    (root / "sub/x.tif").unlink()
    (root / "sub").rmdir()
    with pytest.raises(PathRefused):
        desk.paths.listings.companions(gone)
    assert desk.paths.listings.companions(desk.paths.input("y.tif")) == ()


def cases(ending: str) -> list[str]:
    """An ending in about sixteen combinations of upper and lower case."""
    every = list(map("".join, itertools.product(*((letter.lower(), letter.upper()) for letter in ending))))
    return every[:: max(1, len(every) // 16)]


ENDINGS = sorted({spelling for ending in (*REPLACED, *APPENDED) for spelling in cases(ending)})


def test_alike_names_are_told_apart_at_once():
    for names in [
        [f"x{number}{ending}" for number in range(60) for ending in ENDINGS],
        ["x.tif", "x.shp", "x.TIF", *(f"x.q{number:06}" for number in range(20_000))],
        ["0.a.tif", *(f"{number}{'.a' * 120}" for number in range(10_000))],
        [f"{number}{'.ovr' * times}" for number in range(150) for times in range(60)],
    ]:
        with quick():
            known = Names(names)
            assert not set(known.owners) & {known.owners[name] for name in known.owners}


SOME = (
    ".tif .TIF .tfw .TFW .shp .dbf .cpg .prj .asc .shp.xml _rpc.txt .hdr .img .tif.ovr .tif.aux.xml".split()
)
NAMES = st.tuples(*map(st.sampled_from, (["x", "y"], SOME, ["", "", ".ovr"]))).map("".join)


@settings(max_examples=40)
@given(st.sets(NAMES, min_size=2, max_size=10))
def test_output_never_replaces_companions_of_an_input(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("reading")
    write(root, dict.fromkeys(names, b""))
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    places = {name: workspaces.input(name) for name in sorted(names)}
    for name, located in places.items():
        read = Reading((located,))
        belongs = set(family(located))
        taken = {other for other, place in places.items() if read.takes(place)}
        assert {other for other, place in places.items() if place.path in belongs} <= taken
        assert all(other.startswith(name.partition(".")[0]) for other in taken)


def test_page_examines_only_files_of_its_rows(root, counted):
    for limit in [1, 20]:
        write(root, {f"{name[:-4]}.tfw": b"" for name in tiles(root, 200)})
        workspaces = Workspaces((Workspace.at(root, writable=True),))
        folder, cursor = workspaces.input("."), None
        for _ in range(3):
            counted.clear()
            with opened(workspaces, folder) as top:
                shown = page(top, Query(folder, limit=limit), cursor)
            assert [len(row.companions) for row in shown.rows] == [1] * limit
            assert counted["stat"] <= 2 * (limit + 1)
            assert counted["scandir"] == 1
            cursor = shown.cursor


def test_page_enters_no_folder_after_its_last_row(root, counted):
    write(root, {f"d{number:03}/{name}": b"" for number in range(100) for name in "ab"})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    folder = workspaces.input(".")
    counted.clear()
    with opened(workspaces, folder) as top:
        first = page(top, Query(folder, limit=5))
    assert counted["scandir"] <= 4
    assert [str(row.entry.relative) for row in first.rows] == ["d000", "d000/a", "d000/b", "d001", "d001/a"]
    counted.clear()
    with opened(workspaces, folder) as top:
        last = page(top, Query(folder, limit=MAX_ROWS), first.cursor)
    assert len(last.rows) == 300 - 5
    assert counted["scandir"] <= 101


def test_deep_path_costs_one_step_per_folder(root, counted):
    deep = "/".join("d" * 100)
    (root / deep).mkdir(parents=True)
    write(root, {f"{deep}/x.tif": b""})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    counted.clear()
    assert workspaces.input(f"{deep}/x.tif").name == "x.tif"
    assert counted["open"] < 400


def test_a_path_of_very_many_steps_is_refused(root):
    (root / "x").mkdir()
    (root / "l").symlink_to("x")
    write(root, {"a.tif": b""})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    for way in ["x/../", "l/../", "./x/../"]:
        assert workspaces.input(way * 10 + "a.tif").name == "a.tif"
        with pytest.raises(PathRefused):
            workspaces.input(way * MAX_STEPS + "a.tif")


def nested(depth: int) -> list[dict[str, Any]]:
    inner = [step("write", output=f"out{depth}.tif")]
    return [step("tee", [nested(depth - 1)]), *inner] if depth else inner


def test_branches_are_bounded_in_depth_and_in_all(root, counted):
    write(root, {"in.tif": b""})
    read = step("read", input="in.tif")
    desk = desk_of(root)
    pipeline = desk.surface.callable["pipeline"]
    assert isinstance(pipeline.draft({"steps": [read, *nested(MAX_DEPTH)]}, desk), Draft)
    counted.clear()
    with pytest.raises(ArgumentRefused):
        pipeline.draft({"steps": [read, *nested(MAX_DEPTH + 1)]}, desk)
    wide = [[step("hillshade")] * 40] * 8
    with pytest.raises(ArgumentRefused):
        pipeline.draft({"steps": [read, *[step("tee", wide)] * (MAX_ALL_STEPS // 320 + 1)]}, desk)
    assert counted["stat"] < 10


def test_too_many_values_are_refused_before_examining_any(root, counted):
    write(root, {"a": b""})
    for refused in (
        lambda: writing(root, "raster mosaic", input=["a"] * 1025, output="b.tif"),
        lambda: draft(root, "pipeline", steps=f"mosaic {'a ' * 1025} ! write b.tif"),
    ):
        counted.clear()
        with pytest.raises(ArgumentRefused):
            refused()
        assert counted["stat"] < 20


def test_switches_of_very_many_values_are_refused():
    words = ["a", "b", *[f"--input-nodata={','.join(['1'] * 512)}"] * 2, "--input-nodata=1"]
    with pytest.raises(ArgumentRefused):
        bind(packaged().algorithms["raster reproject"], {}, Context(packaged()), words)
