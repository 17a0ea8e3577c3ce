"""How large the raster is that a call makes, by rule. Pure.

A rule answers None rather than guess. `Size.certain` is the part of the pixels that is certain to be made: 1 where the call
says the size itself, less where it follows from coordinates in another CRS, 0 where it depends on what GDAL finds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.call import Call, number_of, overlap, same_crs
from gdal_mcp.gdal.preflight.facts import Box, DatasetFacts, around

_CONVERTED: Final = 0.5  # of an extent that was transformed
_CHOSEN: Final = 0.25  # of a number of pixels that GDAL chooses
# pixels on a side; beyond every limit, and what is computed of it still fits a float
_LARGEST: Final = 1 << 60
_GRID_SIDE: Final = 256.0  # pixels, of `vector grid` without a size


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels on each side, the box they fill where it is known, and how certain that is."""

    width: int
    height: int
    extent: Box | None = None
    certain: float = 1.0


def of_input(call: Call) -> Size | None:
    """As the input, or the window of it that is asked for."""
    if call.numbers("window", 4) or call.arguments.get("bbox"):
        return clip(call)
    if call.input is None:
        return None
    return _as(call.input, certain=0.0 if call.text("max-distance") else 1.0)  # of a viewshed


def resize(call: Call) -> Size | None:
    facts = call.input
    if facts is None or not facts.pixels:
        return None
    if resolution := call.numbers("resolution", 2):
        return _at_resolution(facts.extent, resolution)
    return _sized(call, facts.extent, 1.0)


def reproject(call: Call) -> Size | None:
    """Only where the CRS stays the same, the call says the box, or the container said where the data lies."""
    like, facts = call.others.get("like"), call.input
    if like is not None and like.pixels:
        return _as(like)
    box, certain = call.extent_in_target, 1.0 if call.keeps_crs else _CONVERTED
    if call.arguments.get("bbox"):
        crs = call.text("bbox-crs")
        box, certain = (call.box("bbox"), 1.0) if not crs or same_crs(crs, call.target_crs) else (None, 0.0)
    if resolution := call.numbers("resolution", 2):
        return _at_resolution(box, resolution, certain)
    if call.arguments.get("size"):
        return _sized(call, box, _CHOSEN)
    if facts is None or not facts.pixels:
        return None
    certain = 0.0 if call.arguments.get("bbox") else 1.0 if call.keeps_crs else _CHOSEN
    return Size(facts.width, facts.height, box, certain)


def clip(call: Call) -> Size | None:
    facts, like = call.input, call.others.get("like")
    if facts is None or not facts.pixels:
        return None
    outside = call.flag("allow-bbox-outside-source")
    if window := call.numbers("window", 4):
        width, height = window[2:]
        return _size(width, height) if outside else _size(min(width, facts.width), min(height, facts.height))
    wanted = like.extent_in(facts.crs) if like else call.box("bbox")
    own = call.text("bbox-crs")
    if wanted is None or (not like and own and not same_crs(own, facts.crs)):
        return _as(facts, certain=0.0)
    kept = wanted if outside else overlap(wanted, facts.extent)
    made = _of_pixels(kept, facts) if kept else None
    # of the datasets given as `like`, only a whole raster is certain to fill its extent
    chosen = any(call.arguments.get(name) for name in ("like-layer", "like-where", "like-sql"))
    return replace(made, certain=0.0) if made and like and (chosen or like.kind == "vector") else made


def create(call: Call) -> Size | None:
    if size := call.numbers("size", 2):
        return _size(size[0], size[1], call.box("bbox"))
    return _as(call.input) if call.input else None


def rasterize(call: Call) -> Size | None:
    """Size, or resolution over the given extent, else over that of the layer."""
    given = call.box("extent")
    extent = given or (call.input.extent if call.input else None)
    if size := call.numbers("size", 2):
        return _size(size[0], size[1], extent)
    if not (resolution := call.numbers("resolution", 2)):
        return None
    # a chosen layer, a condition or SQL leaves less than the whole extent
    chosen = any(call.arguments.get(name) for name in ("input-layer", "sql", "where", "bbox"))
    return _at_resolution(extent, resolution, 0.0 if chosen and not given else 1.0)


