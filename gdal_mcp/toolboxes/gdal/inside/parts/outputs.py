"""Describes outputs that are not datasets: text tables, arrays, plain files, and folders of tiles or parts."""

import os

from osgeo import gdal

MAX_ENTRIES = 200_000  # limit for counting the files of a folder; staging allows fewer
MAX_SUFFIXES = 20
CHUNK = 1 << 20


def table(path):
    rows = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            rows += chunk.count(b"\n")
    return {"driver": "text", "rows": rows, "bytes": bytes_of(path)}, {}


def array(path):
    import numpy

    values = numpy.load(path, mmap_mode="r", allow_pickle=False)
    facts = {"driver": "numpy", "shape": list(values.shape), "type": str(values.dtype)}
    return {**facts, "bytes": bytes_of(path)}, {}


def folder(path):
    """The files by suffix, bytes, and zoom levels of a folder with a tree of tiles `{z}/{x}/{y}`."""
    counts, total = {}, 0
    for entry in entries(path):
        total += entry.stat(follow_symlinks=False).st_size
        suffix = os.path.splitext(entry.name)[1].lower()
        counts[suffix] = counts.get(suffix, 0) + 1
    common = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))[:MAX_SUFFIXES]
    facts = {
        "files": sum(counts.values()),
        "bytes": total,
        "kinds": [{"files": counts[suffix]} for suffix in common],
    }
    names = [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    levels = [int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 3]
    if levels:
        facts["zoom"] = [min(levels), max(levels)]
    return facts, {"kinds": common}


def entries(path):
    """The regular files below a folder; links are not followed."""
    folders, count = [path], 0
    while folders:
        for entry in os.scandir(folders.pop()):
            count += 1
            if count > MAX_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry


def bytes_of(path):
    """The size of a file, or of all files below a folder; None for other names, such as those of subdatasets."""
    if os.path.isdir(path):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries(path))
    if os.path.isfile(path):
        return os.path.getsize(path)
    status = gdal.VSIStatL(path) if path.startswith("/vsihost/") else None
    return status.size if status is not None and not status.IsDirectory() else None


KINDS = {
    "table": table,
    "array": array,
    "file": lambda path: ({"bytes": bytes_of(path)}, {}),
    "folder": folder,
}
