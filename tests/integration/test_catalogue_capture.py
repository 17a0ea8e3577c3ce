"""The catalogue against a real GDAL: its data equals GDAL's own, and GDAL reads rendered words as intended."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli import main as cli
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.catalogue import capture, store
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind, render
from gdal_mcp.toolboxes.gdal.catalogue.capture import CaptureFailed, capture_image, run_program
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.crs import check_crs
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of, packaged, packaged_text
from gdal_mcp.toolboxes.gdal.catalogue.model import RESERVED_TOKENS
from sandbox import labels
from sandbox.engines.docker import DockerEngine

pytestmark = pytest.mark.engine

Ask = Any


@pytest.fixture(scope="module")
def ask(engine: DockerEngine, image: Image) -> Ask:
    """Runs a Python program with an argument in a container and returns the JSON that it prints."""

    def run(program: str, argument: Any) -> Any:
        return json.loads(run_program(engine, image.id, program, json.dumps(argument)))

    return run


@pytest.fixture(scope="module")
def fresh(engine: DockerEngine, image: Image) -> str:
    return capture_image(engine, image.id)


def test_packaged_data_equals_a_fresh_capture(fresh: str, image: Image) -> None:
    """Drivers are compared only if the image is built like the one that the data was captured from: builds differ in
    drivers and codecs.
    """
    own, ours = json.loads(fresh), json.loads(packaged_text())
    assert [own[part] for part in ("algorithms", "steps")] == [ours[part] for part in ("algorithms", "steps")]
    if image.standin:
        assert fresh == packaged_text()


def test_build_equals_the_image_and_can_be_served(fresh: str, image: Image, tmp_path: Path) -> None:
    assert cli.main(["catalogue", "build", "--state-dir", str(tmp_path / "state"), "--image", image.id]) == 0
    assert store.select(tmp_path / "state", image.id) == fresh
    assert catalogue_of(fresh).algorithms.keys() == packaged().algorithms.keys()


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(3)", "print('{')", "print('[]')", "print('{}')", "print('x' * (40 << 20))", ""],
)
def test_useless_image_answer_fails_and_leaves_nothing(client, engine, image, monkeypatch, program):
    ask_it = capture.run_program
    monkeypatch.setattr(capture, "_OWNER", "catalogue-of-this-test")
    monkeypatch.setattr(
        capture,
        "run_program",
        lambda engine, image, _program, arguments: ask_it(engine, image, program, arguments),
    )
    with pytest.raises(CaptureFailed):
        capture_image(engine, image.id)
    assert client.containers.list(all=True, filters={"label": f"{labels.OWNER}=catalogue-of-this-test"}) == []


ITSELF = (
    files("gdal_mcp.toolboxes.gdal.catalogue")
    .joinpath("capture_program.py")
    .read_text()
    .replace('if __name__ == "__main__":', "if False:")
)

WRITTEN = """
gdal.UseExceptions()
print(json.dumps({path: written(help_of(name, home)) for path, name, home in json.loads(sys.argv[1])}))
"""


# GDAL's JSON of a step lists these, but its help does not show them
UNSHOWN = {
    "vector export-schema": {"input-format", "open-option"},
    "vector info": {"input-format", "open-option"},
    "raster pixel-info": {"output"},
}


def test_a_step_is_written_as_its_help_says(ask: Ask) -> None:
    steps = packaged().steps
    written = ask(ITSELF + WRITTEN, [[path, step.name, step.pipelines[0]] for path, step in steps.items()])
    assert written.keys() == steps.keys()
    for path, step in steps.items():
        visible = [
            argument
            for argument in step.algorithm.arguments
            if not argument.hidden and argument.name != "quiet"
        ]
        shown = {argument.name: argument for argument in visible if argument.usage.get("place") != "output"}
        assert set(shown) - set(written[path]) == UNSHOWN.get(path, set()), path
        # a step that gets its input from the previous step has no input argument, whatever its help shows
        comes_first = "first" in step.places
        for name, how in written[path].items():
            if name == "input" and not comes_first:
                continue
            argument = shown[name]
            assert how.get("short_name", "") == argument.short_name, (path, name)
            assert how.get("positional", False) == argument.positional, (path, name)
            assert set(how.get("aliases", ())) <= set(argument.aliases), (path, name)


FLOW = r"""
gdal.UseExceptions()
gdal.FileFromMemBuffer("/vsimem/raster.asc", b"ncols 1\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 1\n1\n")
gdal.FileFromMemBuffer("/vsimem/vector.json", b'{"type":"FeatureCollection","features":[]}')
files = {"raster": "/vsimem/raster.asc", "vector": "/vsimem/vector.json"}
other = {"raster": "vector", "vector": "raster"}
after = {"raster": "unscale", "vector": "make-valid"}
found = {}
for path, name, takes, gives in json.loads(sys.argv[1]):
    wrong = objection("pipeline", ["read", files[other[takes]], "!", *name.split(" "), "!", "write", "/vsimem/out"])
    next_wrong = objection("pipeline", ["read", files[takes], "!", *name.split(" "), "!", after[other[gives]], "!", "write", "/vsimem/out"])
    found[path] = [f"expects a {takes} input" in wrong, f"generates a {gives} output" in next_wrong]