def union(call: Call) -> Size | None:
    """`raster mosaic` and `raster stack`: the box around all inputs at one of their resolutions."""
    sizes = [one.pixel_size for one in call.inputs if one and one.pixel_size]
    boxes = [one.extent for one in call.inputs if one and one.extent]
    if not sizes or not len(sizes) == len(boxes) == len(call.inputs):
        return None
    extent = call.box("bbox") or around(boxes)
    if given := call.numbers("resolution", 2):
        return _at_resolution(extent, given)
    pick = max if call.text("resolution") == "lowest" else min
    resolution = pick(x for x, _ in sizes), pick(y for _, y in sizes)
    return _at_resolution(extent, resolution, 1.0 if len(set(sizes)) == 1 else 0.0)


RULES: Final[Mapping[str, Callable[[Call], Size | None]]] = MappingProxyType(
    {
        "input": of_input,
        "resize": resize,
        "reproject": reproject,
        "clip": clip,
        "create": create,
        "rasterize": rasterize,
        "grid": lambda call: rasterize(call) or _size(_GRID_SIDE, _GRID_SIDE),
        "union": union,
    }
)


def _as(facts: DatasetFacts, certain: float = 1.0) -> Size:
    return Size(facts.width, facts.height, facts.extent, certain)


def _sized(call: Call, extent: Box | None, certain: float) -> Size | None:
    """The argument `size`: pixels, or a percentage of the input's; 0 keeps the proportions, as far as `certain`."""
    facts, texts = call.input, call.texts("size")
    sides = (facts.width, facts.height) if facts else (0, 0)
    if len(texts) != 2:
        return None
    lengths = []
    for text, side in zip(texts, sides, strict=True):
        number = max(number_of(text.removesuffix("%")) or 0.0, 0.0)
        lengths.append(number / 100 * side if text.endswith("%") else number)
    width, height = lengths
    if width and height:
        return _size(width, height, extent)
    shape = (extent[2] - extent[0]) / (extent[3] - extent[1]) if extent and extent[3] > extent[1] else 0.0
    shape = shape or (facts.width / facts.height if facts and facts.pixels else 0.0)
    if shape <= 0 or not (width or height):
        return None
    return _size(width or height * shape, height or width / shape, extent, certain)


def _at_resolution(extent: Box | None, resolution: Sequence[float], certain: float = 1.0) -> Size | None:
    if extent is None or min(resolution) <= 0:
        return None
    west, south, east, north = extent
    return _size((east - west) / resolution[0], (north - south) / resolution[1], extent, certain)


def _of_pixels(box: Box, facts: DatasetFacts) -> Size | None:
    """Every pixel of a raster that a box touches; what is within a thousandth of one belongs to it."""
    if facts.extent is None or facts.pixel_size is None:
        return None

    def steps(first: float, last: float) -> float:
        if not max(abs(first), abs(last)) < 1e15:  # beyond, the difference of neighbours is lost
            return math.inf
        return math.ceil(last - 1e-3) - math.floor(first + 1e-3)

    (left, _, _, top), (width, height) = facts.extent, facts.pixel_size
    columns = steps((box[0] - left) / width, (box[2] - left) / width)
    return _size(columns, steps((top - box[3]) / height, (top - box[1]) / height), box)


def _size(width: float, height: float, extent: Box | None = None, certain: float = 1.0) -> Size | None:
    """At least one pixel on each side; None for negative, infinite or undefined sides."""
    if not (0 <= width < math.inf and 0 <= height < math.inf):
        return None
    columns, rows = (max(1, round(min(side, _LARGEST))) for side in (width, height))
    return Size(columns, rows, extent, certain)
