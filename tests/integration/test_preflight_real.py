"""Preflight against GDAL itself: what headers say, what calls make, and where a coordinate is."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from gdal_mcp.gdal.preflight.described import header_of_description
from gdal_mcp.gdal.preflight.headers import read_header

from gdal_mcp.gdal.inside import parts as worker_parts
from gdal_mcp.gdal.preflight import crs
from gdal_mcp.gdal.preflight.estimate import estimate
from gdal_mcp.gdal.preflight.facts import DatasetFacts
from gdal_mcp.gdal.preflight.request import Request
from sandbox.workspace import Located, Workspace, Workspaces
from tests.data.make import make_data
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds

pytestmark = pytest.mark.engine
__all__ = ["grounds"]

# each made of dem.tif or rgb.tif by `gdal raster convert` with these creation options
FILES = {
    "plain.tif": ("dem", "GTiff", ()),
    "tiled.tif": ("dem", "GTiff", ("TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=32")),
    "big.tif": ("dem", "GTiff", ("BIGTIFF=YES", "COMPRESS=ZSTD")),
    "motorola.tif": ("rgb", "GTiff", ("ENDIANNESS=BIG", "COMPRESS=LZW")),
    "big_motorola.tif": ("dem", "GTiff", ("ENDIANNESS=BIG", "BIGTIFF=YES")),
    "bits.tif": ("classes", "GTiff", ("NBITS=2", "INTERLEAVE=BAND")),
    "cog.tif": ("rgb", "COG", ()),
    "old.tif": ("dem", "GTiff", ("GEOTIFF_VERSION=1.0",)),
    "bare.tif": ("rgb", "GTiff", ("PROFILE=BASELINE",)),
    "picture.png": ("rgb", "PNG", ()),
    "deep.png": ("dem", "PNG", ()),
    "picture.jpg": ("rgb", "JPEG", ()),
    "grey.jpg": ("classes", "JPEG", ("PROGRESSIVE=YES",)),
}


@dataclass(frozen=True)
class Place:
    """The data, and what GDAL made of it: all commands run in one process, as each would take a second by itself."""

    folder: Path
    made: Path
    oracle: Oracle
    facts: Mapping[
        str, Mapping[str, Any]
    ]  # of every file that was made, by its name or by the words that made it

    def located(self, path: Path) -> Located:
        return Workspaces((Workspace.at(path.parent, writable=False),)).input(str(path))

    def header(self, path: Path) -> DatasetFacts:
        found = read_header(self.located(path))
        assert found is not None
        return found


BATCH = """
import json, os, sys
from osgeo import gdal
gdal.UseExceptions()
job, facts = json.loads(sys.argv[1]), {}

def told(path):
    if os.path.isdir(path):
        return {"pngs": sum(name.endswith(".png") for _, _, names in os.walk(path) for name in names)}
    return {"bytes": os.path.getsize(path)} | gdal.Info(path, format="json")

for name, (source, driver, options) in job["files"].items():
    gdal.Translate(job["made"] + name, job["data"] + source + ".tif", format=driver, creationOptions=options).Close()
    facts[name] = told(job["made"] + name)
for number, (words, argv) in enumerate(job["runs"].items()):
    path = job["made"] + str(number)
    alg = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(argv.pop(0))
    while argv and alg.HasSubAlgorithms() and argv[0] in alg.GetSubAlgorithmNames():
        alg = alg.InstantiateSubAlgorithm(argv.pop(0))
    assert alg.ParseCommandLineArguments([*argv, "--output=" + path]) and alg.Run() and alg.Finalize(), words
    del alg
    facts[words] = told(path)
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def place(oracle: Oracle, grounds: Path) -> Place:
    folder = grounds / "foresight"
    folder.mkdir()
    make_data(oracle, folder)
    made = oracle.folder("foresight_made")
    job = {
        "data": f"{folder}/",
        "made": f"{made}/",
        "files": FILES,
        "runs": {words: _argv(folder, words) for words in (*RASTERS, *OPTIONS, *TILES)},
    }
    return Place(folder, made, oracle, json.loads(oracle.python(BATCH, json.dumps(job))))


