"""The container's descriptions of written files: correct, in two parts, with exactly the checks that fit."""

import json
from pathlib import Path

import pytest

from tests.integration.worker_kit import MAKER, Box, Done, described
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PROGRAM = r"""
steps = np.arange(600, dtype="int16").reshape(20, 30)
raster("plain.tif", steps, nodata=-999, options=["COMPRESS=DEFLATE"])
raster("copy.tif", steps, nodata=-999, options=["COMPRESS=DEFLATE"])
for name, unit in (("feet", "ft"), ("survey", "US survey foot"), ("metres", "m"), ("odd", "furlong; drop table")):
    made = raster(name + ".tif", steps); made.GetRasterBand(1).SetUnitType(unit); made = None
raster("packed.tif", steps, nodata=-999, options=["COMPRESS=LZW"])
changed = steps.copy(); changed[7, 7] += 1
raster("changed.tif", changed, nodata=-999, options=["COMPRESS=DEFLATE"])
tagged = raster("tagged.tif", steps, nodata=-999, options=["COMPRESS=DEFLATE"])
tagged.SetMetadataItem("AUTHOR", "somebody"); tagged = None
raster("elsewhere.tif", steps, transform=(640000, 60, 0, 5751000, 0, -60))
raster("nodata.tif", steps * 0 - 999, nodata=-999)
raster("nan.tif", np.full((9, 9), np.nan, "float32"))
raster("nan-nodata.tif", np.full((9, 9), 4, "float32"), nodata=float("nan"))
raster("constant.tif", steps * 0 + 7)
raster("one.tif", np.full((1, 1), 7, "uint8"))
raster("complex.tif", np.full((4, 4), 1 + 2j, "complex64"))
clear = np.full((4, 9, 9), 200, "uint8"); clear[3] = 0; clear[0, 2, 2] = 9
raster("clear.tif", clear, colors=RGBA)
raster("nocrs.tif", steps, code=None)
raster("nowhere.tif", steps, code=None, transform=None)
raster("wrong.tif", steps, code="EPSG:4326")
raster("pacific.tif", steps, code="EPSG:32601", transform=(100000, 20000, 0, 1000000, 0, -20000))
raster("round.tif", steps, code="EPSG:4326", transform=(0, 12, 0, 90, 0, -9))
lowest = np.finfo("float32").min
for name, fill in (("esri.tif", lowest), ("esri-text.tif", np.float32("-3.402823e+38"))):
    raster(name, np.where(steps < 40, fill, steps / 7).astype("float32"))
raster("deep.tif", (steps - 11000).astype("int16"))
raster("quarter.tif", steps, transform=(440000, 0, 30, 3751000, 60, 0))
raster("tilted.tif", steps, transform=(440000, 60 * 0.8, 30 * 0.6, 3751000, 60 * 0.6, -30 * 0.8))
raster("local.tif", steps, code='LOCAL_CS["site",UNIT["metre",1]]')
for name, options in (("big.tif", ()), ("bigempty.tif", ())):
    big = gdal.GetDriverByName("GTiff").Create(out + name, 20000, 20000, 1, gdal.GDT_Byte, ["SPARSE_OK=TRUE", "TILED=YES", "COMPRESS=DEFLATE"])
    if name == "bigempty.tif":
        big.GetRasterBand(1).SetNoDataValue(0)
    big = None

ZONES = [("ä", 3, "POLYGON ((440000 3750900,441500 3750900,441500 3750300,440000 3750900))"),
         ("south", 8, "POLYGON ((440600 3749600,442400 3749600,441500 3748200,440600 3749600))")]

def vector(name, driver, rows, code="EPSG:32611", layers=("zones",), kind=ogr.wkbPolygon):
    made = ogr.GetDriverByName(driver).CreateDataSource(out + name)
    for title in layers:
        layer = made.CreateLayer(title, crs(code) if code else None, kind)
        layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
        flag = ogr.FieldDefn("flag", ogr.OFTInteger); flag.SetSubType(ogr.OFSTBoolean); layer.CreateField(flag)
        for label, value, wkt in rows if title == layers[0] else ():
            feature = ogr.Feature(layer.GetLayerDefn())
            feature["name"], feature["flag"] = label, value % 2
            if wkt:
                feature.SetGeometry(ogr.CreateGeometryFromWkt(wkt))
            layer.CreateFeature(feature)

vector("zones.gpkg", "GPKG", ZONES)
vector("again.gpkg", "GPKG", ZONES)
vector("other.gpkg", "GPKG", [("x", 3, ZONES[0][2]), ZONES[1]])
vector("empty.gpkg", "GPKG", [])
vector("half.gpkg", "GPKG", ZONES, layers=("zones", "nothing"))
BOW = "POLYGON ((440000 3750000,441000 3750900,441000 3750000,440000 3750900,440000 3750000))"
vector("many.gpkg", "GPKG", [("x", 3, BOW)] * 20_001)
vector("nocrs.shp", "ESRI Shapefile", ZONES, code=None)
vector("table.gpkg", "GPKG", [("a", 1, None)], code=None, kind=ogr.wkbNone)

group = gdal.GetDriverByName("netCDF").CreateMultiDimensional(out + "cube.nc").GetRootGroup()
axes = [group.CreateDimension(name, "", "", size) for name, size in (("time", 3), ("level", 4))]
for name in ("wind", "rain"):
    array = group.CreateMDArray(name, axes, gdal.ExtendedDataType.Create(gdal.GDT_Float32))
    array.SetUnit("m")
    array.WriteArray(np.zeros((3, 4), "float32"))
array = axes = group = None
"""


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    folder = oracle.folder("described")
    oracle.python(MAKER + PROGRAM, str(folder))
    return folder


