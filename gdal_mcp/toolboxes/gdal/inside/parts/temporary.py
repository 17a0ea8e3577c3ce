"""Where GDAL keeps its temporary files: beside the output, which has a whole disk, and not in memory."""

import contextlib
import os
import shutil

from osgeo import gdal

FOLDER = ".temporary"


@contextlib.contextmanager
def beside_output(job):
    """A COG that is reprojected into is first written whole, uncompressed, to such a file."""
    outputs = job["outputs"]
    folder = os.path.join(os.path.dirname(outputs[0]["path"]), FOLDER) if outputs else None
    try:
        if folder:
            os.mkdir(folder)
            gdal.SetConfigOption("CPL_TMPDIR", folder)
    except OSError:
        folder = None
    try:
        yield
    finally:
        if folder:
            gdal.SetConfigOption("CPL_TMPDIR", None)
            shutil.rmtree(folder, ignore_errors=True)
