"""Every tool does what its name says: an independent GDAL examines its effect.

The effect of a tool is the same in both eras of the protocol; if the form of results differs, there is a test for
both.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from tests.boxes import known_tools
from tests.e2e.mcp.talk import Place, Talk
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

HALVES = ["west.tif", "east.tif"]
ZONES_EXTENT = [440000, 3748200, 442400, 3751200]


def done(talk: Talk, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call, validated with the tool's schema; the classic programs can be called without
    being listed.
    """
    result = talk.done(tool, **arguments)
    jsonschema.validate(result, dict(known_tools()[tool].output_schema), jsonschema.Draft202012Validator)
    return result


def described(result: dict[str, Any]) -> dict[str, Any]:
    """The description of the only output."""
    [row] = result["outputs"]
    return row["description"]


def at(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def output_path(talk: Talk, tool: str, key: str, **arguments: Any) -> Path:
    """The path of the output whose address is under this key."""
    return at(done(talk, tool, **arguments)[key])


def test_info_gives_gdals_own_structure(talk: Talk, place: Place):
    result = done(talk, "info", path="dem.tif", format="json")
    for report in (result, result["untrusted"]["report"], done(talk, "info", path="dem.tif")):
        assert report["size"] == [60, 50]
        assert report["driverShortName"] == "GTiff"
        assert report["bands"][0]["noDataValue"] == -999
    zones = done(talk, "info", path=str(place.path("zones.gpkg")))
    assert zones["untrusted"]["report"]["layers"][0]["name"] == "zones"
    assert zones["layers"][0]["featureCount"] == 2
    assert "name" not in zones["layers"][0]  # it comes from the file


@pytest.mark.claim("outputs.gdal-writes-staging-only")
def test_gdalinfo_reports_text_or_json_without_leaving_files(modern: Talk, place: Place):
    before = sorted(place.workspace.iterdir())
    text = done(modern, "gdalinfo", dataset="dem.tif")["untrusted"]["text"]
    result = done(modern, "gdalinfo", dataset="dem.tif", json=True, stats=True)
    facts, report = result["report"], result["untrusted"]["report"]
    assert "Size is 60, 50" in text
    assert facts["size"] == report["size"] == [60, 50]
    [fact], [band] = facts["bands"], report["bands"]
    assert fact["maximum"] == band["maximum"] == float(band["metadata"][""]["STATISTICS_MAXIMUM"])
    assert sorted(place.workspace.iterdir()) == before


def test_convert_makes_the_same_pixels_in_another_format(talk: Talk, place: Place, oracle: Oracle):
    result = done(talk, "convert", input="dem.tif", output=f"converted-{talk.modern}.tif",
                  creation_options={"COMPRESS": "DEFLATE", "TILED": True, "BLOCKXSIZE": 32, "BLOCKYSIZE": 32})  # fmt: skip
    path = Path(result["output"])
    assert at(result["resource_uri"]) == path == place.path(path.name)
    assert oracle.checksums(path) == oracle.checksums(place.path("dem.tif"))
    info = json.loads(oracle.must("gdalinfo", "-json", str(path)))
    assert info["metadata"]["IMAGE_STRUCTURE"]["COMPRESSION"] == "DEFLATE"
    assert info["bands"][0]["block"] == [32, 32]
    assert described(result)["size"] == [60, 50]
    assert described(result)["compression"] == "DEFLATE"
    assert [Path(row["path"]) for row in result["outputs"]] == [path]


def test_profile_makes_a_valid_cog_with_recorded_options(talk: Talk, place: Place, oracle: Oracle):
    output = f"profile-{talk.modern}.tif"
    result = done(talk, "convert", input="dem.tif", output=output, output_format="COG",
                  creation_options={"PROFILE": "analysis", "BLOCKSIZE": 128})  # fmt: skip
    path = Path(result["output"])
    assert described(result)["valid_cog"] is True
    assert oracle.checksums(path) == oracle.checksums(place.path("dem.tif"))
    info = json.loads(oracle.must("gdalinfo", "-json", str(path)))
    assert info["metadata"]["IMAGE_STRUCTURE"]["LAYOUT"] == "COG"
    assert info["metadata"]["IMAGE_STRUCTURE"]["COMPRESSION"] == "ZSTD"
    [started] = [
        event for event in place.audited if event["type"] == "call.started" and output in json.dumps(event)
    ]
    command = json.dumps(started)
    assert "--creation-option=COMPRESS=ZSTD" in command
    assert "--creation-option=PROFILE" not in command


def test_convert_writes_vectors_with_all_companions(modern, place, oracle):
    name = "zones-made"
    result = done(modern, "convert", input="zones.gpkg", output=f"{name}.shp")
    assert {".shp", ".shx", ".dbf", ".prj"} <= {Path(row["path"]).suffix for row in result["files"]}
    assert oracle.counts(place.path(f"{name}.shp")) == [2]
    assert described(result)["layers"][0]["features"] == 2
    assert result["untrusted"]["names"][0]["layers"][0]["name"] == name


def test_reproject_does_as_it_is_told(modern: Talk, place: Place, oracle: Oracle):
    name = "reprojected.tif"
    result = done(modern, "reproject", input="dem.tif", output=name, dst_crs="EPSG:4326", resampling="bilinear",
                  size=[40, 0], creation_options={"COMPRESS": "LZW"}, warp_options={"SAMPLE_GRID": True},
                  extra_args=["--add-alpha"])  # fmt: skip
    info = oracle.raster(place.path(name))
    assert info["size"][0] == 40
    assert len(info["bands"]) == 2
    assert 'ID["EPSG",4326]' in info["coordinateSystem"]["wkt"]
    assert described(result)["crs"]["code"] == "EPSG:4326"


def test_reproject_to_a_window_at_a_resolution(modern: Talk, place: Place, oracle: Oracle):
    done(modern, "reproject", input="plain.tif", output="placed.tif", src_crs="EPSG:4326", dst_crs="EPSG:4326",
         transform_options={"SRC_METHOD": "NO_GEOTRANSFORM"}, resolution=0.5, bbox=[0, -5, 5, 0], bbox_crs="EPSG:4326")  # fmt: skip
    info = oracle.raster(place.path("placed.tif"))
    assert info["size"] == [10, 10]
    assert info["geoTransform"][1] == 0.5


def test_gdal_translate_picks_bands_and_a_window(modern: Talk, place: Place, oracle: Oracle):
    name = "window.png"
    result = done(modern, "gdal_translate", src_dataset="rgb.tif", dst_dataset=name, output_format="PNG",
                  bands=["3", "1"], projwin=[2.5, 48.5, 3.5, 48.0])  # fmt: skip
    assert at(result["output_uri"]) == place.path(name)
    info = oracle.raster(place.path(name))
    assert info["size"] == [20, 10]
    assert len(info["bands"]) == 2
    # the position of the window is in a companion file
    assert f"{name}.aux.xml" in [Path(row["path"]).name for row in result["files"]]


def test_unnamed_gdal_translate_output_is_always_new(modern, place, oracle):
    arguments = {"src_dataset": "rgb.tif", "resample_alg": "average"}
    paths = [output_path(modern, "gdal_translate", "output_uri", **arguments) for _ in range(2)]
    assert paths[0] != paths[1]
    assert {path.parent for path in paths} == {place.path("outputs")}
    assert oracle.checksums(paths[0]) == oracle.checksums(paths[1]) == oracle.checksums(place.path("rgb.tif"))


def test_gdalwarp_reprojects_and_mosaics(modern: Talk, oracle: Oracle):
    path = output_path(modern, "gdalwarp", "output_uri", src_datasets=HALVES, t_srs="EPSG:4326", r="nearest")
    assert oracle.raster(path)["size"] == [20, 10]


def test_gdalbuildvrt_is_usable_where_it_is_published(modern: Talk, place: Place, oracle: Oracle):
    mosaic = output_path(modern, "gdalbuildvrt", "vrt_uri", src_datasets=HALVES, resolution="highest")
    options = {"dst_vrt": "stack.vrt", "separate": True}
    stack = output_path(modern, "gdalbuildvrt", "vrt_uri", src_datasets=HALVES, **options)
    assert mosaic.parent == place.path("outputs")
    assert oracle.raster(mosaic)["size"] == [20, 10]
    assert 0 not in oracle.checksums(mosaic)
    assert len(oracle.checksums(stack)) == 2
    assert modern.done("info", path=str(mosaic))["size"] == [20, 10]


def test_gdal_rasterize_burns_inside_or_outside(modern: Talk, oracle: Oracle):
    covered = []
    for invert in (False, True):
        result = done(modern, "gdal_rasterize", src_vector="zones.gpkg", burn_value=5.5, width=24, height=30,
                      extent=ZONES_EXTENT, invert=invert)  # fmt: skip
        info = json.loads(oracle.must("gdalinfo", "-json", "-stats", str(at(result["raster_uri"]))))
        assert info["size"] == [24, 30]
        assert info["bands"][0]["maximum"] == 5.5
        covered.append(float(info["bands"][0]["metadata"][""]["STATISTICS_VALID_PERCENT"]))
    assert 0 < covered[0] < 100
    assert sum(covered) == pytest.approx(100, abs=0.1)


def table(oracle: Oracle, path: Path) -> tuple[list[int], float]:
    """The shape of an array file, and the least of its third column."""
    program = "import sys, json, numpy as n; a = n.load(sys.argv[1]); print(json.dumps([a.shape, float(a[:, 2].min())]))"
    shape, least = json.loads(oracle.python(program, str(path)))
    return shape, least


def test_gdal2xyz_writes_rows_or_an_array(modern: Talk, oracle: Oracle):
    rows = done(modern, "gdal2xyz", dataset="rgb.tif", bands=["1", "3"])
    lines = at(rows["xyz_uri"]).read_text().splitlines()
    assert len(lines) == 40 * 30
    assert [float(part) for part in lines[0].split(",")] == [2.025, 48.975, 0, 0]
    result = done(modern, "gdal2xyz", dataset="dem.tif", output_format="numpy", skip_nodata=True)
    shape, least = table(oracle, at(result["xyz_uri"]))
    assert shape == [60 * 50 - 12, 3]
    assert least > -999


def test_gdal_merge_pastes_side_by_side_or_stacks(modern: Talk, oracle: Oracle):
    for more, bands in (({"n": 0}, 1), ({"separate": True}, 2)):
        info = oracle.raster(output_path(modern, "gdal_merge", "merged_uri", src_datasets=HALVES, **more))
        assert (info["size"], len(info["bands"])) == ([20, 10], bands)


def test_gdal_polygonize_makes_polygons_of_classes(modern: Talk, oracle: Oracle):
    masked = {"band": 1, "mask": "mask.tif", "dst_vector": "masked.geojson"}
    for more, field, expected in (
        ({"field_name": "class"}, "class", [0, 1, 1, 2]),
        (masked, "DN", [0, 1, 2]),
    ):
        path = output_path(modern, "gdal_polygonize", "vector_uri", src_dataset="classes.tif", **more)
        [layer] = oracle.vector(path)["layers"]
        assert sorted(feature["properties"][field] for feature in layer["features"]) == expected


def test_what_gdal_misreads_at_first_is_no_failure(modern: Talk, place: Place, oracle: Oracle):
    """A raster driver takes three columns for a grid, and a schema is searched for as a file."""
    place.path("numbers.csv").write_text("a,b,c\n1,2,3\n5,7,1\n2,2,9\n8,1,4\n")
    copied = {"input": "numbers.csv", "output": "numbers_again.csv"}
    [layer] = described(done(modern, "gdal_write", algorithm="vector convert", arguments=copied))["layers"]
    assert layer["features"] == 4
    schema = done(modern, "gdal_read", algorithm="vector export-schema", arguments={"input": "zones.gpkg"})
    text = json.dumps(schema["untrusted"]["report"])
    for name, arguments in {"like": {"like": "zones.gpkg"}, "schema": {"schema": text}}.items():
        call = {**arguments, "output": f"by_{name}.gpkg"}
        done(modern, "gdal_write", algorithm="vector create", arguments=call)
        layers = oracle.vector(place.path(call["output"]))["layers"]
        zones = oracle.vector(place.path("zones.gpkg"))["layers"]
        assert [layer["fields"] for layer in layers] == [layer["fields"] for layer in zones]
        assert [layer["featureCount"] for layer in layers] == [0]


def test_report_is_written_to_a_file_unchanged(modern: Talk, place: Place):
    call = {"filename": ["dem.tif"], "output-format": "json", "output": "found.json"}
    done(modern, "gdal_write", algorithm="dataset identify", arguments=call)
    assert [row["driver"] for row in json.loads(place.path("found.json").read_text())] == ["GTiff"]


def test_dataset_is_copied_only_in_the_named_format(modern: Talk, place: Place):
    for driver in ("GTiff", "PNG"):
        call = {"source": "dem.tif", "destination": f"copy_as_{driver}.tif", "format": driver}
        result = modern.call("gdal_write", algorithm="dataset copy", arguments=call)
        assert result.is_error is (driver == "PNG")
        assert place.path(call["destination"]).exists() is (driver == "GTiff")
