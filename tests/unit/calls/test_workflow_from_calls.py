"""A workflow made from recorded calls runs them again on other files."""

import pytest

from gdal_mcp.calls.workflows.document import WorkflowInvalid, bind
from gdal_mcp.calls.workflows.from_calls import RecordedCall, workflow_of

SLOPE = RecordedCall(
    "1",
    "raster_slope",
    {"input": "dem.tif", "output": "slope.tif", "overwrite": True},
    ("/w/dem.tif",),
    ("/w/slope.tif",),
)
STATS = RecordedCall(
    "2",
    "raster_zonal_stats",
    {"input": "./slope.tif", "zones": "/w/zones.gpkg", "output": "stats.gpkg", "stat": ["mean"]},
    ("/w/slope.tif", "/w/zones.gpkg"),
    ("/w/stats.gpkg",),
)


def test_paths_become_parameters_and_intermediate_files_references():
    document = workflow_of([SLOPE, STATS], "slope_by_zone")
    assert [step.arguments for step in document.steps] == [
        {"input": "${parameters.dem}", "output": "slope.tif"},
        {
            "input": "${steps.raster_slope}",
            "zones": "${parameters.zones}",
            "output": "stats.gpkg",
            "stat": ["mean"],
        },
    ]
    assert {name: parameter.default for name, parameter in document.parameters.items()} == {
        "dem": "/w/dem.tif",
        "zones": "/w/zones.gpkg",
        "stats_output": "/w/stats.gpkg",
    }
    assert [output.source for output in document.outputs.values()] == ["${steps.raster_zonal_stats}"]


def test_it_runs_on_other_files():
    workflow = bind(workflow_of([SLOPE, STATS], "a"), {"dem": "other.tif", "stats_output": "new.gpkg"})
    assert workflow.arguments("raster_slope", {})["input"] == "other.tif"
    assert [target for _, target, _ in workflow.published] == ["new.gpkg"]


def test_text_resembling_a_reference_stays_text():
    call = RecordedCall("1", "query", {"sql": "select '${steps.x}' from a", "path": "a.gpkg"}, ("/w/a.gpkg",))
    workflow = bind(workflow_of([call], "a"), {})
    assert workflow.arguments("query", {})["sql"] == call.arguments["sql"]


def test_equal_tools_and_file_stems_get_distinct_names():
    calls = [
        RecordedCall(
            str(n),
            "convert",
            {"input": f"{n}/a.tif", "output": f"{n}.tif"},
            (f"/w/{n}/a.tif",),
            (f"/w/{n}.tif",),
        )
        for n in range(3)
    ]
    document = workflow_of(calls, "a")
    assert len({step.id for step in document.steps}) == 3
    assert len(document.outputs) == 3


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [SLOPE, SLOPE],
        [RecordedCall("1", "vector_edit", {"input": "a.gpkg"}, ("/w/a.gpkg",), ("/w/a.gpkg",))],
    ],
)
def test_calls_that_change_files_in_place_are_refused(calls):
    with pytest.raises(WorkflowInvalid):
        workflow_of(calls, "a")
