"""Puts GDAL's temporary files next to the output, where there is a whole disk, instead of in memory.

CPL_TMPDIR is GDAL's own setting for this. SQLite, which sorts large tables in files, has SQLITE_TMPDIR, which it
reads once when it is first used. So that variable is in the environment of every container, with the path of this
folder.
"""

import contextlib
import os
import shutil

from osgeo import gdal

FOLDER = ".temporary"


@contextlib.contextmanager
def beside_output(job):
    """Provides a folder for GDAL's temporary files next to the output, and removes it afterwards.

    For example, GDAL first writes a reprojected COG completely to a temporary file, then its overviews to another
    one.
    """
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
