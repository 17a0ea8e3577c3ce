"""Likely mistakes in calls that GDAL would run all the same: one function for each check, all of them in `CHECKS`. Pure.

A check looks at one thing and finds nothing where it does not know enough: unknown facts are None or "", and a wrong finding is
worse than none. No check refuses a call, and no message contains text from inside a file.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gdal_mcp.gdal.preflight.call import Call, number_of, overlap, same_crs
from gdal_mcp.gdal.preflight.estimate import estimate
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE, Box, DatasetFacts

DEGREE: Final = math.pi / 180 * 6378137.0  # metres of one degree along the equator
# the coarsest climate grids have 2.5; as a resolution in degrees it is rare, in metres common
_LARGE_DEGREES: Final = 2.0
_FAR: Final = 1000.0  # times finer than the data: degrees were meant where metres are asked for
_FINE: Final = 4.0  # times finer than the data, on each side, for which there is hardly a reason
_UNCOMPRESSED: Final = 256 << 20  # bytes
# of single bands: elevation and the like
_CONTINUOUS: Final = frozenset({"Int16", "Float16", "Float32", "Float64"})
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})
_CLIPS: Final = frozenset({"raster clip", "vector clip", "vector filter"})
_REPROJECTS: Final = frozenset({"raster reproject", "vector reproject"})
_KEEPS_NODATA: Final = frozenset({"raster set-type", "raster convert"})  # and may change the type
_DRIVERS: Final[Mapping[str, frozenset[str]]] = {
    ending: frozenset(drivers.split(","))
    for endings, drivers in (
        ("tif tiff", "GTiff,COG"),
        ("png", "PNG"),
        ("jpg jpeg", "JPEG"),
        ("webp", "WEBP"),
        ("jp2", "JP2OpenJPEG,JP2KAK,JP2ECW,JP2MrSID,JP2Lura,JP2Grok"),
        ("vrt", "VRT,OGR_VRT"),
        ("nc", "netCDF,GMT"),
        ("asc", "AAIGrid,GRASSASCIIGrid"),
        ("img", "HFA,ENVI,ILWIS"),
        ("gpkg", "GPKG"),
        ("shp", "ESRI Shapefile"),
        ("geojson", "GeoJSON,GeoJSONSeq"),
        ("fgb", "FlatGeobuf"),
        ("parquet", "Parquet"),
        ("csv", "CSV,XYZ"),
        ("kml", "KML,LIBKML"),
        ("gml", "GML"),
    )
    for ending in endings.split()
}  # by the ending of a name


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: a code that stays the same between versions, what is wrong and why, what to do instead."""

    code: str
    message: str
    suggestion: str
    mend: Mapping[str, Any] | None = None  # the call that corrects it, as `{"tool": ..., "arguments": ...}`

    def as_dict(self) -> dict[str, Any]:
        """Without a mend where there is none."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def resolution_unit(call: Call) -> Finding | None:
    """A resolution in metres for a CRS in degrees, or the other way round."""
    resolution, degrees, facts = call.numbers("resolution", 2), call.target_degrees, call.input
    if not resolution or degrees is None:
        return None
    if degrees and max(resolution) >= _LARGE_DEGREES:
        return Finding(
            "resolution_in_metres",
            f"the resolution of {max(resolution):g} is in degrees, as the output's CRS is: a pixel of hundreds of kilometres.",
            f"For {max(resolution):g} metres write about {max(resolution) / DEGREE:.2g}, or choose a CRS in metres.",
        )
    size = facts.pixel_size if facts and facts.degrees else None
    if not degrees and size and max(resolution) < min(size) * DEGREE / _FAR:
        return Finding(
            "resolution_in_degrees",
            "the resolution is in metres, as the output's CRS is, and more than a thousand times finer than the data.",
            f"The data's own resolution is about {min(size) * DEGREE:.3g} metres.",
        )
    return None


def no_overlap(call: Call) -> Finding | None:
    """A box to clip to that contains none of the data."""
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
    """A reprojection of data without a CRS."""
    facts = call.input
    if call.path not in _REPROJECTS or facts is None or facts.has_crs is not False or call.text("input-crs"):
        return None
    return Finding(
        "no_input_crs",
        "the input has no CRS, so that it cannot be reprojected.",
        "Say it with input-crs (src_crs of the tool `reproject`).",
    )


def unchanged_crs(call: Call) -> Finding | None:
    """A reprojection that changes nothing."""
    otherwise = ("resolution", "size", "bbox", "target-aligned-pixels", "like")
    if call.path not in _REPROJECTS or any(call.arguments.get(name) for name in otherwise):
        return None
    if not same_crs(call.source_crs, call.text("output-crs")):
        return None
    return Finding(
        "same_crs",
        "the data has the output's CRS already; the call would make a copy.",
        "Leave it out, or use convert for a copy in another format.",
    )


def nearest(call: Call) -> Finding | None:
    """Nearest-neighbour resampling of continuous data."""
    given = call.text("resampling")
    if call.path not in _RESAMPLES or given not in ("", "nearest") or not _continuous(call.input):
        return None
    return Finding(
        "nearest_on_continuous",
        f"resampling is nearest ({'asked for' if given else 'the default'}), which makes steps in data that is continuous, such as "
        "elevation.",
        "Use bilinear or cubic, or average for overviews and coarser pixels. For classes nearest is right.",
    )


def lossy(call: Call) -> Finding | None:
    """Lossy compression of measurements, which may also be a format's default."""
    if not call.driver or not _continuous(_output(call) or call.input):
        return None
    packing = call.option("COMPRESS") or call.driver
    loses = {
        "JPEG": True,
        "WEBP": not (call.switched_on("WEBP_LOSSLESS") or call.switched_on("LOSSLESS")),
        "JXL": call.option("JXL_LOSSLESS") not in ("", "YES", "TRUE", "ON", "1"),
        "JP2OpenJPEG": not call.switched_on("REVERSIBLE"),
    }
    lossy_lerc = packing.startswith("LERC") and (number_of(call.option("MAX_Z_ERROR")) or 0.0) > 0
    if not (loses.get(packing) or lossy_lerc):
        return None
    return Finding(
        "lossy_compression",
        "this compression changes the values, and a single band of this type looks like elevation or another measurement.",
        "Use COMPRESS=ZSTD, DEFLATE or LZW with PREDICTOR=2 (PREDICTOR=3 for floating point), which lose nothing.",
    )