def code_of(info: dict) -> str | None:
    code = info["stac"].get("proj:epsg") if "stac" in info else None
    return f"EPSG:{code}" if code else None


@pytest.mark.parametrize("name", FILES)
def test_a_header_says_what_gdal_says(place: Place, name: str):
    path = place.made / name
    header, info = place.header(path), place.facts[name]
    assert header.driver == info["driverShortName"].replace("COG", "GTiff")
    assert [header.width, header.height] == info["size"]
    assert header.bands == len(info["bands"])
    assert header.data_type == info["bands"][0]["type"]
    assert header.disk_bytes == path.stat().st_size
    if header.driver == "GTiff":
        assert header.nodata == info["bands"][0].get("noDataValue")
        assert list(header.block or ()) == info["bands"][0]["block"]
        packed = info["metadata"].get("IMAGE_STRUCTURE", {}).get("COMPRESSION", "NONE")
        assert header.compression == packed


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".tif") and name != "bare.tif"])
def test_a_geotiff_says_where_it_is(place: Place, name: str):
    header, info = place.header(place.made / name), place.facts[name]
    corners = info["cornerCoordinates"]
    expected = (*corners["lowerLeft"], *corners["upperRight"])
    assert header.extent == pytest.approx(expected, rel=1e-12)
    assert header.crs == code_of(info)
    assert header.degrees is (header.crs == "EPSG:4326")


def test_a_tiff_without_keys_has_no_crs(place: Place):
    header = place.header(place.made / "bare.tif")
    assert (header.has_crs, header.crs, header.extent) == (False, None, None)


def test_a_shapefile_says_what_it_holds(place: Place):
    header = place.header(place.folder / "zones.shp")
    assert (header.driver, header.features, header.geometry) == ("ESRI Shapefile", 2, "Polygon")
    assert header.extent == (440000.0, 3748200.0, 442400.0, 3750900.0)
    assert header.degrees is False


@pytest.mark.parametrize("name", ["dem.tif", "rgb.tif", "zones.shp"])
def test_a_description_of_the_container_says_the_same_as_the_file(place: Place, name: str):
    path = place.folder / name
    facts = json.loads(place.oracle.python(DESCRIBE, str(_worker_parts(place)), str(path)))
    header, described = place.header(path), header_of_description(facts, path.stat().st_size)
    assert described is not None
    if header.crs is None:  # the .prj names no code; PROJ finds it by the CRS itself
        described = replace(described, crs=None)
    if header.compression == "NONE":  # GDAL says nothing then
        described = replace(described, compression="NONE")
    assert described == header


DESCRIBE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from osgeo import gdal
from gdal_mcp.gdal.inside.parts.datasets import facts_and_names
gdal.DontUseExceptions()
print(json.dumps(facts_and_names(sys.argv[2], gdal.OpenEx(sys.argv[2]))[0]))
"""


def _worker_parts(place: Place) -> Path:
    """The container's own code where the oracle sees it."""
    root = place.folder / "code"
    inside = root / "gdal_mcp" / "inside"
    shutil.copytree(Path(worker_parts.__file__).parent, inside / "parts", dirs_exist_ok=True)
    for package in (inside, inside.parent):
        (package / "__init__.py").touch()
    return root


