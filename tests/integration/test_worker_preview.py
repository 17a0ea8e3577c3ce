"""Pictures: they show the data at the right place, and no file, however unusual, makes them exceed their bounds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.worker_kit import MAKER, Box, Done, Picture
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

SECRET = "text-that-stands-in-the-file"
PROGRAM = r"""
y, x = np.mgrid[0:300, 0:300]
ramp = (x * 2).astype("int16")
ramp[:150, :150] = -9999
raster("ramp.tif", ramp, nodata=-9999)
stray = x.astype("float32"); stray[5, 5], stray[6, 6], stray[7, 7] = 3e38, np.inf, -np.inf; stray[:100, :100] = np.nan
raster("stray.tif", stray)
mixed = x.astype("float32"); mixed[:100], mixed[200:] = np.nan, -9999
raster("mixed.tif", mixed, nodata=-9999)
raster("table.tif", (x // 150 + 2 * (y // 150)).astype("uint8"), table={0: (10, 20, 30, 255), 1: (200, 0, 0, 255), 2: (0, 200, 0, 255), 3: (0, 0, 200, 255)})
color = np.stack([np.full((300, 300), value, "uint8") for value in (250, 120, 5)]); color[:, :, :100] = 128
raster("rgb.tif", color, colors=RGBA[:3])
raster("bgr.tif", color[::-1], colors=RGBA[2::-1])
raster("rgba.tif", np.concatenate([color, np.where(x < 150, 0, 255).astype("uint8")[None]]), colors=RGBA)
raster("noise.tif", np.random.default_rng(1).integers(0, 256, (3, 1500, 1500), "uint8"), colors=RGBA[:3])
raster("hill.tif", (200 - np.hypot(x - 150, y - 150)).astype("float32") * 20)
raster("bands.tif", np.stack([x, y, x + y, y - x, x * 0]).astype("int16"))
raster("constant.tif", np.full((40, 40), 9, "uint8"))
raster("nodata.tif", np.full((40, 40), 9, "uint8"), nodata=9)
raster("nan.tif", np.full((40, 40), np.nan, "float32"))
raster("one.tif", np.full((1, 1), 9, "uint8"))
raster("long.tif", np.arange(90000, dtype="float32")[None])
raster("high.tif", np.arange(90000, dtype="float32")[:, None])
raster("complex.tif", (x + 1j * y).astype("complex64"))
for name, options in (("tiled.tif", ["TILED=YES"]), ("rows.tif", ["BLOCKYSIZE=16"])):
    gdal.GetDriverByName("GTiff").Create(out + name, 200000, 200000, 1, gdal.GDT_Byte, ["SPARSE_OK=TRUE", "BIGTIFF=YES", "COMPRESS=DEFLATE", *options]).Close()

def vector(name, layers, driver="GPKG"):
    made = ogr.GetDriverByName(driver).CreateDataSource(out + name)
    for number, (code, shapes) in enumerate(layers):
        layer = made.CreateLayer(f"l{number}", crs(code) if code else None, ogr.wkbUnknown)
        layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
        layer.StartTransaction()
        for shape in shapes:
            feature = ogr.Feature(layer.GetLayerDefn())
            if shape:
                feature.SetGeometry(ogr.CreateGeometryFromWkt(shape))
            layer.CreateFeature(feature)
        layer.CommitTransaction()

SQUARE = "POLYGON ((0 0,100 0,100 100,0 100,0 0),(40 40,60 40,60 60,40 60,40 40))"
vector("square.gpkg", [(32631, [SQUARE])])
vector("layers.gpkg", [(32631, [SQUARE]), (32631, ["POINT (50 50)"])])
vector("wide.gpkg", [(32631, ["LINESTRING (0 0,1000 0)", "POINT (500 10)"])])
vector("point.gpkg", [(4326, ["POINT (2 48)"])])
box = crs(4326), crs(3857)
there = ogr.CreateGeometryFromWkt("POINT (10 10)"); there.AssignSpatialReference(box[0]); there.TransformTo(box[1])
vector("crs.gpkg", [(4326, ["POLYGON ((0 0,20 0,20 20,0 20,0 0))"]), (3857, [there.ExportToWkt()])])
vector("odd.gpkg", [(32631, [None, "POLYGON EMPTY", "CURVEPOLYGON (CIRCULARSTRING (0 0,50 50,100 0,50 -50,0 0))", "GEOMETRYCOLLECTION (POINT (1 1),LINESTRING (0 0,5 5))",
    "TIN (((0 0 0,0 9 0,9 0 0,0 0 0)))", "POINT ZM (1 2 3 4)"])])
vector("many.gpkg", [(32631, [f"POINT ({n % 300} {n // 300})" for n in range(60000)])])
vector("none.csv", [(None, [None])], driver="CSV")
"""


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    folder = oracle.folder("pictured")
    oracle.python(MAKER + PROGRAM, str(folder), SECRET)
    return folder


ASKED = {
    **{name: {} for name in ("ramp.tif", "stray.tif", "mixed.tif", "table.tif", "rgb.tif", "bgr.tif", "rgba.tif", "complex.tif")},
    **{name: {} for name in ("constant.tif", "nodata.tif", "nan.tif", "one.tif", "long.tif", "high.tif")},
    **{name: {} for name in ("square.gpkg", "layers.gpkg", "wide.gpkg", "point.gpkg", "crs.gpkg", "odd.gpkg", "many.gpkg")},
    **{name: {} for name in ("tiled.tif", "rows.tif")},
    "noise.tif": {"pixels": 2048},
    "hill.tif": {"color": "hillshade"},
}  # fmt: skip


def preview(path: Path | str, **options: object) -> dict[str, object]:
    """The job that draws this file."""
    return {"program": "preview", "inputs": [str(path)], "preview": options}


@pytest.fixture(scope="session")
def shown(box: Box, data: Path) -> dict[str, Done]:
    jobs = (preview(data / name, **options) for name, options in ASKED.items())
    return dict(zip(ASKED, box.run(*jobs), strict=True))


@pytest.fixture(scope="session")
def pictures(box: Box, shown: dict[str, Done]) -> dict[str, Picture]:
    return dict(zip(shown, box.pictures(*shown.values()), strict=True))


@pytest.mark.claim("content.pictures-bounded")
def test_every_picture_is_bounded_and_described(shown, pictures, subtests):
    for name in ASKED:
        with subtests.test(name=name):
            done, picture, pixels = shown[name], pictures[name], ASKED[name].get("pixels", 512)
            assert (done.final["code"], done.final["failures"]) == (0, 0)
            assert max(picture.width, picture.height) <= pixels
            assert min(picture.width, picture.height) >= 8
            assert len(done.picture or b"") <= 1 << 20
            assert done.parsed["size"] == [picture.width, picture.height]
            assert SECRET.encode() not in (done.picture or b"")


def grey(picture: Picture, *places: tuple[int, int]) -> list[int]:
    return [picture.at(*place)[0] for place in places]


def clear(picture: Picture, *places: tuple[int, int]) -> list[int]:
    """Alpha: 0 is clear."""
    return [picture.at(*place)[-1] for place in places]


def rising(values: list[int]) -> bool:
    return values == sorted(values) and (values[0], values[-1]) == (0, 255)


ORANGE, SPOT = (250, 120, 5), (200, 200)
HOLDS: dict[str, tuple[str, Callable[[Picture], bool]]] = {
    "nodata is clear and the rest is not": (
        "ramp.tif", lambda picture: clear(picture, (0, 0), (149, 149), (150, 149), (149, 150), (299, 299)) == [0, 0, 255, 255, 255]),
    "nodata and NaN in one raster are both clear": ("mixed.tif", lambda picture: clear(picture, (150, 50), (150, 150), (150, 250)) == [0, 255, 0]),
    "grey rises with the values from black to white": ("ramp.tif", lambda picture: rising(grey(picture, *((x, 299) for x in range(300))))),
    "stray values and infinities do not swallow it": ("stray.tif", lambda picture: picture.at(290, 290)[0] - picture.at(110, 290)[0] > 100),
    "infinities and NaN are clear": ("stray.tif", lambda picture: clear(picture, (5, 5), (50, 5), (250, 5)) == [0, 0, 255]),
    "a palette keeps its colours": (
        "table.tif", lambda picture: [picture.at(x, y)[:3] for y in (10, 290) for x in (10, 290)] == [(10, 20, 30), (200, 0, 0), (0, 200, 0), (0, 0, 200)]),
    "natural colours are found by what the bands say": ("rgb.tif", lambda picture: picture.at(*SPOT)[:3] == ORANGE),
    "in any order": ("bgr.tif", lambda picture: picture.at(*SPOT)[:3] == ORANGE),
    "and kept": ("rgb.tif", lambda picture: picture.at(50, 50)[:3] == (128, 128, 128)),
    "alpha makes clear and shows nothing else": ("rgba.tif", lambda picture: [picture.at(x, 200) for x in (140, 160)] == [(*ORANGE, 0), (*ORANGE, 255)]),
    "one value is even": ("constant.tif", lambda picture: len(set(picture.bands[0])) == 1),
    "nodata alone is clear": ("nodata.tif", lambda picture: set(picture.bands[-1]) == {0}),
    "NaN alone is clear": ("nan.tif", lambda picture: set(picture.bands[-1]) == {0}),
    "complex values are shown by their size": (
        "complex.tif", lambda picture: picture.at(10, 10)[0] < picture.at(290, 10)[0] < picture.at(290, 290)[0] and abs(picture.at(290, 10)[0] - picture.at(10, 290)[0]) < 20),
    "hills are lit from the north-west": ("hill.tif", lambda picture: picture.at(80, 80)[0] > picture.at(220, 220)[0] + 50),
    "a flat extent is no line without height": ("wide.gpkg", lambda picture: picture.width == 512 and picture.height < 64),
    "a point alone can be seen": ("point.gpkg", lambda picture: any(picture.bands[3])),
    "layers of another CRS lie where they are": ("crs.gpkg", lambda picture: picture.at(256, 256)[3] == 255 > picture.at(100, 100)[3]),
}  # fmt: skip


def test_a_picture_shows_what_is_there(pictures: dict[str, Picture], subtests: pytest.Subtests):
    for what, (name, holds) in HOLDS.items():
        with subtests.test(what):
            assert holds(pictures[name])


def test_what_is_empty_coarse_or_cut_is_told(shown: dict[str, Done]):
    reports = {name: done.parsed for name, done in shown.items()}
    assert [reports[name]["empty"] for name in ("nodata.tif", "nan.tif", "constant.tif")] == [
        True,
        True,
        False,
    ]
    assert [reports[name]["coarse"] for name in ("tiled.tif", "rows.tif", "ramp.tif")] == [True, True, False]
    assert (reports["odd.gpkg"]["layers"], reports["odd.gpkg"]["complete"]) == ([4], True)
    assert (0 < reports["many.gpkg"]["layers"][0] <= 50_000, reports["many.gpkg"]["complete"]) == (
        True,
        False,
    )


def test_bands_are_selected_and_missing_one_is_error(box: Box, data: Path):
    jobs = (preview(data / "bands.tif", bands=bands) for bands in ([2], [1, 2, 5], [6]))
    second, three, absent = box.run(*jobs)
    down, colors = box.pictures(second, three)
    assert down.at(150, 290)[0] > down.at(150, 10)[0]
    assert down.at(290, 150)[0] == down.at(10, 150)[0]
    assert colors.at(290, 10)[0] > 200
    assert colors.at(290, 10)[1] < 50
    assert (absent.final["code"], absent.picture) == (1, None)


def test_polygon_has_light_fill_outline_and_clear_hole(pictures: dict[str, Picture]):
    picture = pictures["square.gpkg"]
    assert (picture.width, picture.height) == (512, 512)
    row = [picture.at(x, 256) for x in range(512)]
    inside, hole = row[100], row[256]
    assert 0 < inside[3] < 128
    assert hole[3] == row[2][3] == 0
    edges = [x for x in range(512) if row[x][3] == 255]
    assert len({x // 8 for x in edges}) == 4  # two outer and two inner rings
    assert all(row[x][:3] == inside[:3] for x in edges)


def test_layers_differ_in_colour_and_points_are_visible(pictures: dict[str, Picture]):
    picture = pictures["layers.gpkg"]
    point, area = picture.at(256, 256), picture.at(100, 256)
    assert point[3] == 255
    assert point[:3] != area[:3]
    dots = sum(1 for y in range(240, 272) for x in range(240, 272) if picture.at(x, y)[:3] == point[:3])
    assert dots >= 9


def test_undrawable_data_fails_a_preview_not_a_write(box: Box, data: Path):
    path = str(data / "none.csv")
    previewed, written, folder = box.run(
        preview(path),
        {"outputs": [{"path": path, "kind": "dataset"}], "preview_pixels": 256},
        {"outputs": [{"path": str(data), "kind": "folder"}], "preview_pixels": 256},
    )
    assert (previewed.final["code"], previewed.picture) == (1, None)
    assert [(done.final["code"], done.picture) for done in (written, folder)] == [(0, None), (0, None)]


def test_write_shows_its_first_drawable_output(box: Box, data: Path):
    names = ("none.csv", "table.tif", "rgb.tif")
    outputs = [{"path": str(data / name), "kind": "dataset"} for name in names]
    (done,) = box.run({"outputs": outputs, "preview_pixels": 100})
    (picture,) = box.pictures(done)
    assert (picture.width, picture.height) == (100, 100)
    assert picture.at(10, 10)[:3] == (10, 20, 30)


def test_a_preview_needs_no_numpy(box: Box, data: Path):
    """Importing NumPy takes longer than most pictures."""
    (done,) = box.run(preview(data / "stray.tif"), first="import sys; sys.modules['numpy'] = None")
    assert done.picture is not None
