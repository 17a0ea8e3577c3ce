"""Outputs that are no datasets: tables of text, arrays, plain files, folders of tiles or of parts."""

import os

MOST_ENTRIES = 200_000  # a folder's files that are counted; staging allows fewer
MOST_SUFFIXES = 20
CHUNK = 1 << 20


def table(path):
    rows = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            rows += chunk.count(b"\n")
    return {"driver": "text", "rows": rows, "bytes": bytes_of(path)}, {}


def array(path):
    import numpy

    found = numpy.load(path, mmap_mode="r", allow_pickle=False)
    return {
        "driver": "numpy",
        "shape": list(found.shape),
        "type": str(found.dtype),
        "bytes": bytes_of(path),
    }, {}


def file(path):
    return {"bytes": bytes_of(path)}, {}


def folder(path):
    """Files by suffix, bytes, and the zoom levels of a tree of tiles."""
    counts, total, files = {}, 0, 0
    for entry in entries(path):
        files += 1
        total += entry.stat(follow_symlinks=False).st_size
        suffix = os.path.splitext(entry.name)[1].lower()
        counts[suffix] = counts.get(suffix, 0) + 1
    common = sorted(counts, key=lambda one: (-counts[one], one))[:MOST_SUFFIXES]
    facts = {"files": files, "bytes": total, "kinds": [{"files": counts[one]} for one in common]}
    if levels := zoom_levels(path):
        facts["zoom"] = [min(levels), max(levels)]
    return facts, {"kinds": common}


def zoom_levels(path):
    """The levels of `{z}/{x}/{y}` below a folder."""
    return [
        int(entry.name)
        for entry in os.scandir(path)
        if entry.is_dir(follow_symlinks=False) and entry.name.isascii() and entry.name.isdigit() and len(entry.name) < 3
    ]  # fmt: skip


def entries(path):
    """The regular files below a folder; links are not followed."""
    folders, seen = [path], 0
    while folders:
        for entry in os.scandir(folders.pop()):
            seen += 1
            if seen > MOST_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry


def bytes_of(path):
    """Of a file or of all files below a folder; None for what is neither, such as the name of a subdataset."""
    if os.path.isdir(path):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries(path))
    return os.path.getsize(path) if os.path.isfile(path) else None


KINDS = {"table": table, "array": array, "file": file, "folder": folder}
