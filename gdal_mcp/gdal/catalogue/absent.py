"""Formats of GDAL that the image in use lacks: which one is meant, and what to do without it. Pure."""

from collections.abc import Callable
from typing import Final

from gdal_mcp.errors import Code
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Catalogue, Kind, SomeBuilds

HEAD: Final = 16  # bytes of a file that tell its format
# what is written in place of each kind of data, the most useful first
_INSTEAD: Final[dict[Kind, tuple[str, ...]]] = {
    "raster": ("GTiff", "COG", "PNG"),
    "vector": ("GPKG", "FlatGeobuf", "GeoJSON"),
    "multidim": ("netCDF", "Zarr"),
}


def absent_by_name(catalogue: Catalogue, name: str) -> SomeBuilds | None:
    return _first(catalogue, lambda one: one.name.lower() == name.lower())


def absent_by_file(catalogue: Catalogue, name: str, head: bytes = b"") -> SomeBuilds | None:
    """By the first bytes of a file, else by the extension of its name, which no format of this image may have."""
    if found := _first(catalogue, lambda one: any(head[at:].startswith(start) for at, start in one.starts)):
        return found
    _, dot, extension = name.lower().rpartition("/")[2].rpartition(".")
    if not dot or any(extension in driver.extensions for driver in catalogue.drivers):
        return None
    return _first(catalogue, lambda one: extension in one.extensions)


def _first(catalogue: Catalogue, fits: Callable[[SomeBuilds], bool]) -> SomeBuilds | None:
    known = catalogue.driver_names
    return next((one for one in catalogue.some_builds if one.name.lower() not in known and fits(one)), None)


class FormatAbsent(ArgumentRefused):
    """A format that GDAL has and the image in use lacks."""

    def __init__(self, catalogue: Catalogue, lacks: SomeBuilds, *, reads: bool) -> None:
        super().__init__(
            f"the format is {lacks.name}, which GDAL has but the image of this server lacks.",
            advice(catalogue, lacks, reads=reads),
            code=Code.FORMAT_UNAVAILABLE,
        )


def advice(catalogue: Catalogue, lacks: SomeBuilds, *, reads: bool) -> str:
    if reads:
        first = "Convert the file elsewhere to a format that `formats` lists"
    else:
        first = f"Write {', '.join(instead(catalogue, lacks.kind))} in its place"
    if lacks.full:
        return f"{first}, or ask whoever runs the server to change the image: `gdal-mcp setup --image full`."
    return f"{first}; an image with {lacks.name} has to be built by whoever runs the server, as its library is not free."


def instead(catalogue: Catalogue, kind: Kind) -> list[str]:
    """Formats of this image that hold the same kind of data."""
    return [name for name in _INSTEAD[kind] if name.lower() in catalogue.driver_names]
