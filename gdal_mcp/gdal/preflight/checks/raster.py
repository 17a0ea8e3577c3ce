"""Likely mistakes with pixels, their values, types and size, and with the files that they are written to. Pure."""

from typing import Final

from gdal_mcp.gdal.preflight.call import Call, Finding, number_of, same_crs
from gdal_mcp.gdal.preflight.checks.crs import MERCATOR_SLACK, mercator_factor
from gdal_mcp.gdal.preflight.estimate import raster_made
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE, DatasetFacts

_JOINS: Final = frozenset({"raster mosaic", "raster stack", "gdal_merge"})
_BY_PIXEL: Final = frozenset({"raster calc", "raster blend"})  # whose inputs cover one area
_SLACK: Final = 0.01  # of a pixel
_LONLAT: Final = frozenset({"EPSG:4326", "OGC:CRS84"})  # one CRS, but for the order of axes
_COMPUTES: Final = frozenset(
    f"raster {name}"
    for name in "calc slope hillshade roughness tri tpi contour zonal-stats reclassify viewshed as-features".split()
)
_NO_SCALE: Final = frozenset({"AAIGrid", "GRASSASCIIGrid", "XYZ", "JPEG"})  # formats that keep no scale
# of single bands: elevation and the like
_CONTINUOUS: Final = frozenset({"Int16", "Float16", "Float32", "Float64"})
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})
_KEEPS_NODATA: Final = frozenset({"raster set-type", "raster convert"})  # and may change the type


def nearest(call: Call) -> Finding | None:
    given = call.text("resampling")
    if call.path not in _RESAMPLES or given not in ("", "nearest") or not _continuous(call.input):
        return None
    how = "asked for" if given else "the default"
    return Finding(
        "nearest_on_continuous",
        f"resampling is nearest ({how}), which makes steps in data that is continuous, such as elevation.",
        "Use bilinear or cubic, or average for overviews and coarser pixels. For classes nearest is right.",
    )


