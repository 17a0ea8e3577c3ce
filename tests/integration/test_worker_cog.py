"""Validity of Cloud Optimized GeoTIFFs, as the container reports it for written files."""

from pathlib import Path

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.profiles import PROFILES
from tests.integration.worker_kit import MAKER, Box, described
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PROGRAM = r"""
rng = np.random.default_rng(5)
raster("dem.tif", rng.random((1100, 1300)).astype("float32"), nodata=-1)
raster("plain.tif", np.arange(600, dtype="int16").reshape(20, 30))
gdal.Translate(out + "good.tif", out + "dem.tif", format="COG")
# changed afterwards: GDAL then declares the layout broken
gdal.Translate(out + "edited.tif", out + "dem.tif", format="COG")
edited = gdal.OpenEx(out + "edited.tif", gdal.OF_UPDATE, open_options=["IGNORE_COG_LAYOUT_BREAK=YES"])
edited.SetMetadataItem("AUTHOR", "somebody"); edited = None
# one byte of the leader of the last block
data = bytearray(open(out + "good.tif", "rb").read())
good = gdal.Open(out + "good.tif")
offset = int(good.GetRasterBand(1).GetMetadataItem("BLOCK_OFFSET_2_2", "TIFF"))
data[offset - 4] ^= 0xFF
open(out + "leader.tif", "wb").write(data)
"""
NO_SCRIPT = "import sys; sys.modules['osgeo_utils.samples'] = None"


@pytest.fixture(scope="session")
def cogs(oracle: Oracle) -> Path:
    folder = oracle.folder("cogs")
    oracle.python(MAKER + PROGRAM, str(folder))
    return folder


def test_each_profile_makes_a_valid_cog(box: Box, cogs: Path) -> None:
    for name, options in PROFILES.items():
        output = cogs / f"{name}.tif"
        words = [f"--creation-option={key}={value}" for key, value in options.items()]
        done = box.gdal(
            *("raster", "convert", "--output-format=COG", *words, cogs / "dem.tif", output),
            **described(str(output), str(cogs / "dem.tif")),
        )
        assert done.facts["valid_cog"] is True
        assert (done.facts["block_size"], done.facts["compression"]) == ([512, 512], options["COMPRESS"])
        assert done.facts["overviews"] > 0
        assert not {"cog_invalid", "cog_unchecked", "classes_mixed"} & set(done.codes)


def test_analysis_keeps_grid_and_values(box: Box, cogs: Path) -> None:
    [before, after] = box.run(described(str(cogs / "dem.tif")), described(str(cogs / "analysis.tif")))
    assert after.facts["extent"] == before.facts["extent"]
    assert [(band["min"], band["max"]) for band in after.facts["bands"]] == [
        (band["min"], band["max"]) for band in before.facts["bands"]
    ]


def test_file_that_became_invalid_is_reported(box: Box, cogs: Path) -> None:
    written = {"program": "version", "options": ["--output-format=COG"]}
    edited, leader = box.run(
        {**described(str(cogs / "edited.tif")), **written}, described(str(cogs / "leader.tif"))
    )
    for done in (edited, leader):
        assert done.facts["valid_cog"] is False
        assert "cog_invalid" in done.codes


def test_image_without_validation_script_leaves_it_open(box: Box, cogs: Path) -> None:
    [done] = box.run(described(str(cogs / "good.tif")), first=NO_SCRIPT)
    assert done.facts["valid_cog"] is None
    assert "cog_unchecked" in done.codes


def test_another_geotiff_is_not_examined(box: Box, cogs: Path) -> None:
    [done] = box.run(described(str(cogs / "plain.tif")))
    assert "valid_cog" not in done.facts
    assert not {"cog_invalid", "cog_unchecked"} & set(done.codes)
