"""What is odd about a call that GDAL would run all the same. Pure.

Each rule looks at one thing and is silent where it does not know enough. Nothing of it refuses a call, and no text from
inside a file is in a message.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.crs import DEGREE, degrees_of, projected, same
from gdal_mcp.gdal.preflight.estimate import estimate
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE, Box, DatasetFacts
from gdal_mcp.gdal.preflight.grids import clip_box, overlap, source_crs, target_crs
from gdal_mcp.gdal.preflight.request import Request

# the coarsest climate grids have 2.5; as a resolution in degrees it is rare, in metres common
_LARGE_DEGREES: Final = 2.0
_FAR: Final = 1000.0  # times finer than the data: degrees were meant where metres are asked for
_FINE: Final = 4.0  # times finer than the data, on each side, for which there is hardly a reason
_UNCOMPRESSED: Final = 256 << 20  # bytes
_CONTINUOUS: Final = frozenset(
    {"Int16", "Float16", "Float32", "Float64"}
)  # of single bands: elevation and the like
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})
_CLIPS: Final = frozenset({"raster clip", "vector clip", "vector filter"})
_REPROJECTS: Final = frozenset({"raster reproject", "vector reproject"})
_KEEPS_NODATA: Final = frozenset({"raster set-type", "raster convert"})  # and may change the type
_YES: Final = frozenset({"YES", "TRUE", "ON", "1"})

_EXTENSIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        ".tif": frozenset({"GTiff", "COG"}),
        ".tiff": frozenset({"GTiff", "COG"}),
        ".png": frozenset({"PNG"}),
        ".jpg": frozenset({"JPEG"}),
        ".jpeg": frozenset({"JPEG"}),
        ".webp": frozenset({"WEBP"}),
        ".jp2": frozenset({"JP2OpenJPEG", "JP2KAK", "JP2ECW", "JP2MrSID", "JP2Lura", "JP2Grok"}),
        ".vrt": frozenset({"VRT", "OGR_VRT"}),
        ".nc": frozenset({"netCDF", "GMT"}),
        ".asc": frozenset({"AAIGrid", "GRASSASCIIGrid"}),
        ".img": frozenset({"HFA", "ENVI", "ILWIS"}),
        ".gpkg": frozenset({"GPKG"}),
        ".shp": frozenset({"ESRI Shapefile"}),
        ".geojson": frozenset({"GeoJSON", "GeoJSONSeq"}),
        ".fgb": frozenset({"FlatGeobuf"}),
        ".parquet": frozenset({"Parquet"}),
        ".csv": frozenset({"CSV", "XYZ"}),
        ".kml": frozenset({"KML", "LIBKML"}),
        ".gml": frozenset({"GML"}),
    }
)


@dataclass(frozen=True, slots=True)
class Advice:
    """A remark: a code that stays the same between versions, what is odd and why, what to do instead."""

    code: str
    message: str
    suggestion: str


def advise(request: Request) -> tuple[Advice, ...]:
    """Every remark on a call, in a fixed order."""
    return tuple(found for rule in RULES if (found := rule(request)) is not None)


def degrees_or_metres(request: Request) -> Advice | None:
    """A resolution in metres for a CRS in degrees, or the other way round."""
    resolution = request.numbers("resolution", 2)
    degrees = _target_degrees(request)
    if not resolution or degrees is None:
        return None
    if degrees and max(resolution) >= _LARGE_DEGREES:
        return Advice(
            "resolution_in_metres",
            f"the resolution of {max(resolution):g} is in degrees, as the output's CRS is: a pixel of hundreds of kilometres.",
            f"For {max(resolution):g} metres write about {max(resolution) / DEGREE:.2g}, or choose a CRS in metres.",
        )
    header = request.input
    size = header.pixel_size if header and header.degrees else None
    if not degrees and size and max(resolution) < min(size) * DEGREE / _FAR:
        return Advice(
            "resolution_in_degrees",
            "the resolution is in metres, as the output's CRS is, and more than a thousand times finer than the data.",
            f"The data's own resolution is about {min(size) * DEGREE:.3g} metres.",
        )
    return None


def no_overlap(request: Request) -> Advice | None:
    """A window that has nothing of the data in it."""
    header = request.input
    if request.path not in _CLIPS or header is None or header.extent is None:
        return None
    wanted, extent = _boxes(request, header)
    if wanted is None or extent is None or overlap(wanted, extent) is not None:
        return None
    swapped = (wanted[1], wanted[0], wanted[3], wanted[2])
    if overlap(swapped, extent) is not None:
        return Advice(
            "no_overlap",
            "the box to clip to lies outside of the data; with x and y exchanged it would not.",
            "Give xmin,ymin,xmax,ymax: longitude before latitude.",
        )
    return Advice(
        "no_overlap",
        "the box to clip to lies outside of the data.",
        f"In the box's CRS the data lies in {_said(extent)}. If the box has another CRS than the data, say it with bbox-crs.",
    )


def lossy(request: Request) -> Advice | None:
    """Compression that changes values which are measurements."""
    made = _output(request) or request.input
    if not request.driver or not _continuous(made) or not _loses(request):
        return None
    return Advice(
        "lossy_compression",
        "this compression changes the values, and a single band of this type looks like elevation or another measurement.",
        "Use COMPRESS=ZSTD, DEFLATE or LZW with PREDICTOR=2 (PREDICTOR=3 for floating point), which lose nothing.",
    )


def nearest(request: Request) -> Advice | None:
    """The nearest neighbour for values between which there are others."""
    chosen = request.text("resampling") or "nearest"
    if request.path not in _RESAMPLES or chosen != "nearest" or not _continuous(request.input):
        return None
    given = "asked for" if request.text("resampling") else "the default"
    return Advice(
        "nearest_on_continuous",
        f"resampling is nearest ({given}), which makes steps in data that is continuous, such as elevation.",
        "Use bilinear or cubic, or average for overviews and coarser pixels. For classes nearest is right.",
    )


def no_crs(request: Request) -> Advice | None:
    """Nothing to reproject from."""
    header = request.input
    unknown = header is not None and header.has_crs is False and not request.text("input-crs")
    if request.path not in _REPROJECTS or not unknown:
        return None
    return Advice(
        "no_input_crs",
        "the input itself names no CRS, so that it cannot be reprojected unless a file beside it does.",
        "Say it with input-crs (src_crs of the tool `reproject`).",
    )


def same_crs(request: Request) -> Advice | None:
    """A reprojection that changes nothing."""
    other = any(
        request.arguments.get(name) for name in ("resolution", "size", "bbox", "target-aligned-pixels")
    )
    target = request.text("output-crs")
    if request.path not in _REPROJECTS or other or not same(source_crs(request), target):
        return None
    return Advice(
        "same_crs",
        "the data has the output's CRS already; the call would make a copy.",
        "Leave it out, or use convert for a copy in another format.",
    )


def extension(request: Request) -> Advice | None:
    """A name that promises another format."""
    stem, dot, ending = request.output.rpartition(".")
    drivers = _EXTENSIONS.get(f".{ending.lower()}") if stem and dot else None
    if drivers is None or not request.driver or request.driver in drivers:
        return None
    return Advice(
        "extension_mismatch",
        f"a name that ends in .{ending.lower()} is usually not a {request.driver} file; other programs may not open it.",
        "Change the ending or the output format.",
    )


def upsampling(request: Request) -> Advice | None:
    """Pixels that are made up."""
    if request.path not in ("raster resize", "raster reproject"):
        return None
    times = _times_finer(request)
    if times <= _FINE:
        return None
    return Advice(
        "upsampling",
        f"the output's pixels would be about {times:,.0f} times finer than the data's; that adds no detail.",
        "Ask for a resolution near the data's own.",
    )


def nodata(request: Request) -> Advice | None:
    """A nodata value that the output's type cannot hold."""
    made = _output(request)
    limits = TYPE_RANGE.get(made.data_type) if made else None
    if made is None or limits is None:
        return None
    if all(limits[0] <= value <= limits[1] and value.is_integer() for value in _nodata(request, made)):
        return None
    return Advice(
        "nodata_out_of_range",
        f"a nodata value is not one that {made.data_type} can hold, which goes from {limits[0]} to {limits[1]}.",
        "Choose a value in that range that no pixel has, or a larger output data type.",
    )


