"""Likely mistakes with CRSs and extents. Pure."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding, overlap, same_crs
from gdal_mcp.toolboxes.gdal.preflight.facts import Box, DatasetFacts

MERCATOR_SLACK: Final = 1.05  # smaller scale errors are not reported
# WGS 84 with longitudes from 0 to 360; a GeoTIFF in it has EPSG:4326 and an extent beyond 180
_WRAPPED: Final = "+proj=longlat +datum=WGS84 +lon_wrap=180"
_CLIPS: Final = ("raster clip", "vector clip", "vector filter")
_DATE_LINE: Final = 181.0  # degrees, with a tolerance for half a pixel of a coarse grid
_AROUND: Final = 361.0  # degrees around the earth, with the same tolerance
_NUMBER: Final = r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?"
_POLE: Final = 90.9  # degrees, with the same tolerance
_RADIUS: Final = 6378137.0  # metres; semi-major axis of WGS 84
DEGREE: Final = math.pi / 180 * _RADIUS  # metres per degree along the equator
# a resolution of 2 or more is rare in degrees (the coarsest climate grids have 2.5) and common in metres
_LARGE_DEGREES: Final = 2.0


def mercator_factor(facts: DatasetFacts | None) -> float:
    """The scale factor of Web Mercator at the centre of a dataset in Web Mercator or in degrees; else 1."""
    if facts is None or facts.extent is None:
        return 1.0
    middle = (facts.extent[1] + facts.extent[3]) / 2
    if same_crs(facts.crs, "EPSG:3857"):
        return math.cosh(min(abs(middle) / _RADIUS, math.pi))  # pi is the edge of the map
    return 1 / math.cos(math.radians(middle)) if facts.degrees and abs(middle) < 90 else 1.0


def longitudes_beyond_180(call: AlgorithmCall) -> Iterator[Finding]:
    facts = call.input
    if call.path != "raster reproject" or facts is None or not facts.degrees or facts.extent is None:
        return
    to_degrees = call.target_degrees or call.target_crs in ("EPSG:4326", "OGC:CRS84")
    if facts.extent[2] > _DATE_LINE and not to_degrees:
        yield make_finding("longitudes_beyond_180", {"east": facts.extent[2]})


def extent_outside(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds datasets in degrees with latitudes beyond the poles.

    Only datasets that are read are checked here; the container checks those that are written.
    """
    if call.written or call.text("input-crs"):
        return
    boxes = [dataset.extent for dataset in call.inputs if dataset and dataset.degrees and dataset.extent]
    for west, south, east, north in [box for box in boxes if max(-box[1], box[3]) > _POLE][:1]:
        exchanged = max(-west, east) <= _POLE and max(-south, north) <= _DATE_LINE
        yield make_finding("xy_beyond" if exchanged else "beyond_poles", {"south": south, "north": north})


def resolution_unit(call: AlgorithmCall) -> Iterator[Finding]:
    most = max(call.numbers("resolution", 2), default=0.0)
    if call.target_degrees and most >= _LARGE_DEGREES:
        yield make_finding("resolution_in_metres", {"given": most, "degrees": most / DEGREE})


