"""How large the raster is that a call makes, by rule. Pure.

A rule answers None rather than guess. `Grid.sure` is the part of the pixels that is certain to be made: 1 where the call
says the size itself, less where it follows from coordinates that were converted, 0 where it depends on what GDAL finds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.crs import projected, same
from gdal_mcp.gdal.preflight.facts import Box, DatasetFacts
from gdal_mcp.gdal.preflight.request import Request

_CONVERTED: Final = 0.5  # of an extent that was converted by our own formulas
_LARGEST: Final = (
    1 << 60
)  # pixels on a side, far beyond every limit; what is computed of it still fits a float
_GRID_SIZE: Final = 256  # pixels on each side, of `vector grid` without a size


@dataclass(frozen=True, slots=True)
class Grid:
    """Pixels on each side, the box they fill where it is known, and how certain that is."""

    width: int
    height: int
    extent: Box | None = None
    sure: float = 1.0

    @property
    def pixels(self) -> int:
        return self.width * self.height


def same_size(request: Request) -> Grid | None:
    header = request.input
    return _of(header) if header else None


def viewshed(request: Request) -> Grid | None:
    made = same_size(request)
    return replace(made, sure=0.0) if made and request.arguments.get("max-distance") else made


def resize(request: Request) -> Grid | None:
    header = request.input
    if header is None or not header.pixels:
        return None
    if resolution := request.numbers("resolution", 2):
        return _at_resolution(header.extent, resolution)
    return _sized(request, header, header.extent)


def reproject(request: Request) -> Grid | None:
    """Without PROJ: only where the CRS stays the same, the call says the box, or the formulas of `crs` suffice."""
    like = request.others.get("like")
    if like is not None and like.pixels:
        return _of(like)
    extent = _target_box(request)
    if resolution := request.numbers("resolution", 2):
        made = _at_resolution(extent, resolution)
        return replace(made, sure=made.sure * _trust(request)) if made else None
    header = request.input
    if "size" in request.arguments:
        return _sized(request, header, extent)
    if header is None or not header.pixels:
        return None
    if request.arguments.get("bbox"):
        return replace(_of(header), extent=extent, sure=0.0)
    return replace(_of(header), extent=extent, sure=1.0 if _stays(request) else 0.25)


def clip(request: Request) -> Grid | None:
    header = request.input
    if header is None or not header.pixels:
        return None
    outside = request.flag("allow-bbox-outside-source")
    if window := request.numbers("window", 4):
        _x, _y, width, height = window
        if not outside:
            width, height = min(width, header.width), min(height, header.height)
        return _grid(width, height)
    wanted = clip_box(request)
    if wanted is None:
        return replace(_of(header), sure=0.0)
    kept = wanted if outside else overlap(wanted, header.extent)
    made = _of_pixels(kept, header) if kept else None
    return replace(made, sure=0.0) if made and _selects_like(request) else made


def create(request: Request) -> Grid | None:
    box = _box(request.numbers("bbox", 4))
    if size := request.numbers("size", 2):
        return _grid(size[0], size[1], box)
    return same_size(request)


def from_vector(request: Request) -> Grid | None:
    """`vector rasterize`: size, or resolution over the given extent, else over that of the layer."""
    header = request.input
    given = _box(request.numbers("extent", 4))
    extent = given or (header.extent if header else None)
    if size := request.numbers("size", 2):
        return _grid(size[0], size[1], extent)
    if resolution := request.numbers("resolution", 2):
        made = _at_resolution(extent, resolution)
        # a chosen layer, a condition or SQL leaves less than the whole extent
        return made if made is None or given or not _selects(request) else replace(made, sure=0.0)
    return None


def interpolate(request: Request) -> Grid | None:
    """`vector grid`."""
    return from_vector(request) or _grid(_GRID_SIZE, _GRID_SIZE)


def union(request: Request) -> Grid | None:
    """`raster mosaic` and `raster stack`: the box around all inputs at one of their resolutions."""
    known = [one for one in request.inputs if one is not None and one.extent and one.pixel_size]
    if not known or len(known) != len(request.inputs):
        return None
    extent = _box(request.numbers("bbox", 4)) or _around(known)
    sizes = [one.pixel_size for one in known if one.pixel_size]
    given = request.numbers("resolution", 2)
    if given:
        return _at_resolution(extent, given)
    pick = max if request.text("resolution") == "lowest" else min
    size = (pick(x for x, _ in sizes), pick(y for _, y in sizes))
    made = _at_resolution(extent, size)
    alike = len(set(sizes)) == 1
    return made if made is None or alike else replace(made, sure=0.0)


RULES: Final[Mapping[str, Callable[[Request], Grid | None]]] = MappingProxyType(
    {
        "same": same_size,
        "viewshed": viewshed,
        "resize": resize,
        "reproject": reproject,
        "clip": clip,
        "create": create,
        "rasterize": from_vector,
        "grid": interpolate,
        "union": union,
    }
)


def clip_box(request: Request) -> Box | None:
    """The box to clip to in the CRS of the data; None where it is given otherwise, or in a CRS that is not convertible."""
    header, like = request.input, request.others.get("like")
    if header is None:
        return None
    if like is not None:
        return projected(like.extent, like.crs, header.crs)
    box = _box(request.numbers("bbox", 4))
    crs = request.text("bbox-crs")
    return projected(box, crs, header.crs) if crs else box


def overlap(first: Box | None, second: Box | None) -> Box | None:
    """What two boxes have in common, which may be a line; None where they have nothing, or one is not known."""
    if first is None or second is None:
        return None
    west, south = max(first[0], second[0]), max(first[1], second[1])
    east, north = min(first[2], second[2]), min(first[3], second[3])
    return (west, south, east, north) if west <= east and south <= north else None


def source_crs(request: Request) -> str | None:
    """The CRS of the data as the call has it: what it says, else what the data says."""
    return request.text("input-crs") or (request.input.crs if request.input else None)


def target_crs(request: Request) -> str | None:
    return request.text("output-crs") or source_crs(request)


def _target_box(request: Request) -> Box | None:
    """The extent of the output in its CRS."""
    box, crs = _box(request.numbers("bbox", 4)), request.text("bbox-crs")
    if box:
        return projected(box, crs, target_crs(request)) if crs else box
    header = request.input
    if header is None:
        return None
    return (
        header.extent
        if _stays(request)
        else projected(header.extent, source_crs(request), target_crs(request))
    )


def _trust(request: Request) -> float:
    """How far the extent of a reprojection is to be believed."""
    if request.arguments.get("bbox"):
        return 1.0 if not request.text("bbox-crs") else _CONVERTED
    return 1.0 if _stays(request) else _CONVERTED


def _stays(request: Request) -> bool:
    return not request.text("output-crs") or same(source_crs(request), target_crs(request))


def _sized(request: Request, header: DatasetFacts | None, extent: Box | None) -> Grid | None:
    """The argument `size`: pixels, or a percentage of the input's; 0 keeps the proportions."""
    texts = [part for value in request.arguments.get("size", ()) for part in value.split(",")]
    if len(texts) != 2:
        return None
    width, height = (
        _length(text, side)
        for text, side in zip(texts, (header.width, header.height) if header else (0, 0), strict=True)
    )
    if width and height:
        return _grid(width, height, extent)
    shape = _proportion(extent) or (header.width / header.height if header and header.pixels else 0.0)
    if shape <= 0 or not (width or height):
        return None
    made = _grid(width or height * shape, height or width / shape, extent)
    return replace(made, sure=1.0 if request.path == "raster resize" else 0.25) if made else None