@pytest.fixture(scope="session")
def descriptions(box: Box, data: Path) -> dict[tuple[str, ...], Done]:
    """Descriptions by the names of an output and its sources, each in its own job, all in one process."""
    wanted = [*((name,) for name in CHECKS), *((name,) for name, _ in PLACES.values()), *APART]
    wanted += [(output, "nan.tif", source) for output, source in SAME]
    wanted = list(dict.fromkeys([*wanted, ("cube.nc",)]))
    done = box.run(*(described(*(str(data / name) for name in names)) for names in wanted))
    return dict(zip(wanted, done, strict=True))


ImmediateResult = dict[tuple[str, ...], Done]


def test_a_raster_is_what_an_independent_gdal_says(descriptions: ImmediateResult, oracle: Oracle, data: Path):
    facts, independent = descriptions["plain.tif",].facts, oracle.raster(data / "plain.tif")
    assert (facts["driver"], facts["size"]) == ("GTiff", independent["size"])
    assert facts["bytes"] == (data / "plain.tif").stat().st_size
    [band], [there] = facts["bands"], independent["bands"]
    values = {"nodata": -999.0, "color": "Gray", "min": 0, "max": 599, "exact": True}
    assert band == {"type": there["type"], **values}
    assert facts["crs"] == {"code": "EPSG:32611", "kind": "projected", "degrees": False, "metres": True}
    corners = independent["cornerCoordinates"]
    assert facts["extent"] == [*corners["lowerLeft"], *corners["upperRight"]]
    ring = independent["wgs84Extent"]["coordinates"][0]
    west, south = (min(point[i] for point in ring) for i in (0, 1))
    east, north = (max(point[i] for point in ring) for i in (0, 1))
    assert facts["wgs84"] == pytest.approx([west, south, east, north], abs=1e-3)
    assert (facts["compression"], facts["block_size"], facts["overviews"]) == ("DEFLATE", [30, 20], 0)


def test_unit_of_values_is_a_fact_if_declared(box: Box, data: Path):
    names = ("feet", "survey", "metres", "odd", "plain")
    done = box.run(*(described(str(data / f"{name}.tif")) for name in names))
    units = [result.facts["bands"][0].get("unit") for result in done]
    assert units == ["foot", "US survey foot", "metre", "other", None]


def test_pixel_size_is_measured_along_rotated_sides(descriptions: ImmediateResult):
    for name in ("quarter.tif", "tilted.tif"):
        assert descriptions[name,].facts["pixel_size"] == pytest.approx([60, 30])
        assert descriptions[name,].facts["rotated"]
    assert descriptions["plain.tif",].facts["pixel_size"] == [60, 60]


