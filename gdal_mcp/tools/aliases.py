"""The names of GDAL that stand for others. Pure."""

from collections import defaultdict
from types import MappingProxyType
from typing import Final

from gdal_mcp.access.aliases import Aliases
from gdal_mcp.gdal.catalogue.model import Catalogue

_BESIDES: Final = MappingProxyType(
    {
        "gdal_translate": ("raster clip", "raster select"),
        "gdalwarp": ("raster mosaic",),
        "gdalbuildvrt": ("raster stack",),
        "gdal_merge": ("raster stack",),
    }
)


def aliases_of(catalogue: Catalogue) -> Aliases:
    """Those of a catalogue: `info` stands for `raster info`, `vector info` and so on."""
    generic: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for path in catalogue.algorithms:
        _, _, name = path.partition(" ")
        if name in catalogue.algorithms:
            generic[name] += (path,)
    return Aliases(generic, _BESIDES)