def antimeridian(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds outputs in degrees of data across longitude 180, for which GDAL makes an extent around the earth."""
    name = {"raster reproject": "output-crs", "raster footprint": "output-crs"}.get(call.path)
    place = call.input.crs_extents.get(call.text(name)) if name and call.input else None
    if place is None or place.extent is None or not place.crosses or call.text("bbox"):
        return
    west, south, east, north = place.extent
    words = {"west": west, "east": east - 360, "south": south, "north": north}
    if call.path == "raster footprint":
        yield make_finding("footprint_about_180", words, refuses=True)
    else:
        wgs84 = call.text("output-crs").upper() in ("EPSG:4326", "OGC:CRS84")
        change = {"output-crs": (_WRAPPED,)} if wgs84 else None
        yield make_finding("crosses_antimeridian", words, refuses=True, change=change)


def other_longitudes(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds a box or zones in another range of longitudes than the data.

    One range is -180 to 180, the other 0 to 360. Boxes across longitude 180 are found too.
    """
    facts, numbers = call.input, call.numbers("bbox", 4)
    in_degrees = call.target_degrees or call.text("bbox-crs").upper() in ("EPSG:4326", "OGC:CRS84")
    if facts is None or facts.extent is None or not (facts.degrees or in_degrees):
        return
    if numbers and numbers[0] > numbers[2] and call.path in (*_CLIPS, "raster reproject"):
        yield from _turned_box(call, (numbers[0], numbers[1], numbers[2], numbers[3]))
    elif facts.degrees and call.path in ("raster clip", "raster zonal-stats"):
        other = call.others.get("zones") or call.others.get("like")
        box = call.box("bbox") if not call.text("bbox-crs") else None
        if box is None and other is not None and other.degrees:
            box = other.extent
        if box is None and not call.text("geometry-crs"):
            box = _box_of_wkt(call.text("geometry"))
        if box is not None and _is_shifted(box, facts.extent):
            change = _by_warping(call, box)
            instead = "raster reproject" if change else ""
            yield make_finding("longitudes_shifted", refuses=True, change=change, instead=instead)


def shifted_features(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds a box for features in another range of longitudes than the features."""
    facts, box = call.input, call.box("bbox") if not call.text("bbox-crs") else None
    if call.path not in ("vector clip", "vector filter") or facts is None or facts.extent is None:
        return
    if facts.degrees and box is not None and _is_shifted(box, facts.extent):
        yield make_finding("features_shifted")


def position_outside(call: AlgorithmCall) -> Iterator[Finding]:
    facts, numbers = call.input, call.numbers("position")
    crs = call.text("position-crs")
    if call.path != "raster pixel-info" or facts is None or facts.extent is None or len(numbers) < 2:
        return
    if crs != "dataset" and not same_crs(crs, facts.crs):
        return
    west, south, east, north = facts.extent
    pairs = list(zip(numbers[::2], numbers[1::2], strict=False))
    outside = [(x, y) for x, y in pairs if not (west <= x <= east and south <= y <= north)]
    turned = [
        x for x, y in outside if south <= y <= north and any(west <= x + turn <= east for turn in (360, -360))
    ]
    if outside:
        yield make_finding("position_shifted" if facts.degrees and turned else "position_outside")


def shifted_inputs(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rasters that are joined, some with longitudes from 0 to 360 and others from -180 to 180."""
    known = [dataset.extent for dataset in call.inputs if dataset and dataset.degrees and dataset.extent]
    if call.path not in ("raster mosaic", "gdal_merge") or len(known) < 2:
        return
    span = max(box[2] for box in known) - min(box[0] for box in known)
    if span > _AROUND or any(_is_shifted(box, other) for box in known for other in known if box is not other):
        yield make_finding("longitudes_joined")


def cannot_reproject(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds coordinates beyond the range of degrees, which cannot be reprojected."""
    facts = call.input
    if call.path not in ("raster reproject", "vector reproject") or facts is None or facts.extent is None:
        return
    _, south, _, north = facts.extent
    if facts.degrees and not call.text("input-crs") and max(-south, north) > _POLE:
        yield make_finding("coordinates_beyond", {"south": south, "north": north}, refuses=True)


def _box_of_wkt(text: str) -> Box | None:
    """The bounding box of a two-dimensional WKT geometry; None for other text."""
    if not text or not re.fullmatch(r"[A-Za-z\s(),0-9.eE+-]+", text):
        return None
    pairs = re.findall(rf"({_NUMBER})\s+({_NUMBER})(?=\s*[,)])", text)
    if not pairs:
        return None
    xs, ys = ([float(pair[i]) for pair in pairs] for i in (0, 1))
    return min(xs), min(ys), max(xs), max(ys)


def _turned_box(call: AlgorithmCall, box: Box) -> Iterator[Finding]:
    west, south, east, north = box
    if not (-180 <= east < 0 < west <= 180 and south < north):
        return
    wide = (west, south, east + 360, north)
    change: Mapping[str, tuple[str, ...] | None] | None = _by_warping(call, wide)
    if call.path == "raster reproject":
        change = {"bbox": _texts(wide)}
    elif call.path.startswith("vector "):
        shapes = (((west, 180.0), (south, north)), ((-180.0, east), (south, north)))
        rings = ",".join(
            f"(({a:.10g} {c:.10g},{b:.10g} {c:.10g},{b:.10g} {d:.10g},{a:.10g} {d:.10g},{a:.10g} {c:.10g}))"
            for (a, b), (c, d) in shapes
        )
        geometry = f"MULTIPOLYGON ({rings})"
        change = (
            {"bbox": None, "bbox-crs": None, "geometry": (geometry,)} if call.path == "vector clip" else None
        )
    words = {"west": west, "east": east, "wide": east + 360}
    instead = "raster reproject" if call.path == "raster clip" else ""
    yield make_finding("box_about_180", words, refuses=True, change=change, instead=instead)


def _by_warping(call: AlgorithmCall, box: Box) -> Mapping[str, tuple[str, ...] | None] | None:
    """Arguments of a reprojection into the same CRS, which reads pixels on both sides of 180; None if impossible."""
    size = call.input.pixel_size if call.input and call.input.degrees else None
    if call.path != "raster clip" or size is None or call.text("bbox-crs"):
        return None
    return {"bbox": _texts(box), "resolution": _texts(size)}


def _texts(numbers: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{number:.17g}" for number in numbers)


def _is_shifted(box: Box, extent: Box) -> bool:
    """True if a box extends beyond a side of a raster and, shifted by 360 degrees, would intersect it."""
    slack = 1e-6 + (extent[2] - extent[0]) / 1000
    if box[1] > extent[3] or box[3] < extent[1]:
        return False
    for turn, out in ((360.0, box[0] < extent[0] - slack), (-360.0, box[2] > extent[2] + slack)):
        moved = (box[0] + turn, box[1], box[2] + turn, box[3])
        shared = overlap(moved, extent)
        if out and shared is not None and shared[2] > shared[0]:
            return True
    return False


def no_overlap(call: AlgorithmCall) -> Iterator[Finding]:
    if any(other_longitudes(call)):
        return
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
        yield make_finding("axes_exchanged")
    else:
        in_degrees = not crs and like is None and facts.degrees is False and _looks_like_degrees(wanted)
        name = "box_in_degrees" if in_degrees else "box_outside"
        yield make_finding(name, {"there": ", ".join(f"{number:.10g}" for number in extent)})


def _looks_like_degrees(box: Box) -> bool:
    return max(abs(box[0]), abs(box[2])) <= 360 and max(abs(box[1]), abs(box[3])) <= 90


def unknown_crs(texts: Iterable[str], inputs: Iterable[DatasetFacts]) -> Iterator[Finding]:
    """Finds the first CRS of a call that the PROJ of the image does not know."""
    known = tuple(inputs)
    for text in texts:
        if any(not place.known for facts in known for place in facts.named(text)):
            yield make_finding("unknown_crs", {"crs": text[:80]}, refuses=True)
            return


def no_input_crs(call: AlgorithmCall) -> Iterator[Finding]:
    lacks_crs = call.input is not None and call.input.has_crs is False and not call.text("input-crs")
    if call.path in ("raster reproject", "vector reproject") and lacks_crs:
        yield make_finding("no_input_crs", refuses=True)


CHECKS: Final = (
    antimeridian,
    other_longitudes,
    shifted_features,
    shifted_inputs,
    position_outside,
    cannot_reproject,
    longitudes_beyond_180,
    extent_outside,
    resolution_unit,
    no_overlap,
    no_input_crs,
)
