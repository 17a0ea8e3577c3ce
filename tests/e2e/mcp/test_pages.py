"""Every call that a page of the documentation shows runs, and the spellings that the pages promise are accepted."""

import csv
import json
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import inside
from tests.repo.test_docs import EXAMPLE_DATA, examples

pytestmark = pytest.mark.engine

GRID = "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n"


def test_every_call_that_a_page_shows_runs(make_place):
    ran = 0
    place = make_place(*EXAMPLE_DATA)
    before = set(place.workspace.iterdir())
    with inside(place.command("--approval", "never")) as talk:
        for page, tool, arguments in examples():
            ended = talk.call(tool, **json.loads(arguments))
            assert not ended.is_error, (page, tool, arguments, ended.structured_content)
            ran += 1
            if "zonal-stats" in arguments:
                rows = list(csv.DictReader(Path(place.path("stats.csv")).read_text().splitlines()))
                assert len({row["name"] for row in rows}) == len(rows) > 1
            for path in set(place.workspace.iterdir()) - before:
                path.unlink() if path.is_file() else None
    assert ran > 12


def test_named_inputs_and_common_spelling_are_accepted(make_place):
    place = make_place("west.tif", "east.tif", "dem.tif")
    with inside(place.command("--approval", "never")) as talk:
        result = talk.done(
            "gdal_write",
            algorithm="raster calc",
            arguments={"input": {"A": "dem.tif", "B": "dem.tif"}, "calc": ["A+B"], "output": "twice.tif"},
        )
        assert Path(result["output"]).is_file()
        both = {"input": ["west.tif", "east.tif"], "output": "merged.tif"}
        assert talk.done("gdal_merge", **both)["merged_uri"].endswith("/merged.tif")
        warped = talk.done("gdalwarp", input="dem.tif", output="warped.tif", dst_crs="EPSG:4326")
        assert warped["output_uri"].endswith("/warped.tif")
        assert talk.done("gdal_translate", input="dem.tif", output="copy.tif")["output_uri"]


def test_raster_without_crs_says_so(make_place):
    place = make_place("dem.tif")
    place.path("grid.asc").write_text(GRID)
    with inside(place.command()) as talk:
        for form in ("summary", "json"):
            result = talk.done("info", path="grid.asc", format=form)
            assert "coordinateSystem" in result
            assert result["coordinateSystem"] is None
            assert talk.done("info", path="dem.tif", format=form)["coordinateSystem"]["code"]
