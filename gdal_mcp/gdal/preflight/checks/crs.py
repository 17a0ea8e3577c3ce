"""Likely mistakes with coordinate systems and places. Pure."""

import math
from typing import Final

from gdal_mcp.gdal.preflight.call import Call, Finding, overlap, same_crs
from gdal_mcp.gdal.preflight.facts import DatasetFacts

MERCATOR_SLACK: Final = 1.05  # lengths that are wrong by less are not told
_DATE_LINE: Final = 181.0  # degrees, with room for half a pixel of a coarse grid
_RADIUS: Final = 6378137.0  # metres
DEGREE: Final = math.pi / 180 * _RADIUS  # metres of one degree along the equator
# the coarsest climate grids have 2.5; as a resolution in degrees it is rare, in metres common
_LARGE_DEGREES: Final = 2.0
_CLIPS: Final = frozenset({"raster clip", "vector clip", "vector filter"})
_REPROJECTS: Final = frozenset({"raster reproject", "vector reproject"})


def mercator_factor(facts: DatasetFacts | None) -> float:
    """How many metres of Web Mercator are one on the ground, in the middle of a dataset that is in it or in degrees; 1 for others."""
    if facts is None or facts.extent is None:
        return 1.0
    middle = (facts.extent[1] + facts.extent[3]) / 2
    if same_crs(facts.crs, "EPSG:3857"):
        return math.cosh(min(abs(middle) / _RADIUS, math.pi))  # the edge of the map
    return 1 / math.cos(math.radians(middle)) if facts.degrees and abs(middle) < 90 else 1.0


def longitudes_beyond_180(call: Call) -> Finding | None:
    facts = call.input
    if call.path != "raster reproject" or facts is None or not facts.degrees or facts.extent is None:
        return None
    if facts.extent[2] <= _DATE_LINE or call.target_degrees or call.target_crs in ("EPSG:4326", "OGC:CRS84"):
        return None
    return Finding(
        "longitudes_beyond_180",
        f"the raster's longitudes go to {facts.extent[2]:g}, and most CRSs in metres take nothing beyond 180: it is lost, or lies elsewhere.",
        "Bring it to -180 to 180 first: `raster reproject` with output-crs EPSG:4326 and bbox -180,-90,180,90.",
    )


def resolution_unit(call: Call) -> Finding | None:
    resolution, degrees = call.numbers("resolution", 2), call.target_degrees
    if not resolution or degrees is None:
        return None
    if degrees and max(resolution) >= _LARGE_DEGREES:
        return Finding(
            "resolution_in_metres",
            f"the resolution of {max(resolution):g} is in degrees, as the output's CRS is: a pixel of hundreds of kilometres.",
            f"For {max(resolution):g} metres write about {max(resolution) / DEGREE:.2g}, or choose a CRS in metres.",
        )
    return None


def no_overlap(call: Call) -> Finding | None:
    facts, like, crs = call.input, call.others.get("like"), call.text("bbox-crs")
    if call.path not in _CLIPS or facts is None:
        return None
    if like is not None:
        wanted, extent = like.extent_in(facts.crs), facts.extent
    else:
        wanted, extent = call.box("bbox"), facts.extent_in(crs) if crs else facts.extent
    if wanted is None or extent is None or overlap(wanted, extent) is not None:
        return None
    if overlap((wanted[1], wanted[0], wanted[3], wanted[2]), extent) is not None:
        return Finding(
            "no_overlap",
            "the box to clip to lies outside of the data; with x and y exchanged it would not.",
            "Give xmin,ymin,xmax,ymax: longitude before latitude.",
        )
    there = ", ".join(f"{one:.10g}" for one in extent)
    return Finding(
        "no_overlap",
        "the box to clip to lies outside of the data.",
        f"In the box's CRS the data lies in {there}. If the box has another CRS than the data, say it with bbox-crs.",
    )


def no_input_crs(call: Call) -> Finding | None:
    facts = call.input
    if call.path not in _REPROJECTS or facts is None or facts.has_crs is not False or call.text("input-crs"):
        return None
    return Finding(
        "no_input_crs",
        "the input has no CRS, so that it cannot be reprojected.",
        "Say it with input-crs (src_crs of the tool `reproject`).",
        refuses=True,
    )


CHECKS: Final = (longitudes_beyond_180, resolution_unit, no_overlap, no_input_crs)
