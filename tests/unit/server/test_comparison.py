"""Equality of outputs, by bytes and by a container's description of them."""

from gdal_mcp.server.operations.replay import by_content, own_files

RASTER = {
    "driver": "GTiff", "size": [2, 3], "crs": "x",
    "bands": [{"type": "Byte", "pixels": "aa"}, {"type": "Byte", "pixels": "bb"}],
}  # fmt: skip


def test_only_what_holds_the_same_is_the_same():
    assert by_content("/ws/a", [RASTER, RASTER]).sameness == "same_content"
    for change in ({"driver": "PNG"}, {"bands": []}, {"more": 1}):
        assert by_content("/ws/a", [RASTER, {**RASTER, **change}]).sameness == "differs"


def test_what_cannot_be_told_is_not_the_same():
    for report in [
        None, [], [RASTER], [RASTER] * 3, "x", [RASTER, None], [{"problem": "x"}, {"problem": "x"}],
        [{"problem": "x"}, RASTER],
    ]:  # fmt: skip
        assert by_content("/ws/a", report).sameness == "unknown"


def test_files_belong_to_output_with_nearest_name():
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
