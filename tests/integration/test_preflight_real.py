"""Preflight against GDAL itself: descriptions by the worker, compared with the results of calls."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall
from gdal_mcp.toolboxes.gdal.preflight.estimate import estimate
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, facts_of
from tests.data.make import make_data
from tests.integration.worker_kit import Box
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine
# each is made from a raster of the data by `gdal raster convert` with these creation options
FILES = {
    "raw.tif": ("dem", "GTiff", ()),
    "big_motorola.tif": ("dem", "GTiff", ("ENDIANNESS=BIG", "BIGTIFF=YES")),
    "bits.tif": ("classes", "GTiff", ("NBITS=2", "INTERLEAVE=BAND")),
    "cog.tif": ("rgb", "COG", ()),
    "bare.tif": ("rgb", "GTiff", ("PROFILE=BASELINE",)),
    "deep.png": ("dem", "PNG", ()),
    "grey.jpg": ("classes", "JPEG", ("PROGRESSIVE=YES",)),
}
# CRSs in which the worker computes the extent of its inputs
CRS = ("EPSG:4326", "EPSG:3857", "EPSG:25832", "OGC:CRS84")


@dataclass(frozen=True)
class Place:
    """The data, GDAL's outputs from it, and the worker's descriptions of both."""

    folder: Path
    # reports of an independent GDAL, by the name of the file or by the words that made it
    made: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, DatasetFacts]  # by name
    boxes: Mapping[str, Mapping[str, list[float]]]  # by name and CRS, computed by an independent PROJ


BATCH = """
import contextlib, json, os, sys
from osgeo import gdal, osr
gdal.UseExceptions(); osr.UseExceptions()
job, facts, boxes = json.loads(sys.argv[1]), {}, {}

def told(path):
    if os.path.isdir(path):
        return {"pngs": sum(name.endswith(".png") for _, _, names in os.walk(path) for name in names)}
    return {"bytes": os.path.getsize(path)} | gdal.Info(path, format="json")

def crs(text):
    made = osr.SpatialReference()
    made.SetFromUserInput(text)
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made

for name, (source, driver, options) in job["files"].items():
    gdal.Translate(job["made"] + name, job["data"] + source + ".tif", format=driver, creationOptions=options).Close()
    with contextlib.suppress(OSError):
        os.remove(job["made"] + name + ".aux.xml")  # which would say what the file itself does not
    facts[name] = told(job["made"] + name)
for number, (words, argv) in enumerate(job["runs"].items()):
    path = job["made"] + str(number)
    alg = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(argv.pop(0))
    while argv and alg.HasSubAlgorithms() and argv[0] in alg.GetSubAlgorithmNames():
        alg = alg.InstantiateSubAlgorithm(argv.pop(0))
    assert alg.ParseCommandLineArguments([*argv, "--output=" + path]) and alg.Run() and alg.Finalize(), words
    del alg
    facts[words] = told(path)
for name in ("dem.tif", "rgb.tif"):
    dataset = gdal.Open(job["data"] + name)
    left, wide, _, top, _, high = dataset.GetGeoTransform()
    box = (left, top + high * dataset.RasterYSize, left + wide * dataset.RasterXSize, top)
    here = crs(dataset.GetProjection())
    boxes[name] = {one: list(osr.CoordinateTransformation(here, crs(one)).TransformBounds(*box, 21)) for one in job["crs"]}
