"""Likely mistakes with coordinate systems and places. Pure."""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from gdal_mcp.gdal.preflight.call import Call, Finding, overlap, same_crs, worded
from gdal_mcp.gdal.preflight.facts import DatasetFacts

MERCATOR_SLACK: Final = 1.05  # lengths that are wrong by less are not told
_DATE_LINE: Final = 181.0  # degrees, with room for half a pixel of a coarse grid
_POLE: Final = 90.9  # degrees, with the same
_RADIUS: Final = 6378137.0  # metres
DEGREE: Final = math.pi / 180 * _RADIUS  # metres of one degree along the equator
# the coarsest climate grids have 2.5; as a resolution in degrees it is rare, in metres common
_LARGE_DEGREES: Final = 2.0


def mercator_factor(facts: DatasetFacts | None) -> float:
    """How many metres of Web Mercator are one on the ground, in the middle of a dataset that is in it or in degrees; 1 for others."""
    if facts is None or facts.extent is None:
        return 1.0
    middle = (facts.extent[1] + facts.extent[3]) / 2
    if same_crs(facts.crs, "EPSG:3857"):
        return math.cosh(min(abs(middle) / _RADIUS, math.pi))  # the edge of the map
    return 1 / math.cos(math.radians(middle)) if facts.degrees and abs(middle) < 90 else 1.0


def longitudes_beyond_180(call: Call) -> Iterator[Finding]:
    facts = call.input
    if call.path != "raster reproject" or facts is None or not facts.degrees or facts.extent is None:
        return
    to_degrees = call.target_degrees or call.target_crs in ("EPSG:4326", "OGC:CRS84")
    if facts.extent[2] > _DATE_LINE and not to_degrees:
        yield worded("longitudes_beyond_180", {"east": facts.extent[2]})


def extent_outside(call: Call) -> Iterator[Finding]:
    """Of what is only read; the container tells it of what was written."""
    boxes = [one.extent for one in call.inputs if one and one.degrees and one.extent and not call.written]
    for west, south, east, north in [box for box in boxes if max(-box[1], box[3]) > _POLE][:1]:
        exchanged = max(-west, east) <= _POLE and max(-south, north) <= _DATE_LINE
        yield worded("xy_beyond" if exchanged else "beyond_poles", {"south": south, "north": north})


def resolution_unit(call: Call) -> Iterator[Finding]:
    most = max(call.numbers("resolution", 2), default=0.0)
    if call.target_degrees and most >= _LARGE_DEGREES:
        yield worded("resolution_in_metres", {"given": most, "degrees": most / DEGREE})


def no_overlap(call: Call) -> Iterator[Finding]:
    facts, like, crs = call.input, call.others.get("like"), call.text("bbox-crs")
    if call.path not in ("raster clip", "vector clip", "vector filter") or facts is None:
        return
    if like is not None:
        wanted, extent = like.extent_in(facts.crs), facts.extent
    else:
        wanted, extent = call.box("bbox"), facts.extent_in(crs) if crs else facts.extent
    if wanted is None or extent is None or overlap(wanted, extent) is not None:
        return
    if overlap((wanted[1], wanted[0], wanted[3], wanted[2]), extent) is not None:
        yield worded("axes_exchanged")
    else:
        yield worded("box_outside", {"there": ", ".join(f"{one:.10g}" for one in extent)})


def unknown_crs(texts: Iterable[str], inputs: Iterable[DatasetFacts]) -> Iterator[Finding]:
    """The first CRS of a call that the PROJ of the image does not know."""
    known = tuple(inputs)
    for text in texts:
        if any(not place.known for facts in known for place in facts.named(text)):
            yield worded("unknown_crs", {"crs": text[:80]}, refuses=True)
            return


def no_input_crs(call: Call) -> Iterator[Finding]:
    lacks_crs = call.input is not None and call.input.has_crs is False and not call.text("input-crs")
    if call.path in ("raster reproject", "vector reproject") and lacks_crs:
        yield worded("no_input_crs", refuses=True)


CHECKS: Final = (longitudes_beyond_180, extent_outside, resolution_unit, no_overlap, no_input_crs)
