"""Runs jobs of the GDAL handler inside the oracle's container: many in one process, with the arguments of the real
command.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from tests.oracle.container import Oracle

HOST = r"""
import base64, contextlib, ctypes, io, json, os, sys, tempfile, types
answers = os.fdopen(os.dup(1), "w")
terminal = tempfile.TemporaryFile()  # what the library prints by itself
os.dup2(terminal.fileno(), 1)
warmed, jobs = json.loads(sys.argv.pop())
handler = types.ModuleType("handler")
exec(sys.argv[2], handler.__dict__)
handler.prepare()
if warmed:
    for _ in handler.warm(): pass
handler.part("reporting").ProgressReporter.QUICK = 0.0

class Report:
    def __init__(self):
        self.attached, self.told = {}, []
    def progress(self, fraction, message="", at_once=False):
        self.told.append([fraction, message])
    def interim(self, value):
        pass
    def attach(self, name, data):
        self.attached[name] = base64.b64encode(data).decode()

for job in jobs:
    report, printed = Report(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        final = handler.run(job, report)
    ctypes.CDLL(None).fflush(None)
    terminal.seek(0)
    shown = terminal.read().decode()
    terminal.seek(0)
    terminal.truncate()
    print(json.dumps({"final": final, "printed": printed.getvalue(), "attached": report.attached, "told": report.told, "shown": shown}, allow_nan=False), file=answers)
"""
EMPTY = {
    "program": "version", "argv": [], "options": [], "inputs": [], "output": None, "as_array": None,
    "outputs": [],
}  # fmt: skip

# the beginning of a program that creates files in the folder of its argument: rasters and CRSs
MAKER = r"""
import sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out, secret = sys.argv[1] + "/", "".join(sys.argv[2:])
KINDS = {"uint8": gdal.GDT_Byte, "int16": gdal.GDT_Int16, "float32": gdal.GDT_Float32, "complex64": gdal.GDT_CFloat32}
RGBA = (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand, gdal.GCI_AlphaBand)

def crs(code):
    made = osr.SpatialReference()
    made.SetFromUserInput(code if isinstance(code, str) else f"EPSG:{code}")
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made

def raster(name, array, nodata=None, colors=None, table=None, code=32611, transform=(440000, 60, 0, 3751000, 0, -60), options=()):
    array = np.asarray(array)
    bands = array if array.ndim == 3 else array[None]
    made = gdal.GetDriverByName("GTiff").Create(out + name, bands.shape[2], bands.shape[1], len(bands), KINDS[str(array.dtype)], list(options))
    if transform:
        made.SetGeoTransform(transform)
    if code:
        made.SetSpatialRef(crs(code))
    for key in ("TIFFTAG_IMAGEDESCRIPTION", "AUTHOR") if secret else ():
        made.SetMetadataItem(key, secret)
    for number, one in enumerate(bands, 1):
        band = made.GetRasterBand(number)
        band.SetDescription(secret)
        if table:
            entries = gdal.ColorTable()
            for value, entry in table.items():
                entries.SetColorEntry(value, entry)
            band.SetRasterColorTable(entries)
        if nodata is not None:
            band.SetNoDataValue(nodata)
        if colors:
            band.SetColorInterpretation(colors[number - 1])
        band.WriteArray(one)
    return made
"""
PIXELS = r"""
import base64, json, sys
from osgeo import gdal
gdal.UseExceptions()
found = []
for path in sys.argv[1:]:
    picture = gdal.Open(path)
    bands = [base64.b64encode(picture.GetRasterBand(i + 1).ReadRaster()).decode() for i in range(picture.RasterCount)]
    found.append([picture.RasterXSize, picture.RasterYSize, bands])
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Done:
    """The output of one job."""

    final: dict[str, Any]
    printed: str
    picture: bytes | None
    told: list[tuple[float, str]]  # progress reports
    shown: str  # printed by the library itself to the terminal

    @property
    def parsed(self) -> Any:
        return json.loads(self.printed)

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks of the first output."""
        return self.final["outputs"][0]["checks"]

    @property
    def codes(self) -> list[str]:
        return [row["code"] for row in self.checks]

    @property
    def facts(self) -> dict[str, Any]:
        return self.final["outputs"][0]["facts"]


@dataclass(frozen=True)
class Picture:
    """The pixels of a PNG; bands of bytes, row by row."""

    width: int
    height: int
    bands: list[bytes]

    def at(self, x: int, y: int) -> tuple[int, ...]:
        return tuple(band[y * self.width + x] for band in self.bands)


@dataclass(frozen=True)
class Box:
    """The handler in the oracle's container."""

    oracle: Oracle

    def run(self, *jobs: dict[str, Any], first: str = "", warmed: bool = False) -> list[Done]:
        """Returns one answer for each job, in order; `first` is run before the handler is loaded."""
        filled = [{**EMPTY, "preview_pixels": 0, **job} for job in jobs]
        python, isolated, switch, _worker, *words = gdal_command()
        output = self.oracle.must(
            python, isolated, switch, f"{first}\n{HOST}", *words, json.dumps([warmed, filled])
        )
        rows = [json.loads(line) for line in output.splitlines()]
        assert len(rows) == len(jobs)
        return [
            Done(
                row["final"],
                row["printed"],
                decoded(row["attached"].get("preview.png")),
                list(map(tuple, row["told"])),
                row["shown"],
            )
            for row in rows
        ]

    def gdal(self, *options: Path | str, **job: Any) -> Done:
        (done,) = self.run({"program": "gdal", "options": list(map(str, options)), **job})
        return done

    def pictures(self, *done: Done) -> list[Picture]:
        """Pixels of the PNGs, as an independent GDAL reads them."""
        folder = self.oracle.folder("pictures")
        paths = [folder / f"{number}.png" for number in range(len(done))]
        for path, result in zip(paths, done, strict=True):
            path.write_bytes(result.picture or b"")
        rows = json.loads(self.oracle.python(PIXELS, *map(str, paths)))
        return [Picture(width, height, list(map(base64.b64decode, bands))) for width, height, bands in rows]


def described(path: str, *sources: str) -> dict[str, Any]:
    """The job that describes a file as if it had just been written from these sources."""
    return {"outputs": [{"path": path, "kind": "dataset"}], "sources": list(sources)}


def decoded(text: str | None) -> bytes | None:
    return base64.b64decode(text) if text is not None else None
