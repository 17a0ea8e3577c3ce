"""Whether an output is a valid Cloud Optimized GeoTIFF, by GDAL's own validation script."""

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

MAX_FULL = (
    256 << 20
)  # bytes of a file of which leader and trailer of each block are checked, some microseconds a block
WRITTEN = "--output-format=COG"


def claims_layout(dataset, options):
    """True for a file that has the layout by its own header, or was to have it."""
    if dataset.GetDriver().ShortName != "GTiff":
        return False
    return WRITTEN in options or dataset.GetMetadataItem("LAYOUT", "IMAGE_STRUCTURE") == "COG"


def is_valid(dataset, size):
    """True, False, or None if this image cannot examine it. Order of directories and overviews, tiles, header, and blocks of a file that is not too large."""
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


def cog_checks(valid):
    if not valid:
        yield {"code": "cog_unchecked" if valid is None else "cog_invalid"}
