"""A GDAL without any of the server's guards, in a container that shares the host's network and sees the bait.

It is the control of these tests: a trap that does nothing here would prove nothing elsewhere.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.mcp.hostile_files import CANARY
from tests.oracle.container import Oracle
from tests.security.attacks.native import EXIT

PROGRAM = r"""
import json, os, signal, sys
from osgeo import gdal, ogr
gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
for key, value in {"GDAL_HTTP_TIMEOUT": "2", "GDAL_HTTP_MAX_RETRY": "0", "PGCONNECT_TIMEOUT": "2"}.items():
    gdal.SetConfigOption(key, value)
os.environ["PGCONNECT_TIMEOUT"] = "2"

def raster(path):
    dataset = gdal.OpenEx(path, gdal.OF_RASTER)
    band = dataset.GetRasterBand(1)
    data = bytes(band.ReadRaster(0, 0, min(20, band.XSize), min(20, band.YSize)))
    data += bytes(band.GetMaskBand().ReadRaster(0, 0, min(20, band.XSize), min(20, band.YSize)))
    for number in range(band.GetOverviewCount()):
        overview = band.GetOverview(number)
        data += bytes(overview.ReadRaster(0, 0, min(20, overview.XSize), min(20, overview.YSize)))
    return data

def vector(path):
    dataset, said = gdal.OpenEx(path, gdal.OF_VECTOR), ""
    for number in range(dataset.GetLayerCount()):
        layer = dataset.GetLayer(number)
        if "endless" not in layer.GetName():
            said += "".join(feature.ExportToJson() for feature in layer)
    return said.encode()

def arrays(path):
    root = gdal.OpenEx(path, gdal.OF_MULTIDIM_RASTER).GetRootGroup()
    return b"".join(bytes(root.OpenMDArray(name).Read()) for name in root.GetMDArrayNames())

def alone(path, read):  # in a process of its own: some traps crash it, some never end
    end, start = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            os.write(start, read(path)[:60000])
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as said:
        data = said.read()
    os.waitpid(child, 0)
    return data

print(json.dumps({path: b"".join(alone(path, read) for read in (raster, vector, arrays)).hex() for path in json.loads(sys.argv[1])}))
"""


@dataclass(frozen=True)
class Careless:
    """The effects of opening the files without guards."""

    oracle: Oracle

    def sprung(self, paths: Iterable[Path]) -> set[str]:
        """The names of the files whose reading returns the bait."""
        argument = json.dumps([str(path) for path in paths])
        contents = json.loads(self.oracle.python(PROGRAM, argument).splitlines()[-1])
        return {Path(path).name for path, data in contents.items() if CANARY[-12:] in bytes.fromhex(data)}

    def loads(self, path: Path) -> bool:
        """True if reading the file runs the library that it names, which ends the process."""
        return self.oracle.run("ogrinfo", "-al", str(path)).code == EXIT
