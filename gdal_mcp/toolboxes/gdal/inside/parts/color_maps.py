"""Checks that a color map has an entry for each value of a raster."""

import itertools
import re

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.values import unique_values

MAX_LINES = 10_000
MAX_CHARACTERS = 200  # of one line


def color_map_checks(dataset, sources, options):
    """Reports values without an entry, which an exact selection makes black, as if black were their color.

    With an alpha band, they are transparent.
    """
    paths = [word.partition("=")[2] for word in options if word.startswith("--color-map=")]
    rasters = [path for path, row in sources if row and "bands" in row["facts"]]
    if "--color-selection=exact" not in options or dataset.RasterCount != 3 or not (paths and rasters):
        return
    source, entries = gdal.OpenEx(rasters[0], gdal.OF_RASTER), entries_of(paths[0])
    values = unique_values(source.GetRasterBand(1)).tolist() if source is not None and entries else []
    if missing := set(values) - entries:
        yield {"code": "colors_missing", "count": len(missing), "of": len(values)}


def entries_of(path):
    """The values of a color map as numbers; an empty set if one is neither a number nor `nv`, such as a percentage."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line[:MAX_CHARACTERS].strip() for line in itertools.islice(file, MAX_LINES)]
    words = [re.split(r"[\s,:]+", line)[0] for line in lines if line and not line.startswith("#")]
    try:
        return {float(word) for word in words if word.lower() != "nv"}
    except ValueError:
        return set()
