"""Where GDAL keeps its temporary files: beside the output, which has a whole disk, and not in memory.

CPL_TMPDIR is GDAL's own setting for it. SQLite, which sorts large tables in files, has SQLITE_TMPDIR, which it reads once when it is first
used: so that is in the environment of every container, with the path of this folder.
"""

import contextlib
import os
import shutil

from osgeo import gdal

FOLDER = ".temporary"


@contextlib.contextmanager
def beside_output(job):
    """A COG that is reprojected into is first written whole to such a file, then its overviews to another."""
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
