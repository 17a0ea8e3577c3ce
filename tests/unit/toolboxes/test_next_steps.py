"""Suggestions after a call that wrote: only those that are certain to help."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.answers.checks import checks
from gdal_mcp.toolboxes.gdal.answers.described import facts
from gdal_mcp.toolboxes.gdal.answers.next_steps import next_steps
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from tests.fuzz.kit import anything

OUT = "/maps/out {input} $HOME `id`.tif"
LARGE = {"driver": "GTiff", "size": [10_000, 800], "overviews": 0}
EMPTY = {"driver": "GPKG", "layers": [{"geometry": "Line String", "features": 0}]}


def proposed(
    producer: str, described: Mapping[str, Any], *codes: str, inputs: tuple[str, ...] = ("in.tif",)
) -> dict[str, Mapping[str, Any]]:
    row = {"path": OUT, "description": described, "checks": [{"code": code} for code in codes]}
    steps = next_steps(producer, [row, row], inputs)
    assert all(step.reason for step in steps)
    for step in steps:  # each suggestion can be called
        algorithm = packaged().algorithms[step.algorithm]
        assert bind(algorithm, step.arguments, Context(packaged())).path == step.algorithm
    return {step.algorithm: step.arguments for step in steps}


def test_a_large_raster_without_overviews_gets_some():
    assert proposed("raster mosaic", LARGE) == {"raster overview add": {"input": OUT}}


def test_other_rasters_need_none():
    for change in ({"overviews": 3}, {"overviews": None}, {"size": [4096, 4096]}, {"driver": "PNG"}):
        assert proposed("raster mosaic", LARGE | change) == {}
    for own in ("raster overview add", "raster overview delete", "raster overview refresh"):
        assert proposed(own, LARGE) == {}


def test_where_nothing_passed_the_input_is_looked_at():
    assert proposed("vector filter", EMPTY, "zero_features") == {"vector info": {"input": "in.tif"}}
    dem = {"input": "dem.tif"}
    assert proposed("raster clip", {}, "all_nodata", inputs=("dem.tif",)) == {"raster info": dem}


def test_what_is_not_certain_is_not_said():
    assert proposed("vector filter", EMPTY, "zero_features", inputs=("a.gpkg", "b.gpkg")) == {}
    assert proposed("vector filter", EMPTY, "zero_features", inputs=()) == {}
    assert proposed("raster contour", EMPTY, "zero_features") == {}
    assert proposed("raster reproject", {}, "all_nodata", "crs_missing", "extent_outside_crs") == {}


def test_step_unavailable_on_this_server_is_not_proposed():
    row = {"path": OUT, "description": LARGE, "checks": []}
    assert next_steps("raster mosaic", [row], (), {"raster info"}) == ()
    assert next_steps("raster mosaic", [row], (), {"raster overview add"}) != ()


KEYS = st.sampled_from(["driver", "size", "overviews", "layers"])


@given(st.dictionaries(KEYS, anything), anything)
def test_whatever_is_described_it_is_taken(described_facts: dict[str, Any], checked: Any):
    row = {"path": "x.tif", "description": facts(described_facts), "checks": checks(checked)}
    assert len(next_steps("vector filter", [row], ["in.gpkg"])) <= 2