def upsampling(call: Call) -> Finding | None:
    """Pixels much finer than the data."""
    facts, made = call.input, _output(call)
    if call.path not in ("raster resize", "raster reproject") or made is None:
        return None
    if facts is None or not facts.pixels:
        return None
    before = _density(facts, facts.extent if call.path == "raster resize" else call.extent_in_target)
    if call.path == "raster resize":
        times = math.sqrt(made.pixels / facts.pixels)
    else:
        times = math.sqrt(_density(made, made.extent) / before) if before else 0.0
    if times <= _FINE:
        return None
    return Finding(
        "upsampling",
        f"the output's pixels would be about {times:,.0f} times finer than the data's; that adds no detail.",
        "Ask for a resolution near the data's own.",
    )


def nodata_out_of_range(call: Call) -> Finding | None:
    """A nodata value that the output's type cannot hold: one that is given, else the input's where the type changes."""
    made, facts = _output(call), call.input
    limits = TYPE_RANGE.get(made.data_type) if made else None
    if made is None or limits is None:
        return None
    texts = [*call.texts("nodata"), *call.texts("output-nodata")]
    values = [value for text in texts if (value := number_of(text, finite=False)) is not None]
    changes_type = facts is not None and made.data_type != facts.data_type and call.path in _KEEPS_NODATA
    if not texts and changes_type and facts and facts.nodata is not None:
        values = [facts.nodata]
    if all(limits[0] <= value <= limits[1] and value.is_integer() for value in values):
        return None
    return Finding(
        "nodata_out_of_range",
        f"a nodata value is not one that {made.data_type} can hold, which goes from {limits[0]} to {limits[1]}.",
        "Choose a value in that range that no pixel has, or a larger output data type.",
    )


def extension_mismatch(call: Call) -> Finding | None:
    """A file name extension of another format."""
    stem, _, ending = call.output.lower().rpartition(".")
    drivers = _DRIVERS.get(ending) if stem else None
    if drivers is None or not call.driver or call.driver in drivers:
        return None
    return Finding(
        "extension_mismatch",
        f"a name that ends in .{ending} is usually not a {call.driver} file; other programs may not open it.",
        "Change the ending or the output format.",
    )


def large_uncompressed(call: Call) -> Finding | None:
    """A large file without compression."""
    made = _output(call) if call.driver in ("GTiff", "COG") else None
    if made is None or made.compression != "NONE" or made.raw_bytes < _UNCOMPRESSED:
        return None
    return Finding(
        "large_uncompressed",
        f"the output would have about {made.raw_bytes / (1 << 20):,.0f} MiB without compression.",
        "Add the creation option COMPRESS=ZSTD, or COMPRESS=DEFLATE for older programs.",
    )


CHECKS: Final[tuple[Callable[[Call], Finding | None], ...]] = (
    resolution_unit,
    no_overlap,
    no_input_crs,
    unchanged_crs,
    nearest,
    lossy,
    upsampling,
    nodata_out_of_range,
    extension_mismatch,
    large_uncompressed,
)


def findings(call: Call) -> tuple[Finding, ...]:
    """What the checks find, in their order."""
    return tuple(found for check in CHECKS if (found := check(call)) is not None)


def _output(call: Call) -> DatasetFacts | None:
    """The raster that would be made, as far as that can be said."""
    made = estimate(call)
    return made.output if made else None


def _continuous(facts: DatasetFacts | None) -> bool:
    return facts is not None and facts.bands == 1 and facts.data_type in _CONTINUOUS


def _density(facts: DatasetFacts, extent: Box | None) -> float:
    """Pixels for each unit of area; 0 where that is not known."""
    area = (extent[2] - extent[0]) * (extent[3] - extent[1]) if extent else 0.0
    return facts.pixels / area if area > 0 else 0.0
