"""What a container is asked of an input's pixels before a call runs, since the call may lose it. Pure.

A look is named by a type of data, or a format, that the pixels come into (`UInt8`, `PNG`), or is `holes`, `fills`, `heights`, `classes`, `shares` or `overviews`. It reads at
most some million pixels, so only calls are asked about whose arguments can lose something.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.preflight.call import Finding, Step, number_of, steps_of, worded
from gdal_mcp.gdal.preflight.checks.raster import COMPUTES, keeps_all
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.plan import Draft

_PHOTOS: Final = ("JPEG", "WEBP")
# formats that lose something, unless an option says otherwise
_LOSSY: Final = frozenset({*_PHOTOS, "JP2OpenJPEG", "AVIF", "HEIF"})
_LOSSLESS: Final = frozenset({"LOSSLESS=YES", "WEBP_LOSSLESS=YES", "LOSSLESS=TRUE"})
_REVERSIBLE: Final = frozenset({"REVERSIBLE=YES", "REVERSIBLE=TRUE", "REVERSIBLE=ON", "REVERSIBLE=1"})
PICTURES: Final = frozenset({"PNG", "JPEG", "WEBP", "GIF", "BMP"})  # formats of eight bits
_NARROW: Final = frozenset(TYPE_RANGE) | {"Float16", "Float32"}
# steps after which a pixel still has the value that it had
_KEEPS: Final = frozenset(
    f"raster {name}"
    for name in "read write convert set-type clip reproject resize select edit mosaic stack overview".split()
)
# several pixels into a value that none of them had
_MIXES: Final = frozenset("average bilinear cubic cubicspline lanczos rms gauss q1 q3".split())
# with what they do unless asked otherwise
_RESAMPLES: Final = {
    **dict.fromkeys(("raster reproject", "raster resize", "raster overview add"), "nearest"),
    "raster tile": "cubic",
}
# what an algorithm makes of pixels without data unless it has an argument: that, our word for it, and the value that mends it
_OF_HOLES: Final[Mapping[str, Sequence[tuple[str, str, str]]]] = {
    "raster calc": (("propagate-nodata", "nodata_not_propagated", "true"),),
    "raster proximity": (("target-values", "nodata_as_target", ""), ("nodata", "far_undeclared", "-1")),
    "raster as-features": (("skip-nodata", "nodata_as_rows", "true"),),
}
# arguments that may say which pixels are none
_SAYS_NODATA: Final = frozenset({"nodata", "input-nodata", "mapping"})
# what is said where a look of that name has seen it, and what mends it
_SAID: Final[Mapping[str, tuple[str, str, Mapping[str, Sequence[str]] | None]]] = {
    "fills": ("fills", "nodata_undeclared", None),
    "heights": ("assumed", "heights_assumed", None),
    "classes": ("classes", "classes_mixed", None),
    "overviews": ("classes", "overviews_mixed", {"creation-option": ("OVERVIEW_RESAMPLING=MODE",)}),
    "shares": ("mask", "mask_rounded", None),
}
_EIGHT_BITS: Final = PICTURES | {"UInt8", "Byte"}


def looks_named(draft: Draft, catalogue: Catalogue) -> tuple[str, ...]:
    steps, found = steps_of(draft), []
    if any(_of_holes(steps)) or _nodata_of_edit(steps):
        found.append("holes")
    cares = any(_SAYS_NODATA & set(given) or "?" in "".join(given.get("calc", ())) for _, given in steps)
    if not cares and any(path in COMPUTES for path, _ in steps[:2]):
        found.append("fills")
    slopes = [given for path, given in steps if path in ("raster slope", "raster hillshade")]
    if any(not {"xscale", "yscale"} & set(given) for given in slopes):  # heights against lengths
        found.append("heights")
    driver = next(iter(steps[-1][1].get("output-format", ())), "")
    if not driver and draft.output:
        driver = driver_for(catalogue, draft.output.target.name, "raster") or ""
    options = [option.upper() for option in steps[-1][1].get("creation-option", ())]
    lossy = driver in _LOSSY or any(f"COMPRESS={one}" in options for one in _PHOTOS)
    resamples = [(given, (_RESAMPLES[path],)) for path, given in steps if path in _RESAMPLES]
    mixing = _MIXES & {given.get("resampling", usual)[0] for given, usual in resamples}
    if mixing or (lossy and not _lossless(options)):
        found.append("classes")
    kinds = [kind for _, given in steps for kind in given.get("output-data-type", ())]
    if "average" in mixing and not kinds:
        found.append("shares")
    if driver == "COG" and not any("RESAMPLING=" in option for option in options):
        found.append("overviews")
    if all(path in _KEEPS for path, _ in steps):  # the narrowest thing that is named
        found += [driver] if driver in PICTURES else [kind for kind in kinds[-1:] if kind in _NARROW]
    return tuple(found)


def _lossless(options: Sequence[str]) -> bool:
    qualities = (one.removeprefix("QUALITY=") for one in options if one.startswith("QUALITY="))
    reversible = bool(_REVERSIBLE & set(options)) and keeps_all(next(qualities, ""))
    return reversible or bool(_LOSSLESS & set(options))


def _nodata_of_edit(steps: Sequence[Step]) -> str:
    """The nodata value that `raster edit` gives to pixels as they are in the input; "" where it gives none."""
    given = [text for path, given in steps if path == "raster edit" for text in given.get("nodata", ())]
    return given[-1] if given and all(path in _KEEPS for path, _ in steps) else ""


def _of_holes(steps: Sequence[Step]) -> Iterator[Finding]:
    """What the first step that does not only pass pixels on makes of those without data."""
    path, given = next((one for one in steps if one[0] not in _KEEPS), ("", {}))
    for argument, name, value in _OF_HOLES.get(path, ()):
        if given.get(argument, ("false",)) == ("false",):
            yield worded(name, change={argument: (value,)} if value else None)
            return


def findings(
    looks: Mapping[str, Mapping[str, Any]], nodata: float | None = None, steps: Sequence[Step] = ()
) -> Iterator[Finding]:
    """`looks` are those that the call asks for, by their names; `nodata` is the input's."""
    for name, seen in looks.items():
        edit = _nodata_of_edit(steps)
        key, said, change = _SAID.get(name, ("", "", None))
        if name == "holes" and seen.get("holes") and edit:
            if number_of(edit, finite=False) not in (nodata, None) or edit == "none":
                yield worded("nodata_redeclared")
        elif name == "holes" and seen.get("holes"):
            yield from _of_holes(steps)
        elif seen.get(key):
            yield worded(said, change=change)
        elif seen.get("count"):
            yield from _lost(name, seen, nodata)


def _lost(kind: str, seen: Mapping[str, Any], nodata: float | None) -> Iterator[Finding]:
    limits = {key: seen.get(key) for key in ("minimum", "maximum")}
    words = {"kind": f"{kind} pictures" if kind in PICTURES else kind, **limits}
    numbers, outside = {"of": seen["count"]}, seen.get("outside")
    if outside:
        steps = _scaled(kind, seen, nodata)
        yield worded("values_cut", words, steps=steps, numbers={"count": outside, **numbers, **limits})
    lost = {"nan": "nan_lost", **({} if outside else {"fractional": "fractions_cut"}), "digits": "digits_cut"}
    for key, name in lost.items():
        if count := seen.get(key):
            yield worded(name, words, numbers={"count": count, **numbers})


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
