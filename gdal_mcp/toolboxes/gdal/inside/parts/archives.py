"""Lists the members of an archive that GDAL did not recognise as a dataset."""

import json
import os

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

KINDS = {".zip": "vsizip", ".kmz": "vsizip", ".tar": "vsitar", ".tgz": "vsitar", ".gz": "vsitar"}
MOST_NAMES = 20
MOST_ENTRIES = 5000
FOLDER = 0o040000  # the bit for a folder in a file mode
# endings of files that accompany another file
BESIDE = (
    ".dbf",
    ".shx",
    ".prj",
    ".cpg",
    ".qix",
    ".sbn",
    ".sbx",
    ".qpj",
    ".xml",
    ".txt",
    ".pdf",
    ".html",
    ".tfw",
    ".ovr",
)


def tell_members(job, errors):
    """Adds a message with the paths of files in each archive that the call names."""
    for path in job.get("sources", ()):
        ending = os.path.splitext(path)[1].lower()
        if ending not in KINDS:
            continue
        if ending == ".gz" and not path.lower().endswith(".tar.gz"):
            errors.fail(f"the file is compressed and is read as /vsigzip/{path}")
            continue
        names = members(f"/{KINDS[ending]}/{{{path}}}")
        if names:
            shown = ", ".join(f"/{KINDS[ending]}/{path}/{name}" for name in names[:MOST_NAMES])
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            errors.fail_first(f"the archive holds {shown}{more}")


def as_folder(word):
    """A word of `vsi list`; an archive as a folder of GDAL's file system for archives."""
    option, _, path = word.rpartition("=") if word.startswith("--") else ("", "", word)
    kind = KINDS.get(os.path.splitext(path)[1].lower())
    if kind is None or not os.path.isfile(path):
        return word
    return f"{option}{'=' if option else ''}/{kind}/{path}"


def only_member(words):
    """The listing of an archive with one file, which GDAL treats as that file; "" for other archives."""
    for word in words:
        path = word.rpartition("=")[2] if word.startswith("--") else word
        archive = path.replace("{", "").replace("}", "").rstrip("/")
        ending = os.path.splitext(archive)[1].lower()
        if archive.startswith(("/vsizip/", "/vsitar/")) and ending in KINDS:
            files = files_in(path)
            return json.dumps([f"{archive}/{files[0]}"]) if len(files) == 1 else ""
    return ""


def members(archive):
    """The files in an archive that could be datasets; all files if there are none."""
    files = files_in(archive)
    return [name for name in files if not name.lower().endswith(BESIDE)] or files


def files_in(archive):
    files = []
    with quiet():
        folder = gdal.OpenDir(archive, -1, [])
        while folder is not None and len(files) < MOST_ENTRIES:
            if (entry := gdal.GetNextDirEntry(folder)) is None:
                break
            files += [] if entry.mode & FOLDER else [entry.name]
        if folder is not None:
            gdal.CloseDir(folder)
    return files
