"""Predicts the facts of a call's output from its arguments and the facts of its inputs. Pure.

None rather than a guess: an algorithm that is not listed here, and whose raster `estimate` cannot say, makes an output of which nothing
is known. Of the facts that are given each one is certain but the size, which may be off by a pixel after a change of CRS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, forwarded_facts
from gdal_mcp.toolboxes.gdal.preflight.estimate import raster_made
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts

# layers made of the pixels of a raster, in its CRS, and their type of geometry
_OF_PIXELS: Final[Mapping[str, str]] = {
    "raster polygonize": "Polygon",
    "raster contour": "LineString",
    "raster as-features": "Point",
}
# layers with the CRS of their input, whatever becomes of the features
_KEEP_CRS: Final = frozenset(
    f"vector {name}"
    for name in (
        "buffer check-coverage check-geometry clean-coverage clip combine concave-hull convert convex-hull dissolve edit "
        "explode-collections filter make-valid partition rename-layer reproject segmentize select set-field-type set-geom-type simplify "
        "simplify-coverage sort write"
    ).split()
)
# commands whose raster has the place of their input, so that what is known of that place holds for it too
_SAME_GRID: Final = frozenset(
    f"raster {name}"
    for name in (
        "aspect calc color-map convert fill-nodata hillshade neighbors nodata-to-alpha proximity reclassify rgb-to-palette roughness "
        "scale select set-type sieve slope tpi tri unscale write"
    ).split()
)


def predicted(calls: Sequence[AlgorithmCall]) -> DatasetFacts | None:
    """The facts of the output of the last of these calls, the steps of one command; None if unknown."""
    last = calls[-1]
    if last.algorithm == "raster zonal-stats":
        return _zonal(last)
    if geometry := _OF_PIXELS.get(last.algorithm):
        return _layer_of_pixels(last, geometry)
    if last.path in _KEEP_CRS:
        made = forwarded_facts(last)
        return replace(made, driver=last.driver, columns={}, looks={}, changes={}) if made else None
    made = raster_made(last)
    if made is None:
        return None
    known = last.input.has_crs if last.input is not None else None
    made = replace(made, has_crs=True if made.crs else known)
    if last.path in _SAME_GRID and last.input is not None:
        made = replace(made, crs_extents=last.input.crs_extents, changes=last.input.changes)
    return made


def _layer_of_pixels(call: AlgorithmCall, geometry: str) -> DatasetFacts | None:
    source = call.input
    if source is None:
        return None
    return DatasetFacts(
        call.driver,
        "vector",
        geometry=geometry,
        crs=source.crs,
        has_crs=source.has_crs,
        degrees=source.degrees,
        extent=source.extent if call.algorithm == "raster polygonize" else None,
        crs_extents=source.crs_extents,
        changes=source.changes,
    )


def _zonal(call: AlgorithmCall) -> DatasetFacts | None:
    """A layer with a feature for each zone; the geometry is that of the zones, where it is asked for."""
    zones = call.others.get("zones")
    if zones is None or zones.kind != "vector":
        return None
    if not call.flag("include-geom"):
        return DatasetFacts(call.driver, "vector", features=zones.features, has_crs=False)
    return replace(zones, driver=call.driver, columns={}, looks={}, disk_bytes=0)
