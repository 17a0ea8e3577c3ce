"""Profiles of Cloud Optimized GeoTIFFs: the creation options for each, wherever the profile is named."""

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.profiles import PROFILES

LOSSY = {"JPEG", "WEBP", "LERC", "LERC_DEFLATE", "LERC_ZSTD"}


def options(*creation: str, path: str = "raster convert", format: str = "COG") -> dict[str, str]:
    arguments = {
        "input": "a.tif",
        "output": "b.tif",
        "output-format": format,
        "creation-option": list(creation),
    }
    bound = bind(packaged().algorithms[path], arguments, Context(packaged()))
    return dict(text.split("=", 1) for text in bound.get("creation-option"))


@pytest.mark.parametrize("path", ["raster convert", "raster reproject", "raster clip", "raster mosaic"])
def test_each_command_that_writes_a_cog_takes_profiles(path: str) -> None:
    assert options("profile=Web", path=path) == PROFILES["web"]
    assert options("PROFILE=analysis", path=path) == PROFILES["analysis"]


@pytest.mark.parametrize("profile", PROFILES)
def test_no_profile_loses_values(profile: str) -> None:
    chosen = options(f"PROFILE={profile}")
    assert chosen["COMPRESS"] not in LOSSY
    assert chosen["RESAMPLING"] == "NEAREST"


def test_caller_option_replaces_the_profile_option() -> None:
    chosen = options("PROFILE=analysis", "blocksize=256", "OVERVIEW_RESAMPLING=AVERAGE")
    assert (chosen["BLOCKSIZE"], chosen["OVERVIEW_RESAMPLING"]) == ("256", "AVERAGE")
    assert chosen["COMPRESS"] == "ZSTD"


def test_a_compression_without_a_predictor_gets_none() -> None:
    assert "PREDICTOR" not in options("PROFILE=web", "COMPRESS=webp")
    assert options("PROFILE=web", "COMPRESS=LZW")["PREDICTOR"] == "YES"


@pytest.mark.parametrize(
    ("text", "format"), [("PROFILE=fast", "COG"), ("PROFILE=", "COG"), ("PROFILE=web", "GTiff")]
)
def test_profile_unknown_to_the_format_is_refused(text: str, format: str) -> None:
    with pytest.raises(ArgumentRefused):
        options(text, format=format)


def test_the_profiles_of_gtiff_are_those_of_gdal() -> None:
    assert options("PROFILE=BASELINE", format="GTiff") == {"PROFILE": "BASELINE"}