# what is written -> GDAL's words; `in:` names a file of the data
RASTERS = [
    "raster convert in:dem.tif",
    "raster select in:rgb.tif --band=2,1",
    "raster set-type in:dem.tif --output-data-type=Float64",
    "raster scale in:dem.tif",
    "raster scale in:rgb.tif --output-data-type=UInt16",
    "raster unscale in:dem.tif",
    "raster resize in:dem.tif --size=30,0",
    "raster resize in:rgb.tif --size=50%,200%",
    "raster resize in:dem.tif --resolution=30,20",
    "raster reproject in:dem.tif --output-crs=EPSG:32611 --resolution=40,40",
    "raster reproject in:dem.tif --output-crs=EPSG:4326 --size=33,44",
    "raster reproject in:rgb.tif --output-crs=EPSG:3857 --resolution=1000,1000",
    "raster reproject in:dem.tif --output-crs=EPSG:4326 --bbox=-117.65,33.86,-117.61,33.9 --resolution=0.001,0.0005",
    "raster reproject in:rgb.tif --output-crs=EPSG:4326 --resolution=0.1,0.1",
    "raster clip in:dem.tif --window=5,6,20,30",
    "raster clip in:dem.tif --bbox=440130,3748500,441333,3750000",
    "raster clip in:rgb.tif --bbox=2.5,48,9,60 --allow-bbox-outside-source",
    "raster create --size=70,50 --band-count=3 --output-data-type=Int16",
    "raster create --size=70,50",
    "raster mosaic in:west.tif in:east.tif",
    "raster stack in:dem.tif in:float.tif --output-format=VRT",
    "raster hillshade in:dem.tif",
    "raster slope in:dem.tif",
    "raster aspect in:dem.tif",
    "raster roughness in:dem.tif",
    "raster tpi in:dem.tif",
    "raster tri in:dem.tif",
    "raster calc --input=A=in:dem.tif --calc=A*2",
    "raster calc --input=A=in:rgb.tif --calc=A*2 --calc=A+1",
    "raster neighbors in:rgb.tif --method=mean --kernel=equal --size=3",
    "raster reclassify in:classes.tif --mapping=DEFAULT=1",
    "raster fill-nodata in:dem.tif",
    "raster proximity in:classes.tif",
    "raster sieve in:rgb.tif",
    "raster viewshed in:dem.tif --position=441000,3749000 --height=2",
    "raster clean-collar in:rgb.tif",
    "raster rgb-to-palette in:rgb.tif",
    "vector rasterize in:zones.gpkg --size=40,30 --burn=1",
    "vector rasterize in:zones.shp --resolution=60,60 --burn=1,2",
    "vector rasterize in:zones.shp --size=10,10 --attribute-name=value --output-data-type=Byte",
    "vector grid nearest in:zones.shp --zfield=value",
    "vector grid nearest in:zones.shp --zfield=value --size=20,10 --output-data-type=Float32",
]


OPTIONS = [
    f"raster create --size=800,600 --creation-option={option}"
    for option in (
        "COMPRESS=ZSTD",
        "SPARSE_OK=YES",
        "NBITS=1",
        "COMPRESS=JPEG",
        "TILED=YES",
        "INTERLEAVE=BAND",
    )
]
TILES = [
    f"raster tile in:{name} --tiling-scheme={scheme} {zooms} --webviewer=none"
    for name, deepest in (("classes.tif", 12), ("rgb.tif", 8))
    for scheme in ("WebMercatorQuad", "WorldCRS84Quad")
    for zooms in (f"--min-zoom=3 --max-zoom={deepest}", "--max-zoom=7", "--tile-size=512")
]


@pytest.mark.parametrize("words", RASTERS)
def test_the_output_is_as_foreseen(place: Place, words: str):
    foreseen, info = estimate(_request(place, words)), place.facts[words]
    assert foreseen is not None
    assert foreseen.output is not None
    assert [foreseen.output.width, foreseen.output.height] == pytest.approx(info["size"], rel=0.03, abs=1)
    assert foreseen.output.bands == len(info["bands"])
    assert foreseen.output.data_type == info["bands"][0]["type"]
    assert foreseen.sure.bytes <= info["bytes"]
    if "--output-format" not in words:
        assert foreseen.output_bytes == pytest.approx(info["bytes"], rel=0.1, abs=4000)


@pytest.mark.parametrize("words", OPTIONS)
def test_nothing_is_called_certain_that_an_option_makes_smaller(place: Place, words: str):
    foreseen = estimate(_request(place, words))
    assert foreseen is not None
    assert foreseen.sure.bytes <= place.facts[words]["bytes"]


@pytest.mark.parametrize("words", TILES)
def test_tiles_are_counted_as_gdal_makes_them(place: Place, words: str):
    foreseen, count = estimate(_request(place, words)), place.facts[words]["pngs"]
    assert foreseen is not None
    assert foreseen.sure.files <= count
    if "--max-zoom" in words:
        assert foreseen.output_files == pytest.approx(count, rel=0.1)
    else:  # GDAL chooses a level; the next one would do as well
        assert count / 4 <= foreseen.output_files <= count * 4


