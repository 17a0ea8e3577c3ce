"""What a container is asked of an input's pixels before a call runs, since the call may lose it. Pure.

A look is named by a type of data, or a format, that the pixels come into (`UInt8`, `PNG`), or is `holes`, `classes`, `shares` or `overviews`. It reads at
most some million pixels, so only calls are asked about whose arguments can lose something.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.preflight.call import Finding, Step, number_of, steps_of
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.plan import Draft

_PHOTOS: Final = ("JPEG", "WEBP")
# formats that lose something, unless an option says otherwise
_LOSSY: Final = frozenset({*_PHOTOS, "JP2OpenJPEG", "AVIF", "HEIF"})
_LOSSLESS: Final = frozenset({"LOSSLESS=YES", "WEBP_LOSSLESS=YES", "LOSSLESS=TRUE", "REVERSIBLE=YES"})
PICTURES: Final = frozenset({"PNG", "JPEG", "WEBP", "GIF", "BMP"})  # formats of eight bits
_NARROW: Final = frozenset(TYPE_RANGE) | {"Float16", "Float32"}
# steps after which a pixel still has the value that it had
_KEEPS: Final = frozenset(
    f"raster {name}"
    for name in "read write convert set-type clip reproject resize select edit mosaic stack overview".split()
)
# several pixels into a value that none of them had
_MIXES: Final = frozenset("average bilinear cubic cubicspline lanczos rms gauss q1 q3".split())
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})
_EIGHT_BITS: Final = PICTURES | {"UInt8", "Byte"}
_WIDER: Final = (
    "Keep the type, or choose a wider one: Float32 for fractions, Int32 or Float64 for large whole numbers."
)


def looks_named(draft: Draft, catalogue: Catalogue) -> tuple[str, ...]:
    steps, found = steps_of(draft), []
    computed = any(
        path == "raster calc" and given.get("propagate-nodata") != ("true",) for path, given in steps
    )
    if computed or _nodata_of_edit(steps):
        found.append("holes")
    driver = next(iter(steps[-1][1].get("output-format", ())), "")
    if not driver and draft.output:
        driver = driver_for(catalogue, draft.output.target.name, "raster") or ""
    options = [option.upper() for option in steps[-1][1].get("creation-option", ())]
    lossy = driver in _LOSSY or any(f"COMPRESS={one}" in options for one in _PHOTOS)
    mixing = _MIXES & {given.get("resampling", ("",))[0] for path, given in steps if path in _RESAMPLES}
    if mixing or (lossy and not _LOSSLESS & set(options)):
        found.append("classes")
    kinds = [kind for _, given in steps for kind in given.get("output-data-type", ())]
    if "average" in mixing and not kinds:
        found.append("shares")
    if driver == "COG" and not any("RESAMPLING=" in option for option in options):
        found.append("overviews")
    if all(path in _KEEPS for path, _ in steps):  # the narrowest thing that is named
        named = [driver] if driver in PICTURES else [kind for kind in kinds[-1:] if kind in _NARROW]
        found += named
    return tuple(found)


def _nodata_of_edit(steps: Sequence[Step]) -> str:
    """The nodata value that `raster edit` gives to pixels as they are in the input; "" where it gives none."""
    given = [text for path, given in steps if path == "raster edit" for text in given.get("nodata", ())]
    return given[-1] if given and all(path in _KEEPS for path, _ in steps) else ""


def findings(
    looks: Mapping[str, Mapping[str, Any]], nodata: float | None = None, steps: Sequence[Step] = ()
) -> Iterator[Finding]:
    """`looks` are those that the call asks for, by their names; `nodata` is the input's."""
    for name, seen in looks.items():
        edit = _nodata_of_edit(steps)
        if name == "holes" and seen.get("holes") and edit:
            if number_of(edit, finite=False) not in (nodata, None) or edit == "none":
                yield Finding(
                    "nodata_redeclared",
                    "`raster edit` says another nodata value and leaves the pixels as they are: those that were nodata count as data.",
                    "To change the pixels as well, use `raster reproject` with dst-nodata and without output-crs.",
                )
        elif name == "holes" and seen.get("holes"):
            yield Finding(
                "nodata_not_propagated",
                "the input has pixels without data, and the formula computes with their nodata value as if it were a number.",
                "Add propagate-nodata, which keeps them nodata.",
                change={"propagate-nodata": ("true",)},
            )
        elif name == "classes" and seen.get("classes"):
            yield Finding(
                "classes_mixed",
                "the pixels look like codes of classes, and this resampling or compression makes values between them, which mean "
                "nothing.",
                "Use resampling nearest or mode, and a compression that loses nothing, such as DEFLATE or ZSTD.",
            )
        elif name == "overviews" and seen.get("classes"):
            yield Finding(
                "classes_mixed",
                "the pixels look like codes of classes, and the overviews of a COG are made by cubic resampling unless said otherwise: "
                "from afar there are classes that mean nothing.",
                "Add the creation option OVERVIEW_RESAMPLING=MODE, or NEAREST.",
                change={"creation-option": ("OVERVIEW_RESAMPLING=MODE",)},
            )
        elif name == "shares" and seen.get("mask"):
            yield Finding(
                "values_rounded",
                "the pixels are zeros and ones, whose mean is a share, and their type rounds it to 0 or 1.",
                "Put the step `set-type` with output-data-type Float32 before it.",
            )
        elif seen.get("count"):
            yield from _lost(name, seen, nodata)


def _lost(kind: str, seen: Mapping[str, Any], nodata: float | None) -> Iterator[Finding]:
    of = {"of": seen["count"]}
    what = f"{kind} pictures" if kind in PICTURES else kind
    if outside := seen.get("outside"):
        low, high = seen.get("minimum"), seen.get("maximum")
        yield Finding(
            "values_clamped",
            f"values from {low:g} to {high:g} do not fit into {what}; those beyond are cut to its lowest and highest value.",
            "Scale them first with `raster scale` (input-min, input-max, output-min, output-max), or choose a wider type.",
            steps=_scaled(kind, seen, nodata),
            numbers={"count": outside, **of, "minimum": low, "maximum": high},
        )
    if nan := seen.get("nan"):
        yield Finding(
            "nan_lost",
            f"pixels that are NaN become 0 in {what}, as if that had been measured.",
            "Fill them first with `raster fill-nodata`, or choose Float32.",
            numbers={"count": nan, **of},
        )
    if not outside and (fractional := seen.get("fractional")):
        yield Finding(
            "values_rounded",
            f"values with a fraction are rounded to whole numbers in {what}.",
            _WIDER,
            numbers={"count": fractional, **of},
        )
    if digits := seen.get("digits"):
        yield Finding(
            "digits_lost",
            f"whole numbers are too large for {what}, which changes their last digits: different ids may become equal.",
            _WIDER,
            numbers={"count": digits, **of},
        )


def _scaled(
    kind: str, seen: Mapping[str, Any], nodata: float | None
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """The whole range spread over eight bits; 0 is kept for what is nodata."""
    if kind not in _EIGHT_BITS or seen.get("nan") or not seen.get("exact"):
        return ()
    scale = {
        "input-min": seen["minimum"],
        "input-max": seen["maximum"],
        "output-min": 0 if nodata is None else 1,
        "output-max": 255,
        "output-data-type": "UInt8",
    }
    return (("scale", scale), *([] if nodata is None else [("edit", {"nodata": "0"})]))