def lossy(call: Call) -> Finding | None:
    made = call.input if call.path == "raster convert" else raster_made(call) or call.input
    if not call.driver or not _continuous(made):
        return None
    packing = call.option("COMPRESS") or call.driver
    loses = {
        "JPEG": True,
        "WEBP": not (call.switched_on("WEBP_LOSSLESS") or call.switched_on("LOSSLESS")),
        "JXL": call.option("JXL_LOSSLESS") != "" and not call.switched_on("JXL_LOSSLESS"),
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


def nodata_out_of_range(call: Call) -> Finding | None:
    """A nodata value that the output's type cannot hold: one that is given, else the input's where the type changes."""
    made, facts = raster_made(call), call.input
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


def other_grid(call: Call) -> Finding | None:
    """Inputs that are combined pixel by pixel, and do not lie on one grid."""
    first, joins, blends = call.input, call.path in _JOINS, call.path == "raster blend"
    if first is None or not (joins or call.path in _BY_PIXEL):
        return None
    for other in (*call.inputs[1:], *([call.others.get("overlay")] if blends else [])):
        aligned = _aligned(first, other) if other else None
        if other is None or aligned is None:
            continue
        same_size = (first.width, first.height) == (other.width, other.height)
        if aligned and (joins or same_size) and (not blends or other.extent == first.extent):
            continue
        return Finding(
            "other_grid",
            "the inputs do not lie on one grid: their pixels differ in size, or lie between each other, or one covers another area, "
            "and the nearest pixel is taken without a word.",
            "Bring all to the grid of one first: `raster reproject` with like takes the CRS, extent and resolution of another raster.",
        )
    return None


def other_crs(call: Call) -> Finding | None:
    """Zones whose coordinates are read as those of the raster, and rasters that are merged as if they were in the first one's CRS."""
    facts, zones = call.input, call.others.get("zones")
    if call.path == "gdal_merge" and facts is not None and facts.crs:
        known = (one.crs for one in call.inputs if one and one.crs)
        other = next(
            (one for one in known if not same_crs(facts.crs, one) and not {facts.crs, one} <= _LONLAT), None
        )
        if other is None:
            return None
        return Finding(
            "other_crs",
            f"the rasters are in {facts.crs} and {other}; gdal_merge reads the coordinates of all as if they were one CRS.",
            f"Reproject the others to {facts.crs} first.",
            refuses=True,
        )
    if call.path != "raster zonal-stats" or facts is None or zones is None or not (facts.crs and zones.crs):
        return None
    if same_crs(facts.crs, zones.crs) or {facts.crs, zones.crs} <= _LONLAT:
        return None
    return Finding(
        "other_crs",
        f"the zones are in {zones.crs} and the raster is in {facts.crs}; GDAL reads the coordinates of both as if they were one CRS.",
        f"Reproject the zones to {facts.crs} first.",
        refuses=facts.degrees != zones.degrees,
    )


def polygons_of_whole_numbers(call: Call) -> Finding | None:
    if call.path != "gdal_polygonize" or call.input is None or not call.input.data_type.startswith("Float"):
        return None
    return Finding(
        "values_rounded",
        "gdal_polygonize rounds the pixels of this type to whole numbers, and pixels of different values come into one polygon.",
        "Call `raster polygonize` (gdal_write), which keeps fractions.",
    )


def nodata_dropped(call: Call) -> Finding | None:
    if call.path != "gdal_merge" or all(one is None or one.nodata is None for one in call.inputs):
        return None
    return Finding(
        "nodata_dropped",
        "gdal_merge gives its output no nodata value, and what is nodata in the inputs counts as data there.",
        "Call `raster mosaic` (gdal_write), which keeps it.",
    )


def zones_not_covered(call: Call) -> Finding | None:
    facts, zones = call.input, call.others.get("zones")
    if (
        call.path != "raster zonal-stats"
        or facts is None
        or zones is None
        or not same_crs(facts.crs, zones.crs)
    ):
        return None
    if facts.extent is None or zones.extent is None or facts.pixel_size is None:
        return None
    pairs = zip(facts.extent, zones.extent, (1, 1, -1, -1), strict=True)
    if max((own - its) * sign for own, its, sign in pairs) <= max(facts.pixel_size):
        return None
    return Finding(
        "zones_not_covered",
        "zones reach beyond the raster: their statistics are of the part that it covers, and those wholly outside have a count of 0.",
        "Clip the zones to the raster's extent, or ask for the count and compare it with the zone's area.",
    )


def terrain_in_mercator(call: Call) -> Finding | None:
    facts, factor = call.input, mercator_factor(call.input)
    if facts is None or not same_crs(facts.crs, "EPSG:3857") or factor < MERCATOR_SLACK:
        return None
    if call.path not in ("raster slope", "raster hillshade"):
        return None
    return Finding(
        "mercator_units",
        f"the raster is in Web Mercator, whose metres are {factor:.2f} times those on the ground here, so that slopes come out too flat.",
        "Reproject it to a CRS that is true there (find_crs names one), or give xscale and yscale.",
    )


def scale_ignored(call: Call) -> Finding | None:
    """Computing with the numbers that are stored, which scale and offset would turn into values."""
    if call.input is None or not call.input.scaled:
        return None
    if call.path not in _COMPUTES and call.driver not in _NO_SCALE:
        return None
    return Finding(
        "scale_ignored",
        "the raster has a scale and an offset, and the call takes the stored numbers as they are, not the values that they stand for.",
        "Put the step `unscale` before it, or call `raster unscale` first.",
    )


def _aligned(first: DatasetFacts, other: DatasetFacts) -> bool | None:
    """Whether the pixels of both are of one size and do not lie between each other; None where that is not known."""
    sizes, its_sizes, box, its_box = first.pixel_size, other.pixel_size, first.extent, other.extent
    if sizes is None or its_sizes is None or box is None or its_box is None:
        return None
    for size, its, corner in zip(sizes, its_sizes, (0, 3), strict=True):
        apart = (box[corner] - its_box[corner]) / size
        if abs(its / size - 1) > _SLACK or abs(apart - round(apart)) > _SLACK:
            return False
    return True


def _continuous(facts: DatasetFacts | None) -> bool:
    return facts is not None and facts.bands == 1 and facts.data_type in _CONTINUOUS


CHECKS: Final = (
    other_grid,
    other_crs,
    polygons_of_whole_numbers,
    nodata_dropped,
    zones_not_covered,
    terrain_in_mercator,
    scale_ignored,
    nearest,
    lossy,
    nodata_out_of_range,
)