def test_layers_match_independent_gdal_with_names_by_position(descriptions, oracle, data):
    done = descriptions["half.gpkg",]
    facts, names = done.facts, done.final["outputs"][0]["names"]
    independent = oracle.vector(data / "half.gpkg")["layers"]
    assert [layer["features"] for layer in facts["layers"]] == [2, 0]
    assert [layer["featureCount"] for layer in independent] == [2, 0]
    assert [layer["name"] for layer in names["layers"]] == [layer["name"] for layer in independent]
    assert facts["layers"][0]["extent"] == independent[0]["geometryFields"][0]["extent"]
    assert facts["layers"][0]["geometry"] == "Polygon"
    assert facts["layers"][0]["fields"] == [{"type": "String"}, {"type": "Integer", "subtype": "Boolean"}]
    assert names["layers"][0]["fields"] == ["name", "flag"]
    assert facts["layers"][1]["extent"] is None


@pytest.mark.claim("content.facts-apart")
def test_no_file_text_is_among_the_facts(descriptions: ImmediateResult):
    for name in ("half.gpkg", "cube.nc", "plain.tif"):
        text = json.dumps(descriptions[name,].facts)
        assert not [word for word in ("zones", "nothing", "flag", "wind", "level", "UTM") if word in text]


def test_multidimensional_dataset_lists_arrays_and_dimensions(descriptions: ImmediateResult):
    done = descriptions["cube.nc",]
    names = done.final["outputs"][0]["names"]
    assert [dimension["size"] for dimension in done.facts["dimensions"]] == [3, 4]
    assert names["dimensions"] == ["/time", "/level"]
    shapes = dict(zip((array["name"] for array in names["arrays"]), done.facts["arrays"], strict=True))
    assert {name: array["shape"] for name, array in shapes.items()} == {"/wind": [3, 4], "/rain": [3, 4]}
    assert {array["type"] for array in shapes.values()} == {"Float32"}


PLACES = {
    "across the antimeridian west is above east": ("pacific.tif", lambda box: box[0] > 170 > -165 > box[2]),
    "once around the earth is all of it": ("round.tif", lambda box: box == [-180, -90, 180, 90]),
    "what is beyond the poles is nowhere": ("wrong.tif", lambda box: box is None),
    "a local CRS is nowhere on earth": ("local.tif", lambda box: box is None),
    "no CRS is nowhere on earth": ("nocrs.tif", lambda box: box is None),
}


def test_the_place_on_earth(descriptions: ImmediateResult, subtests: pytest.Subtests):
    for name in PLACES:
        with subtests.test(name=name):
            file, holds = PLACES[name]
            done = descriptions[file,]
            assert done.final["code"] == 0
            assert holds(done.facts["wgs84"]), done.facts["wgs84"]


CHECKS = {
    "plain.tif": [], "pacific.tif": [], "zones.gpkg": [], "one.tif": [], "table.gpkg": [],
    "complex.tif": [], "nodata.tif": ["all_nodata"], "nan.tif": ["all_nodata"], "clear.tif": ["all_nodata"],
    "esri.tif": ["nodata_undeclared"], "esri-text.tif": ["nodata_undeclared"], "deep.tif": [], "quarter.tif": [], "tilted.tif": [],
    "constant.tif": ["constant"], "nan-nodata.tif": ["constant"], "nocrs.tif": ["crs_missing"],
    "nowhere.tif": ["has_no_georeferencing"], "wrong.tif": ["extent_outside_crs"],
    "many.gpkg": ["invalid_geometries", "values_unexamined"], "empty.gpkg": ["zero_features"], "half.gpkg": ["empty_layer"], "nocrs.shp": ["crs_missing"],
    "bigempty.tif": ["all_nodata", "has_no_georeferencing"],
    "big.tif": ["constant", "has_no_georeferencing"],
}  # fmt: skip


def test_file_gets_only_the_checks_that_fit(descriptions: ImmediateResult, subtests: pytest.Subtests):
    for name in CHECKS:
        with subtests.test(name=name):
            done = descriptions[name,]
            assert done.codes == CHECKS[name]
            assert (done.final["code"], done.final["failures"]) == (0, 0)


