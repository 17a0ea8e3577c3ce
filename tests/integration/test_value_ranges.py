"""The value range that transforms use includes every value of the part that is read, even values that the sample
lacked.
"""

import json
from importlib.resources import files

import pytest

from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

# the sample of a large raster uses its nearest pixels; a single peak lies between them
PROGRAM = r"""
import json
import numpy as np
from osgeo import gdal

gdal.UseExceptions()
found = {}
for kind, peak in (("float32", 812.5), ("int16", 900), ("uint16", 60000)):
    values = np.random.default_rng(3).integers(10, 50, (3000, 3000)).astype(kind)
    values[1500, 1501], values[20, 31] = peak, 1
    code = {"float32": gdal.GDT_Float32, "int16": gdal.GDT_Int16, "uint16": gdal.GDT_UInt16}[kind]
    made = gdal.GetDriverByName("MEM").Create("", 3000, 3000, 1, code)
    made.WriteArray(values)
    sample = made.ReadAsArray(buf_xsize=1024, buf_ysize=1024)
    span = float(sample.min()), float(sample.max())
    assert span[1] < peak
    invalid = np.zeros(values.shape, "u1")
    invalid[1500, 1501] = 1
    wide, hidden = widened(span, values, None), widened(span, values, invalid)
    again = unscaled(scaled(values, wide), wide, values.dtype)
    off = np.abs(again.astype(float) - values).max() / (wide[1] - wide[0])
    found[kind] = [float(again[1500, 1501]), float(again[20, 31]), off, hidden[1], widened(span, values[:5, :5], None) == span]
    if kind == "float32":
        values[0, 0] = np.nan
        values[0, 1] = np.inf
        found["odd"] = widened(span, values, None)[1]
print(json.dumps(found))
"""


def test_peaks_missing_from_the_sample_are_unchanged(oracle: Oracle) -> None:
    ours = files("gdal_mcp.toolboxes.augment.inside").joinpath("ranges.py").read_text(encoding="utf-8")
    ranges = json.loads(oracle.python(ours + PROGRAM))
    assert ranges.pop("odd") == 812.5
    for kind, peak in (("float32", 812.5), ("int16", 900), ("uint16", 60000)):
        high, low, off, without_the_peak, as_it_was = ranges[kind]
        assert high == pytest.approx(peak, rel=1e-6)
        assert low == pytest.approx(1, abs=0.01)
        assert off < 1e-6 or kind != "float32"
        assert without_the_peak < 50
        assert as_it_was
