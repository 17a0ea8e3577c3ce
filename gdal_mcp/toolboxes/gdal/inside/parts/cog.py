"""Checks if an output is a valid Cloud Optimized GeoTIFF, with GDAL's own validation script."""

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

MAX_FULL = (
    256 << 20
)  # bytes; in files up to this size, leader and trailer of each block are checked, in some microseconds each
WRITTEN = "--output-format=COG"


def claims_layout(dataset, options):
    """True if a file has the COG layout according to its header, or was requested as a COG."""
    if dataset.GetDriver().ShortName != "GTiff":
        return False
    return WRITTEN in options or dataset.GetMetadataItem("LAYOUT", "IMAGE_STRUCTURE") == "COG"


def is_valid(dataset, size):
    """True if a COG is valid, None if this image cannot check it.

    The check includes the order of directories and overviews, tiles, the header, and the blocks of files up to
    MAX_FULL.
    """
    try:
        from osgeo_utils.samples import validate_cloud_optimized_geotiff as script
    except ImportError:
        return None
    with quiet():
        try:
            _, errors, _ = script.validate(dataset, full_check=(size or 0) <= MAX_FULL)
        except (script.ValidateCloudOptimizedGeoTIFFException, RuntimeError, TypeError, ValueError):
            return None
    return not errors
