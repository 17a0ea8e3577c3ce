"""Selects probes of the pixels of an input, for calls that may lose data, and judges their results. Pure.

The name of a probe is a data type or format that the pixels are converted to (`UInt8`, `PNG`; with bands
`UInt8:1,3`), or `holes`, `fills`, `heights`, `classes`, `shares`, `overviews`, `neighbours`, `curves`, `masked`,
`directions`, `overview_directions` or `lengths`. A probe reads up to several million pixels, so it runs only for calls whose arguments can lose data.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gdal_mcp.plan import AlgorithmStep, Draft
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.algorithms import COMPUTES, IGNORES_MASKS, KEEPS_PIXELS
from gdal_mcp.toolboxes.gdal.preflight.call import (
    Finding,
    is_on,
    make_finding,
    number_of,
    options_of,
)
from gdal_mcp.toolboxes.gdal.preflight.checks.mapping import gives_class
from gdal_mcp.toolboxes.gdal.preflight.checks.raster import keeps_all
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.toolboxes.gdal.preflight.sql import reading

_PHOTOS: Final = ("JPEG", "WEBP")
# formats that are lossy by default
_LOSSY: Final = frozenset({*_PHOTOS, "JP2OpenJPEG", "AVIF", "HEIF", "GPKG", "KMLSUPEROVERLAY"})
# formats with extensions that are also those of vector formats
_ALSO_VECTOR: Final = frozenset({"GPKG", "KMLSUPEROVERLAY"})
# resampling that never makes a value between two classes
_KEEPS_CLASSES: Final = frozenset({"NEAREST", "MODE"})
_LOSSLESS: Final = ("LOSSLESS", "WEBP_LOSSLESS")
# tile formats that are lossless
_EXACT_TILES: Final = frozenset({"PNG", "PNG8", "TIFF"})
_BANDS: Final = ":"  # separates the name of a probe from its bands
PICTURES: Final = frozenset({"PNG", "JPEG", "WEBP", "GIF", "BMP"})  # image formats, most with eight bits
_NARROW: Final = frozenset(TYPE_RANGE) | {"Float16", "Float32"}
# resampling that computes new values from several pixels
_MIXES: Final = frozenset("average bilinear cubic cubicspline lanczos rms gauss q1 q3".split())
# algorithms that resample, with their default method
_RESAMPLES: Final = {
    **dict.fromkeys(
        ("raster reproject", "raster resize", "raster overview add", "raster pixel-info"), "nearest"
    ),
    "raster tile": "cubic",
}
# zonal statistics that rest on a mean
_MEANS: Final = frozenset(
    {"mean", "weighted_mean", "stdev", "weighted_stdev", "variance", "weighted_variance"}
)
# algorithms that treat nodata pixels as data unless an argument is set: the argument, the check, and the corrected
# value
_OF_HOLES: Final[Mapping[str, Sequence[tuple[str, str, str]]]] = {
    "raster calc": (("propagate-nodata", "nodata_not_propagated", "true"),),
    "raster proximity": (("target-values", "nodata_as_target", ""), ("nodata", "far_undeclared", "-1")),
    "raster as-features": (("skip-nodata", "nodata_as_rows", "true"),),
}
# pixel functions that ignore nodata pixels
_SKIPS_NODATA: Final = frozenset(
    "mean sum median mode min max geometric_mean harmonic_mean stdev quantile".split()
)
# arguments that may define nodata
_NODATA_ARGUMENTS: Final = frozenset({"nodata", "input-nodata", "mapping"})
# for each probe: the fact that it reports, the check, and the change that corrects the call
_PROBES: Final[Mapping[str, tuple[str, str, Mapping[str, Sequence[str]] | None]]] = {
    "fills": ("fills", "nodata_undeclared", None),
    "heights": ("assumed", "heights_assumed", None),
    "classes": ("classes", "classes_mixed", None),
    "overviews": ("classes", "overviews_mixed", {"creation-option": ("OVERVIEW_RESAMPLING=MODE",)}),
    "neighbours": ("classes", "neighbours_mixed", None),
    "shares": ("mask", "mask_rounded", None),
    "directions": ("directions", "directions_averaged", None),
    "overview_directions": (
        "directions",
        "overview_directions",
        {"creation-option": ("OVERVIEW_RESAMPLING=NEAREST",)},
    ),
    "curves": ("curves", "curves_skipped", None),
    "lengths": ("longer", "length_without_heights", None),
    "masked": ("masked", "mask_ignored", None),
}
# probes of vector datasets; the others are of pixels
FEATURE_PROBES: Final = frozenset({"curves", "lengths"})
REFUSING_PROBES: Final = frozenset({"curves"})  # the result is wrong, so their findings refuse the call
# formats that store one type, into which they convert others without a warning
_STORES: Final = {"DTED": "Int16", "SRTMHGT": "Int16"}
_EIGHT_BITS: Final = PICTURES | {"UInt8", "Byte"}


def pixel_probes(draft: Draft, catalogue: Catalogue) -> tuple[str, ...]:
    steps = draft.work.steps
    probes = list(_passed_over(steps))
    if any(
        reading.measures_flat_lengths(text) for _, arguments in steps for text in arguments.get("sql", ())
    ):
        probes.append("lengths")
    if any(_of_holes(steps)) or _nodata_of_edit(steps) or _merges(draft) or _mapping(steps):
        probes.append("holes")
    cares = any(
        _NODATA_ARGUMENTS & set(arguments) or "?" in "".join(arguments.get("calc", ()))
        for _, arguments in steps
    )
    if not cares and any(path in COMPUTES for path, _ in steps[:2]):
        probes.append("fills")
    slopes = [arguments for path, arguments in steps if path in ("raster slope", "raster hillshade")]
    # xscale and yscale relate heights to horizontal distances
    if any(not {"xscale", "yscale"} & set(arguments) for arguments in slopes):
        probes.append("heights")
    driver = next(iter(steps[-1][1].get("output-format", ())), "")
    if not driver and draft.output:
        driver = driver_for(catalogue, draft.output.target.name, "raster") or ""
    options = options_of(steps[-1][1].get("creation-option", ()))
    writes_pixels = all(path in KEEPS_PIXELS for path, _ in steps)
    lossy = (driver in _LOSSY and (writes_pixels or driver not in _ALSO_VECTOR)) or options.get(
        "COMPRESS"
    ) in _PHOTOS
    mixing = _mixing(steps)
    if mixing or (lossy and not _lossless(options)) or _rounds(options) or _warps(driver, options):
        probes.append("classes")
    kinds = [kind for _, arguments in steps for kind in arguments.get("output-data-type", ())]
    means = any(arguments.get("pixel-function") == ("mean",) for _, arguments in steps)
    if ("average" in mixing or means) and not kinds:
        probes.append("shares")
    if driver == "COG" and _mixes_overviews(options):
        probes += ["overviews", "overview_directions"]
    if all(path in KEEPS_PIXELS for path, _ in steps):  # a picture format, else the last output data type
        stored = [_STORES[driver]] if driver in _STORES else kinds[-1:]
        narrowest = [driver] if driver in PICTURES else [kind for kind in stored if kind in _NARROW]
        probes += [f"{name}{_BANDS}{bands}" if (bands := _selected(steps)) else name for name in narrowest]
    return tuple(probes)


def _rounds(options: Mapping[str, str]) -> bool:
    """True if the compression may change values within a tolerance, or discards bits."""
    lerc = (
        options.get("COMPRESS", "").startswith("LERC") and number_of(options.get("MAX_Z_ERROR", ""))
    ) or 0.0
    return bool(lerc) or "DISCARD_LSB" in options


def _warps(driver: str, options: Mapping[str, str]) -> bool:
    """True if writing the format reprojects, which mixes pixels unless an option prevents it."""
    tiled = options.get("TILING_SCHEME", "CUSTOM") != "CUSTOM"
    if driver == "COG" and (tiled or "TARGET_SRS" in options):
        return options.get("WARP_RESAMPLING", options.get("RESAMPLING", "CUBIC")) not in _KEEPS_CLASSES
    warps = driver == "MBTiles" or (driver == "GPKG" and tiled)
    return warps and options.get("RESAMPLING", "BILINEAR") not in _KEEPS_CLASSES


def _mixes_overviews(options: Mapping[str, str]) -> bool:
    if options.get("OVERVIEWS") == "NONE":
        return False
    return options.get("OVERVIEW_RESAMPLING", options.get("RESAMPLING", "CUBIC")) not in _KEEPS_CLASSES


def _mixes_neighbours(step: AlgorithmStep) -> bool:
    """True if an algorithm computes a pixel from several neighbours, for example as their mean."""
    path, arguments = step
    if path == "raster fill-nodata":
        return arguments.get("strategy", ("invdist",))[0] != "nearest"
    return path == "raster neighbors" and "mean" in arguments.get("method", ())


def _mixing(steps: Sequence[AlgorithmStep]) -> frozenset[str]:
    """The methods of resampling that compute new values from several pixels."""
    return _MIXES & {
        arguments.get("resampling", (_RESAMPLES[path],))[0] for path, arguments in steps if path in _RESAMPLES
    }


def _averages(step: AlgorithmStep) -> bool:
    """True if an algorithm computes means of pixels, in any way."""
    path, arguments = step
    statistics = {name for text in arguments.get("stat", ()) for name in text.split(",")}
    means = path == "raster zonal-stats" and bool(statistics & _MEANS)
    joined = path == "raster mosaic" and "mean" in arguments.get("pixel-function", ())
    return bool(_mixing([step])) or _mixes_neighbours(step) or means or joined


def of_aspect(steps: Sequence[AlgorithmStep]) -> Iterator[Finding]:
    """The finding if a step averages the directions that an earlier step computed."""
    paths = [path for path, _ in steps]
    if "raster aspect" in paths and any(map(_averages, steps[paths.index("raster aspect") :])):
        yield make_finding("directions_averaged")


def _passed_over(steps: Sequence[AlgorithmStep]) -> Iterator[str]:
    """Yields the names of the probes for data that the algorithms ignore or misread."""
    if any(_takes_shapes(path, arguments) for path, arguments in steps):
        yield "curves"
    if any(path in IGNORES_MASKS for path, _ in steps):
        yield "masked"
    if any(map(_mixes_neighbours, steps)):
        yield "neighbours"
    if any(map(_averages, steps)):
        yield "directions"
    if any(path == "raster sieve" for path, _ in steps):  # sieve works on integers
        yield "Int64"


def _takes_shapes(path: str, arguments: Mapping[str, Sequence[str]]) -> bool:
    """True if GDAL rasterizes polygons, which skips curves."""
    return path in ("vector rasterize", "raster zonal-stats") or (
        path == "raster clip" and "like" in arguments
    )


def _merges(draft: Draft) -> bool:
    return draft.command.program == "gdal_merge"


def _selected(steps: Sequence[AlgorithmStep]) -> str:
    """The selected bands of the only input, such as `1,3`; "" for all bands, or if uncertain."""
    choosing = ("raster select", "raster convert")  # convert has bands if it stands for gdal_translate
    texts = [arguments["band"] for path, arguments in steps if path in choosing and arguments.get("band")]
    joins = any(path in ("raster mosaic", "raster stack") for path, _ in steps)
    numbers = [part for text in texts[0] for part in text.split(",")] if len(texts) == 1 and not joins else []
    return ",".join(numbers) if all(number.isdecimal() for number in numbers) else ""


def _lossless(options: Mapping[str, str]) -> bool:
    """True if the options make a lossy format lossless."""
    reversible = is_on(options.get("REVERSIBLE", "")) and keeps_all(options.get("QUALITY", ""))
    exact_tiles = bool({options.get("TILE_FORMAT"), options.get("FORMAT")} & _EXACT_TILES)
    return reversible or exact_tiles or any(is_on(options.get(name, "")) for name in _LOSSLESS)


def _nodata_of_edit(steps: Sequence[AlgorithmStep]) -> str:
    """The nodata value that `raster edit` sets while pixels are unchanged; "" if none."""
    values = [
        text for path, arguments in steps if path == "raster edit" for text in arguments.get("nodata", ())
    ]
    return values[-1] if values and all(path in KEEPS_PIXELS for path, _ in steps) else ""


def _mapping(steps: Sequence[AlgorithmStep]) -> str:
    """The mapping of `raster reclassify` if it is the first step that changes pixels; else ""."""
    path, arguments = next((step for step in steps if step[0] not in KEEPS_PIXELS), ("", {}))
    return arguments.get("mapping", ("",))[0] if path == "raster reclassify" else ""


def _of_holes(steps: Sequence[AlgorithmStep], nodata: float | None = None) -> Iterator[Finding]:
    """The finding if the first step that changes pixels treats nodata pixels as data."""
    if nodata is not None and (mapping := _mapping(steps)) and gives_class(mapping, nodata):
        yield make_finding("nodata_mapped", {"nodata": nodata})
    path, arguments = next((step for step in steps if step[0] not in KEEPS_PIXELS), ("", {}))
    functions = {text.partition("(")[0].strip() for text in arguments.get("calc", ())}
    if arguments.get("dialect") == ("builtin",) and functions <= _SKIPS_NODATA:
        return
    for argument, name, value in _OF_HOLES.get(path, ()):
        if arguments.get(argument, ("false",)) == ("false",):
            yield make_finding(name, change={argument: (value,)} if value else None)
            return


def findings(
    looks: Mapping[str, Mapping[str, Any]],
    nodata: float | None = None,
    steps: Sequence[AlgorithmStep] = (),
    *,
    merges: bool = False,
) -> Iterator[Finding]:
    """Findings from the results of probes.

    `looks` maps the names of the requested probes to their results, `nodata` is the nodata value of the input, and
    `merges` is True for gdal_merge.
    """
    for name, look in looks.items():
        edit = _nodata_of_edit(steps)
        key, check, change = _PROBES.get(name, ("", "", None))
        if name == "holes" and look.get("holes") and edit:
            if number_of(edit, finite=False) not in (nodata, None) or edit == "none":
                yield make_finding("nodata_redeclared")
        elif name == "holes" and look.get("holes") and merges:
            yield make_finding("nodata_merged")
        elif name == "holes" and look.get("holes"):
            yield from _of_holes(steps, nodata)
        elif look.get(key):
            numbers = {"count": look[key], "of": look.get("of")} if name == "lengths" else {}
            yield make_finding(check, change=change, refuses=name in REFUSING_PROBES, numbers=numbers)
        elif name == "curves" and look.get("count"):
            yield make_finding("curves_unexamined", refuses=True, numbers={"count": look["count"]})
        elif look.get("count"):
            yield from _lost(name.partition(_BANDS)[0], look, nodata)


def _lost(kind: str, look: Mapping[str, Any], nodata: float | None) -> Iterator[Finding]:
    limits = {key: look.get(key) for key in ("minimum", "maximum")}
    words = {"kind": f"{kind} pictures" if kind in PICTURES else kind, **limits}
    numbers, outside = {"of": look["count"]}, look.get("outside")
    if outside:
        steps = _scaled(kind, look, nodata)
        yield make_finding("values_cut", words, steps=steps, numbers={"count": outside, **numbers, **limits})
    lost = {"nan": "nan_lost", **({} if outside else {"fractional": "fractions_cut"}), "digits": "digits_cut"}
    for key, name in lost.items():
        if count := look.get(key):
            yield make_finding(name, words, numbers={"count": count, **numbers})


def _scaled(
    kind: str, look: Mapping[str, Any], nodata: float | None
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Steps that scale the whole range to eight bits, with 0 reserved for nodata; empty if not possible."""
    if kind not in _EIGHT_BITS or look.get("nan") or not look.get("exact"):
        return ()
    scale = {
        "input-min": look["minimum"],
        "input-max": look["maximum"],
        "output-min": 0 if nodata is None else 1,
        "output-max": 255,
        "output-data-type": "UInt8",
    }
    return (("scale", scale), *([] if nodata is None else [("edit", {"nodata": "0"})]))
