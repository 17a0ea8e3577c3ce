"""The catalogue is complete, closed, and refuses to load when it is not."""

import copy
import json
import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from gdal_mcp.errors import Code
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused, CatalogueBroken
from gdal_mcp.gdal.catalogue.formats import driver_for, drivers_for, input_format, output_format
from gdal_mcp.gdal.catalogue.load import build, packaged, packaged_text
from gdal_mcp.gdal.catalogue.model import Argument, Scope
from gdal_mcp.gdal.environment import SKIPPED_DRIVERS

Files = dict[str, dict[str, Any]]


@pytest.fixture
def parts() -> Files:
    """The packaged data and rules, as `build` takes them."""
    folder = files("gdal_mcp.gdal.catalogue").joinpath("data")
    rules = {
        name: tomllib.loads(folder.joinpath(f"{name}.toml").read_text())
        for name in ("roles", "options", "formats")
    }
    return copy.deepcopy({"facts": json.loads(packaged_text()), **rules})


def arguments() -> list[Argument]:
    return [argument for algorithm in packaged().algorithms.values() for argument in algorithm.arguments]


def test_the_data_names_its_generator_and_is_small() -> None:
    assert json.loads(packaged_text())["generator"].startswith("gdal-mcp catalogue build")
    assert len(packaged_text()) < 1_200_000


def test_the_data_was_made_with_the_drivers_off_that_are_off_in_every_call() -> None:
    assert set(packaged().skipped) == set(SKIPPED_DRIVERS)
    assert not {driver.name for driver in packaged().drivers} & set(SKIPPED_DRIVERS)


def test_a_name_means_one_argument() -> None:
    for algorithm in packaged().algorithms.values():
        names = [name for argument in algorithm.arguments for name in (argument.name, *argument.aliases)]
        assert len(names) == len(set(names))


def test_a_known_name_with_another_type_stops_the_catalogue(parts: Files) -> None:
    every = [one for entry in parts["facts"]["algorithms"] for one in entry["arguments"]]
    next(one for one in every if one["name"] == "append")["type"] = "dataset"
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_a_rule_that_says_too_little_stops_the_catalogue(parts: Files) -> None:
    for rule in [
        {"role": "value", "types": ["string"], "reason": "no check"},
        {"role": "value", "types": ["string"], "check": "crs", "reason": ""},
        {"role": "harmless", "types": ["string"], "check": "crs", "reason": "no such role"},
        {"types": ["string"], "check": "crs", "reason": "no role"},
    ]:
        parts["roles"]["shared"]["input-crs"] = rule
        with pytest.raises(CatalogueBroken):
            build(**parts)


def test_a_dataset_as_a_plain_value_stops_the_catalogue(parts: Files) -> None:
    parts["roles"]["shared"]["like"]["role"] = "value"
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_two_rules_for_one_option_stop_the_catalogue(parts: Files) -> None:
    parts["options"]["permit"].append({**parts["options"]["refuse"][0], "kind": "label"})
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_every_option_rule_has_a_reason(parts: Files) -> None:
    for name in ["permit", "refuse"]:
        assert [entry for entry in parts["options"][name] if not entry.get("reason")] == []


def test_patterns_are_valid_and_none_lets_a_path_through(parts: Files) -> None:
    patterns = [entry["pattern"] for entry in parts["options"]["permit"] if "pattern" in entry]
    assert patterns
    for pattern in patterns:
        assert not re.fullmatch(pattern, "/etc/passwd")
        assert not re.fullmatch(pattern, "@x")


