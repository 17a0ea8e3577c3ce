"""Creates missing indexes (.shx) of shapefiles again.

GDAL creates the index from the .shp, in a copy because the workspace is read-only.
"""

import os
import re
import shutil

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts import reporting
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

FOLDER = "/tmp/restored"
BESIDE = (".shp", ".dbf", ".prj", ".cpg", ".qpj")
NAMING = ("inputs", "sources", "options", "argv", "tables")  # fields of a job that contain paths of inputs
ROOM = 0.5  # fraction of the free scratch space


def restore(job, paths):
    """Replaces shapefiles without an index in the job by copies with an index.

    Returns the numbers of the replaced files among the sources.
    """
    unindexed = [path for path in paths if lacks_index(path)]
    done = []
    for number, path in enumerate(unindexed):
        copy = copied(path, f"{FOLDER}/{number}")
        if copy is None:
            continue
        if path in job.get("sources", ()):
            done.append(list(job["sources"]).index(path))
        for name in NAMING:
            if name in job:
                job[name] = placed(job[name], path, copy)
        reporting.SHOWN[copy] = path
    return done


def lacks_index(path):
    stem, ending = os.path.splitext(path)
    return ending.lower() == ".shp" and not any(os.path.exists(stem + suffix) for suffix in (".shx", ".SHX"))


def copied(path, folder):
    """The path of a copy with an index; None without space for it, or if GDAL cannot create the index."""
    stem = os.path.splitext(path)[0]
    files = [
        stem + suffix
        for ending in BESIDE
        for suffix in (ending, ending.upper())
        if os.path.isfile(stem + suffix)
    ]
    os.makedirs(folder, exist_ok=True)
    room = os.statvfs(folder)
    if sum(map(os.path.getsize, files)) > ROOM * room.f_bavail * room.f_frsize:
        return None
    for file in files:
        shutil.copyfile(file, f"{folder}/{os.path.basename(file)}")
    copy = f"{folder}/{os.path.basename(path)}"
    gdal.SetConfigOption("SHAPE_RESTORE_SHX", "YES")
    with quiet():
        opened = gdal.OpenEx(copy, gdal.OF_VECTOR)
    gdal.SetConfigOption("SHAPE_RESTORE_SHX", None)
    return copy if opened is not None else None


def placed(value, path, copy):
    if isinstance(value, str):
        return re.sub(re.escape(path) + r"(?![\w.-])", lambda _: copy, value)
    if isinstance(value, list | tuple):
        return [placed(part, path, copy) for part in value]
    return value
