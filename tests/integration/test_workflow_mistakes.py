"""Mistakes in a later step are found in the predicted outputs of earlier steps, before the first step runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.testing.client import CallFailed
from tests.integration.workflow_kit import events, files, make_ground, serving

pytestmark = pytest.mark.engine

REMOTE = "maps.example.org"  # no server listens there


def step(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool, "arguments": arguments}


def workflow(*steps: dict[str, Any], to: str = "out", **more: Any) -> dict[str, Any]:
    last = steps[-1]
    end = str(last["arguments"]["output"]).rpartition(".")[2]
    outputs = {"out": {"from": f"${{steps.{last['id']}}}", "to": f"{to}.{end}"}}
    return {"workflow": 1, "name": "planted", "steps": list(steps), "outputs": outputs, **more}


NDVI = step(
    "ndvi",
    "raster_calc",
    input=["R=red_2023.asc", "N=nir_2023.asc"],
    calc=["(N-R)/(N+R)"],
    output_data_type="Float32",
    output="ndvi.tif",
)
LINES = step(
    "lines", "raster_contour", input="dem.asc", interval=10, elevation_name="metres", output="lines.gpkg"
)
POINTS = step(
    "points",
    "query_to_file",
    inputs=["addresses.csv"],
    sql="SELECT name, MakePoint(CAST(lon AS REAL), CAST(lat AS REAL), 4326) AS geom FROM addresses",
    output="points.gpkg",
)
DEGREES = step(
    "degrees",
    "query_to_file",
    inputs=["districts.geojson"],
    sql="SELECT district, ST_Transform(geom, 4326) AS geom FROM districts",
    output="degrees.gpkg",
)
RASTER = step(
    "degrees", "reproject", input="dem.asc", dst_crs="EPSG:4326", resampling="bilinear", output="degrees.tif"
)

# the mistake; the workflow, the step, and the code of the check, "" if the arguments themselves are refused
WRONG: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "zones in another CRS": (workflow(DEGREES, step("stats", "raster_zonal_stats", input="dem.asc", zones="${steps.degrees}", stat=["mean"], output="stats.csv")), "stats", "other_crs"),
    "a join of two CRSs": (workflow(POINTS, step("sums", "query_to_file", inputs=["${steps.points}", "districts.geojson"], sql="SELECT d.district AS d, count(*) AS n FROM districts d JOIN points p ON ST_Contains(d.geom, p.geom) GROUP BY 1", output="sums.csv")), "sums", "crs_mismatch"),
    "a band that a formula does not make": (workflow(NDVI, step("second", "raster_select", input="${steps.ndvi}", band=["2"], output="second.tif")), "second", "band_missing"),
    "a field that a selection left out": (workflow(step("few", "vector_select", input="parcels.geojson", fields=["parcel", "_ogr_geometry_"], output="few.gpkg"), step("whole", "vector_combine", input="${steps.few}", group_by=["district"], output="whole.gpkg")), "whole", "field_missing"),
    "a column that a query did not give": (workflow(DEGREES, step("again", "query_to_file", inputs=["${steps.degrees}"], sql="SELECT name, geom FROM degrees", output="again.gpkg")), "again", "field_missing"),
    "a condition on a field under its old name": (workflow(LINES, step("high", "vector_filter", input="${steps.lines}", where="elevation > 320", output="high.gpkg")), "high", "field_missing"),
    "lines as zones": (workflow(LINES, step("stats", "raster_zonal_stats", input="dem.asc", zones="${steps.lines}", stat=["mean"], output="stats.csv")), "stats", "not_polygons"),
    "points to cut with": (workflow(POINTS, step("utm", "vector_reproject", input="${steps.points}", dst_crs="EPSG:32633", output="utm.gpkg"), step("cut", "raster_clip", input="dem.asc", like="${steps.utm}", output="cut.tif")), "cut", "not_polygons"),
    "an output that replaces an input": (workflow(NDVI, step("copy", "convert", input="${steps.ndvi}", output="copy.asc"), to="red_2023"), "copy", ""),
    "an output in a folder": (workflow(NDVI, step("copy", "convert", input="${steps.ndvi}", output="made/copy.tif")), "copy", "output_in_folder"),
}  # fmt: skip

# as above; found, shown in the question, and left to the person
SHOWN: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "a distance in degrees": (workflow(DEGREES, step("near", "vector_buffer", input="${steps.degrees}", distance=100, output="near.gpkg")), "near", "units_in_degrees"),
    "an area in degrees": (workflow(DEGREES, step("areas", "query_to_file", inputs=["${steps.degrees}"], sql="SELECT district, ST_Area(geom) AS area FROM degrees", output="areas.csv")), "areas", "units_in_degrees"),
    "a box in degrees on metres": (workflow(step("up", "raster_resize", input="dem.asc", size=[64, 64], resampling="bilinear", output="up.tif"), step("cut", "raster_clip", input="${steps.up}", bbox=[15.0, 46.9, 15.01, 47.0], output="cut.tif")), "cut", "no_overlap"),
    "metres as the size of cells in degrees": (workflow(RASTER, step("coarse", "raster_resize", input="${steps.degrees}", resolution=["90", "90"], resampling="average", output="coarse.tif")), "coarse", "resolution_in_metres"),
    "a nodata value that bytes cannot hold": (workflow(step("up", "raster_resize", input="dem.asc", size=[64, 64], resampling="bilinear", output="up.tif"), step("small", "raster_set_type", input="${steps.up}", output_data_type="Byte", output="small.tif")), "small", "nodata_out_of_range"),
    "a table without its geometries": (workflow(DEGREES, step("table", "vector_convert", input="${steps.degrees}", output="table.csv")), "table", "geometry_left_out"),
}  # fmt: skip

# reported as unknown: only the values themselves show whether it is wrong
UNKNOWN: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "a format that cannot hold the type": (workflow(NDVI, step("picture", "convert", input="${steps.ndvi}", output="picture.png")), "picture", "pixel values of the result of step 'ndvi'"),
    "a type that cannot hold the values": (workflow(NDVI, step("small", "raster_set_type", input="${steps.ndvi}", output_data_type="Byte", output="small.tif")), "small", "pixel values of the result of step 'ndvi'"),
    "a type of geometry that depends on the values": (workflow(step("hulls", "vector_convex_hull", input="parcels.geojson", output="hulls.gpkg"), step("stats", "raster_zonal_stats", input="dem.asc", zones="${steps.hulls}", stat=["mean"], output="stats.csv")), "stats", "geometry type of the result of step 'hulls'"),
}  # fmt: skip

# documents and parameters that are refused as invalid
INVALID: Mapping[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "two steps that wait for each other": (workflow(step("first", "convert", input="${steps.second}", output="first.tif"), step("second", "convert", input="${steps.first}", output="second.tif")), {}, ""),
    "a step that does not exist": (workflow(NDVI, step("copy", "convert", input="${steps.nvdi}", output="copy.tif")), {}, "copy"),
    "a text for a number": (workflow(NDVI, parameters={"level": {"type": "number", "default": 3}}), {"level": "high"}, ""),
    "a parameter that is not declared": (workflow(NDVI), {"levle": 3}, ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ground(tmp_path_factory.mktemp("mistakes"))


@pytest.fixture(scope="module")
def client(ground: Path) -> Any:
    settings = ("--toolsets", "core,raster,vector", "--remote", REMOTE)
    with serving(ground, *settings) as new_client:
        before = files(ground)
        new_client.person.yes = False
        yield new_client
        assert files(ground) == before
        assert not events(ground.parent / "state", "call.started", "workflow_run")


def question(client: Any, document: dict[str, Any]) -> str:
    """The only question about a workflow, which a person denies."""
    client.person.asked.clear()
    with pytest.raises(CallFailed) as caught:
        client.call("workflow_run", workflow=document)
    assert caught.value.code == "DENIED"
    [text] = client.person.asked
    return str(text)


def warnings(text: str) -> set[tuple[str, str]]:
    """The code of each warning in a question, with its step."""
    return set(re.findall(r"^Check (\w+) of step (\w+): ", text, re.MULTILINE))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_step_is_named_before_running_or_asking(client: Any, name: str):
    document, planted, code = WRONG[name]
    client.person.asked.clear()
    with pytest.raises(CallFailed) as caught:
        client.call("workflow_run", workflow=document)
    check = caught.value.error.get("check", {})
    assert (check.get("step", ""), check.get("code", "")) == (planted, code)
    assert client.person.asked == []


@pytest.mark.parametrize("name", SHOWN)
def test_doubtful_step_is_named_in_check_and_question(client: Any, name: str):
    document, planted, code = SHOWN[name]
    checked = client.call("workflow_check", workflow=document)
    warned = [(row["id"], check["code"]) for row in checked["steps"] for check in row.get("checks", ())]
    assert (planted, code) in warned
    assert (code, planted) in warnings(question(client, document))


@pytest.mark.parametrize("name", UNKNOWN)
def test_unjudged_step_is_not_fine_in_the_question(client: Any, name: str):
    document, planted, text = UNKNOWN[name]
    checked = client.call("workflow_check", workflow=document)
    assert checked["state"] == "unknown"
    unknown = {row["id"]: row.get("unknown") for row in checked["steps"]}
    assert unknown[planted] == [text]
    wording = question(client, document)
    assert ("not_checked", planted) in warnings(wording)
    assert text in wording


def test_the_question_names_the_file_that_is_replaced(client: Any, ground: Path):
    document = workflow(NDVI, to="index")
    old = ground / "index.tif"
    old.write_bytes(b"the old file")
    try:
        document["outputs"]["out"]["overwrite"] = True
        wording = question(client, document)
        assert old.read_bytes() == b"the old file"
    finally:
        old.unlink()
    [replaced] = re.findall(r"^Replaces .*:\n  (\S+) \((.*)\)", wording, re.MULTILINE)
    assert replaced[0] == str(old)
    assert "12 bytes" in replaced[1]


def test_the_question_names_the_host_that_is_read(client: Any):
    document = workflow(step("copy", "convert", input=f"https://{REMOTE}/dem.tif", output="copy.tif"))
    wording = question(client, document)
    assert re.findall(r"^Reads over the network, .*, from (\S+):\n  (\S+)", wording, re.MULTILINE) == [
        (f"https://{REMOTE}", f"https://{REMOTE}/dem.tif")
    ]


@pytest.mark.parametrize("name", INVALID)
def test_unrunnable_document_is_refused_with_the_place(client: Any, name: str):
    document, parameters, planted = INVALID[name]
    with pytest.raises(CallFailed) as caught:
        client.call("workflow_check", workflow=document, parameters=parameters)
    problems = caught.value.error["check"]["problems"]
    assert [problem.get("step", "") for problem in problems] == [planted]


def test_the_same_steps_without_the_mistakes_are_fine(client: Any):
    right = {
        "zones": workflow(step("stats", "raster_zonal_stats", input="dem.asc", zones="districts.geojson", stat=["mean"], output="stats.csv")),
        "band": workflow(NDVI, step("first", "raster_select", input="${steps.ndvi}", band=["1"], output="first.tif")),
        "field": workflow(LINES, step("high", "vector_filter", input="${steps.lines}", where="metres > 320", output="high.gpkg")),
        "column": workflow(DEGREES, step("again", "query_to_file", inputs=["${steps.degrees}"], sql="SELECT district, geom FROM degrees", output="again.gpkg")),
        "areas": workflow(DEGREES, step("areas", "query_to_file", inputs=["${steps.degrees}"], sql="SELECT district, ST_Area(ST_Transform(geom, 32633)) AS area FROM degrees", output="areas.csv")),
    }  # fmt: skip
    for name, document in right.items():
        checked = client.call("workflow_check", workflow=document)
        assert (name, checked["state"]) == (name, "fine")
        assert not [check for row in checked["steps"] for check in row.get("checks", ())], name
