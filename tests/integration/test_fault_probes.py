"""The probes for faults of GDAL, in the current image."""

import json
from pathlib import Path

import pytest

from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.catalogue.probing import probe
from gdal_mcp.toolboxes.gdal.faults import FaultState, faults, load_probed, probe_program
from sandbox.engine import Engine
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

# the result of a probe in an image without the fault: GDAL's own answer with one thread, which is correct
ONE_THREAD = ('"GDAL_NUM_THREADS": "2"', '"GDAL_NUM_THREADS": "1"')


def test_each_probe_decides_and_stores_per_image(engine: Engine, image: Image, tmp_path: Path) -> None:
    probed = probe(engine, image.id, image.digest, tmp_path)
    for name, fault in faults().items():
        assert (probed.state(name) is FaultState.UNKNOWN) == (not fault.probe)
    assert load_probed(tmp_path, image.digest) == probed
    assert load_probed(tmp_path, f"{image.digest}0").states == {}


def test_statistics_probe_distinguishes_faulty_and_correct_gdal(
    oracle: Oracle,
) -> None:
    program = probe_program()
    fixed = program.replace(*ONE_THREAD)
    assert fixed != program
    name = "statistics_in_threads"
    assert json.loads(oracle.python(fixed))[name] is False
    # the fault itself, made by hand: half of the lines are 1, the others 3
    by_hand = """
import json
from osgeo import gdal
gdal.UseExceptions()
made = gdal.GetDriverByName("GTiff").Create("/vsimem/a.tif", 16, 16, 1, gdal.GDT_Float32, ["BLOCKYSIZE=16"])
band = made.GetRasterBand(1)
band.Fill(1)
band.WriteRaster(0, 8, 16, 8, b"\\x03" * 128, buf_type=gdal.GDT_Byte)
with gdal.config_option("GDAL_NUM_THREADS", "2"):
    print(json.dumps(band.ComputeStatistics(False)[2] != 2))
"""
    assert json.loads(oracle.python(program))[name] is json.loads(oracle.python(by_hand))


def test_failed_probe_program_leaves_unknown_and_stores_nothing(engine, tmp_path):
    probed = probe(engine, "sha256:" + "0" * 64, "sha256:gone", tmp_path)
    assert probed.states == {}
    assert not list(tmp_path.iterdir())
