"""PROVISIONAL"""

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    extension: str


_R = {".tif": "GTiff", ".png": "PNG", ".vrt": "VRT", ".jpg": "JPEG"}
_V = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".shp": "ESRI Shapefile", ".json": "GeoJSON"}


def raster_format(name: str | None, path: str | None) -> Format:
    return Format(name or _R.get(PurePosixPath(path or "x.tif").suffix, "GTiff"), ".tif")


def vector_format(name: str | None, path: str | None) -> Format:
    return Format(name or _V.get(PurePosixPath(path or "x.gpkg").suffix, "GPKG"), ".gpkg")
