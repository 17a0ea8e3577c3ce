"""Tiny jobs that run while the worker waits, so that GDAL, PROJ and Python are warm when the real job comes.

They leave no trace: no files, no settings, no GDAL messages (GDAL emits some only once), no printed text. They do not
change the job's answer either: they run in the side thread (see `SideThread`), and the job's thread uses only a CRS
that hardly any data has.
"""

import contextlib
import importlib
import io
import os
from types import SimpleNamespace

from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet

PLACE = "/tmp/warming"  # private to this container; files in the output folder would be published
RASTER, WRITTEN, LAYERS, COPIED = (f"{PLACE}/{name}" for name in ("a.tif", "b.tif", "a.gpkg", "b.geojson"))
SIDE = 32  # pixels of the raster
PIXELS = 16  # pixels of the preview
RARE, RARE_DEGREES = 29333, 4293  # EPSG codes of Schwarzeck in Namibia, whose datum is not an ensemble
PARTS = ("programs", "describe", "preview", "preview_raster", "preview_vector")
# the most frequent algorithms of each kind; creating one reads the descriptions of its arguments
ALGORITHMS = (
    *("raster reproject", "raster clip", "raster hillshade", "raster pipeline"),
    *("vector info", "vector reproject", "vector pipeline"),
)
IDLE = 1.0  # seconds without a job before the imports that few programs need and that cannot be interrupted
LATE = (
    *("numpy", "osgeo.gdal_array"),
    *("osgeo_utils.gdal_merge", "osgeo_utils.gdal_polygonize", "osgeo_utils.gdal2xyz"),
)
NO_REPORT = SimpleNamespace(**dict.fromkeys(("progress", "interim", "attach"), lambda *_, **__: None))


def steps(run):
    """A generator of steps of a few milliseconds; `run` is the handler's. Close it when the job arrives."""
    for name in PARTS:
        part(name)
        yield
    from gdal_mcp.toolboxes.gdal.inside.parts import describe, programs

    for step in (
        lambda: rare(RARE),  # opens PROJ's database
        # loads what PROJ needs to find an operation between two CRSs
        lambda: osr.CreateCoordinateTransformation(rare(RARE), rare(RARE_DEGREES)).TransformPoint(5e5, 7e6),
        read_crs,
    ):
        silently(step)
        yield
    with folder():
        for step in (
            write_raster,
            lambda: job(run, "info --output-format=json", RASTER),
            lambda: job(run, "raster info", RASTER),
            lambda: job(run, "convert --output-format=COG", RASTER, WRITTEN),
            lambda: os.unlink(WRITTEN),
            lambda: job(run, f"raster reproject --output-crs=EPSG:{RARE_DEGREES}", RASTER, WRITTEN),
            write_layer,
            lambda: job(run, "vector info --output-format=json", LAYERS),
            lambda: job(run, "vector convert", LAYERS, COPIED),
        ):
            describe.SIDE_THREAD.do(lambda step=step: silently(step))
            yield
    for path in ALGORITHMS:
        silently(lambda path=path: programs.instantiated(path.split())[0].GetArgNames())
        yield
    yield IDLE
    for name in LATE:
        silently(lambda name=name: importlib.import_module(name))
        yield


def silently(step):
    """Runs a step and suppresses its output and exceptions."""
    nowhere = io.StringIO()
    with quiet(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        with contextlib.suppress(Exception):  # a job that needs it fails in the same way, and reports that
            step()
        gdal.ErrorReset()


@contextlib.contextmanager
def folder():
    with contextlib.suppress(OSError):  # without space, the steps do nothing
        os.mkdir(PLACE)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for name in os.listdir(PLACE):
                os.unlink(f"{PLACE}/{name}")
            os.rmdir(PLACE)


def read_crs():
    """Reads a CRS from a GeoTIFF, for which GDAL asks PROJ for more facts.

    For a projected CRS it would also ask for WGS 84, so a geographic CRS is used.
    """
    name = "/vsimem/warming.tif"
    dataset = gdal.GetDriverByName("GTiff").Create(name, 1, 1)
    dataset.SetSpatialRef(rare(RARE_DEGREES))
    dataset.Close()
    try:
        gdal.Open(name).GetSpatialRef()
    finally:
        gdal.Unlink(name)


def rare(code):
    crs = osr.SpatialReference()
    crs.ImportFromEPSG(code)
    return crs


def write_raster():
    dataset = gdal.GetDriverByName("GTiff").Create(RASTER, SIDE, SIDE, 1, gdal.GDT_Byte)
    dataset.SetSpatialRef(rare(RARE))
    dataset.SetGeoTransform((500000, 10, 0, 7000000, 0, -10))
    dataset.GetRasterBand(1).WriteRaster(0, 0, SIDE, SIDE, bytes(i % 251 for i in range(SIDE * SIDE)))
    dataset.Close()


def job(run, command, source, output=None):
    """Runs an algorithm of the `gdal` program like a job from the host."""
    words = [*command.split(), source]
    request = {"program": "gdal", "inputs": [], "sources": [source], "preview_pixels": PIXELS}
    if output is None:
        return run({**request, "options": words, "outputs": []}, NO_REPORT)
    outputs = [{"path": output, "kind": "dataset"}]
    request["changes"] = [["", f"EPSG:{RARE_DEGREES}", ""]]  # changes of CRS, for which PROJ is queried
    return run({**request, "options": [*words, output], "outputs": outputs}, NO_REPORT)


def write_layer():
    dataset = gdal.GetDriverByName("GPKG").Create(LAYERS, 0, 0, 0, gdal.GDT_Unknown)
    layer = dataset.CreateLayer("a", rare(RARE_DEGREES), ogr.wkbPolygon)
    layer.CreateField(ogr.FieldDefn("a", ogr.OFTInteger))
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetGeometry(ogr.CreateGeometryFromWkt("POLYGON ((15 -22,16 -22,16 -21,15 -22))"))
    layer.CreateFeature(feature)
    dataset.Close()