def test_the_name_of_an_output_says_the_driver() -> None:
    for name, kind, driver in [
        ("a.tif", "raster", "GTiff"), ("A.TIFF", "raster", "GTiff"), ("a.b.png", "raster", "PNG"),
        ("a.jpg", "raster", "JPEG"), ("a.vrt", "raster", "VRT"), ("a.nc", "raster", "netCDF"),
        ("a.img", "raster", "HFA"), ("a.gpkg", "raster", "GPKG"), ("a.gpkg", "vector", "GPKG"),
        ("a.json", "vector", "GeoJSON"), ("a.geojson", "vector", "GeoJSON"),
        ("a.shp", "vector", "ESRI Shapefile"), ("a.csv", "vector", "CSV"),
        ("a.fgb", "vector", "FlatGeobuf"), ("a.shp.zip", "vector", "ESRI Shapefile"),
        ("a.gdalg.json", "raster", "GDALG"), ("a.gdalg.json", "vector", "GDALG"), ("a.tif", "vector", None),
        ("a.geojson", "raster", None), ("a", "raster", None), ("tif", "raster", None),
        (".tif/a", "raster", None), ("a.", "raster", None), ("", "raster", None),
    ]:  # fmt: skip
        assert driver_for(packaged(), name, kind) == driver


def test_without_a_kind_the_name_says_every_driver_that_may_write_it() -> None:
    assert drivers_for(packaged(), "a.gpkg", None) == ("GPKG",)
    assert drivers_for(packaged(), "a.tif", None) == ("GTiff",)
    assert drivers_for(packaged(), "a.geojson", None) == ("GeoJSON",)
    assert drivers_for(packaged(), "a.unheard-of", None) == ()
    assert driver_for(packaged(), "a.gpkg", None) == "GPKG"


def test_a_format_that_can_be_written_passes_in_gdals_spelling() -> None:
    for name, kind, canonical in [
        ("gtiff", "raster", "GTiff"), ("cog", "raster", "COG"), ("geojson", "vector", "GeoJSON"),
        ("esri shapefile", None, "ESRI Shapefile"), ("VRT", "raster", "VRT"), ("PDF", "raster", "PDF"),
        ("mbtiles", "vector", "MBTiles"), ("GDALG", "raster", "GDALG"), ("GDALG", "vector", "GDALG"),
        ("netCDF", "multidim", "netCDF"),
    ]:  # fmt: skip
        assert output_format(packaged(), name, kind) == canonical


def test_a_format_that_cannot_or_must_not_be_written_is_refused() -> None:
    for name, kind in [
        ("MEM", "raster"), ("memory", "vector"), ("stream", "raster"), ("stream", None),
        ("GeoJSON", "raster"), ("PNG", "vector"), ("LIBERTIFF", "raster"), ("GTI", "raster"),
        ("", "raster"), ("GTiff\n", "raster"), ("GTiff ", "raster"), ("/vsistdout/", "raster"),
        ("x" * 100, None),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            output_format(packaged(), name, kind)


def test_network_and_database_formats_are_a_matter_of_the_network() -> None:
    for name in ["PostgreSQL", "postgisraster", "WFS", "ODBC", "Elasticsearch", "GPSBabel", "HTTP"]:
        for check in (output_format, input_format):
            with pytest.raises(ArgumentRefused) as caught:
                check(packaged(), name, None)
            assert caught.value.code == Code.NETWORK_BLOCKED


def test_an_input_format_is_one_that_reads_that_kind() -> None:
    assert input_format(packaged(), "csv", "vector") == "CSV"
    assert input_format(packaged(), "libertiff", "raster") == "LIBERTIFF"
    with pytest.raises(ArgumentRefused):
        input_format(packaged(), "CSV", "raster")


def test_every_driver_that_may_be_written_has_a_canonical_name() -> None:
    for driver in packaged().drivers:
        if driver.writes("raster") and driver.name.lower() not in packaged().unwritten:
            assert output_format(packaged(), driver.name.upper(), "raster") == driver.name


def test_options_are_read_whole() -> None:
    gtiff = packaged().driver_names["gtiff"]
    zlevel = next(spec for spec in gtiff.options[Scope.CREATION] if spec.name == "ZLEVEL")
    assert (zlevel.minimum, zlevel.maximum) == (1, 12)
    nitf = packaged().driver_names["nitf"]
    assert next(spec for spec in nitf.options[Scope.CREATION] if spec.name == "FSCLAS").max_letters == 1