def _length(text: str, side: int) -> float:
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        return 0.0
    if not math.isfinite(value) or value < 0:
        return 0.0
    return value / 100 * side if number != text else value


def _proportion(extent: Box | None) -> float:
    if extent is None or extent[3] <= extent[1]:
        return 0.0
    return (extent[2] - extent[0]) / (extent[3] - extent[1])


def _at_resolution(extent: Box | None, resolution: Sequence[float]) -> Grid | None:
    if extent is None or min(resolution) <= 0:
        return None
    west, south, east, north = extent
    return _grid((east - west) / resolution[0], (north - south) / resolution[1], extent)


def _of_pixels(box: Box, header: DatasetFacts) -> Grid | None:
    """Every pixel of a raster that a box touches."""
    if header.extent is None or header.pixel_size is None:
        return None
    (left, _, _, top), (width, height) = header.extent, header.pixel_size
    columns = _steps((box[0] - left) / width, (box[2] - left) / width)
    rows = _steps((top - box[3]) / height, (top - box[1]) / height)
    return _grid(columns, rows, box)


def _steps(first: float, last: float) -> float:
    """Whole steps that a stretch touches; what is within a thousandth of one belongs to it."""
    if not max(abs(first), abs(last)) < 1e15:  # beyond, the difference of neighbours is lost
        return math.inf
    return math.ceil(last - 1e-3) - math.floor(first + 1e-3)


def _grid(width: float, height: float, extent: Box | None = None) -> Grid | None:
    """At least one pixel on each side; None for sides that are no size at all."""
    if not (0 <= width < math.inf and 0 <= height < math.inf):
        return None
    return Grid(max(1, round(min(width, _LARGEST))), max(1, round(min(height, _LARGEST))), extent)


def _of(header: DatasetFacts) -> Grid:
    return Grid(header.width, header.height, header.extent)


def _box(numbers: Sequence[float]) -> Box | None:
    if len(numbers) != 4:
        return None
    west, south, east, north = numbers
    return (west, south, east, north) if west < east and south < north else None


def _around(headers: Sequence[DatasetFacts]) -> Box:
    boxes = [one.extent for one in headers if one.extent]
    west, south, east, north = zip(*boxes, strict=True)
    return min(west), min(south), max(east), max(north)


def _selects_like(request: Request) -> bool:
    """Whether less than the whole of `like` is meant, or of its layers the first."""
    like = request.others.get("like")
    chosen = any(request.arguments.get(name) for name in ("like-layer", "like-where", "like-sql"))
    return like is not None and (chosen or like.kind == "vector")


def _selects(request: Request) -> bool:
    return any(request.arguments.get(name) for name in ("input-layer", "sql", "where", "bbox"))
