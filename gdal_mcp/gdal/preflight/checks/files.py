"""Likely mistakes with the files that are written. Pure."""

from collections.abc import Mapping
from typing import Final

from gdal_mcp.gdal.preflight.call import Call
from gdal_mcp.gdal.preflight.checks.finding import Finding
from gdal_mcp.gdal.preflight.estimate import raster_made

_UNCOMPRESSED: Final = 256 << 20  # bytes
_DRIVERS: Final[Mapping[str, frozenset[str]]] = {
    ending: frozenset(drivers.split(","))
    for endings, drivers in (
        ("tif tiff", "GTiff,COG"),
        ("png", "PNG"),
        ("jpg jpeg", "JPEG"),
        ("webp", "WEBP"),
        ("jp2", "JP2OpenJPEG,JP2KAK,JP2ECW,JP2MrSID,JP2Lura,JP2Grok"),
        ("vrt", "VRT,OGR_VRT"),
        ("nc", "netCDF,GMT"),
        ("asc", "AAIGrid,GRASSASCIIGrid"),
        ("img", "HFA,ENVI,ILWIS"),
        ("gpkg", "GPKG"),
        ("shp", "ESRI Shapefile"),
        ("geojson", "GeoJSON,GeoJSONSeq"),
        ("fgb", "FlatGeobuf"),
        ("parquet", "Parquet"),
        ("csv", "CSV,XYZ"),
        ("kml", "KML,LIBKML"),
        ("gml", "GML"),
    )
    for ending in endings.split()
}  # by the ending of a name


def extension_mismatch(call: Call) -> Finding | None:
    """A file name extension of another format."""
    stem, _, ending = call.output.lower().rpartition(".")
    drivers = _DRIVERS.get(ending) if stem else None
    if drivers is None or not call.driver or call.driver in drivers:
        return None
    return Finding(
        "extension_mismatch",
        f"a name that ends in .{ending} is usually not a {call.driver} file; other programs may not open it.",
        "Change the ending or the output format.",
    )


def large_uncompressed(call: Call) -> Finding | None:
    """A large file without compression."""
    made = raster_made(call) if call.driver in ("GTiff", "COG") else None
    if made is None or made.compression != "NONE" or made.raw_bytes < _UNCOMPRESSED:
        return None
    return Finding(
        "large_uncompressed",
        f"the output would have about {made.raw_bytes / (1 << 20):,.0f} MiB without compression.",
        "Add the creation option COMPRESS=ZSTD, or COMPRESS=DEFLATE for older programs.",
    )


CHECKS: Final = (extension_mismatch, large_uncompressed)
