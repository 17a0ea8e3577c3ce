"""Formats and their options, as clients receive them."""

import json

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import output_format
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Kind, Scope
from gdal_mcp.toolboxes.gdal.catalogue.options import decide
from gdal_mcp.toolboxes.gdal.discovery.formats import formats

KINDS: tuple[Kind, ...] = ("raster", "vector", "multidim")


def can(rows: list[list[str]], name: str) -> str:
    return next(row[1] for row in rows if row[0] == name)


def test_the_table_of_all_formats_is_short():
    table = formats(packaged())
    assert len(json.dumps(table)) < 12_000
    assert len(table["formats"]) > 100


def test_abilities_are_told():
    rows = formats(packaged())["formats"]
    assert can(rows, "GTiff") == "r:rwu"
    assert can(rows, "COG") == "r:w"
    assert "v:rwu" in can(rows, "GPKG")
    assert "m:r" in can(rows, "netCDF")


def test_listed_writable_formats_are_exactly_the_writable_ones():
    for kind in KINDS:
        listed = {row[0] for row in formats(packaged(), kind)["formats"] if "w" in row[1]}
        for driver in packaged().drivers:
            if driver.name in listed:
                assert output_format(packaged(), driver.name, kind) == driver.name
            else:
                with pytest.raises(ArgumentRefused):
                    output_format(packaged(), driver.name, kind)


def test_a_format_tells_its_options_with_their_choices():
    answer = formats(packaged(), name="gtiff")
    compress = next(option for option in answer["options"]["creation"] if option["name"] == "COMPRESS")
    assert answer["name"] == "GTiff"
    assert {"LZW", "DEFLATE"} <= set(compress["choices"])


def test_every_option_is_listed_once_with_its_decision():
    for driver in packaged().drivers:
        answer = formats(packaged(), name=driver.name)
        for scope in (Scope.CREATION, Scope.LAYER, Scope.OPEN):
            specs = driver.options.get(scope, ())
            allowed = {option["name"] for option in answer["options"].get(scope.value, [])}
            refused = answer["refused_options"].get(scope.value, {})
            assert allowed | set(refused) == {spec.name for spec in specs}
            assert all(refused.values())
            assert all((decide(packaged(), driver.name, scope, spec).shape is None) == (spec.name in refused) for spec in specs)  # fmt: skip


def test_absent_format_is_refused_without_repeating_its_text():
    for name in ["PostgreSQL", "WMS", "nosuchformat", "", "GTiff\n", "x" * 10_000]:
        with pytest.raises(ArgumentRefused) as refused:
            formats(packaged(), name=name)
        assert len(refused.value.message + refused.value.suggestion) < 400


def test_formats_that_are_never_written_say_why():
    assert formats(packaged(), name="MEM")["never_written"]
    assert "never_written" not in formats(packaged(), name="GTiff")
