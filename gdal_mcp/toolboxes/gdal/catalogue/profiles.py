"""Profiles of Cloud Optimized GeoTIFFs: names for sets of creation options, as `PROFILE=web` among those of the format COG. Pure.

A profile becomes GDAL's own options before the command is shown to anybody, so plan, approval and receipt have no other
options than the command. GDAL's COG has no option PROFILE of its own; that of GTiff stays what it is.

Invariants:
* a profile makes no value of a pixel that the data does not have: compressions are lossless, and resampling is by nearest neighbour;
* an option of the caller replaces that of the profile.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused

DRIVER: Final = "COG"
OPTION: Final = "PROFILE"
_PREDICTING: Final = frozenset({"LZW", "DEFLATE", "ZSTD", "LZMA"})
# PREDICTOR=YES is 2 for whole numbers and 3 for floating point. Nearest is the one resampling that is right for classes,
# elevation and measurements alike: every pixel, also of an overview, has a value of the data.
_BOTH: Final = {"PREDICTOR": "YES", "BLOCKSIZE": "512", "BIGTIFF": "IF_SAFER", "RESAMPLING": "NEAREST"}
PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    # Tiles of Web Mercator, and a compression that every reader has. JPEG and WEBP are for the caller to choose: they are
    # lossy, and need three or four bands of 8 bits.
    "web": {"TILING_SCHEME": "GoogleMapsCompatible", "COMPRESS": "DEFLATE", **_BOTH},
    # the CRS and grid of the input
    "analysis": {"COMPRESS": "ZSTD", **_BOTH, "STATISTICS": "YES"},
}


def expand_profile(drivers: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    """The options with those of the profile that they name in place of its name.

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
