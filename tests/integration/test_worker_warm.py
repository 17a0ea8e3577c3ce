"""The warm-up before a job arrives: it saves time, leaves no trace and changes no answer. Also the progress of
running jobs.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from tests.data.make import make_data
from tests.integration.worker_kit import Box, Done
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

TRACES = r"""
import contextlib, io, json, os, sys, types
handler = types.ModuleType("handler")
exec(sys.argv[2], handler.__dict__)
handler.prepare()
from osgeo import gdal
warming, reporting = handler.part("warming"), handler.part("reporting")

def state():
    files = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    return {
        "files": sorted(os.listdir("/tmp")), "memory": gdal.ReadDir("/vsimem/"), "settings": gdal.GetConfigOptions(),
        "environment": dict(os.environ), "folder": os.getcwd(), "error": [gdal.GetLastErrorNo(), gdal.GetLastErrorMsg()],
        "exceptions": gdal.GetUseExceptions(), "cache": gdal.GetCacheUsed(), "open": [one for one in files if one.startswith("/tmp")],
    }

before, printed = state(), io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
    partly, count = [], 0
    while True:
        generator, done = handler.warm(), 0
        for _ in generator:
            done += 1
            if done > count:
                break
        generator.close()
        partly.append(state() == before)
        if done <= count:
            break
        count += 1

steps, heard, faults = warming.silently, [], []
def strictly(step):
    with reporting.quiet() as errors:
        try:
            answer = step()
            if isinstance(answer, dict) and (answer["code"] or answer["errors"]):
                faults.append([answer["code"], answer["errors"]])
        except Exception as error:
            faults.append(repr(error))
    heard.extend(errors.messages)

warming.silently = strictly
with contextlib.redirect_stdout(io.StringIO()):
    for _ in handler.warm(): pass
print(json.dumps({"before": before, "after": state(), "partly": partly, "printed": printed.getvalue(), "heard": heard, "faults": faults}))
"""

# each file is read by a process that has read no other, because PROJ's answers depend on earlier use
PLACES = r"""
import json, os, sys, types
warmed, folder, *codes = json.loads(sys.argv.pop())
handler = types.ModuleType("handler")
exec(sys.argv[2], handler.__dict__)
handler.prepare()
if warmed:
    for _ in handler.warm(): pass
from osgeo import gdal
for code in codes:
    reading, writing = os.pipe()
    if not os.fork():
        with os.fdopen(writing, "w") as file:
            file.write(gdal.Info(f"{folder}/{code}.tif", options=["-json"], deserialize=False))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        print(json.dumps([code, file.read()]))
    os.wait()
"""
MAKE = r"""
import sys
from osgeo import gdal, osr
gdal.UseExceptions()
for code in sys.argv[2:]:
    crs = osr.SpatialReference()
    crs.ImportFromEPSG(int(code))
    made = gdal.GetDriverByName("GTiff").Create(f"{sys.argv[1]}/{code}.tif", 10, 10)
    made.SetSpatialRef(crs)
    made.SetGeoTransform((440000, 60, 0, 3751000, 0, -60) if crs.IsProjected() else (10, 0.1, 0, 45, 0, -0.1))
    made.Close()
