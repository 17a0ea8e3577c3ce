"""Common file name endings that GDAL does not know, and GDAL's extension for the same format. Pure.

For an output with such an ending the format must be passed explicitly. Inputs do not need it, because GDAL identifies
them by their content.
"""

from typing import Final

ENDINGS: Final = {
    "parquet": ("geoparquet", "gpq", "parq", "pq"),
    "geojsonl": ("ndjson", "ndgeojson", "geojsonseq", "geojsonl.json", "jsonl"),
    "geojson": ("geo.json",),
    "tif": ("geotiff", "gtiff", "gtif", "tiff", "tff"),
    "gpkg": ("geopackage",),
    "fgb": ("flatgeobuf",),
    "jp2": ("j2k", "j2c", "jpx", "jpf"),
    "jpg": ("jpeg", "jpe", "jfif"),
    "nc": ("nc4", "cdf", "netcdf"),
    "h5": ("hdf5", "he5"),
}
# extensions of several formats of which GDAL would choose one that it cannot write: Leveller needs an option that its
# driver does not declare
PREFERRED: Final = {"ter": "Terragen"}
_EXTENSIONS: Final = {ending: extension for extension, endings in ENDINGS.items() for ending in endings}


def usual_name(name: str) -> str:
    """The file name in lower case, without folders and with GDAL's extension instead of another common ending."""
    low = name.lower().rpartition("/")[2]
    parts = low.split(".")
    for count in (2, 1):
        if len(parts) > count and (extension := _EXTENSIONS.get(".".join(parts[-count:]))):
            return ".".join([*parts[:-count], extension])
    return low


def add_common_endings(extensions: frozenset[str]) -> frozenset[str]:
    """The extensions, with their dots, and all other common endings of the same formats."""
    return extensions.union(
        f".{ending}" for ending, extension in _EXTENSIONS.items() if f".{extension}" in extensions
    )