def test_what_is_taken_for_degrees_is_in_degrees(place: Place):
    codes = [code for code in range(1024, 32767) if crs.degrees_of(f"EPSG:{code}") is not None]
    said = json.loads(place.oracle.python(DEGREES, ",".join(map(str, codes))))
    wrong = {code: said[str(code)] for code in codes if said[str(code)] is not crs.degrees_of(f"EPSG:{code}")}
    # codes that PROJ does not know are nobody's
    assert {code: what for code, what in wrong.items() if what is not None} == {}
    assert sum(one is True for one in said.values()) > 300


DEGREES = """
import json, math, sys
from osgeo import osr
osr.DontUseExceptions()
from osgeo import gdal
gdal.PushErrorHandler("CPLQuietErrorHandler")
found = {}
for code in sys.argv[1].split(","):
    crs = osr.SpatialReference()
    if crs.ImportFromEPSG(int(code)) != 0:
        found[code] = None
        continue
    found[code] = bool(crs.IsGeographic()) and abs(crs.GetAngularUnits() - math.pi / 180) < 1e-12
print(json.dumps(found))
"""

BOXES = [
    ("EPSG:32611", (440000, 3748000, 443600, 3751000), "EPSG:4326"),
    ("EPSG:32733", (300000, 6000000, 700000, 6500000), "EPSG:4326"),
    ("EPSG:25832", (250000, 5200000, 950000, 6100000), "OGC:CRS84"),
    ("EPSG:26711", (440720, 3745320, 446720, 3751320), "EPSG:4326"),
    ("EPSG:32611", (440000, 3748000, 443600, 3751000), "EPSG:3857"),
    ("EPSG:4326", (-117.65, 33.86, -117.6, 33.9), "EPSG:32611"),
    ("EPSG:4326", (10.0, -40.0, 18.0, -20.0), "EPSG:32733"),
    ("EPSG:3857", (1300000, 6000000, 1500000, 6500000), "EPSG:25832"),
    ("EPSG:4326", (-44.8, -23.1, -44.6, -22.9), "EPSG:3857"),
    ("EPSG:3857", (-20037508, -20037508, 20037508, 20037508), "EPSG:4326"),
]


def test_boxes_are_converted_as_proj_does(place: Place):
    said = json.loads(place.oracle.python(TRANSFORM, json.dumps(BOXES)))
    for (source, box, target), expected in zip(BOXES, said, strict=True):
        near = 0.003 if crs.degrees_of(target) else 300
        assert crs.projected(box, source, target) == pytest.approx(expected, abs=near), (source, target)


TRANSFORM = """
import json, sys
from osgeo import osr
osr.UseExceptions()

def made(name):
    crs = osr.SpatialReference()
    crs.SetFromUserInput(name)
    crs.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return crs

boxes = json.loads(sys.argv[1])
print(json.dumps([osr.CoordinateTransformation(made(a), made(b)).TransformBounds(*box, 21) for a, box, b in boxes]))
"""


def _argv(folder: Path, words: str) -> list[str]:
    texts = [f"--input={word}" if word.startswith("in:") else word for word in words.split()]
    if "--output-format" not in words and "raster tile" not in words:
        texts.append("--output-format=GTiff")
    return [text.replace("in:", f"{folder}/") for text in texts]


def _request(place: Place, words: str) -> Request:
    """The request as the catalogue would bind it: names in full, lists of numbers apart."""
    parts = words.split()
    split = next(index for index, part in enumerate(parts) if "in:" in part or part.startswith("--"))
    arguments: dict[str, tuple[str, ...]] = {}
    inputs = []
    for part in parts[split:]:
        name, _, value = part.removeprefix("--").partition("=")
        if "in:" in part:
            path = place.folder / part.partition("in:")[2]
            inputs.append(read_header(place.located(path)))
        elif value:
            arguments[name] = (*arguments.get(name, ()), *(value.split(",") if name != "calc" else [value]))
        else:
            arguments[name] = ("true",)
    driver = arguments.get("output-format", ("GTiff",))[0]
    return Request(" ".join(parts[:split]), arguments, tuple(inputs), driver=driver, output="made.tif")