def uncompressed(request: Request) -> Advice | None:
    """A large file for nothing."""
    made = _output(request) if request.driver in ("GTiff", "COG") else None
    if made is None or made.compression != "NONE" or made.raw_bytes < _UNCOMPRESSED:
        return None
    return Advice(
        "large_uncompressed",
        f"the output would have about {made.raw_bytes / (1 << 20):,.0f} MiB without compression.",
        "Add the creation option COMPRESS=ZSTD, or COMPRESS=DEFLATE for older programs.",
    )


RULES: Final[tuple[Callable[[Request], Advice | None], ...]] = (
    degrees_or_metres,
    no_overlap,
    no_crs,
    same_crs,
    nearest,
    lossy,
    upsampling,
    nodata,
    extension,
    uncompressed,
)


def _boxes(request: Request, header: DatasetFacts) -> tuple[Box | None, Box | None]:
    """The box to clip to and that of the data, in the CRS of either."""
    if (wanted := clip_box(request)) is not None:
        return wanted, header.extent
    box, crs = request.numbers("bbox", 4), request.text("bbox-crs")
    there = projected(header.extent, header.crs, crs)
    ordered = bool(box) and box[0] <= box[2] and box[1] <= box[3]
    return ((box[0], box[1], box[2], box[3]) if ordered else None), there


