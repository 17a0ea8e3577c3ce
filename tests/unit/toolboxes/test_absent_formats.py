"""Formats that GDAL has and an image lacks: recognised by name, by extension and by the first bytes of a file."""

from dataclasses import replace

import pytest

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import lacking_by_file, lacking_by_name, output_format
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.discovery.formats import formats
from gdal_mcp.toolboxes.gdal.preflight.description import absent_format


def without(*names: str) -> Catalogue:
    """The packaged catalogue of an image that also lacks these."""
    drivers = tuple(driver for driver in packaged().drivers if driver.name not in names)
    return replace(packaged(), drivers=drivers)


SMALL = without("Parquet", "netCDF", "HDF5", "HDF5Image", "PMTiles", "JPEGXL", "BAG", "GMT")


def test_absent_format_is_recognised_by_extension_or_signature():
    bare = without(*(driver.name for driver in packaged().some_builds))
    for driver in packaged().some_builds:
        assert lacking_by_name(bare, driver.name.upper()) == driver
        for at, start in driver.starts:
            assert lacking_by_file(bare, "x.dat", bytes(at) + start) == driver
        for extension in driver.extensions:
            lacking = lacking_by_file(bare, f"folder/X.{extension.upper()}")
            assert lacking is None or extension in lacking.extensions


def test_what_the_image_has_is_never_called_absent():
    for driver in packaged().some_builds:
        if driver.name.lower() in packaged().driver_names:
            assert lacking_by_name(packaged(), driver.name) is None
            for at, start in driver.starts:
                lacking = lacking_by_file(packaged(), "x.dat", bytes(at) + start)
                assert lacking is None or lacking.name != driver.name


def test_ordinary_file_name_is_not_an_absent_format():
    for name in ("x.tif", "x.gpkg", "x", ".kea", "x.unheard-of", "kea", "folder.kea/x"):
        assert lacking_by_file(SMALL, name) is None or name == ".kea", name


def test_absent_output_format_is_refused_however_named():
    algorithm = SMALL.algorithms["vector convert"]
    for arguments in ({"output": "a.parquet"}, {"output": "a.x", "output-format": "parquet"}):
        with pytest.raises(ArgumentRefused) as refused:
            bind(algorithm, {"input": "a.gpkg", **arguments}, Context(SMALL))
        assert refused.value.code is Code.FORMAT_UNAVAILABLE
        assert "GPKG" in refused.value.suggestion
    bind(algorithm, {"input": "a.gpkg", "output": "a.parquet", "output-format": "GPKG"}, Context(SMALL))


def test_a_dataset_format_is_not_a_report_format():
    algorithm = SMALL.algorithms["raster info"]
    bound = bind(algorithm, {"input": "a.tif", "output-format": "JSON"}, Context(SMALL))
    assert bound.get("output-format") == ("json",)
    for named in ("netCDF", "GTiff"):
        with pytest.raises(ArgumentRefused) as refused:
            bind(algorithm, {"input": "a.tif", "output-format": named}, Context(SMALL))
        assert refused.value.code is Code.INVALID_ARGUMENT
    convert = packaged().algorithms["vector convert"]
    bind(convert, {"input": "a.gpkg", "output": "a.parquet"}, Context(packaged()))


def test_unknown_format_name_is_an_invalid_argument():
    with pytest.raises(ArgumentRefused) as refused:
        output_format(SMALL, "Parket", "vector")
    assert refused.value.code is Code.INVALID_ARGUMENT


def test_formats_tells_what_to_write_instead():
    answer = formats(SMALL, None, "parquet")
    assert (answer["available"], answer["instead"]) == (False, ["GPKG", "FlatGeobuf", "GeoJSON"])
    assert "available" not in formats(packaged(), None, "Parquet")


def test_malformed_worker_answer_is_ignored():
    assert absent_format(SMALL, "x", {"head": b"PAR1".hex()}) is not None
    for row in (None, [], {"head": None}, {"head": "PAR1"}, {"head": ""}, {"head": "50" * 17}, {"facts": {}}):
        assert absent_format(SMALL, "x.tif", row) is None
