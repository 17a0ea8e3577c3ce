"""Usual file name endings that GDAL does not know mean the same format wherever an extension is read."""

from dataclasses import replace

import pytest

from gdal_mcp.calls.records import media_type
from gdal_mcp.toolboxes.gdal.catalogue.endings import ENDINGS, usual_name
from gdal_mcp.toolboxes.gdal.catalogue.formats import drivers_for, lacking_by_file, usual_driver
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Kind
from gdal_mcp.toolboxes.gdal.datasets.sidecars import REPLACED, SINGLE_DATASETS

EVERY = [(extension, ending) for extension, endings in ENDINGS.items() for ending in endings]
KINDS: tuple[Kind, ...] = ("raster", "vector", "multidim")


@pytest.mark.parametrize(("extension", "ending"), EVERY)
def test_ending_is_read_as_extension_of_its_format(extension: str, ending: str):
    assert usual_name(f"folder.pq/A.b.{ending.upper()}") == f"a.b.{extension}"
    assert media_type(f"a.{ending}") != "application/octet-stream"
    for endings in (SINGLE_DATASETS["files"], REPLACED):
        assert ending.count(".") or (f".{extension}" in endings) <= (f".{ending}" in endings)


@pytest.mark.parametrize(("extension", "ending"), EVERY)
@pytest.mark.parametrize("kind", KINDS)
def test_output_ending_selects_the_format_of_its_extension(kind: Kind, extension: str, ending: str):
    if extension != "h5":  # GDAL reads and writes .h5 as different formats
        named = drivers_for(packaged(), f"a.{ending}", kind)
        assert named == drivers_for(packaged(), f"a.{extension}", kind)


def test_format_is_passed_for_endings_unknown_to_gdal():
    for name, driver in (
        ("a.pq", "Parquet"), ("a.geo.json", "GeoJSON"), ("a.jsonl", "GeoJSONSeq"), ("a.j2c", "JP2OpenJPEG"),
        ("a.nc4", "netCDF"), ("a.tif", None), ("a.j2k", None), ("a.json", None), ("pq", None),
        ("a.ter", "Terragen"), ("ter", None),
    ):  # fmt: skip
        assert usual_driver(packaged(), name, None) == driver, name


def test_missing_format_is_recognised_by_other_endings_too():
    few = replace(
        packaged(), drivers=tuple(driver for driver in packaged().drivers if "h5" not in driver.extensions)
    )
    lacks = lacking_by_file(few, "a.he5")
    assert lacks is not None
    assert lacks.name == "HDF5"