def test_data_too_large_to_read_is_marked_sampled(descriptions: ImmediateResult):
    assert descriptions["big.tif",].checks[0] == {"code": "constant", "sampled": True}
    assert descriptions["constant.tif",].checks == [{"code": "constant"}]
    [check, unknown] = descriptions["many.gpkg",].checks
    assert check["sampled"]
    assert 0 < check["count"] == check["of"] < 20_001
    assert (unknown["code"], unknown["of"]) == ("values_unexamined", 20_001)
    assert unknown["count"] == check["of"]


SAME = {
    ("plain.tif", "plain.tif"): True, ("copy.tif", "plain.tif"): True, ("packed.tif", "plain.tif"): False,
    ("changed.tif", "plain.tif"): False, ("tagged.tif", "plain.tif"): False,
    ("zones.gpkg", "plain.tif"): False, ("again.gpkg", "zones.gpkg"): True,
    ("other.gpkg", "zones.gpkg"): False,
}  # fmt: skip


def test_only_an_unchanged_output_is_called_identical(descriptions, subtests):
    for output, source in SAME:
        with subtests.test(output=output, source=source):
            expected = [{"code": "identical_to_input", "input": 1}] if SAME[output, source] else []
            assert descriptions[output, "nan.tif", source].checks == expected


APART = {
    ("elsewhere.tif", "plain.tif"): ["no_overlap"],
    ("elsewhere.tif", "plain.tif", "elsewhere.tif"): ["identical_to_input"],
}


def test_an_output_apart_from_its_input_is_told(descriptions: ImmediateResult, subtests: pytest.Subtests):
    for names in APART:
        with subtests.test(names=names):
            assert descriptions[names].codes == APART[names]


def test_describing_leaves_nothing_behind(box: Box, data: Path):
    before = {path.name: path.stat().st_mtime_ns for path in data.iterdir()}
    jobs = (("plain.tif", "zones.gpkg"), ("big.tif", "nocrs.shp"), ("zones.gpkg", "nodata.tif"))
    for done in box.run(
        *({**described(*(str(data / name) for name in names)), "preview_pixels": 64} for names in jobs)
    ):
        assert done.final["code"] == 0  # on a busy machine the preview of such a large input is given up
    assert {path.name: path.stat().st_mtime_ns for path in data.iterdir()} == before


def test_several_outputs_are_described_in_their_order(box: Box, data: Path, oracle: Oracle):
    tiles = oracle.folder("tiles")
    for level in ("0", "2"):
        (tiles / level / "1").mkdir(parents=True)
        (tiles / level / "1" / "0.png").write_bytes(b"12345")
    (tiles / "index.html").write_text("<p>", encoding="utf-8")
    (tiles / "rows.csv").write_text("a\n1\n2\n", encoding="utf-8")
    wanted = [(tiles, "folder"), (data / "zones.gpkg", "dataset"), (tiles / "rows.csv", "table"), (tiles / "index.html", "file")]  # fmt: skip
    (done,) = box.run({"outputs": [{"path": str(path), "kind": kind} for path, kind in wanted]})
    folder, zones, table, file = (output["facts"] for output in done.final["outputs"])
    assert (folder["files"], folder["bytes"], folder["zoom"]) == (4, 19, [0, 2])
    assert zones["layer_count"] == 1
    assert (table["rows"], file["bytes"]) == (3, 3)


def test_absent_or_unopenable_output_fails_the_command(box: Box, oracle: Oracle):
    broken = oracle.folder("broken") / "a.tif"
    broken.write_bytes(b"II*\0\xff\xff\xff\xff")
    for done in box.run(described(str(broken)), described(str(broken.with_name("absent.tif")))):
        assert done.final["code"] == 1
        assert done.final["failures"] > 0
        assert done.facts == {}


def test_unreadable_pixels_are_reported_without_failing(box: Box, oracle: Oracle, data: Path):
    truncated = oracle.folder("cut") / "cut.tif"
    oracle.must("gdal_translate", "-q", "-co", "COMPRESS=NONE", str(data / "plain.tif"), str(truncated))
    truncated.write_bytes(truncated.read_bytes()[:-700])
    (done,) = box.run(described(str(truncated)))
    assert "pixels_unreadable" in done.codes
    assert (done.final["code"], done.final["failures"]) == (0, 0)