"""
CODES = "32611 32633 32755 32733 3857 4326 4979 3395 5041 6933 8857 25832 3035 3034 4258 4269 26911 2154 27700 2193 2056 21781 31370 3006 5514 29333 4293".split()


@pytest.fixture(scope="session")
def data(oracle: Oracle) -> Path:
    folder = oracle.out / "warm"
    folder.mkdir()
    make_data(oracle, folder)
    return folder


@pytest.fixture(scope="module")
def traces(oracle: Oracle) -> dict[str, Any]:
    python, isolated, switch, _worker, *words = gdal_command()
    return json.loads(oracle.must(python, isolated, switch, TRACES, *words))


def test_interrupted_warm_up_leaves_no_trace(traces: dict[str, Any]):
    assert len(traces["partly"]) > 10
    assert all(traces["partly"])
    assert traces["after"] == traces["before"]
    assert traces["printed"] == ""


def test_every_warm_up_step_succeeds_without_gdal_messages(traces: dict[str, Any]):
    assert traces["faults"] == []
    assert traces["heard"] == []  # GDAL reports some messages only once: the job must receive them


def jobs(data: Path, out: Path) -> list[dict[str, Any]]:
    """The jobs of calls, as the host sends them."""

    def writes(name: str, **job: Any) -> dict[str, Any]:
        outputs = [{"path": str(out / name), "kind": "dataset"}]
        return {
            **job, "output": str(out / name), "outputs": outputs, "sources": [str(data / "dem.tif")],
            "preview_pixels": 64,
        }  # fmt: skip

    dem, zones = str(data / "dem.tif"), str(data / "zones.gpkg")
    pipe = [
        "raster", "pipeline", "read", dem, "!", "reproject", "--output-crs=EPSG:4326", "!", "slope", "!",
        "write",
    ]  # fmt: skip
    merge = ["gdal_merge.py", "-o", str(out / "merge.tif"), dem, dem]
    polygons = ["gdal_polygonize.py", dem, "-of", "GeoJSON", str(out / "polygons.geojson")]
    return [
        {"program": "gdal", "options": ["info", "--output-format=json", dem]},
        {"program": "gdal", "options": ["vector", "info", "--output-format=json", zones]},
        {"program": "gdalinfo", "options": ["-mm"], "inputs": [dem]},
        {"program": "preview", "inputs": [dem], "preview": {"color": "hillshade"}},
        {"program": "find_crs", "query": "utm 33 north", "limit": 3},
        writes("cog.tif", program="gdal", options=["convert", "--output-format=COG", dem, str(out / "cog.tif")]),
        writes("slope.tif", program="gdal", options=[*pipe, str(out / "slope.tif")]),
        writes("zones.geojson", program="gdal", options=["vector", "convert", zones, str(out / "zones.geojson")]),
        writes("warp.tif", program="gdalwarp", inputs=[dem], options=["-t_srs", "EPSG:3857"]),
        writes("merge.tif", program="gdal_merge", argv=merge),
        writes("polygons.geojson", program="gdal_polygonize", argv=polygons),
        {"program": "gdal", "options": ["raster", "info", str(data / "absent.tif")]},
    ]  # fmt: skip


def answers(box: Box, data: Path, out: Path, *, warmed: bool) -> tuple[list[Done], dict[str, bytes]]:
    """Answers of the jobs and the files that they wrote; the files are removed afterwards."""
    done = box.run(*jobs(data, out), warmed=warmed)
    files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    for path in out.iterdir():
        path.unlink()
    return done, files


def test_answers_pictures_and_files_match_cold_and_warm(box: Box, data: Path, oracle: Oracle):
    out = oracle.folder("cold-or-warm")
    cold, written = answers(box, data, out, warmed=False)
    warm, written_warm = answers(box, data, out, warmed=True)
    assert [done.final["code"] for done in cold] == [0] * (len(cold) - 1) + [1]
    assert [done.picture is not None for done in cold][5:9] == [True] * 4
    for warm_answer, cold_answer in zip(warm, cold, strict=True):
        assert warm_answer == cold_answer
    assert written_warm == written
    assert len(written) >= 6


@pytest.mark.nightly
def test_place_on_earth_is_described_identically_when_warm(oracle: Oracle):
    folder = oracle.folder("places")
    oracle.python(MAKE, str(folder), *CODES)
    python, isolated, switch, _worker, *words = gdal_command()
    cold, warm = (
        oracle.must(python, isolated, switch, PLACES, *words, json.dumps([warmed, str(folder), *CODES]))
        for warmed in (False, True)
    )
    assert len(cold.splitlines()) == len(CODES)
    assert warm == cold


TELLING = {
    "algorithm": (5, "gdal convert"), "pipeline": (6, "gdal raster pipeline"), "utility": (8, "gdalwarp"),
    "merge": (9, "gdal_merge"), "polygonize": (10, "gdal_polygonize"),
}  # fmt: skip


@pytest.fixture(scope="module")
def done_jobs(box: Box, data: Path, oracle: Oracle) -> list[Done]:
    return answers(box, data, oracle.folder("told"), warmed=True)[0]


@pytest.mark.parametrize("name", TELLING)
def test_job_reports_progress_from_start_to_end(done_jobs: list[Done], name: str):
    number, title = TELLING[name]
    fractions, words = zip(*done_jobs[number].told, strict=True)
    assert list(fractions) == sorted(fractions)
    assert fractions[0] <= 0.9  # by the program itself
    assert fractions[-1] == 1.0
    assert all(words)
    assert title in words or any(word.startswith("Processing") for word in words)
    assert [fraction for fraction, word in done_jobs[number].told if word == "drawing the preview"] == [0.95]


def test_a_script_prints_its_progress_as_ever(done_jobs: list[Done], oracle: Oracle, data: Path):
    words = ["-o", str(oracle.folder("merged") / "merge.tif"), str(data / "dem.tif"), str(data / "dem.tif")]
    printed = oracle.must("python3", "-c", "import sys; from osgeo_utils import gdal_merge; sys.exit(gdal_merge.main(sys.argv))", *words)  # fmt: skip
    assert "100" in printed
    assert done_jobs[9].printed + done_jobs[9].shown == printed
