"""Arguments as JSON: how they are bound, which are refused, and what a resolver receives."""

from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind, render
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm
from tests.unit.toolboxes.fitting import placed

REPROJECT, VECTOR = (packaged().algorithms[path] for path in ("raster reproject", "vector convert"))
CLIP, CALC, POLYGONIZE, SQL = (
    packaged().algorithms[path] for path in ("raster clip", "raster calc", "raster polygonize", "vector sql")
)
CALL: dict[str, Any] = {"input": "a.tif", "output": "b.tif"}
WINDOW = {**CALL, "window": [0, 0, 5, 5]}  # `raster clip` requires one


def json_words(algorithm: Algorithm, **call: Any) -> tuple[str, ...]:
    return placed(bind(algorithm, call, Context(packaged(), threads=4)))


def test_json_values_become_single_words() -> None:
    arguments = {"t_srs": "EPSG:4326", "size": [100, 0], "tap": True, "input-nodata": [-9999, "nan"]}
    assert json_words(REPROJECT, **CALL, **arguments) == (
        *("--input=/ws/a.tif", "--output=/ws/b.tif", "--output-crs=EPSG:4326", "--size=100,0"),
        *("--target-aligned-pixels", "--input-nodata=-9999,nan"),
    )
    assert json_words(CLIP, **CALL, bbox="1, 2,3,4e2")[2:] == ("--bbox=1,2,3,4e2",)
    assert json_words(CLIP, **CALL, bbox=[1, 2.5, 1e-7, 4e20])[2:] == ("--bbox=1,2.5,1e-07,4e+20",)
    options = {"COMPRESS": "deflate", "TILED": True, "ZLEVEL": 6}
    words = json_words(CLIP, **WINDOW, creation_option=options)
    given_options = [word.removeprefix("--creation-option=") for word in words if "creation" in word]
    assert given_options == ["COMPRESS=DEFLATE", "TILED=YES", "ZLEVEL=6"]


def test_argument_names_may_be_aliases_but_not_twice() -> None:
    for name in ("output-format", "output_format", "of", "format"):
        assert json_words(CLIP, **WINDOW, **{name: "PNG"}).count("--output-format=PNG") == 1
    with pytest.raises(ArgumentRefused):
        json_words(CLIP, **WINDOW, output_format="PNG", of="PNG")


def test_unambiguous_values_are_accepted_in_every_notation() -> None:
    neighbors, edit, mosaic = (
        packaged().algorithms[f"raster {name}"] for name in ("neighbors", "edit", "mosaic")
    )
    matrix, pair = [[0, 1, 0], [1, 2, 1], [0, 1, 0]], {**CALL, "creation-option": "COMPRESS=LZW,TILED=YES"}
    for algorithm, arguments, words in [
        (CLIP, {**WINDOW, "window": ["0", 0, "5", 5]}, ["--window=0,0,5,5"]),
        (CLIP, {**WINDOW, "window": ["0,0,5,5"], "add-alpha": "true"}, ["--window=0,0,5,5", "--add-alpha"]),
        (CLIP, {"i": "a.tif", "--output": "b.tif", "window": "0,0,5,5"}, ["--input=/ws/a.tif", "--output=/ws/b.tif"]),
        (CLIP, {**WINDOW, "creation-option": []}, ["--window=0,0,5,5"]),
        (CLIP, {**WINDOW, **pair}, ["--creation-option=COMPRESS=LZW", "--creation-option=TILED=YES"]),
        (neighbors, {**CALL, "kernel": matrix, "datatype": "byte"}, ["--kernel=[[0,1,0],[1,2,1],[0,1,0]]", "--output-data-type=UInt8"]),
        (neighbors, {**CALL, "kernel": [matrix, "u"], "size": "3"}, ["--kernel=[[0,1,0],[1,2,1],[0,1,0]]", "--kernel=u", "--size=3"]),
        (edit, {"dataset": "a.tif", "gcp": [[0, 0, 2.5, 49], [1, 1, 3, 50]], "nodata": 0}, ["--gcp=0,0,2.5,49", "--gcp=1,1,3,50", "--nodata=0"]),
        (mosaic, {**CALL, "resolution": [10, 20]}, ["--resolution=10,20"]),
    ]:  # fmt: skip
        assert {*words} <= {*json_words(algorithm, **arguments)}, arguments


def test_null_and_false_are_as_if_left_out() -> None:
    empty = {"bbox": None, "add-alpha": False, "overwrite": False, "append": False}
    bound = bind(CLIP, {**WINDOW, **empty}, Context(packaged()))
    assert placed(bound) == ("--input=/ws/a.tif", "--output=/ws/b.tif", "--window=0,0,5,5")
    assert not bound.has_mode("replace")
    assert not bound.has_mode("update")


def test_output_mode_is_recorded_without_always_being_rendered() -> None:
    replacing = bind(CLIP, {**WINDOW, "overwrite": True}, Context(packaged()))
    assert (replacing.has_mode("replace"), replacing.has_mode("update")) == (True, False)
    assert not [word for word in placed(replacing) if "overwrite" in word]
    changing = bind(CLIP, {**WINDOW, "append": True}, Context(packaged()))
    assert (changing.has_mode("replace"), changing.has_mode("update")) == (False, True)
    assert "--append" in placed(changing)


