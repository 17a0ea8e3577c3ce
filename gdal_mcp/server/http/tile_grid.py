"""The grid of map tiles in Web Mercator. Pure."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_ZOOM: Final = 24  # a pixel has about a centimetre at this zoom
SIDE: Final = 2  # tiles per side of a block, which one container draws
MAX_LATITUDE: Final = 85.0511287798066  # degrees; the edge of the square of Web Mercator
PIXELS: Final = 256  # pixels per side of a tile
Box = tuple[float, float, float, float]  # west, south, east, north in degrees; east may be below west


class Place(NamedTuple):
    """A tile: zoom, column from the west, row from the north."""

    zoom: int
    x: int
    y: int

    @property
    def block(self) -> "Place":
        """The first tile of the block that contains this tile."""
        return Place(self.zoom, self.x - self.x % SIDE, self.y - self.y % SIDE)


WHOLE_WORLD: Final = Place(0, 0, 0)


def side_of(zoom: int) -> int:
    return min(SIDE, 1 << zoom)


def places_of(block: Place) -> list[Place]:
    side = range(side_of(block.zoom))
    return [Place(block.zoom, block.x + column, block.y + row) for row in side for column in side]


def bounds_of(boxes: Sequence[Box]) -> Box:
    """The box around all boxes; it goes around the world if one of them crosses the antimeridian."""
    wests, souths, easts, norths = zip(*boxes, strict=True)
    crosses = any(west > east for west, _, east, _ in boxes)
    west, east = (-180.0, 180.0) if crosses else (min(wests), max(easts))
    return west, min(souths), east, max(norths)


def touches(place: Place, box: Box) -> bool:
    """True if a tile and a box share more than an edge."""
    west, south, east, north = box
    count = 1 << place.zoom
    left, right = (360 * column / count - 180 for column in (place.x, place.x + 1))
    top, bottom = (
        math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / count)))) for row in (place.y, place.y + 1)
    )
    begins, ends = west < right, left < east
    across = begins and ends if west <= east else begins or ends
    return across and bottom < north and south < top


def finest_zoom(columns: int, degrees: float) -> int:
    """The lowest zoom at which a tile's pixel is at most as large as a pixel of the raster."""
    finest = 360 / PIXELS / (1 << MAX_ZOOM)
    return max(0, math.ceil(math.log2(360 / PIXELS / max(degrees / columns, finest))))