print(json.dumps(found))
"""


def test_gdal_agrees_on_step_inputs_and_outputs(ask: Ask) -> None:
    """Covers steps that need no argument and whose name means one step only."""
    names = [step.name for step in packaged().steps.values()]
    rows = [
        [path, step.name, step.takes, step.gives]
        for path, step in packaged().steps.items()
        if step.places == ("middle",)
        and names.count(step.name) == 1
        and not any(argument.required for argument in step.algorithm.arguments)
    ]
    assert len(rows) > 30
    assert {path for path, answers in ask(ITSELF + FLOW, rows).items() if answers != [True, True]} == set()


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


def test_driver_for_a_name_matches_gdal(ask: Ask) -> None:
    names = {
        (kind, f"a.{extension}")
        for driver in packaged().drivers
        for kind in ("raster", "vector")
        for extension in driver.extensions
    }
    chosen = ask(CHOSEN, sorted(names))
    assert chosen.pop("vector a.mbtiles") == "MVT"  # GDAL chooses MBTiles and writes with MVT
    assert {"raster a.tif", "raster a.nc", "vector a.gpkg", "vector a.json", "vector a.shp"} <= set(chosen)
    assert len(chosen) > 40
    predicted = {key: driver_for(packaged(), key.split(" ", 1)[1], key.split(" ", 1)[0]) for key in chosen}  # type: ignore[arg-type]
    assert predicted == chosen


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
    "input": ["/ws/in.tif"], "output": ["/ws/o,o.tif"], "like": ['/ws/like, "this" one.tif'],
    "bbox": [1, -2, 3.5, 4e2], "size": [100, 0], "input-nodata": ["-9999", "nan"],
    "creation-option": ["COMPRESS=LZW", "DISCARD_LSB=1,2,3"], "resampling": ["near"],
    "output-crs": ['GEOGCS["a, b",DATUM["d",SPHEROID["s",6378137,298]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'],
    "input-format": ["GTiff", "VRT"],
}  # fmt: skip

LISTS, SINGLE = (
    ("bbox", "size", "creation-option", "input-nodata", "input-format"),
    ("output", "like", "output-crs"),
)


def rendered(path: str, arguments: Any, *words: str) -> list[str]:
    """The words that a call with these values passes to GDAL."""
    bound = bind(packaged().algorithms[path], arguments, Context(packaged()), list(words))
    return render(bound.resolve(lambda _role, text: text))


def test_gdal_reads_rendered_words_as_bound_values(ask: Ask) -> None:
    read = ask(READ, ["raster reproject", rendered("raster reproject", SAID, "--add-alpha=false")])
    assert {name: read[name] for name in LISTS} == {name: SAID[name] for name in LISTS}
    assert {name: read[name] for name in SINGLE} == {name: SAID[name][0] for name in SINGLE}
    assert read["add-alpha"] is False


def test_gdal_keeps_each_packed_list_value_whole(ask: Ask) -> None:
    layers = ["plain", "two words", "it's", "back\\slash", "-dash", "--config", "[x]"]
    arguments = {"input": ["/ws/in.gpkg"], "output": ["/ws/out.gpkg"], "input-layer": layers}
    assert ask(READ, ["vector convert", rendered("vector convert", arguments)])["input-layer"] == layers


CONVERTED = """
import json, os, sys
from osgeo import gdal
gdal.UseExceptions()
for source, words in json.loads(sys.argv[1]):
    gdal.GetDriverByName("GTiff").Create(source, 7, 5).Close()
    command = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg("raster").InstantiateSubAlgorithm("convert")
    done = command.ParseCommandLineArguments(words) and command.Run() and command.Finalize()
print(json.dumps(sorted(os.listdir("/tmp"))))
"""


def test_a_list_of_datasets_holds_each_path_whole(ask: Ask) -> None:
    names = ["plain.tif", "a,b.tif", 'a "b".tif', 'a, "b" \\c.tif', " a .tif", "-oo.tif", "back\\slash.tif"]
    calls = [{"input": [f"/tmp/{name}"], "output": [f"/tmp/{at},o.png"]} for at, name in enumerate(names)]
    outputs = ask(CONVERTED, [[call["input"][0], rendered("raster convert", call)] for call in calls])
    assert outputs == sorted([*names, *(f"{at},o.png" for at in range(len(names)))])


DEFINITIONS = """
import json, sys
from osgeo import osr
osr.UseExceptions()
found = []
for authority in ("EPSG", "ESRI", "OGC", "IAU_2015", "IGNF", "NKG"):
    for entry in osr.GetCRSInfoListFromDatabase(authority)[:: json.loads(sys.argv[1])]:
        crs = osr.SpatialReference(); crs.SetFromUserInput(f"{entry.auth_name}:{entry.code}")
        forms = [f"{entry.auth_name}:{entry.code}", crs.ExportToWkt(), crs.ExportToWkt(["FORMAT=WKT2_2019"]), crs.ExportToPROJJSON(), *filter(None, [crs.ExportToProj4()])]
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


@pytest.mark.nightly
def test_crs_of_every_authority_round_trips_every_form(ask: Ask) -> None:
    forms = [form for entry in ask(DEFINITIONS, 400) for form in entry]
    pairs = []
    refusals = []
    for form in forms:
        try:
            pairs.append((form, check_crs(form)))
        except ArgumentRefused:
            refusals.append(form)
    assert len(pairs) > 100
    # geoids as PROJ strings
    assert all(
        "grids=" in refusal or not refusal.startswith(("+proj", "G", "P", "{")) for refusal in refusals
    )
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


@pytest.mark.claim("args.no-bare-words")
def test_reserved_tokens_are_those_of_the_program(ask: Ask) -> None:
    tokens = sorted(RESERVED_TOKENS - {"--pause", "--format", "--help", "--help-doc", "--json-usage"})
    taken = ask(PROGRAM_TOKENS, [*tokens, "--no-such-token"])
    assert taken == {**dict.fromkeys(tokens, True), "--no-such-token": False}
