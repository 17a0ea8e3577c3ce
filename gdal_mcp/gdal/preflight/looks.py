"""What a container is asked of an input's pixels before a call runs, since the call may lose it. Pure.

A look is named by a type of data, or a format, that the pixels come into (`UInt8`, `PNG`), or is `holes`, `classes`, `shares` or `overviews`. It reads at
most some million pixels, so only calls are asked about whose arguments can lose something.
"""

from collections.abc import Mapping
from typing import Final

from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.preflight.facts import TYPE_RANGE
from gdal_mcp.plan import Draft

Steps = tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]

HOLES: Final = "holes"
CLASSES: Final = "classes"
OVERVIEWS: Final = "overviews"
SHARES: Final = "shares"
_PHOTOS: Final = ("JPEG", "WEBP")
_LOSSLESS: Final = ("LOSSLESS=YES", "WEBP_LOSSLESS=YES", "LOSSLESS=TRUE", "REVERSIBLE=YES")
PICTURES: Final = frozenset({"PNG", "JPEG", "WEBP", "GIF", "BMP"})  # formats of eight bits
_NARROW: Final = frozenset(TYPE_RANGE) | {"Float16", "Float32"}
# steps after which a pixel still has the value that it had
_KEEPS: Final = frozenset(
    f"raster {name}"
    for name in "read write convert set-type clip reproject resize select edit mosaic stack overview".split()
)
_MIXES: Final = frozenset(
    "average bilinear cubic cubicspline lanczos rms gauss q1 q3".split()
)  # several pixels into a value that none of them had
_RESAMPLES: Final = frozenset({"raster reproject", "raster resize", "raster overview add"})


def looks_named(draft: Draft, catalogue: Catalogue) -> tuple[str, ...]:
    steps = draft.chain or ((draft.algorithm, draft.arguments),)
    found = []
    if any(
        path == "raster calc" and arguments.get("propagate-nodata") != ("true",) for path, arguments in steps
    ):
        found.append(HOLES)
    driver = _output_driver(draft, steps, catalogue)
    options = [option.upper() for option in steps[-1][1].get("creation-option", ())]
    if any(_mixes(path, arguments) for path, arguments in steps) or _is_lossy(driver, options):
        found.append(CLASSES)
    kinds = [kind for _, arguments in steps for kind in arguments.get("output-data-type", ())]
    if any(_mixes(path, given) and "average" in given["resampling"] for path, given in steps) and not kinds:
        found.append(SHARES)
    if driver == "COG" and not any("RESAMPLING=" in option for option in options):
        found.append(OVERVIEWS)
    if all(path in _KEEPS for path, _ in steps) and (kind := _comes_into(draft, steps, catalogue)):
        found.append(kind)
    return tuple(found)


def _mixes(path: str, arguments: Mapping[str, tuple[str, ...]]) -> bool:
    return path in _RESAMPLES and arguments.get("resampling", ("",))[0] in _MIXES


def _is_lossy(driver: str, options: list[str]) -> bool:
    """Whether pixels come back with other values, by a compression that is meant for photographs."""
    lossless = any(option in _LOSSLESS for option in options)
    photo = driver in (*_PHOTOS, "JP2OpenJPEG", "AVIF", "HEIF")
    return not lossless and (photo or any(f"COMPRESS={one}" in options for one in _PHOTOS))


def _comes_into(draft: Draft, steps: Steps, catalogue: Catalogue) -> str | None:
    """The narrowest thing that is named: the output's format, or a type."""
    named = [kind for _, arguments in steps for kind in arguments.get("output-data-type", ())]
    driver = _output_driver(draft, steps, catalogue)
    if driver in PICTURES:
        return driver
    return named[-1] if named and named[-1] in _NARROW else None


def _output_driver(draft: Draft, steps: Steps, catalogue: Catalogue) -> str:
    if named := steps[-1][1].get("output-format"):
        return named[0]
    return (driver_for(catalogue, draft.output.target.name, "raster") or "") if draft.output else ""
