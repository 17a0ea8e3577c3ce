"""The example of a test against this server runs unchanged, in a process without this project's fixtures, and GDAL
confirms the contents of its samples.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp.testing import samples

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[3]


def pytest_run(folder: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
    places = ["-c", os.devnull, "--rootdir", str(folder), "--basetemp", str(tmp_path / "base"), str(folder)]
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, *places], cwd=tmp_path, env=known, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.mark.nightly
def test_the_example_runs(tmp_path, image):
    done = pytest_run(ROOT / "examples" / "testing", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_fixtures_are_loaded_only_on_request(tmp_path):
    (tmp_path / "test_plain.py").write_text("def test_one(gdal_mcp_workspace):\n    pass\n")
    assert pytest_run(tmp_path, tmp_path).returncode == 1


def test_the_server_itself_knows_nothing_of_it():
    own = ROOT / "gdal_mcp" / "testing"
    others = [path for path in (ROOT / "gdal_mcp").rglob("*.py") if own not in path.parents]
    assert [path for path in others if "gdal_mcp.testing" in path.read_text(encoding="utf-8")] == []


LOOK = """
import json, sys
from osgeo import gdal, ogr
gdal.UseExceptions()
one = gdal.Open(sys.argv[1] + "/dem.tif")
band = one.GetRasterBand(1)
other = ogr.Open(sys.argv[1] + "/places.geojson")
points = other.GetLayer(0)
print(json.dumps({"transform": one.GetGeoTransform(), "nodata": band.GetNoDataValue(), "rows": band.ReadAsArray().tolist(),
    "epsg": one.GetSpatialRef().GetAuthorityCode(None), "type": gdal.GetDataTypeName(band.DataType),
    "places": {point.GetField("name"): point.GetField("inhabitants") for point in points}}))
"""


def test_gdal_reads_in_the_samples_what_they_say(oracle, grounds):
    folder = grounds / "samples"
    folder.mkdir()
    samples.write_samples(folder)
    facts = json.loads(oracle.python(LOOK, str(folder)))
    easting, northing = samples.ORIGIN
    assert facts["rows"] == [
        [samples.elevation(column, row) for column in range(samples.WIDTH)] for row in range(samples.HEIGHT)
    ]
    assert facts["transform"] == [easting, samples.PIXEL_METRES, 0, northing, 0, -samples.PIXEL_METRES]
    assert (facts["nodata"], facts["epsg"], facts["type"]) == (samples.NODATA, str(samples.EPSG), "Int16")
    assert facts["places"] == {"Lower": 120, "Upper": 45}