def test_update_goes_before_what_implies_it() -> None:
    call = {"input": "a.gpkg", "output": "b.gpkg", "overwrite-layer": True, "update": True}
    assert json_words(VECTOR, **call)[0] == "--update"


def test_updating_an_unnamed_output_is_refused() -> None:
    collar = packaged().algorithms["raster clean-collar"]
    with pytest.raises(ArgumentRefused):
        json_words(collar, input="a.tif", update=True)
    assert "--update" in json_words(collar, input="a.tif", output="b.tif", update=True)


def test_options_follow_the_output_kind_not_the_input() -> None:
    layer = {"input": "a.tif", "output": "b.gpkg", "layer-creation-option": {"FID": "id"}}
    assert json_words(POLYGONIZE, **layer)[2:] == ("--layer-creation-option=FID=id",)
    with pytest.raises(ArgumentRefused):
        json_words(POLYGONIZE, **{**layer, "creation-option": ["COMPRESS=LZW"]})
    rasterize = packaged().algorithms["vector rasterize"]
    call = {"input": "a.gpkg", "output": "b.tif", "size": [10, 10], "creation-option": ["COMPRESS=LZW"]}
    assert "--creation-option=COMPRESS=LZW" in json_words(rasterize, **call)
    tile = packaged().algorithms["raster tile"]
    assert json_words(tile, input="a.tif", output="tiles", **{"creation-option": ["ZLEVEL=9"]})[2:]
    with pytest.raises(ArgumentRefused):
        json_words(tile, input="a.tif", output="tiles", **{"creation-option": ["JPEG_QUALITY=9"]})


def test_the_resolver_sees_the_inner_path_alone() -> None:
    call = {"input": ["A=a.tif", "B=sub/b.tif"], "calc": "A+B", "output": "c.tif"}
    bound = bind(CALC, call, Context(packaged())).resolve(lambda argument, text: f"/{argument.name}/{text}")
    assert render(bound)[:2] == ("--input=A=/input/a.tif", "--input=B=/input/sub/b.tif")
    assert "--output=/output/c.tif" in render(bound)


def test_part_of_a_file_is_never_an_output() -> None:
    names = {"a.nc": 'NETCDF:"/ws/a.nc":temp', "b.tif": "/staging/b.tif", "c.tif": 'NETCDF:"/ws/c.nc":temp'}
    call = {**WINDOW, "input": "a.nc"}
    good, bad = (bind(CLIP, {**call, "output": name}, Context(packaged())) for name in ("b.tif", "c.tif"))
    assert render(good.resolve(lambda _, text: names[text]))[0] == '--input=NETCDF:"/ws/a.nc":temp'
    with pytest.raises(ValueError, match="output"):
        bad.resolve(lambda _, text: names[text])
    for answer in ("a.tif", "", "@/ws/a", "PG:dbname=x", "http://host/x", "/ws/a\0b"):
        with pytest.raises(ValueError, match="input"):
            good.resolve(lambda _argument, _text, answer=answer: answer)


def test_json_of_another_type_or_name_is_refused() -> None:
    for name, values in {
        "window": ([0, 0, 5, "x"], [0, 0, 5, True], [[0, 0], 5], "0,0,5", {"a": 1}, True, [], [0, 0, 5, 5.5], [0, 0, 5, 10**30], [0, 0, 5, float("inf")]),
        "add-alpha": ("yes", 1, [True, False]),
        "geometry-crs": (4326, ["EPSG:4326", "EPSG:3857"]),
        "input": (["a.tif", "b.tif"], {"path": "a.tif"}, "", "a\0b"),
        "creation-option": ({"TILED": [True]}, {"A=B": "C"}, {"": "C"}, {1: "C"}, ["TILED=YES"] * 2000),
        **dict.fromkeys(("help", "h", "progress", "config", "--help", "", "x" * 5000), (True, {"CPL_LOG": "/x"}, [0, 0, 5, 5])),
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises(ArgumentRefused) as caught:
                bind(CLIP, {**WINDOW, name: value}, Context(packaged()))
            assert caught.value.suggestion
            assert len(caught.value.message) < 2000


def test_sql_is_one_statement_and_never_updates_input() -> None:
    call = {"input": "a.gpkg", "output": "b.gpkg", "sql": ["SELECT * FROM poly"]}
    assert bind(SQL, call, Context(packaged(), allow_sql=True)).get("sql") == ("SELECT * FROM poly",)
    two = ["SELECT 1", "DELETE FROM poly"]
    for spoiled in ({"update": True}, {"sql": two}, {"dialect": "INDIRECT_SQLITE"}):
        with pytest.raises(ArgumentRefused):
            bind(SQL, {**call, **spoiled}, Context(packaged(), allow_sql=True))


def test_features_precede_their_limit_in_any_key_order() -> None:
    """GDAL reads `--limit` before `--features` as a limit for both."""
    arguments = {"limit": 2, "input": ["a.gpkg"], "features": True}
    bound = bind(packaged().algorithms["vector info"], arguments, Context(packaged()))
    assert [argument.name for argument in bound.arguments] == ["input", "features", "limit"]
