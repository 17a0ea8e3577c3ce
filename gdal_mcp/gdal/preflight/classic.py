"""The classic programs' options as arguments of the algorithm that they are most like. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

# option -> argument and number of values; others say nothing that changes a size or a value, or are switches
_OPTIONS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "-ts": ("size", 2),
        "-outsize": ("size", 2),
        "-tr": ("resolution", 2),
        "-te": ("extent", 4),
        "-projwin": ("bbox", 4),
        "-srcwin": ("window", 4),
        "-s_srs": ("input-crs", 1),
        "-t_srs": ("output-crs", 1),
        "-r": ("resampling", 1),
        "-ot": ("output-data-type", 1),
        "-b": ("band", 1),
        "-burn": ("burn", 1),
        "-a_nodata": ("nodata", 1),
        "-dstnodata": ("output-nodata", 1),
        "-resolution": ("resolution", 1),
        "-co": ("creation-option", 1),
    }
)
_SWITCHES: Final = frozenset({"-stats", "-hist", "-mm", "-checksum"})


def spoken(program: str, options: Sequence[str]) -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """The algorithm and its arguments by canonical name, for `Request`. `options` are without the operands."""
    found: dict[str, tuple[str, ...]] = {}
    for name, values in _pairs(options):
        found[name] = (*found.get(name, ()), *values)
    if program == "gdalwarp":
        if "extent" in found:
            found["bbox"] = found.pop("extent")
        found |= {"resampling": ("nearest",)} if found.get("resampling") == ("near",) else {}
    if "bbox" in found and program == "gdal_translate":  # upper left corner first
        left, top, right, bottom = found["bbox"]
        found["bbox"] = (left, bottom, right, top)
    return _algorithm(program, options, found), found


def _pairs(options: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    index = 0
    while index < len(options):
        word = options[index]
        name, count = _OPTIONS.get(word, (word.lstrip("-"), 0))
        values = tuple(options[index + 1 : index + 1 + count])
        if word in _SWITCHES:
            yield name, ("true",)
        elif count and len(values) == count:
            yield name, values
        index += 1 + count


def _algorithm(program: str, options: Sequence[str], found: Mapping[str, tuple[str, ...]]) -> str:
    if program == "gdal_translate":
        clips = "bbox" in found or "window" in found
        return "raster resize" if {"size", "resolution"} & set(found) else "raster clip" if clips else program
    return "raster stack" if program == "gdalbuildvrt" and "-separate" in options else program
