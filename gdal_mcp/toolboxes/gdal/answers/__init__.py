"""What a container said, as what a caller may be told. The words are data, by hand, in `data/`. Pure but for reading these."""

from functools import partial

from gdal_mcp.toolboxes.gdal import data_of

read = partial(data_of, __name__)
