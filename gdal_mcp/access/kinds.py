"""What may run behind a name: what is written of an algorithm holds for everything that runs it. Pure.

Invariants:
* an algorithm without a kind, such as `info`, stands for those of every kind: which of them runs is known only once GDAL
  has opened the data, so it is never taken for one of them alone;
* a classic program stands for every algorithm that its arguments can make of it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.catalogue.load import catalogue

# besides the one that each is most like, by what its arguments can ask for
_ALSO: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "gdal_translate": ("raster clip", "raster select"),
        "gdalwarp": ("raster mosaic",),
        "gdalbuildvrt": ("raster stack",),
        "gdal_merge": ("raster stack",),
    }
)


def kinds_of(name: str) -> tuple[str, ...]:
    """The algorithms that one without a kind stands for, such as `raster info` for `info`; none for any other name."""
    known = catalogue().algorithms
    return tuple(path for path in known if path.split(" ")[1:] == [name]) if name in known else ()


def unkinded() -> tuple[str, ...]:
    """The algorithms that stand for others."""
    return tuple(path for path in catalogue().algorithms if kinds_of(path))


def behind(tool: str, algorithm: str) -> tuple[str, ...]:
    """Every algorithm that a call of a tool may come to; `algorithm` is the one that it is, or is most like."""
    kinds = kinds_of(tool) or kinds_of(algorithm)
    return kinds or (*((algorithm,) if algorithm else ()), *_ALSO.get(tool, ()))
