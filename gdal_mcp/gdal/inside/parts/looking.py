"""What files are, without reading their pixels or features."""

from osgeo import gdal

from gdal_mcp.gdal.inside.parts.datasets import facts_and_names, opened
from gdal_mcp.gdal.inside.parts.reporting import print_json, quiet

MOST = 1000  # names of one request


def run_identify(job, _report):
    """Prints an object: every input, and the short name of the driver that takes it, or null."""
    with quiet():
        print_json({path: driver_of(path) for path in job["inputs"][:MOST]})
    return True


def driver_of(path):
    driver = gdal.IdentifyDriverEx(path, gdal.OF_RASTER | gdal.OF_VECTOR | gdal.OF_MULTIDIM_RASTER)
    return driver.ShortName if driver is not None else None


def run_headers(job, _report):
    """Prints a list in the order of the inputs: `facts` and `names` as of an output, or null for what does not open."""
    print_json([header(name) for name in job["inputs"][:MOST]])
    return True


def header(name):
    with quiet() as aside:
        dataset = opened(name, aside)
        if dataset is None:
            return None
        facts, names = facts_and_names(name, dataset, whole=False)
        dataset.Close()
    return {"facts": facts, "names": names}
