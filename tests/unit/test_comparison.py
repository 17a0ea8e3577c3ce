"""Whether outputs are the same, by bytes and by what a container says of them."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.operations.comparison import MAX_DIFFERENCES, by_content, own_files

RASTER = {
    "driver": "GTiff",
    "size": [2, 3],
    "crs": "x",
    "bands": [{"type": "Byte", "pixels": "aa"}, {"type": "Byte", "pixels": "bb"}],
}


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(RASTER))
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return made


def test_what_differs_is_named():
    for path, place in [
        (["driver"], "driver"),
        (["size", 1], "size[1]"),
        (["bands", 1, "pixels"], "bands[1].pixels"),
        (["bands"], "bands"),
    ]:
        verdict = by_content("/ws/a", [RASTER, changed(path, "other")])
        assert (verdict.sameness, verdict.differences, verdict.same) == ("differs", (place,), False)


def test_what_cannot_be_told_is_not_the_same():
    for told in [
        None, [], [RASTER], [RASTER] * 3, "x", [RASTER, None], [{"problem": "x"}, {"problem": "x"}],
        [{"problem": "x"}, RASTER],
    ]:  # fmt: skip
        assert by_content("/ws/a", told).sameness == "unknown"


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_names_that_the_container_makes_up_are_never_repeated(one: dict[str, str], other: dict[str, str]):
    verdict = by_content("/ws/a", [{"bands": [{"CANARY": one}]}, {"bands": [{"CANARY": other}]}])
    assert "CANARY" not in json.dumps(verdict.as_dict())
    assert verdict.same is (one == other)


def test_differences_are_few():
    old, new = ({"bands": [{"pixels": f"{mark}{number}"} for number in range(1000)]} for mark in "ab")
    assert len(by_content("/ws/a", [old, new]).differences) == MAX_DIFFERENCES


def test_files_belong_to_the_output_that_is_nearest_by_name():
    files = dict.fromkeys(
        ("a.tif", "a.tif.aux.xml", "a.tfw", "a.png", "a.png.aux.xml", "b.shp", "b.dbf", "c"), "00"
    )
    names = {"a.tif", "a.png", "b.shp"}
    assert own_files("a.tif", names, files).keys() == {"a.tif", "a.tif.aux.xml"} | (
        {"a.tfw"} & own_files("a.tif", names, files).keys()
    )
    assert own_files("a.png", names, files).keys() >= {"a.png", "a.png.aux.xml"}
    assert own_files("b.shp", names, files).keys() == {"b.shp", "b.dbf"}
    owned = [file for name in names for file in own_files(name, names, files)]
    assert sorted(owned) == sorted(files.keys() - {"c"})
