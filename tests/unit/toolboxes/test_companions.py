"""A dataset's companions are found by name, and only its own."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gdal_mcp.toolboxes.gdal.datasets.sidecars import APPENDED, REPLACED, Listings
from sandbox.errors import PathRefused
from tests.unit.sandbox.staging_kit import CALL, area_at, place, publish, tree, write


def companion_names(root: Path, name: str) -> set[str]:
    return {companion.name for companion in Listings().companions(place(area_at(root), name))}


@pytest.mark.parametrize("ending", sorted(APPENDED))
def test_suffix_on_the_whole_name_marks_companions(tmp_path, ending):
    names = ["x.tif", *(f"{name}{ending}" for name in ("x.tif", "y.tif", "x", "xx.tif"))]
    write(tmp_path, dict.fromkeys(names, b""))
    assert companion_names(tmp_path, "x.tif") == {f"x.tif{ending}"}


@pytest.mark.parametrize("main", sorted(REPLACED))
def test_same_stem_companions_match_the_table_case_insensitively(tmp_path, main):
    endings = sorted(REPLACED[main])
    names = {f"x{suffix}" for suffix in (*endings[::2], *(ending.upper() for ending in endings[1::2]))}
    write(tmp_path, dict.fromkeys([f"x{main}", *names, "x.unrelated", "xy.prj", "X.prj", "y.shx"], b""))
    assert companion_names(tmp_path, f"x{main}") == names


@pytest.mark.parametrize(
    ("names", "main", "expected"),
    [
        (["x.shp", "x.dbf", "x.prj", "x.asc"], "x.asc", set()),
        (["x.bt", "x.prj"], "x.bt", {"x.prj"}),
        (["x.shp", "x.dbf", "x.prj", "x.asc"], "x.shp", {"x.dbf"}),
        (["x.shp", "x.dbf", "x.cpg", "x.shx"], "x.dbf", set()), (["x.dbf", "x.cpg"], "x.dbf", {"x.cpg"}),
        (["x.tif", "x.jpg", "x.wld", "x.tfw"], "x.tif", {"x.tfw"}),
        (["x.tif", "x.shp", "x.dbf", "x.shx"], "x.tif", set()),
        (["x.tab", "x.dat", "x.tif", "x.map"], "x.tif", set()),
        (["x.tif", "x.tif.xml", "x.png", "x.txt", "x"], "x.tif", set()), (["x", "x.prj"], "x", set()),
        (["x.tif", "x.TIF", "x.tfw", "x.tif.ovr"], "x.tif", {"x.tif.ovr"}),
    ],
)  # fmt: skip
def test_possible_companion_of_another_dataset_stays(tmp_path, names, main, expected):
    write(tmp_path, dict.fromkeys(names, b""))
    assert companion_names(tmp_path, main) == expected


def test_a_new_place_and_a_folder_have_none(tmp_path):
    write(tmp_path, {"x.tif.ovr": b"", "y.zarr/0": b"", "y.zarr.aux.xml": b""})
    assert companion_names(tmp_path, "x.tif") == set()
    assert companion_names(tmp_path, "y.zarr") == set()


def test_companion_link_is_not_skipped(tmp_path):
    write(tmp_path, {"x.gpkg": b"", "log": b""})
    (tmp_path / "x.gpkg-wal").symlink_to("log")
    with pytest.raises(PathRefused):
        companion_names(tmp_path, "x.gpkg")


def test_stale_log_does_not_hide_a_new_database(tmp_path):
    root, scratch = tmp_path / "workspace", tmp_path / "scratch"
    for folder in (root, scratch):
        folder.mkdir()
    with sqlite3.connect(scratch / "old.gpkg") as old:
        old.execute("pragma journal_mode = wal")
        old.execute("create table old (x)")
        old.commit()
        for ending in ("", "-wal"):  # as left by a process that dies with the database open
            shutil.copy(scratch / f"old.gpkg{ending}", root / f"x.gpkg{ending}")
    old.close()
    with sqlite3.connect(scratch / "new.gpkg") as new:
        new.execute("create table new (y)")
    new.close()

    shutil.copy(scratch / "new.gpkg", scratch / "naive.gpkg")
    shutil.copy(root / "x.gpkg-wal", scratch / "naive.gpkg-wal")
    assert tables(scratch / "naive.gpkg") != ["new"]

    area = area_at(root)
    publish(area, {"x.gpkg": (scratch / "new.gpkg").read_bytes()})
    assert [*tree(root)] == ["x.gpkg"]
    assert tables(root / "x.gpkg") == ["new"]
    area.undo(CALL)
    assert tables(root / "x.gpkg") == ["old"]


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as opened:
        return [name for (name,) in opened.execute("select name from sqlite_master")]
