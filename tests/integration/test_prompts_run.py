"""Every prompt that the server shows is followed step by step, with the tools and algorithms that it names, on real
data.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from tests.boxes import GDAL, known_tools
from tests.e2e.mcp.conftest import grounds
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle
from tests.traps.kit import codes

__all__ = ["grounds"]
pytestmark = [pytest.mark.engine, pytest.mark.nightly]

MAKE = """
import sys
import numpy
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
folder = sys.argv[1]
crs = osr.SpatialReference()
crs.ImportFromEPSG(32633)
y, x = numpy.mgrid[0:600, 0:600]
dem = (200 + 3 * x + 2 * y + 20 * numpy.sin(x / 9) * numpy.cos(y / 7) + numpy.random.default_rng(1).normal(0, 9, x.shape)).astype("float32")
for name, values in (("dem", dem), ("later", dem + (x > 500)), ("shifted", dem)):
    made = gdal.GetDriverByName("GTiff").Create(f"{folder}/{name}.tif", 600, 600, 1, gdal.GDT_Float32)
    made.SetSpatialRef(crs)
    made.SetGeoTransform((499000 + 50 * (name == "shifted"), 100, 0, 4651000, 0, -100))
    made.GetRasterBand(1).SetNoDataValue(-9999)
    made.GetRasterBand(1).WriteArray(values)
    made.Close()
made = gdal.GetDriverByName("GPKG").CreateVector(f"{folder}/zones.gpkg")
layer = made.CreateLayer("zones", crs, ogr.wkbPolygon)
layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
for number in range(4):
    west = 501000 + number * 5000
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetField("name", f"zone {number}")
    ring = f"{west} 4640000,{west + 4000} 4640000,{west + 4000} 4644000,{west} 4644000,{west} 4640000"
    feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POLYGON (({ring}))"))
    layer.CreateFeature(feature)
made.Close()
"""


def read(algorithm: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "gdal_read", {"algorithm": algorithm, "arguments": arguments}


def written(algorithm: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    """Validates a call and then makes it, as the prompts instruct."""
    call = {"algorithm": algorithm, "arguments": arguments}
    return [("validate_call", {"tool": "gdal_write", "arguments": call}), ("gdal_write", call)]


def checked(tool: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("validate_call", {"tool": tool, "arguments": arguments}), (tool, arguments)]


STATISTICS = {"input": "dem.tif", "zones": "zones.gpkg", "stat": ["count", "mean"], "include-field": ["name"]}
# the calls of each prompt in order, including alternatives that the prompt offers
STEPS: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "inspect_dataset": [
        ("info", {"path": "dem.tif"}),
        ("list_workspace", {}),
        read("dataset check", input="dem.tif"),
        ("preview", {"input": "dem.tif"}),
        read("vector info", input="zones.gpkg", limit=5),
    ],
    "make_cog": [
        ("info", {"path": "dem.tif"}),
        *checked(
            "convert",
            input="dem.tif",
            output="cog.tif",
            output_format="COG",
            creation_options=["COMPRESS=DEFLATE", "PREDICTOR=YES"],
            overwrite=True,
        ),
        read("driver cog validate", input="cog.tif"),
        ("info", {"path": "cog.tif"}),
    ],
    "convert_dataset": [
        ("info", {"path": "zones.gpkg"}),
        ("formats", {"name": "GeoJSON"}),
        *checked("convert", input="zones.gpkg", output="zones.fgb", overwrite=True),
        *checked(
            "reproject", input="dem.tif", output="moved.tif", dst_crs="EPSG:32632", resampling="bilinear"
        ),
        *checked("vector_reproject", input="zones.gpkg", output="moved.gpkg", **{"output-crs": "EPSG:4326"}),
    ],
    "prepare_web_map": [
        ("info", {"path": "dem.tif"}),
        ("gdal_describe", {"algorithm": "raster scale"}),
        ("gdal_describe", {"algorithm": "raster color-map"}),
        *written("raster hillshade", input="dem.tif", output="shaded.tif"),
        ("gdal_describe", {"algorithm": "raster tile"}),
        *written(
            "raster tile",
            input="shaded.tif",
            output="tiles",
            **{"tiling-scheme": "WebMercatorQuad", "webviewer": ["leaflet"], "max-zoom": 10},
        ),
    ],
    "compare_rasters": [
        ("info", {"path": "dem.tif"}),
        read("raster compare", input="later.tif", reference="dem.tif"),
        *written("raster calc", input=["A=later.tif", "B=dem.tif"], calc=["A-B"], output="difference.tif"),
        read("raster info", input="difference.tif", stats=True),
        *written(
            "raster reproject",
            input="shifted.tif",
            like="dem.tif",
            output="on_grid.tif",
            resampling="bilinear",
        ),
    ],
    "zonal_statistics": [
        ("info", {"path": "dem.tif"}),
        read("vector info", input="zones.gpkg"),
        *written(
            "vector reproject", input="zones.gpkg", output="zones_32632.gpkg", **{"output-crs": "EPSG:32632"}
        ),
        ("gdal_describe", {"algorithm": "raster zonal-stats"}),
        *written("raster zonal-stats", **STATISTICS, output="stats.gpkg"),
        read("vector info", input="stats.gpkg", limit=20),
    ],
}
WORD = re.compile(r"`([^`]+)`")


@pytest.fixture(scope="module")
def talk(grounds: Path, oracle: Oracle) -> Iterator[Talk]:
    place = Place.made(grounds / "prompts")
    folder = oracle.folder("prompts")
    oracle.python(MAKE, str(folder))
    for path in folder.iterdir():
        place.path(path.name).write_bytes(path.read_bytes())
    with inside(place.command("--approval", "never"), person=Person()) as new_talk:
        yield new_talk


def names_of(steps: list[tuple[str, dict[str, Any]]]) -> set[str]:
    algorithms = {arguments["algorithm"] for _, arguments in steps if "algorithm" in arguments}
    tools = {arguments["tool"] for tool, arguments in steps if tool == "validate_call"}
    return {tool for tool, _ in steps} | algorithms | tools


@pytest.mark.parametrize("name", sorted(GDAL.prompts()))
def test_each_prompt_can_be_followed_to_its_end(talk: Talk, name: str) -> None:
    for tool, arguments in STEPS[name]:
        done = talk.done(tool, **arguments)
        assert codes(done) == set(), (tool, arguments)
        assert done.get("valid", True), done


@pytest.mark.parametrize("name", sorted(GDAL.prompts()))
def test_steps_name_every_tool_and_algorithm_in_text(name: str) -> None:
    known = {*known_tools(), *packaged().algorithms}
    named = {word for word in WORD.findall(GDAL.prompts()[name].text) if word in known}
    assert named <= names_of(STEPS[name])
