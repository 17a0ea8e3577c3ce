"""A page of a workspace has each dataset once, and the pages together have all of them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import ToolError
from gdal_mcp.toolboxes.gdal.datasets.listing import ListingPage, Query, as_json, page
from gdal_mcp.toolboxes.gdal.datasets.sidecars import Listings, Names
from sandbox.browse import opened
from sandbox.workspace import Workspace, Workspaces
from tests.unit.sandbox.staging_kit import write

DATA = {
    "a.tif": b"12345", "a.tif.aux.xml": b"123", "a.tfw": b"1", "b/roads.shp": b"12", "b/roads.shx": b"1",
    "b/roads.dbf": b"1", "b/roads.prj": b"", "b/readme.txt": b"", "c.zarr/zarr.json": b"{}",
    "c.zarr/x/0": b"0", "marked/.zgroup": b"{}", "marked/y/.zarray": b"{}", "d.gdb/a00000001.gdbtable": b"",
}  # fmt: skip


def list_page(
    root: Path, cursor: str | None = None, at: str = "", limit: int = 100, pattern: str = "*"
) -> ListingPage:
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    folder = workspaces.input(str(root / at))
    with opened(workspaces, folder) as top:
        return page(top, Query(folder, pattern, limit), cursor)


def names(shown: ListingPage) -> list[str]:
    return [str(row.entry.relative) for row in shown.rows]


def test_dataset_is_one_row_with_all_its_files(root):
    write(root, DATA)
    rows = {str(row.entry.relative): row for row in list_page(root).rows}
    assert list(rows) == ["a.tif", "b", "b/readme.txt", "b/roads.shp", "c.zarr", "d.gdb", "marked"]
    assert (rows["a.tif"].companions, rows["a.tif"].bytes) == (("a.tfw", "a.tif.aux.xml"), 9)
    roads = rows["b/roads.shp"]
    assert (roads.companions, roads.bytes) == (("roads.dbf", "roads.prj", "roads.shx"), 4)


def test_contents_of_a_dataset_are_listed_on_request(root):
    write(root, DATA)
    assert names(list_page(root, at="marked")) == ["marked/.zgroup", "marked/y"]
    assert names(list_page(root, at="c.zarr")) == ["c.zarr/x", "c.zarr/x/0", "c.zarr/zarr.json"]


def test_pages_cover_every_row_once_in_order(root):
    for limit in [1, 2, 3, 7, 100]:
        write(root, DATA)
        cursor, listed = None, []
        while True:
            shown = list_page(root, cursor, limit=limit)
            assert len(shown.rows) <= limit
            listed += names(shown)
            cursor = shown.cursor
            if cursor is None:
                break
        assert listed == names(list_page(root))


def test_changes_between_pages_show_nothing_twice(root):
    write(root, dict.fromkeys(("b", "c", "d", "e"), b""))
    first = list_page(root, limit=2)
    (root / "c").unlink()  # the row to which the cursor points
    write(root, {"a": b"", "d1": b""})
    assert names(list_page(root, first.cursor, limit=10)) == ["d", "d1", "e"]


def test_pattern_matches_names_or_paths_and_is_fast(root):
    write(root, {**DATA, "a" * 200: b""})
    assert names(list_page(root, pattern="*.shp")) == ["b/roads.shp"]
    assert names(list_page(root, pattern="b/*")) == ["b/readme.txt", "b/roads.shp"]
    assert names(list_page(root, pattern="roads.*", at="b")) == ["b/roads.shp"]
    for pattern in ("[", "*a" * 100 + "b"):
        assert names(list_page(root, pattern=pattern)) == []


def test_a_cursor_of_another_question_is_refused(root):
    write(root, DATA)
    cursor = list_page(root, limit=1).cursor
    strange = ({"cursor": text} for text in ("x", "é", "====", "AAAA", "A" * 100_000))
    others = ({"cursor": cursor, "pattern": "*.tif"}, {"cursor": cursor, "at": "b"})
    for question in (*strange, *others):
        with pytest.raises(ToolError):
            list_page(root, **question)


@given(st.binary(max_size=60))
def test_no_cursor_does_more_than_be_refused(tmp_path_factory, raw):
    import base64

    root = tmp_path_factory.mktemp("cursor")
    write(root, {"a": b"", "b": b""})
    real = base64.urlsafe_b64decode(list_page(root, limit=1).cursor or "")
    for forged in (raw, real[:8] + raw):
        try:
            shown = list_page(root, base64.urlsafe_b64encode(forged).decode())
        except ToolError:
            continue
        assert set(names(shown)) <= {"a", "b"}


def test_overfull_folder_is_listed_partly_and_says_so(root):
    write(root, dict.fromkeys("abcdef", b""))
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    folder = workspaces.input(str(root))
    with opened(workspaces, folder, limit=4) as top:
        shown = page(top, Query(folder))
    assert len(shown.rows) == 4
    assert not shown.complete
    assert list_page(root).complete


def test_gdal_facts_are_listed_with_their_file_only(root):
    write(root, DATA)
    shown = list_page(root)
    known = ("a.tif", "b/readme.txt", "b/roads.shp", "c.zarr", "d.gdb", "marked")
    assert set(map(str, shown.to_identify)) == {str(root / name) for name in known}
    names = [*(str(root / name) for name in ("a.tif", "b/readme.txt", "b")), "/etc/passwd"]
    report = dict(zip(names, ["GTiff", None, "ESRI Shapefile", "CSV"], strict=True))
    entries = {entry["path"]: entry.get("driver") for entry in as_json(shown, report)["entries"]}
    assert entries[str(root / "a.tif")] == "GTiff"
    assert entries[str(root / "b/readme.txt")] is None
    assert "/etc/passwd" not in entries


def test_misleading_names_are_shown_safely_and_never_opened(root):
    hostile = ["a\nb.tif", "\u202egpj.tif", "a\u200bb.tif", "x,y.tif"]
    write(root, dict.fromkeys(hostile, b""))
    with open(os.fsencode(root) + b"/\xff.tif", "wb"):
        pass
    shown = list_page(root)
    entries = as_json(shown)["entries"]
    assert len(entries) == 5
    assert all(entry["path"].isprintable() for entry in entries)
    assert [entry["path"] for entry in entries if entry.get("addressable", True)] == [str(root / "x,y.tif")]
    assert shown.to_identify == ()


def test_file_with_a_date_outside_calendars_is_listed(root):
    write(root, {"a": b"", "b": b""})
    os.utime(root / "a", (2**40, 2**40))
    os.utime(root / "b", (-(2**33), -(2**33)))
    assert len(as_json(list_page(root))["entries"]) == 2


ENDINGS = ".tif .tfw .shp .dbf .cpg .prj .asc .tif.ovr .tif.ovr.aux.xml .shp.xml _rpc.txt".split()
ENDINGS += [".gpkg", ".gpkg-wal", "", ".img", ".hdr", ".txt", ".TFW", ".mrf", ".idx"]
NAMES = st.builds(
    lambda stem, ending: stem + ending, st.sampled_from(["x", "y", "x.y"]), st.sampled_from(ENDINGS)
)


@given(st.sets(NAMES, max_size=12))
def test_companions_are_the_same_singly_and_together(tmp_path_factory, some):
    root = tmp_path_factory.mktemp("family")
    write(root, dict.fromkeys(some, b""))
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    each = [Listings().companions(workspaces.input(str(root / name))) for name in some]
    claimed = {companion.name for companions in each for companion in companions}
    owners = Names(sorted(some)).owners
    assert set(owners) == claimed
    assert not set(owners.values()) & claimed
