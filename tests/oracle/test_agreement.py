"""What our containers make is what a plain GDAL makes of the same command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data.make import make_data
from tests.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import STAGING, Oracle

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

EXTENT = [440000, 3748200, 442400, 3751200]
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "info of a raster": ("info", {"path": "dem.tif"}),
    "info of a vector": ("info", {"path": "zones.gpkg"}),
    "info as text": ("info", {"path": "rgb.tif", "format": "text"}),
    "gdalinfo as JSON with statistics": ("gdalinfo", {"dataset": "dem.tif", "json": True, "stats": True}),
    "gdalinfo as text": ("gdalinfo", {"dataset": "float.tif"}),
}
RASTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "convert with options": ("convert", {"input": "dem.tif", "output": "c1.tif", "creation_options": {"COMPRESS": "ZSTD", "PREDICTOR": 2}}),
    "convert to COG": ("convert", {"input": "rgb.tif", "output": "c2.tif", "output_format": "COG"}),
    "convert to PNG": ("convert", {"input": "rgb.tif", "output": "c3.png"}),
    "reproject": ("reproject", {"input": "dem.tif", "output": "r1.tif", "dst_crs": "EPSG:4326", "resampling": "cubic"}),
    "reproject to a grid": ("reproject", {"input": "rgb.tif", "output": "r2.tif", "dst_crs": "EPSG:3035", "resolution": [3000.0, 4000.0],
                                          "bbox": [2.5, 48, 3.5, 48.8], "bbox_crs": "EPSG:4326", "resampling": "average"}),
    "translate": ("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "t1.tif", "bands": ["2", "3"], "projwin": [2.2, 48.9, 3.1, 48.1]}),
    "translate with a mask band": ("gdal_translate", {"src_dataset": "dem.tif", "dst_dataset": "t2.tif", "bands": ["1", "mask"]}),
    "warp": ("gdalwarp", {"src_datasets": ["west.tif", "east.tif"], "t_srs": "EPSG:3857", "dst_dataset": "w1.tif", "r": "bilinear"}),
    "warp to a WKT": ("gdalwarp", {"src_datasets": ["dem.tif"], "t_srs": "+proj=laea +lat_0=34 +lon_0=-117 +datum=WGS84", "dst_dataset": "w2.tif"}),
    "buildvrt": ("gdalbuildvrt", {"src_datasets": ["west.tif", "east.tif"], "dst_vrt": "v1.vrt", "resolution": "average"}),
    "buildvrt as a stack": ("gdalbuildvrt", {"src_datasets": ["west.tif", "east.tif"], "dst_vrt": "v2.vrt", "separate": True}),
    "rasterize": ("gdal_rasterize", {"src_vector": "zones.shp", "burn_value": 7.5, "width": 40, "height": 50, "extent": EXTENT, "dst_raster": "z1.tif"}),
    "rasterize outside": ("gdal_rasterize", {"src_vector": "zones.gpkg", "burn_value": -2, "width": 40, "height": 50, "extent": EXTENT,
                                             "dst_raster": "z2.tif", "invert": True}),
    "merge": ("gdal_merge", {"src_datasets": ["west.tif", "east.tif"], "dst_dataset": "m1.tif", "n": 0}),
    "merge as a stack": ("gdal_merge", {"src_datasets": ["west.tif", "east.tif"], "dst_dataset": "m2.tif", "separate": True}),
}  # fmt: skip
VECTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "convert to a shapefile": ("convert", {"input": "zones.gpkg", "output": "s1.shp"}),
    "convert to GeoJSON": ("convert", {"input": "zones.shp", "output": "s2.geojson"}),
    "convert to FlatGeobuf": ("convert", {"input": "places.geojson", "output": "s3.fgb"}),
    "polygonize": (
        "gdal_polygonize",
        {"src_dataset": "classes.tif", "dst_vector": "p1.gpkg", "field_name": "class"},
    ),
    "polygonize under a mask": (
        "gdal_polygonize",
        {"src_dataset": "classes.tif", "dst_vector": "p2.geojson", "mask": "mask.tif", "band": 1},
    ),
}
TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "xyz": ("gdal2xyz", {"dataset": "rgb.tif", "dst_csv": "x1.csv", "bands": ["3", "1"]}),
    "xyz without nodata": ("gdal2xyz", {"dataset": "dem.tif", "dst_csv": "x2.csv", "skip_nodata": True}),
}
ALL = READS | RASTERS | VECTORS | TABLES


@pytest.fixture(scope="module")
def place(grounds: Path, oracle: Oracle) -> Place:
    made = Place.made(grounds / "agreement")
    make_data(oracle, made.workspace)
    return made


@pytest.fixture(scope="module")
def results(place: Place, grounds: Path) -> Iterator[dict[str, dict[str, Any]]]:
    """Every call, made by one server; several run at a time."""
    command = place.command("--approval", "never", "--no-preview", "--cpus", "1")
    with talking(command, grounds / "agreement.log", person=Person()) as talk:
        calls = {name: talk.start(tool, **arguments) for name, (tool, arguments) in ALL.items()}
        yield {name: _succeeded(talk, call.result(timeout=300)) for name, call in calls.items()}


def _succeeded(_talk: Talk, result: Any) -> dict[str, Any]:
    assert not result.is_error, result.structured_content
    return result.structured_content


def same_command(result: dict[str, Any], into: Path) -> list[str]:
    """The command of a receipt, with its output in another folder."""
    return [word.replace(STAGING, str(into)) for word in result["receipt"]["argv"]]


def theirs(oracle: Oracle, result: dict[str, Any], name: str, output: str) -> Path:
    """What the oracle makes of the same command."""
    into = oracle.folder(name.replace(" ", "-"))
    oracle.must(*same_command(result, into))
    return into / output


def ours(result: dict[str, Any]) -> Path:
    return Path(result["files"][0]["path"])


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_the_same(results: dict[str, dict[str, Any]], oracle: Oracle, name: str):
    result = results[name]
    printed = oracle.must(*result["receipt"]["argv"])
    said = result["untrusted"]
    assert len(said.keys() & {"report", "text"}) == 1
    assert said.get("report", said.get("text")) == (json.loads(printed) if "report" in said else printed)


@pytest.mark.parametrize("name", ["info of a raster", "gdalinfo as JSON with statistics"])
def test_the_facts_are_those_of_the_report(results: dict[str, dict[str, Any]], name: str):
    whole = results[name]["untrusted"]["report"]
    facts = results[name].get("report", results[name])
    for key in ("driverShortName", "size", "geoTransform"):
        assert facts[key] == whole[key]
    for key in ("type", "noDataValue", "block", "colorInterpretation"):
        assert facts["bands"][0][key] == whole["bands"][0][key]


@pytest.mark.parametrize("name", RASTERS)
def test_rasters_are_the_same(results: dict[str, dict[str, Any]], oracle: Oracle, name: str):
    result = results[name]
    output = next(
        value
        for key, value in RASTERS[name][1].items()
        if key in ("output", "dst_dataset", "dst_vrt", "dst_raster")
    )
    mine, other = (
        _described(oracle, path)
        for path in (Path(result["files"][0]["path"]).with_name(output), theirs(oracle, result, name, output))
    )
    assert mine == other
    assert all(band["checksum"] for band in mine["bands"])


def _described(oracle: Oracle, path: Path) -> dict[str, Any]:
    seen = oracle.raster(path)
    return {key: value for key, value in seen.items() if key not in ("description", "files")}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_the_same(results: dict[str, dict[str, Any]], oracle: Oracle, name: str):
    result = results[name]
    output = VECTORS[name][1].get("output") or VECTORS[name][1]["dst_vector"]
    mine, other = (
        oracle.vector(path)["layers"]
        for path in (ours(result).with_name(output), theirs(oracle, result, name, output))
    )
    assert mine == other
    assert mine[0]["featureCount"] > 0


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_same(results: dict[str, dict[str, Any]], oracle: Oracle, name: str):
    result = results[name]
    assert ours(result).read_bytes() == theirs(oracle, result, name, ours(result).name).read_bytes()


def test_what_we_say_of_an_output_is_what_the_oracle_sees(results: dict[str, dict[str, Any]], oracle: Oracle):
    for name in ("reproject", "translate", "warp", "buildvrt", "rasterize", "merge"):
        [row] = results[name]["outputs"]
        said, seen = row["description"], oracle.raster(ours(results[name]))
        assert said["size"] == seen["size"]
        assert [band["type"] for band in said["bands"]] == [band["type"] for band in seen["bands"]]
        assert said["bands"][0]["nodata"] == seen["bands"][0].get("noDataValue")
        corners = seen["cornerCoordinates"]
        assert said["extent"] == pytest.approx([*corners["lowerLeft"], *corners["upperRight"]], rel=1e-6)
    for name in VECTORS:
        [row] = results[name]["outputs"]
        said, [names] = row["description"]["layers"][0], results[name]["untrusted"]["names"]
        seen = oracle.vector(ours(results[name]).with_name(_named(name)))["layers"][0]
        assert said["features"] == seen["featureCount"]
        assert len(said["fields"]) == len(seen["fields"])
        assert names["layers"][0]["name"] == seen["name"]
        assert names["layers"][0]["fields"] == [field["name"] for field in seen["fields"]]


def _named(name: str) -> str:
    return VECTORS[name][1].get("output") or VECTORS[name][1]["dst_vector"]
