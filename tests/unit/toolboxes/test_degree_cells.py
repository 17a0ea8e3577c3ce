"""Formats of cells of one degree get exactly such cells, under the right name."""

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Scope
from gdal_mcp.toolboxes.gdal.catalogue.options import check_option
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.service import findings


def cell(west: float, south: float, columns: int, rows: int) -> DatasetFacts:
    x, y = 0.5 / (columns - 1), 0.5 / (rows - 1)
    extent = (west - x, south - y, west + 1 + x, south + 1 + y)
    return DatasetFacts(
        "GTiff",
        "raster",
        1,
        columns,
        rows,
        1,
        "Int16",
        crs="EPSG:4326",
        has_crs=True,
        degrees=True,
        extent=extent,
    )


def refused(raster: DatasetFacts, driver: str, output: str) -> bool:
    call = AlgorithmCall("raster convert", {}, (raster,), driver=driver, output=output)
    return any(finding.refuses for finding in findings(call) if finding.code == "format_demands")


@pytest.mark.parametrize(
    ("west", "south", "name"),
    [(8, 47, "N47E008"), (-71, -34, "S34W071"), (-1, 0, "N00W001"), (0, -1, "S01E000"), (179, 5, "n05e179")],
)
def test_a_tile_is_named_after_its_south_west_corner(west: int, south: int, name: str):
    tile = cell(west, south, 3601, 3601)
    assert not refused(tile, "SRTMHGT", f"maps/{name}.hgt")
    assert refused(tile, "SRTMHGT", "maps/dem.hgt")
    assert refused(cell(west, south + 1, 3601, 3601), "SRTMHGT", f"maps/{name}.hgt")


def test_only_whole_cells_of_a_known_size_are_written():
    assert not refused(cell(8, 47, 121, 121), "DTED", "a.dt0")
    assert not refused(cell(8, 61, 61, 121), "DTED", "a.dt0")
    assert refused(cell(8, 47, 121, 121), "SRTMHGT", "N47E008.hgt")
    assert refused(cell(8.3, 47, 1201, 1201), "DTED", "a.dt1")
    assert refused(cell(8, 47, 1200, 1200), "DTED", "a.dt1")


def test_option_of_a_format_with_the_same_extension_leads_there():
    with pytest.raises(ArgumentRefused) as refusal:
        check_option(packaged(), Scope.CREATION, ["Leveller"], "MINUSERPIXELVALUE=0")
    assert "Terragen" in refusal.value.suggestion
