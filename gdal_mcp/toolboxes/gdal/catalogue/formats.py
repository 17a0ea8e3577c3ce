"""Formats that may be read and written, and the driver that GDAL chooses for an output name. Pure.

Also knows formats that the image lacks, with advice for each.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.endings import PREFERRED, usual_name
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue, Driver, Kind, OptionalDriver
from gdal_mcp.toolboxes.gdal.catalogue.values import check_text

# Extensions of two parts, which GDAL checks before it uses the part after the last dot.
_DOUBLE: Final = ("shp.zip", "gpkg.zip", "gdb.zip")
# alternatives to an absent format by kind of data, most useful first
_INSTEAD: Final[dict[Kind, tuple[str, ...]]] = {
    "raster": ("GTiff", "COG", "PNG"),
    "vector": ("GPKG", "FlatGeobuf", "GeoJSON"),
    "multidim": ("netCDF", "Zarr"),
}


def driver_for(catalogue: Catalogue, name: str, kind: Kind | None) -> str | None:
    """The driver that GDAL chooses for an output of this name without a format; None unless there is exactly one.

    For `kind` None (commands that inspect the data first) it is the driver on which raster and vector agree.
    """
    drivers = drivers_for(catalogue, name, kind)
    return drivers[0] if len(drivers) == 1 else None


def drivers_for(catalogue: Catalogue, name: str, kind: Kind | None) -> tuple[str, ...]:
    """Every driver that GDAL might choose for an output of this name: at most one for each kind of data."""
    kinds: tuple[Kind, ...] = ("raster", "vector") if kind is None else (kind,)
    drivers = (_first(catalogue, name, data_kind) for data_kind in kinds)
    return tuple(dict.fromkeys(driver for driver in drivers if driver is not None))


def usual_driver(catalogue: Catalogue, name: str, kind: Kind | None) -> str | None:
    """The driver for an ending that GDAL does not know, or for which it chooses a driver that it cannot write, to be
    passed as the format; None for other names.
    """
    _, dot, ending = name.lower().rpartition(".")
    preferred = PREFERRED.get(ending, "") if dot else ""
    if kind != "vector" and preferred.lower() in catalogue.driver_names:
        return preferred
    return _driver_of_ending(catalogue, name, kind)


def _driver_of_ending(catalogue: Catalogue, name: str, kind: Kind | None) -> str | None:
    """The driver for a common ending that GDAL does not know; None for other names."""
    low, known = name.lower().rpartition("/")[2], usual_name(name)
    own = low.rpartition(".")[2]
    double = low.count(".") > known.count(".")  # such as .geo.json, where GDAL only sees .json
    if known == low or (
        not double and any(own in driver.extensions for driver in catalogue.drivers if driver.writes(kind))
    ):
        return None
    return driver_for(catalogue, known, kind)


def refuse_absent(catalogue: Catalogue, name: str) -> None:
    """Raises FormatAbsent if the extension of an output belongs to a format that this image lacks."""
    if (lacks := lacking_by_file(catalogue, name)) is not None:
        raise FormatAbsent(catalogue, lacks, reads=False)


def refuse_unknown_extension(catalogue: Catalogue, name: str) -> None:
    """Raises ArgumentRefused if GDAL cannot guess an output's format. Without an extension it uses a default."""
    if "." not in name.strip("/").rpartition("/")[2].lstrip("."):
        return
    kinds: tuple[Kind, ...] = ("raster", "vector", "multidim")
    if not any(_first(catalogue, name, kind) for kind in kinds):
        extension = name.rpartition(".")[2][:20]
        raise ArgumentRefused(
            f"no format that GDAL writes has the extension .{extension}.",
            "Name the output format, for example GTiff or GPKG, or use an extension such as .tif or .gpkg; `formats` lists them.",
        )


def output_format(catalogue: Catalogue, name: str, kind: Kind | None) -> str:
    """GDAL's spelling of a format name, if the format may be written. Raises ArgumentRefused."""
    driver = known_driver(catalogue, name)
    reason = catalogue.unwritten.get(driver.name.lower())
    if reason is not None:
        raise ArgumentRefused(f"{driver.name} is never written: {reason}.", _writable(kind))
    if not driver.writes(kind):
        what = "data" if kind is None else f"{kind} data"
        raise ArgumentRefused(f"GDAL cannot write {what} as {driver.name}.", _writable(kind))
    return driver.name


def input_format(catalogue: Catalogue, name: str, kind: Kind | None) -> str:
    """GDAL's spelling of a format name, if the format may be read. Raises ArgumentRefused."""
    driver = known_driver(catalogue, name)
    if not driver.reads(kind):
        raise ArgumentRefused(
            f"GDAL cannot read {kind or 'data'} as {driver.name}.", "Leave the input format out."
        )
    return driver.name


