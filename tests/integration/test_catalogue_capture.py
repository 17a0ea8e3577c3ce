"""The catalogue against a real GDAL: its data is what GDAL says, and GDAL reads what it renders as it was meant."""

import json
from typing import Any

import docker
import pytest

from gdal_mcp.catalogue.binding import Context, bind_named, render
from gdal_mcp.catalogue.capture import captured, output_of
from gdal_mcp.catalogue.crs import check_crs
from gdal_mcp.catalogue.errors import CrsRefused
from gdal_mcp.catalogue.formats import driver_for
from gdal_mcp.catalogue.load import catalogue, data_text
from gdal_mcp.catalogue.model import RESERVED_TOKENS
from gdal_mcp.image import Image

pytestmark = pytest.mark.engine

Ask = Any


@pytest.fixture(scope="module")
def ask(client: docker.DockerClient, image: Image) -> Ask:
    """Runs a Python program in a container and returns the JSON that it prints for an argument."""

    def run(program: str, argument: Any) -> Any:
        return json.loads(output_of(client, image.id, program, json.dumps(argument)))

    return run


def test_the_packaged_data_is_what_a_fresh_capture_says(client: docker.DockerClient, image: Image) -> None:
    """Of the drivers only where the image is built like the one the data is from: builds differ in drivers and codecs."""
    fresh = captured(client, image.id)
    assert json.loads(fresh)["algorithms"] == json.loads(data_text())["algorithms"]
    if image.standin:
        assert fresh == data_text()


CHOSEN = """
import json, os, sys
from osgeo import gdal, ogr, osr
gdal.UseExceptions(); gdal.PushErrorHandler("CPLQuietErrorHandler")
crs = osr.SpatialReference(); crs.ImportFromEPSG(4326)
raster = gdal.GetDriverByName("MEM").Create("", 32, 32, 1)
raster.SetSpatialRef(crs); raster.SetGeoTransform([2, 0.1, 0, 49, 0, -0.1])
vector = gdal.GetDriverByName("MEM").CreateVector("")
layer = vector.CreateLayer("a", crs, ogr.wkbPoint)
feature = ogr.Feature(layer.GetLayerDefn()); feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (2 49)"))
layer.CreateFeature(feature)
sources = {"raster": raster, "vector": vector}
chosen = {}
for kind, name in json.loads(sys.argv[1]):
    folder = f"/tmp/{len(chosen)}-{kind}-{name}"
    os.mkdir(folder)
    try:
        command = gdal.Run(kind, "convert", input=sources[kind], output=f"{folder}/{name}")
        chosen[f"{kind} {name}"] = command.Output().GetDriver().ShortName
        command.Finalize()
    except (RuntimeError, AttributeError):
        pass
print(json.dumps(chosen))
"""


def test_the_driver_for_a_name_is_the_one_that_gdal_takes(ask: Ask) -> None:
    names = {
        (kind, f"a.{extension}")
        for driver in catalogue().drivers
        for kind in ("raster", "vector")
        for extension in driver.extensions
    }
    chosen = ask(CHOSEN, sorted(names))
    assert chosen.pop("vector a.mbtiles") == "MVT"  # MBTiles is taken, and has MVT do the writing
    assert {"raster a.tif", "raster a.nc", "vector a.gpkg", "vector a.json", "vector a.shp"} <= set(chosen)
    assert len(chosen) > 40
    said = {key: driver_for(key.split(" ", 1)[1], key.split(" ", 1)[0]) for key in chosen}  # type: ignore[arg-type]
    assert said == chosen


READ = """
import json, sys
from osgeo import gdal
gdal.UseExceptions()
path, words = json.loads(sys.argv[1])
first, second = path.split(" ")
found = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(first).InstantiateSubAlgorithm(second)
try:
    found.ParseCommandLineArguments(words)
except RuntimeError:
    pass  # the datasets do not exist; the words were read before that was noticed
values = {}
for name in found.GetArgNames():
    argument = found.GetArg(name)
    if argument.IsExplicitlySet() and argument.GetType() < gdal.GAAT_DATASET_LIST:
        values[name] = argument.Get().GetName() if argument.GetType() == gdal.GAAT_DATASET else argument.Get()
print(json.dumps(values))
"""

SAID = {
    "input": ["/ws/in.tif"],
    "output": ["/ws/o,o.tif"],
    "like": ['/ws/like, "this" one.tif'],
    "bbox": ["1", "-2", "3.5", "4e2"],
    "size": ["100", "0"],
    "input-nodata": ["-9999", "nan"],
    "creation-option": ["COMPRESS=LZW", "DISCARD_LSB=1,2,3"],
    "resampling": ["near"],
    "add-alpha": ["false"],
    "output-crs": [
        'GEOGCS["a, b",DATUM["d",SPHEROID["s",6378137,298]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
    ],
    "input-format": ["GTiff", "VRT"],
}


