"""Converts reports from containers to results for callers. The messages are hand-written in `data/`.

Pure, except that it reads this data.
"""

from functools import partial

from gdal_mcp.toolboxes.gdal import data_of

read = partial(data_of, __name__)
