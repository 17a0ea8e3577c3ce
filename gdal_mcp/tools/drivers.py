"""Which format an output gets: the one that is named, else the one its extension means, else a default."""

from dataclasses import dataclass

from gdal_mcp.gdal.catalogue.formats import driver_for, output_format
from gdal_mcp.gdal.catalogue.model import Catalogue, Kind

DEFAULTS: dict[str, str] = {"raster": "GTiff", "vector": "GPKG"}


@dataclass(frozen=True, slots=True)
class Format:
    """A driver's short name, and the extension of a file that the server names itself."""

    name: str
    extension: str  # with its dot


def raster_format(catalogue: Catalogue, name: str | None, path: str | None) -> Format:
    """Raises ArgumentRefused for a format that cannot be written."""
    return _format(catalogue, name, path, "raster")


def vector_format(catalogue: Catalogue, name: str | None, path: str | None) -> Format:
    """Raises ArgumentRefused for a format that cannot be written."""
    return _format(catalogue, name, path, "vector")


def _format(catalogue: Catalogue, name: str | None, path: str | None, kind: Kind) -> Format:
    by_name = driver_for(catalogue, path, kind) if path else None
    driver = output_format(catalogue, name or by_name or DEFAULTS[kind], kind)
    extensions = catalogue.driver_names[driver.lower()].extensions
    return Format(driver, f".{extensions[0]}" if extensions else "")
