"""Likely mistakes with pixels (values, types, size) and with the formats they are written to. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.algorithms import COMPUTES, EXACT_INTEGERS, NORTH_UP, ON_A_GRID
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding, number_of, same_crs
from gdal_mcp.toolboxes.gdal.preflight.checks.crs import MERCATOR_SLACK, mercator_factor
from gdal_mcp.toolboxes.gdal.preflight.estimate import output_raster
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_RANGE, DatasetFacts

_JOINS: Final = frozenset({"raster mosaic", "raster stack", "gdal_merge"})
_ALL_BITS: Final = 100  # percent
_SLACK: Final = 0.01  # fraction of a pixel
# formats that cannot store a scale
_NO_SCALE: Final = frozenset({"AAIGrid", "GRASSASCIIGrid", "XYZ", "JPEG"})
# data types of single bands with continuous data such as elevation
_CONTINUOUS: Final = frozenset({"Int16", "Float16", "Float32", "Float64"})
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})
_CLASSIC: Final = frozenset({"gdal2xyz", "gdalwarp", "gdal_polygonize"})
# names of rasters whose pixels contain a number of people
_PEOPLE: Final = re.compile(r"(?<![a-z])(?:population|pop|ppp|inhabitants|headcounts?)(?![a-z])")
# names of rasters, and an algorithm, whose pixels have no meaning between them: directions and codes
_NOT_CONTINUOUS: Final = re.compile(
    r"(?<![a-z])(?:aspect|w?dir|(?:wind|wave|current|swell|flow)?_?(?:dir|direction)|azimuth|bearing|heading"
    r"|class(?:es)?|classification|land_?(?:cover|use)|lulc|b?qa|flags?|years?|dates?)(?![a-z])"
)
# formulas that are the mean, the sum or an extreme of a single input: without `flatten`, that of each band alone
_OF_ONE: Final = {
    "builtin": re.compile(r"mean|median|mode|sum|min|max|geometric_mean|harmonic_mean"),
    "muparser": re.compile(r"\s*(?:avg|sum|min|max)\(\s*\w+\s*\)\s*"),
}
_TAKES_BANDS: Final = ("raster ", "gdal2xyz", "gdal_polygonize")
_KEEPS_NODATA: Final = frozenset({"raster set-type", "raster convert"})  # these may also change the data type


def nearest(call: AlgorithmCall) -> Iterator[Finding]:
    size = call.input.pixel_size if call.input else None
    resolution = call.numbers("resolution", 2)
    same_grid = (
        call.keeps_crs
        and size
        and resolution
        and all(abs(a / b - 1) < _SLACK for a, b in zip(resolution, size, strict=True))
    )
    if same_grid:
        return
    if call.path in ("raster reproject", "raster resize") and _counts(call):
        if call.text("resampling") != "sum":
            yield make_finding("counts_resampled")
        return
    if call.path not in _RESAMPLES or _NOT_CONTINUOUS.search(call.source.rpartition("/")[2].lower()):
        return
    if call.text("resampling") in ("", "nearest") and _continuous(call.input):
        yield make_finding("nearest_on_continuous")


def keeps_all(quality: str) -> bool:
    """True if JP2OpenJPEG is lossless with this QUALITY: a percentage (default 25); the last of several counts."""
    return number_of(quality.rpartition(",")[2]) == _ALL_BITS


def lossy(call: AlgorithmCall) -> Iterator[Finding]:
    raster = call.input if call.path == "raster convert" else output_raster(call) or call.input
    # types with more bits than those of pictures
    deep = raster is not None and raster.data_type not in ("", "Byte", "UInt8", "Int8")
    if not call.driver or not (_continuous(raster) or (deep and call.driver == "JP2OpenJPEG")):
        return
    packing = call.option("COMPRESS") or call.driver
    loses = {
        "JPEG": True,
        "WEBP": not (call.switched_on("WEBP_LOSSLESS") or call.switched_on("LOSSLESS")),
        "JXL": call.option("JXL_LOSSLESS") != "" and not call.switched_on("JXL_LOSSLESS"),
        "JP2OpenJPEG": not (call.switched_on("REVERSIBLE") and keeps_all(call.option("QUALITY"))),
    }
    lossy_lerc = packing.startswith("LERC") and (number_of(call.option("MAX_Z_ERROR")) or 0.0) > 0
    fewer_bits = bool(call.option("DISCARD_LSB")) or (is_float(raster) and bool(call.option("NBITS")))
    if loses.get(packing) or lossy_lerc or fewer_bits:
        yield make_finding("lossy_compression")


def nodata_out_of_range(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds a nodata value that the output's data type cannot store.

    The value is that of an argument, else that of the input if the data type changes.
    """
    raster, facts = output_raster(call), call.input
    limits = TYPE_RANGE.get(raster.data_type) if raster else None
    if raster is None or limits is None:
        return
    texts = [*call.texts("nodata"), *call.texts("output-nodata")]
    values = [value for text in texts if (value := number_of(text, finite=False)) is not None]
    changes_type = facts is not None and raster.data_type != facts.data_type and call.path in _KEEPS_NODATA
    if not texts and changes_type and facts and facts.nodata is not None:
        values = [facts.nodata]
    if not all(limits[0] <= value <= limits[1] and value.is_integer() for value in values):
        yield make_finding("nodata_beyond", {"kind": raster.data_type, "low": limits[0], "high": limits[1]})


