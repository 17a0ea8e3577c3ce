"""How many tiles `raster tile` makes. Pure.

It makes every tile that touches the box of the data in the CRS of the tiling scheme, blank ones too unless told otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.crs import HALF_WORLD, projected
from gdal_mcp.gdal.preflight.facts import Box
from gdal_mcp.gdal.preflight.request import Request

_DEEPEST: Final = 30  # levels; the schemes end at 24 to 30
_SIDE: Final = 256  # pixels of a tile
_EDGE: Final = 1e-9  # part of a tile that rounding may add


@dataclass(frozen=True, slots=True)
class _Scheme:
    """A tiling of the world: its CRS, upper left corner, and the side of the only or first tile of level 0."""

    crs: str
    left: float
    top: float
    side: float


_SCHEMES: Final[Mapping[str, _Scheme]] = MappingProxyType(
    {
        "WebMercatorQuad": _Scheme("EPSG:3857", -HALF_WORLD, HALF_WORLD, 2 * HALF_WORLD),
        "WorldCRS84Quad": _Scheme("OGC:CRS84", -180.0, 90.0, 180.0),
    }
)
_PARTS: Final = ("min-x", "max-x", "min-y", "max-y")


@dataclass(frozen=True, slots=True)
class Tiles:
    """`sure` is the number that is certain to be made."""

    count: int
    sure: int
    side: int  # pixels


def tiles(request: Request) -> Tiles | None:
    """None where the scheme, or where the data lies in it, is not known here."""
    scheme = _SCHEMES.get(request.text("tiling-scheme") or "WebMercatorQuad")
    header = request.input
    if scheme is None or header is None or not header.pixels:
        return None
    box = projected(header.extent, header.crs, scheme.crs)
    if box is None:
        return None
    side = request.whole("tile-size", _SIDE)
    deepest = request.whole("max-zoom", _fitting(box, scheme, side, header.width))
    # without a lowest level GDAL makes the deepest only
    first = request.whole("min-zoom", deepest)
    count = sum(_level(box, scheme, level) for level in range(max(first, 0), min(deepest, _DEEPEST) + 1))
    partial = any(name in request.arguments for name in _PARTS)
    blank = request.flag("skip-blank") or request.flag("resume")
    # the box was converted by our own formulas; a level that GDAL chooses may be the next one, with a quarter of the tiles
    doubt = 2 if "max-zoom" in request.arguments else 8
    return Tiles(count, 0 if partial or blank else count // doubt, side)


def _fitting(box: Box, scheme: _Scheme, side: int, width: int) -> int:
    """The level whose pixels are nearest to the data's."""
    size = (box[2] - box[0]) / width
    times = scheme.side / max(side, 1) / size if size > 0 else 0.0
    # a header may say of its pixels what it likes
    return max(0, min(_DEEPEST, round(math.log2(times)))) if 0 < times < math.inf else 0


def _level(box: Box, scheme: _Scheme, level: int) -> int:
    side = scheme.side / (1 << level)
    west, south, east, north = box
    across, down = round(2 * abs(scheme.left) / side), 1 << level
    columns = _touched((west - scheme.left) / side, (east - scheme.left) / side, across)
    rows = _touched((scheme.top - north) / side, (scheme.top - south) / side, down)
    return max(1, min(columns, across)) * max(1, min(rows, down))


def _touched(first: float, last: float, most: int) -> int:
    """How many tiles a stretch touches, for one that lies beyond the world as far as that matters."""
    low, high = (max(-1.0, min(one, most + 1.0)) for one in (first, last))
    return math.floor(high - _EDGE) - math.floor(low + _EDGE) + 1
