"""The size of the raster that a call makes, from arguments that have the same names in every algorithm. Pure.

A size is None if it is not known; nothing is guessed. `Size.certain` is the share of the pixels that is certain to be
made: 1 if the call specifies the size, less if the size follows from coordinates in another CRS, 0 if it depends on
the data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, number_of, overlap, same_crs
from gdal_mcp.toolboxes.gdal.preflight.facts import Box, union_extent

_CONVERTED: Final = 0.5  # certain share after an extent was transformed
_CHOSEN: Final = 0.25  # certain share if GDAL chooses the number of pixels
# pixels per side; larger than every limit, while results computed from it still fit a float
_LARGEST: Final = 1 << 60
# arguments that leave out an unknown part of the input
_SELECTING: Final = "geometry input-layer sql where like-layer like-where like-sql max-distance".split()


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height in pixels, the extent if known, and the certain share of the pixels."""

    width: int
    height: int
    extent: Box | None = None
    certain: float = 1.0


def output_size(call: AlgorithmCall, *, joins: bool) -> Size | None:
    """The size of the raster that a call makes; None if it is unknown.

    It follows from a window or a size, else from a box and a resolution, each from the arguments or from the input.
    With `joins`, the box is that of all inputs.
    """
    facts, like, window = call.input, call.others.get("like"), call.numbers("window", 4)
    regrids = call.path == "raster reproject"
    if regrids and like is not None and like.pixels:
        return Size(like.width, like.height, like.extent)
    if window:
        inside = facts is not None and not call.flag("allow-bbox-outside-source")
        most = (facts.width, facts.height) if facts and inside else (_LARGEST, _LARGEST)
        return _size(min(window[2], most[0]), min(window[3], most[1]))
    box, certain = _box_filled(call, joins=joins)
    if len(call.texts("size")) == 2:
        return _sized(call, box)
    if resolution := call.numbers("resolution", 2):
        aligned = _aligned(box, resolution) if call.flag("target-aligned-pixels") else box
        return _at_resolution(aligned, resolution, certain)
    if facts is None or not facts.pixels:
        return None
    if regrids and (not call.keeps_crs or call.arguments.get("bbox")):
        return Size(facts.width, facts.height, box, 0.0 if call.arguments.get("bbox") else _CHOSEN)
    clipped = call.path == "raster clip" and box not in (None, facts.extent) and facts.pixel_size
    if not joins and not clipped:
        return Size(facts.width, facts.height, box or facts.extent, certain)
    sizes = [
        dataset.pixel_size
        for dataset in (call.inputs if joins else (facts,))
        if dataset and dataset.pixel_size
    ]
    pick = max if call.text("resolution") == "lowest" else min
    if not sizes:
        return None
    finest = pick(x for x, _ in sizes), pick(y for _, y in sizes)
    is_same_resolution = len(set(sizes)) == 1 and len(sizes) == len(call.inputs)
    return _at_resolution(box, finest, certain if is_same_resolution else 0.0)


def _box_filled(call: AlgorithmCall, *, joins: bool) -> tuple[Box | None, float]:
    """The extent of the output in its CRS, and the certain share of its pixels."""
    facts, like, crs = call.input, call.others.get("like"), call.text("bbox-crs")
    clips, chosen = call.path == "raster clip", any(call.arguments.get(name) for name in _SELECTING)
    certain = 0.0 if chosen else 1.0 if call.keeps_crs else _CONVERTED
    box = facts.extent if facts and call.keeps_crs else None
    if facts is not None and not call.keeps_crs and not call.text("input-crs"):
        box = facts.extent_in(call.text("output-crs"))
    if call.arguments.get("extent"):
        return call.box("extent"), 1.0
    if like is not None:
        box, certain = like.extent_in(call.target_crs), 0.0 if chosen or like.kind == "vector" else 1.0
    elif call.arguments.get("bbox") and facts is not None and facts.kind == "vector":
        certain = 0.0  # the box selects a part of the layer
    elif call.arguments.get("bbox"):
        box, certain = (call.box("bbox"), 1.0) if not crs or same_crs(crs, call.target_crs) else (None, 0.0)
    elif joins:
        boxes = [dataset.extent for dataset in call.inputs if dataset and dataset.extent]
        box = union_extent(boxes) if len(boxes) == len(call.inputs) else None
    if clips and facts is not None and not call.flag("allow-bbox-outside-source"):
        box = overlap(box, facts.extent)
    return box, certain if box is not None or not (clips or like) else 0.0


def _sized(call: AlgorithmCall, extent: Box | None) -> Size | None:
    """The size from the argument `size`: pixels, or a percentage of the input; 0 keeps the aspect ratio."""
    facts, texts = call.input, call.texts("size")
    sides = (facts.width, facts.height) if facts else (0, 0)
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
    return _size(width or height * shape, height or width / shape, extent, _CHOSEN)


def _aligned(extent: Box | None, resolution: Sequence[float]) -> Box | None:
    """The extent enlarged to multiples of the resolution."""
    if extent is None or min(resolution) <= 0:
        return extent
    (west, south, east, north), (x, y) = extent, resolution
    return (
        math.floor(west / x) * x,
        math.floor(south / y) * y,
        math.ceil(east / x) * x,
        math.ceil(north / y) * y,
    )


def _at_resolution(extent: Box | None, resolution: Sequence[float], certain: float) -> Size | None:
    if extent is None or min(resolution) <= 0:
        return None
    west, south, east, north = extent
    return _size((east - west) / resolution[0], (north - south) / resolution[1], extent, certain)


def _size(width: float, height: float, extent: Box | None = None, certain: float = 1.0) -> Size | None:
    """A size of at least one pixel per side; None for negative, infinite or undefined sides."""
    if not (0 <= width < math.inf and 0 <= height < math.inf):
        return None
    columns, rows = (max(1, round(min(side, _LARGEST))) for side in (width, height))
    return Size(columns, rows, extent, certain)