def rotated(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rotated rasters in algorithms that treat rows of pixels as running from west to east."""
    if call.path == "gdal_merge" and any(dataset and dataset.rotated for dataset in call.inputs):
        yield make_finding("neither_north_up", refuses=True)
        return
    if call.input is None or not call.input.rotated:
        return
    if call.path == "raster zonal-stats":
        yield make_finding("rotated_zones", refuses=True)
    elif call.path in NORTH_UP or (call.path == "raster proximity" and call.text("distance-units") == "geo"):
        yield make_finding("rotated_ignored")


def control_points(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rasters without a grid in algorithms that work in coordinates."""
    facts = call.input
    if facts is None or not facts.control_points or facts.extent is not None:
        return
    in_crs = call.path == "raster pixel-info" and call.text("position-crs") not in ("", "pixel")
    if (
        call.path in ON_A_GRID
        or in_crs
        or (call.path == "raster proximity" and call.text("distance-units") == "geo")
    ):
        yield make_finding("control_points_ignored", refuses=True)


def wide_numbers(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds integers that a double cannot store exactly, in algorithms that compute with doubles."""
    facts = call.input
    if facts is None or not facts.looks.get("wide", {}).get("wide") or call.path in EXACT_INTEGERS:
        return
    resizes = call.path == "raster resize" and call.text("resampling") in ("", "nearest")
    if not resizes and (call.path.startswith("raster ") or call.path in _CLASSIC):
        yield make_finding("wide_cut")


def imaginary_lost(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds complex numbers that become real. In other calls, the container finds this in the output."""
    facts = call.input
    if facts is None or not facts.data_type.startswith("C"):
        return
    kind = call.text("output-data-type")
    if call.path in ("gdal2xyz", "raster sieve", "raster fill-nodata") or (
        kind and not kind.startswith("C") and call.path in _KEEPS_NODATA
    ):
        yield make_finding("imaginary_lost")


def other_grid(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds inputs that are combined pixel by pixel but are not on the same grid."""
    first, joins, blends = call.input, call.path in _JOINS, call.path == "raster blend"
    if first is None or not (joins or blends or call.path == "raster calc"):
        return
    for other in (*call.inputs[1:], *([call.others.get("overlay")] if blends else [])):
        aligned = _aligned(first, other) if other else None
        if other is None or aligned is None:
            continue
        same_size = (first.width, first.height) == (other.width, other.height)
        if not (aligned and (joins or same_size) and (not blends or other.extent == first.extent)):
            yield make_finding("other_grid")
            return


def other_crs(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds zones or rasters in another CRS than the first raster, in commands that ignore the difference."""
    facts = call.input
    if facts is None or not facts.crs:
        return
    others = {"gdal_merge": call.inputs, "raster zonal-stats": (call.others.get("zones"),)}.get(call.path, ())
    other = next(
        (dataset for dataset in others if dataset and dataset.crs and not same_crs(facts.crs, dataset.crs)),
        None,
    )
    if other is not None:
        merges, words = call.path == "gdal_merge", {"own": facts.crs, "other": other.crs}
        refuses = merges or facts.degrees != other.degrees
        yield make_finding("merged_crs" if merges else "other_crs", words, refuses=refuses)


def classic_programs(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds classic programs that lose data where their successors do not."""
    polygonized = call.input if call.path == "gdal_polygonize" else None
    if polygonized is not None and polygonized.data_type.startswith("Float"):
        yield make_finding("polygons_rounded")


def zones_not_covered(call: AlgorithmCall) -> Iterator[Finding]:
    facts, zones = call.input, call.others.get("zones")
    if call.path != "raster zonal-stats" or facts is None or zones is None:
        return
    is_same_crs = same_crs(facts.crs, zones.crs)
    if not is_same_crs or facts.extent is None or zones.extent is None or facts.pixel_size is None:
        return
    pairs = zip(facts.extent, zones.extent, (1, 1, -1, -1), strict=True)
    if max((own - its) * sign for own, its, sign in pairs) > max(facts.pixel_size):
        yield make_finding("zones_beyond")


def terrain_in_mercator(call: AlgorithmCall) -> Iterator[Finding]:
    facts, factor = call.input, mercator_factor(call.input)
    in_mercator = facts is not None and same_crs(facts.crs, "EPSG:3857") and factor >= MERCATOR_SLACK
    scaled = call.text("xscale") and call.text("yscale")  # the correction that the finding suggests
    if in_mercator and call.path in ("raster slope", "raster hillshade") and not scaled:
        yield make_finding("mercator_units", {"factor": factor})


def scale_ignored(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds computations with raw (unscaled) values."""
    scaled = any(dataset is not None and dataset.scaled for dataset in call.inputs)
    if scaled and (call.path in COMPUTES | {"raster polygonize"} or call.driver in _NO_SCALE):
        yield make_finding("stored_numbers")


def distances(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds distances in pixels or degrees where metres are expected, and pixels beyond the maximum distance."""
    facts, units, proximity = call.input, call.text("distance-units"), call.path == "raster proximity"
    if facts is not None and facts.has_crs:  # without a CRS, distances are in pixels
        if proximity and not units:
            change = {"distance-units": ("geo",)} if facts.degrees is False else None
            yield make_finding("distance_in_pixels", change=change)
        elif facts.degrees and (call.path == "raster viewshed" or (proximity and units == "geo")):
            yield make_finding("raster_in_degrees")
    if proximity and call.text("max-distance") and not call.text("nodata"):
        yield make_finding("far_undeclared", change={"nodata": ("-1",)})


def nothing_aggregated(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds a mean, a sum or an extreme of the bands of one raster that is computed for each band alone."""
    facts, dialect = call.input, call.text("dialect") or "muparser"
    if call.path != "raster calc" or facts is None or len(call.inputs) != 1 or call.flag("flatten"):
        return
    pattern = _OF_ONE.get(dialect)
    if facts.bands > 1 and pattern is not None and pattern.fullmatch(call.text("calc")):
        change = {"flatten": ("true",)} if dialect == "builtin" else None
        yield make_finding("nothing_aggregated", {"count": facts.bands}, change=change)


def heights_left_out(call: AlgorithmCall) -> Iterator[Finding]:
    names = ("min-name", "max-name") if call.flag("polygonize") else ("elevation-name",)
    if call.path == "raster contour" and not call.flag("3d") and not any(map(call.text, names)):
        yield make_finding("heights_left_out", change={name: (name.removesuffix("-name"),) for name in names})


def four_bands(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds JPEG outputs with four bands, which are interpreted as cyan, magenta, yellow and black."""
    raster = call.input if call.path == "raster convert" else output_raster(call) or call.input
    if call.driver == "JPEG" and raster is not None and raster.bands == 4:
        yield make_finding("colors_changed", steps=(("select", {"band": ["1", "2", "3"]}),))


def position_in_pixels(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds coordinates that would be read as pixel and line.

    Integer or half-integer positions inside the raster may be intended.
    """
    facts, numbers = call.input, call.numbers("position")
    if call.path != "raster pixel-info" or facts is None or facts.extent is None or call.text("position-crs"):
        return
    (west, south, east, north), pairs = facts.extent, list(zip(numbers[::2], numbers[1::2], strict=False))
    inside = all(west <= x <= east and south <= y <= north for x, y in pairs)
    pixels = all(0 <= x < facts.width and 0 <= y < facts.height for x, y in pairs)
    if pixels and all((number if inside else 2 * number).is_integer() for number in numbers):
        return
    lonlat = facts.degrees is False and all(abs(x) <= 180 and abs(y) <= 90 for x, y in pairs)
    crs = "dataset" if inside and facts.has_crs else "EPSG:4326" if lonlat and not inside else ""
    yield make_finding("position_in_pixels", change={"position-crs": (crs,)} if crs else None)


def band_missing(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds bands that a raster, or the predicted raster of an earlier step, does not have."""
    if not call.path.startswith(_TAKES_BANDS) or call.arguments.get("open-option"):
        return
    wanted = {"band": call.inputs, "zones-band": (call.others.get("zones"),)}
    wanted["weights-band"] = (call.others.get("weights"),)
    for name, rasters in wanted.items():
        counts = [
            dataset.bands
            for dataset in rasters
            if dataset and dataset.kind == "raster" and dataset.bands and not dataset.bands_estimated
        ]
        numbers = [value for text in call.texts(name) if (value := number_of(text)) is not None]
        beyond = [number for number in numbers if counts and not 1 <= number <= min(counts)]
        if beyond:
            yield make_finding("band_missing", {"band": beyond[0], "count": min(counts)}, refuses=True)
            return


def _aligned(first: DatasetFacts, other: DatasetFacts) -> bool | None:
    """True if two rasters have the same pixel size and aligned grids; None if unknown."""
    sizes, its_sizes, box, its_box = first.pixel_size, other.pixel_size, first.extent, other.extent
    if sizes is None or its_sizes is None or box is None or its_box is None:
        return None
    for size, its, corner in zip(sizes, its_sizes, (0, 3), strict=True):
        offset = (box[corner] - its_box[corner]) / size
        if abs(its / size - 1) > _SLACK or abs(offset - round(offset)) > _SLACK:
            return False
    return True


def is_float(facts: DatasetFacts | None) -> bool:
    return facts is not None and facts.data_type.startswith("Float")


def _counts(call: AlgorithmCall) -> bool:
    """True if the name of a raster says that its pixels count people. Nothing else in the file can tell."""
    name = call.source.rpartition("/")[2].lower()
    return _PEOPLE.search(name) is not None and "dens" not in name and _continuous(call.input)


def _continuous(facts: DatasetFacts | None) -> bool:
    return facts is not None and facts.bands == 1 and facts.data_type in _CONTINUOUS


CHECKS: Final = (
    other_grid,
    other_crs,
    classic_programs,
    zones_not_covered,
    terrain_in_mercator,
    scale_ignored,
    nearest,
    lossy,
    nodata_out_of_range,
    distances,
    rotated,
    control_points,
    wide_numbers,
    imaginary_lost,
    nothing_aggregated,
    heights_left_out,
    four_bands,
    position_in_pixels,
    band_missing,
)