print(json.dumps([facts, boxes]))
"""


@pytest.fixture(scope="module")
def place(oracle: Oracle, grounds: Path) -> Place:
    folder = grounds / "preflight"
    folder.mkdir()
    make_data(oracle, folder)
    outputs = oracle.folder("preflight_made")
    runs = {words: _argv(folder, words) for words in (*RASTERS, *OPTIONS, *TILES)}
    job = {"data": f"{folder}/", "made": f"{outputs}/", "files": FILES, "runs": runs, "crs": CRS}
    infos, boxes = json.loads(oracle.python(BATCH, json.dumps(job)))
    paths = [
        *(outputs / name for name in FILES),
        *(path for path in folder.iterdir() if path.suffix in (".tif", ".shp", ".gpkg")),
    ]
    (done,) = Box(oracle).run({"program": "describe", "inputs": list(map(str, paths)), "crs": CRS})
    rows = zip(paths, done.parsed, strict=True)
    facts = {path.name: described for path, row in rows if (described := facts_of(row, path.stat().st_size))}
    return Place(folder, infos, facts, boxes)


def test_the_worker_says_what_gdal_says(place: Place):
    for name in FILES:
        facts, info = place.facts[name], place.made[name]
        assert facts.driver == info["driverShortName"].replace("COG", "GTiff"), name
        assert [facts.width, facts.height] == info["size"], name
        assert (facts.bands, facts.data_type) == (len(info["bands"]), info["bands"][0]["type"]), name
        assert facts.nodata == info["bands"][0].get("noDataValue"), name
        assert facts.disk_bytes == info["bytes"], name
        code = info.get("stac", {}).get("proj:epsg")
        assert facts.crs == (f"EPSG:{code}" if code else None), name
        if facts.has_crs:
            corners = (*info["cornerCoordinates"]["lowerLeft"], *info["cornerCoordinates"]["upperRight"])
            assert facts.extent == pytest.approx(corners, rel=1e-12), name
            assert facts.degrees is (facts.crs == "EPSG:4326"), name
    bare, zones = place.facts["bare.tif"], place.facts["zones.shp"]
    assert (bare.has_crs, bare.crs, bare.extent) == (False, None, None)
    assert (zones.driver, zones.degrees) == ("ESRI Shapefile", False)
    assert (zones.features, zones.geometry) == (2, "Polygon")
    assert zones.extent == (440000.0, 3748200.0, 442400.0, 3750900.0)


def test_where_the_data_lies_is_what_proj_says(place: Place):
    for name, boxes in place.boxes.items():
        for crs, box in boxes.items():
            crs_extent = place.facts[name].crs_extents[crs]
            assert crs_extent.degrees is (crs in ("EPSG:4326", "OGC:CRS84"))
            assert crs_extent.extent == pytest.approx(box, rel=1e-9), (name, crs)
    assert place.facts["bare.tif"].crs_extents["EPSG:3857"].extent is None
    zones = place.facts["zones.shp"].crs_extents["EPSG:4326"].extent
    assert zones == pytest.approx((-117.65, 33.87, -117.62, 33.9), abs=0.01)


# output -> GDAL's words; `in:` marks a file of the data
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
    for option in tuple("COMPRESS=ZSTD SPARSE_OK=YES NBITS=1 COMPRESS=JPEG TILED=YES INTERLEAVE=BAND".split())
]
TILES = [
    f"raster tile in:{name} {zooms} --webviewer=none"
    for name, deepest in (("classes.tif", 12), ("rgb.tif", 8))
    for zooms in (f"--min-zoom=3 --max-zoom={deepest}", "--max-zoom=7", "--tile-size=512")
]


def test_the_output_is_as_estimated(place: Place):
    for words in RASTERS:
        estimated, info = estimate(_call(place, words)), place.made[words]
        assert estimated is not None, words
        assert estimated.output is not None, words
        assert [estimated.output.width, estimated.output.height] == pytest.approx(
            info["size"], rel=0.03, abs=1
        ), words
        assert estimated.output.bands == len(info["bands"]), words
        assert estimated.output.data_type == info["bands"][0]["type"], words
        assert estimated.least.bytes <= info["bytes"], words
        if "--output-format" not in words:
            assert estimated.output_bytes == pytest.approx(info["bytes"], rel=0.1, abs=4000), words


def test_nothing_is_certain_that_options_can_shrink(place: Place):
    for words in OPTIONS:
        estimated = estimate(_call(place, words))
        assert estimated is not None
        assert estimated.least.bytes <= place.made[words]["bytes"], words


def test_tiles_are_counted_as_gdal_makes_them(place: Place):
    for words in TILES:
        estimated, count = estimate(_call(place, words)), place.made[words]["pngs"]
        assert estimated is not None, words
        assert estimated.least.files <= count, words
        # without a level GDAL chooses one; the next one would be as good
        low, high = (0.9, 1.1) if "--max-zoom" in words else (0.25, 4)
        assert low * count <= estimated.output_files <= high * count, words


def _argv(folder: Path, words: str) -> list[str]:
    texts = [f"--input={word}" if word.startswith("in:") else word for word in words.split()]
    if "--output-format" not in words and "raster tile" not in words:
        texts.append("--output-format=GTiff")
    return [text.replace("in:", f"{folder}/") for text in texts]


def _call(place: Place, words: str) -> AlgorithmCall:
    """The call as the catalogue would bind it: full names, lists of numbers split."""
    parts = words.split()
    split = next(index for index, part in enumerate(parts) if "in:" in part or part.startswith("--"))
    arguments: dict[str, tuple[str, ...]] = {}
    inputs = []
    for part in parts[split:]:
        name, _, value = part.removeprefix("--").partition("=")
        if "in:" in part:
            inputs.append(place.facts[part.partition("in:")[2]])
        elif value:
            arguments[name] = (*arguments.get(name, ()), *(value.split(",") if name != "calc" else [value]))
        else:
            arguments[name] = ("true",)
    driver = arguments.get("output-format", ("GTiff",))[0]
    return AlgorithmCall(" ".join(parts[:split]), arguments, tuple(inputs), driver=driver, output="made.tif")
