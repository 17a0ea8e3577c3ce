"""How to test a workflow file: check it, run it, and look at what it wrote."""

from pathlib import Path

from gdal_mcp.testing.workflows import WorkflowRunner

SHADED = {
    "workflow": 1,
    "name": "shaded",
    "parameters": {"dem": {"type": "path", "default": "dem.tif"}},
    "steps": [
        {
            "id": "shade",
            "tool": "raster_hillshade",
            "arguments": {"input": "${parameters.dem}", "output": "shade.tif"},
        }
    ],
    "outputs": {"shade": {"from": "${steps.shade}", "to": "relief.tif"}},
}


def test_it_is_found_right_before_it_runs(gdal_mcp_workflow: WorkflowRunner) -> None:
    assert gdal_mcp_workflow.check(SHADED)["state"] == "fine"
    assert gdal_mcp_workflow.check(SHADED, dem="missing.tif")["state"] == "wrong"


def test_it_writes_the_relief(gdal_mcp_workflow: WorkflowRunner, gdal_mcp_workspace: Path) -> None:
    gdal_mcp_workflow.run(SHADED)
    assert (gdal_mcp_workspace / "relief.tif").stat().st_size > 0
