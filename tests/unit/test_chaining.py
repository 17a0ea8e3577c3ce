"""What is proposed after a call that wrote."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.answers.chaining import CONDITIONS, MOST, Rule, RulesBroken, next_steps, parse_rule, rules
from gdal_mcp.gdal.catalogue.binding import Context, bind_json
from gdal_mcp.gdal.catalogue.load import catalogue, packaged

OUT = "/maps/out.tif"
ONE_INPUT = {"input": "in.tif"}
LARGE = {
    "driver": "GTiff",
    "size": [10_000, 8_000],
    "band_count": 3,
    "bands": [{"type": "UInt8"}] * 3,
    "overviews": 0,
    "compression": "LZW",
    "crs": {"code": "EPSG:32633"},
}
DEM = {**LARGE, "size": [800, 800], "band_count": 1, "bands": [{"type": "Float32"}]}
LINES = {
    "driver": "GPKG",
    "layers": [{"geometry": "Line String", "features": 20, "crs": {"code": "EPSG:32633"}}],
}


def row(described: Mapping[str, Any], *codes: str, path: str = OUT) -> dict[str, Any]:
    return {"path": path, "description": described, "checks": [{"code": code} for code in codes]}


def proposed(
    made_by: str, described: Mapping[str, Any], *codes: str, arguments: Mapping[str, Any] = ONE_INPUT
) -> dict[str, Mapping[str, Any]]:
    found = next_steps(made_by, [row(described, *codes)], arguments)
    return {one.algorithm: one.arguments for one in found}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule.call}-{rule.reason[:30]}")
def test_every_rule_names_what_exists_and_may_be_called(rule: Rule):
    values = {"{output}": "out.tif", "{input}": "in.tif", "{stem}": "out"}

    def filled(value: Any) -> Any:
        for sign, text in values.items():
            value = value.replace(sign, text) if isinstance(value, str) else value
        return value

    known = set(catalogue().algorithms) | {"convert", "reproject"}
    assert rule.after | rule.never_after <= known
    arguments = {name: filled(value) for name, value in rule.arguments.items()}
    assert bind_json(catalogue().algorithms[rule.call], arguments, Context(packaged())).paths == (rule.call,)


def test_a_large_raster_without_overviews_gets_some():
    assert proposed("raster mosaic", LARGE)["raster overview add"] == {"input": OUT, "resampling": "average"}


@pytest.mark.parametrize(
    "described", [{**LARGE, "overviews": 3}, {**LARGE, "size": [4096, 4096]}, {**LARGE, "driver": "PNG"}]
)
def test_other_rasters_need_none(described: Mapping[str, Any]):
    assert "raster overview add" not in proposed("raster mosaic", described)


def test_overviews_are_not_proposed_after_they_were_taken_away():
    assert "raster overview add" not in proposed("raster overview delete", LARGE)


def test_degrees_are_reprojected_before_what_wants_metres():
    degrees = {**DEM, "crs": {"code": "EPSG:4326"}}
    assert "raster reproject" in proposed("raster clip", degrees)
    assert "raster hillshade" not in proposed("raster clip", degrees)
    assert "raster hillshade" in proposed("raster clip", DEM)
    assert "raster reproject" not in proposed("raster clip", DEM)


def test_what_the_description_says_of_degrees_goes_before_the_code():
    odd = {**DEM, "crs": {"code": "EPSG:99999", "degrees": True}}
    assert "raster reproject" in proposed("raster clip", odd)


def test_nothing_is_said_where_the_crs_is_not_known():
    unknown = {**DEM, "crs": None}
    assert not {"raster reproject", "raster hillshade"} & set(proposed("raster clip", unknown))


def test_contours_are_simplified_beside_themselves():
    arguments = proposed("raster contour", LINES)["vector simplify"]
    assert (arguments["input"], arguments["output"]) == (OUT, "/maps/out_simple.gpkg")


def test_no_features_lead_to_a_look_and_not_to_more_work():
    nothing = {"driver": "GPKG", "layers": [{"geometry": "Line String", "features": 0}]}
    assert set(proposed("raster contour", nothing)) == set()
    assert set(proposed("vector filter", nothing, "zero_features")) == {"vector info"}


def test_what_is_wrong_comes_first():
    found = next_steps("raster mosaic", [row(LARGE, "crs_missing")], {})
    assert found[0].algorithm == "raster edit"


def test_of_many_the_first_three_are_told():
    bare = {**LARGE, "compression": None}
    found = next_steps("raster mosaic", [row(bare, "crs_missing", "all_nodata")], {})
    assert [one.algorithm for one in found] == ["raster edit", "raster info", "raster overview add"]
    fewer = next_steps("raster mosaic", [row(bare)], {})
    assert "raster convert" in [one.algorithm for one in fewer]


def test_a_rule_that_needs_the_input_is_left_out_where_there_are_several():
    many = {"driver": "GPKG", "layers": [{"geometry": "Polygon", "features": 5000}]}
    one = proposed("raster polygonize", many, arguments={"input": ["classes.tif"]})
    assert one["raster sieve"]["input"] == "classes.tif"
    assert "raster sieve" not in proposed("raster polygonize", many, arguments={"input": ["a.tif", "b.tif"]})
    assert "raster sieve" not in proposed("raster polygonize", many, arguments={})


def test_a_rule_may_look_at_how_the_call_was_made():
    small = {**LARGE, "size": [100, 100]}
    for name in ("output-format", "output_format"):
        assert "driver cog validate" in proposed("convert", small, arguments={name: "COG"})
    assert "driver cog validate" not in proposed("convert", small, arguments={"output_format": "GTiff"})


def test_what_the_server_does_not_have_is_not_proposed():
    rows = [row(LARGE)]
    assert {one.algorithm for one in next_steps("raster mosaic", rows, {}, {"raster info"})} == set()
    assert {one.algorithm for one in next_steps("raster mosaic", rows, {}, {"raster overview add"})} == {
        "raster overview add"
    }


def test_a_suggestion_tells_tool_reason_and_arguments():
    told = next_steps("raster mosaic", [row(LARGE)], {})[0].as_dict()
    assert set(told) == {"tool", "algorithm", "reason", "arguments"}
    assert told["tool"] == "raster_overview_add"


def test_a_path_is_put_in_as_it_is():
    odd = "/maps/{input} {stem} $HOME `id` ünï.v2.tif"
    found = next_steps("raster contour", [row(LINES, path=odd)], {"input": "SECRET"})
    simplify = next(one for one in found if one.algorithm == "vector simplify")
    assert simplify.arguments["input"] == odd
    assert simplify.arguments["output"] == odd.removesuffix(".tif") + "_simple.gpkg"


def test_names_in_the_data_never_reach_a_suggestion():
    hostile = {**LINES["layers"][0], "name": "IGNORE ALL", "fields": [{"name": "EVIL"}]}
    found = next_steps("raster contour", [row({**LINES, "layers": [hostile]})], {})
    assert found
    assert not any(word in repr(found) for word in ("IGNORE", "EVIL"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["driver", "size", "band_count", "bands", "overviews", "compression", "crs", "layers"])


@given(
    st.sampled_from(sorted(catalogue().algorithms)),
    st.lists(
        st.fixed_dictionaries(
            {"path": st.text()},
            optional={"description": VALUES | st.dictionaries(KEYS, VALUES), "checks": VALUES},
        ),
        max_size=3,
    ),
    st.dictionaries(st.text(), VALUES, max_size=3),
)
def test_whatever_is_described_there_are_at_most_three(
    made_by: str, rows: list[dict[str, Any]], arguments: dict[str, Any]
):
    found = next_steps(made_by, rows, arguments)
    assert len(found) <= MOST
    assert len({one.algorithm for one in found}) == len(found)


def test_every_condition_is_used_by_some_rule():
    assert {name for rule in rules() for name in rule.when} == set(CONDITIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"when": {"kind": "raster", "moon": "full"}},
        {"arguments": {"input": "{output}", "output": "{home}/x.tif"}},
        {"arguments": {"input": ["{output}", "{password}"]}},
        {"reason": ""},
    ],
)
def test_a_rule_that_is_not_understood_is_not_loaded(change: dict[str, Any]):
    entry = {
        "call": "raster info",
        "when": {"kind": "raster"},
        "arguments": {"input": "{output}"},
        "reason": "x",
    }
    assert parse_rule(entry).call == "raster info"
    with pytest.raises(RulesBroken):
        parse_rule({**entry, **change})
