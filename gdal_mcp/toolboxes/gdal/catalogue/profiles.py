"""Profiles for Cloud Optimized GeoTIFFs: named sets of creation options, such as `PROFILE=web`. Pure.

A profile is expanded to GDAL's options before anyone sees the command, so plan, approval and receipt list exactly the
options of the command. GDAL's COG driver has no option PROFILE; that of GTiff is not affected.

Invariants:
* a profile creates no pixel value that the data does not have: compression is lossless, and resampling is nearest
  neighbour;
* an option of the caller overrides that of the profile.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused

DRIVER: Final = "COG"
OPTION: Final = "PROFILE"
_PREDICTING: Final = frozenset({"LZW", "DEFLATE", "ZSTD", "LZMA"})
# PREDICTOR=YES is 2 for integers and 3 for floating point. Only nearest neighbour suits classes, elevation and
# measurements: every pixel, including those of overviews, has a value from the data.
_BOTH: Final = {"PREDICTOR": "YES", "BLOCKSIZE": "512", "BIGTIFF": "IF_SAFER", "RESAMPLING": "NEAREST"}
PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    # Web Mercator tiles, with a compression that every reader supports. JPEG and WEBP are left to the caller: they are
    # lossy, and need three or four 8-bit bands.
    "web": {"TILING_SCHEME": "GoogleMapsCompatible", "COMPRESS": "DEFLATE", **_BOTH},
    # keeps the CRS and grid of the input
    "analysis": {"COMPRESS": "ZSTD", **_BOTH, "STATISTICS": "YES"},
}


def expand_profile(drivers: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    """The options, with PROFILE replaced by the options of that profile.

    Raises ArgumentRefused for an unknown profile, and for a profile of another format.
    """
    named = {text.partition("=")[0].upper(): text.partition("=")[2] for text in options}
    name = named.get(OPTION, "").lower()
    if tuple(drivers) != (DRIVER,):
        if name in PROFILES:
            raise ArgumentRefused(
                f"{OPTION}={name} is for the format {DRIVER}, and the output has another format.",
                f"Set the output format to {DRIVER}.",
            )
        return options
    if OPTION not in named:
        return options
    profile = PROFILES.get(name)
    if profile is None:
        raise ArgumentRefused(
            f"creation option {OPTION} for {DRIVER} does not take {name[:60]!r}.",
            f"It takes {' or '.join(PROFILES)}.",
        )
    packing = named.get("COMPRESS", profile["COMPRESS"]).upper()
    usable = {key: text for key, text in profile.items() if key != "PREDICTOR" or packing in _PREDICTING}
    own = [text for text in options if text.partition("=")[0].upper() != OPTION]
    return [*(f"{key}={text}" for key, text in usable.items() if key not in named), *own]