def _output(request: Request) -> DatasetFacts | None:
    """The raster that would be made, as far as that can be said."""
    foreseen = estimate(request)
    return foreseen.output if foreseen else None


def _nodata(request: Request, made: DatasetFacts) -> list[float]:
    """The values that the call gives; without any, that of the input if the type changes."""
    texts = [*request.arguments.get("nodata", ()), *request.arguments.get("output-nodata", ())]
    values = [value for text in texts for part in text.split(",") if (value := _float(part)) is not None]
    header = request.input
    if texts or header is None or header.nodata is None or request.path not in _KEEPS_NODATA:
        return values
    return [header.nodata] if made.data_type != header.data_type else []


def _times_finer(request: Request) -> float:
    """How many of the output's pixels lie along one of the input's; 0 where that cannot be told."""
    header, made = request.input, _output(request)
    if header is None or made is None or not header.pixels:
        return 0.0
    if request.path == "raster resize":
        return math.sqrt(made.pixels / header.pixels)
    before = _density(header, projected(header.extent, source_crs(request), target_crs(request)))
    return math.sqrt(_density(made, made.extent) / before) if before else 0.0


def _continuous(header: DatasetFacts | None) -> bool:
    return header is not None and header.bands == 1 and header.data_type in _CONTINUOUS


def _loses(request: Request) -> bool:
    """Whether values change on the way to the file. What a format does by itself counts, too."""
    match request.option("COMPRESS") or request.driver:
        case "JPEG":
            return True
        case "WEBP":
            return not {request.option("WEBP_LOSSLESS"), request.option("LOSSLESS")} & _YES
        case "JXL":
            return request.option("JXL_LOSSLESS") not in ({""} | _YES)
        case "LERC" | "LERC_DEFLATE" | "LERC_ZSTD":
            return (_float(request.option("MAX_Z_ERROR")) or 0.0) > 0
        case "JP2OpenJPEG":
            return request.option("REVERSIBLE") not in _YES
        case _:
            return False


def _target_degrees(request: Request) -> bool | None:
    if crs := request.text("output-crs"):
        return degrees_of(crs)
    return request.input.degrees if request.input else None


def _density(header: DatasetFacts, extent: Box | None) -> float:
    """Pixels for each unit of area; 0 where that is not known."""
    area = (extent[2] - extent[0]) * (extent[3] - extent[1]) if extent else 0.0
    return header.pixels / area if area > 0 else 0.0


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _said(extent: Box) -> str:
    return ", ".join(f"{one:.10g}" for one in extent)