def _first(catalogue: Catalogue, name: str, kind: Kind) -> str | None:
    if name.lower().endswith(".gdalg.json"):
        return "GDALG" if "gdalg" in catalogue.driver_names else None
    low = name.lower().rpartition("/")[2]
    if (usual := _driver_of_ending(catalogue, name, kind)) is not None:
        return usual
    double = next((ending for ending in _DOUBLE if low.endswith(f".{ending}")), "")
    extension = double or ("." in low and low.rpartition(".")[2]) or ""
    drivers = [
        driver.name for driver in catalogue.drivers if extension in driver.extensions and driver.writes(kind)
    ]
    if "GMT" in drivers and "netCDF" in drivers:  # GDAL's own exception: GMT precedes netCDF only for reading
        return "netCDF"
    return drivers[0] if drivers and drivers[0].lower() not in catalogue.unwritten else None


def known_driver(catalogue: Catalogue, name: str) -> Driver:
    """The driver with this short name, in any case. Raises ArgumentRefused with the reason if there is none."""
    text = check_text(name, "the format", 64)
    driver = catalogue.driver_names.get(text.lower())
    if driver is not None:
        return driver
    if text.lower() in {skipped.lower() for skipped in catalogue.skipped}:
        raise ArgumentRefused(
            f"the format {text} reaches a network, a database or another program, and is switched off.",
            "Use a file format such as GTiff or GPKG.",
            code=Code.NETWORK_BLOCKED,
        )
    reason = catalogue.unwritten.get(text.lower())
    if reason is not None:
        raise ArgumentRefused(
            f"{text} is never written: {reason}.", "Use a file format such as GTiff or GPKG."
        )
    if (lacks := lacking_by_name(catalogue, text)) is not None:
        raise FormatAbsent(catalogue, lacks, reads=False)
    near = get_close_matches(text.lower(), list(catalogue.driver_names), n=3)
    suggestions = ", ".join(catalogue.driver_names[key].name for key in near) or "GTiff, COG, GPKG or GeoJSON"
    raise ArgumentRefused(
        "GDAL has no format of that name.", f"Use GDAL's short name, such as {suggestions}."
    )


def _writable(kind: Kind | None) -> str:
    examples = {
        "raster": "GTiff, COG, PNG or VRT",
        "vector": "GPKG, GeoJSON or ESRI Shapefile",
        "multidim": "netCDF, Zarr or VRT",
    }
    return f"For example {examples[kind] if kind else 'GTiff or GPKG'}."


# --- formats of GDAL that the image in use lacks


def lacking_by_name(catalogue: Catalogue, name: str) -> OptionalDriver | None:
    return _lacking(catalogue, lambda driver: driver.name.lower() == name.lower())


def lacking_by_file(catalogue: Catalogue, name: str, head: bytes = b"") -> OptionalDriver | None:
    """The format of a file, if this image lacks it: by the file's first bytes, else by its extension.

    An extension counts only if no driver of this image has it.
    """
    if lacking := _lacking(
        catalogue, lambda driver: any(head[at:].startswith(start) for at, start in driver.starts)
    ):
        return lacking
    _, dot, extension = usual_name(name).rpartition(".")
    if not dot or any(extension in driver.extensions for driver in catalogue.drivers):
        return None
    return _lacking(catalogue, lambda driver: extension in driver.extensions)


def _lacking(catalogue: Catalogue, fits: Callable[[OptionalDriver], bool]) -> OptionalDriver | None:
    known = catalogue.driver_names
    return next(
        (driver for driver in catalogue.some_builds if driver.name.lower() not in known and fits(driver)),
        None,
    )


class FormatAbsent(ArgumentRefused):
    """The image in use lacks a format that GDAL has."""

    def __init__(self, catalogue: Catalogue, lacks: OptionalDriver, *, reads: bool) -> None:
        super().__init__(
            f"the format is {lacks.name}, which GDAL has but the image of this server lacks.",
            advice(catalogue, lacks, reads=reads),
            code=Code.FORMAT_UNAVAILABLE,
        )


def advice(catalogue: Catalogue, lacks: OptionalDriver, *, reads: bool) -> str:
    if reads:
        first = "Convert the file with another program to a format that `formats` lists"
    else:
        first = f"Write {', '.join(similar_formats(catalogue, lacks.kind))} in its place"
    if lacks.full:
        return (
            f"{first}, or ask the operator of the server to change the image: `gdal-mcp setup --image full`."
        )
    return f"{first}; an image with {lacks.name} must be built by the operator of the server, as its library is not free."


def similar_formats(catalogue: Catalogue, kind: Kind) -> list[str]:
    """Formats of this image that hold the same kind of data."""
    return [name for name in _INSTEAD[kind] if name.lower() in catalogue.driver_names]