def test_gdal_reads_rendered_words_as_the_values_that_were_bound(ask: Ask) -> None:
    bound = bind_named(catalogue().algorithms["raster reproject"], SAID, Context())
    read = ask(READ, ["raster reproject", render(bound.resolve(lambda _role, text: text))])
    assert read["output"] == SAID["output"][0]
    assert read["like"] == SAID["like"][0]
    assert read["bbox"] == [1, -2, 3.5, 400]
    assert read["size"] == [100, 0]
    assert read["creation-option"] == SAID["creation-option"]
    assert read["input-nodata"] == SAID["input-nodata"]
    assert read["input-format"] == SAID["input-format"]
    assert read["output-crs"] == SAID["output-crs"][0]
    assert read["add-alpha"] is False


def test_gdal_takes_each_value_of_a_packed_list_for_one(ask: Ask) -> None:
    layers = ["plain", "two words", "it's", "back\\slash", "-dash", "--config", "[x]"]
    given = {"input": ["/ws/in.gpkg"], "output": ["/ws/out.gpkg"], "input-layer": layers}
    bound = bind_named(catalogue().algorithms["vector convert"], given, Context())
    assert (
        ask(READ, ["vector convert", render(bound.resolve(lambda _role, text: text))])["input-layer"]
        == layers
    )


CONVERTED = """
import json, os, sys
from osgeo import gdal
gdal.UseExceptions()
source, words = json.loads(sys.argv[1])
gdal.GetDriverByName("GTiff").Create(source, 7, 5).Close()
command = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg("raster").InstantiateSubAlgorithm("convert")
done = command.ParseCommandLineArguments(words) and command.Run() and command.Finalize()
print(json.dumps(sorted(os.listdir("/tmp"))))
"""


@pytest.mark.parametrize(
    "name", ["plain.tif", "a,b.tif", 'a "b".tif', 'a, "b" \\c.tif', " a .tif", "-oo.tif", "back\\slash.tif"]
)
def test_a_list_of_datasets_holds_each_path_whole(ask: Ask, name: str) -> None:
    given = {"input": [f"/tmp/{name}"], "output": ["/tmp/o,o.png"]}
    bound = bind_named(catalogue().algorithms["raster convert"], given, Context())
    assert ask(CONVERTED, [given["input"][0], render(bound.resolve(lambda _role, text: text))]) == sorted(
        [name, "o,o.png"]
    )


DEFINITIONS = """
import json, sys
from osgeo import osr
osr.UseExceptions()
found = []
for authority in ("EPSG", "ESRI", "OGC", "IAU_2015", "IGNF", "NKG"):
    for entry in osr.GetCRSInfoListFromDatabase(authority)[:: json.loads(sys.argv[1])]:
        crs = osr.SpatialReference(); crs.SetFromUserInput(f"{entry.auth_name}:{entry.code}")
        forms = [f"{entry.auth_name}:{entry.code}", crs.ExportToWkt(), crs.ExportToWkt(["FORMAT=WKT2_2019"]), crs.ExportToPROJJSON()]
        found.append(forms)
print(json.dumps(found))
"""

SAME = """
import json, sys
from osgeo import gdal, osr
osr.UseExceptions(); gdal.PushErrorHandler("CPLQuietErrorHandler")
closed = ["ALLOW_FILE_ACCESS=NO", "ALLOW_NETWORK_ACCESS=NO"]
wrong = []
for before, after in json.loads(sys.argv[1]):
    one, other = osr.SpatialReference(), osr.SpatialReference()
    one.SetFromUserInput(before); other.SetFromUserInput(after, closed)
    if not one.IsSame(other): wrong.append([before, after])
print(json.dumps(wrong))
"""


def test_crss_of_every_authority_pass_in_every_form_and_mean_the_same_afterwards(ask: Ask) -> None:
    forms = [form for entry in ask(DEFINITIONS, 400) for form in entry]
    pairs = []
    refusals = []
    for form in forms:
        try:
            pairs.append((form, check_crs(form)))
        except CrsRefused:
            refusals.append(form)
    assert len(pairs) > 100
    assert len(refusals) * 50 < len(pairs)  # remarks of some planetary CRSs hold URLs
    for start in range(0, len(pairs), 20):  # an argument of a program is at most 128 KiB
        assert ask(SAME, pairs[start : start + 20]) == []


PROGRAM_TOKENS = """
import json, subprocess, sys
taken = {}
for token in json.loads(sys.argv[1]):
    run = subprocess.run(["gdal", "raster", "info", token, "/nonexistent.tif"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    taken[token] = "is unknown" not in run.stderr
print(json.dumps(taken))
"""


def test_the_reserved_tokens_are_those_that_the_program_takes_itself(ask: Ask) -> None:
    tokens = sorted(RESERVED_TOKENS - {"--pause", "--format", "--help", "--help-doc", "--json-usage"})
    assert ask(PROGRAM_TOKENS, [*tokens, "--no-such-token"]) == {
        **dict.fromkeys(tokens, True),
        "--no-such-token": False,
    }
