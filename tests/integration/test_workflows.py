"""Workflows with real containers: one question, the same results as single calls, resume, undo, and early detection
of mistakes.
"""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gdal_mcp.cli.exits import Exit
from gdal_mcp.records.registry import Call, Registry
from gdal_mcp.testing.client import CallFailed, GdalMcpClient
from tests.integration.workflow_kit import (
    by_single_calls,
    containers,
    events,
    files,
    make_ground,
    mistaken,
    options,
    program,
    serving,
)
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspace with the data of the examples."""
    return make_ground(tmp_path)


def test_workflow_is_one_question_one_undo_equal_results(ground: Path):
    with serving(ground, "--toolsets", "core,raster,vector") as client:
        single = by_single_calls(client, "addresses_by_district")
        asked_before, before = len(client.person.asked), files(ground)
        result = client.call("workflow_run", workflow="addresses_by_district.yaml", manifest="made.json")
        assert len(client.person.asked) - asked_before == 1
        question = client.person.asked[-1]
        assert question.count("EPSG:32633") == 1  # of the points, which is predicted
        after = files(ground)
    assert {*after} - {*before} == {"addresses_by_district.csv", "made.json"}
    assert after["addresses_by_district.csv"] == Path(single["addresses_by_district.csv"]).read_bytes()
    manifest = json.loads(after["made.json"])
    assert [row["id"] for row in manifest["steps"]] == ["points", "sums"]
    assert program(ground, "undo", result["receipt"]["call_id"]).returncode == 0
    assert files(ground) == before


def test_manifest_has_digests_software_transformations_and_approval(ground: Path):
    lambert = {"input": "dem.asc", "dst_crs": "EPSG:31287", "resampling": "bilinear"}
    document = {
        "workflow": 1,
        "name": "lambert",
        "steps": [
            {"id": "austria", "tool": "reproject", "arguments": {**lambert, "output": "austria.tif"}},
            {
                "id": "shade",
                "tool": "raster_hillshade",
                "arguments": {"input": "${steps.austria}", "output": "shade.tif"},
            },
        ],
        "outputs": {
            name: {"from": f"${{steps.{name}}}", "to": f"{name}.tif"} for name in ("austria", "shade")
        },
    }
    with serving(ground, "--toolsets", "core,raster") as client:
        alone = client.call("reproject", **lambert, output="single/austria.tif")
        runs = [client.call("workflow_run", workflow=document, manifest="made.json")]
        manifests = [json.loads((ground / "made.json").read_text())]
        for output in document["outputs"].values():
            (ground / output["to"]).unlink()
        runs.append(client.call("workflow_run", workflow=document, manifest="made.json"))
        manifests.append(json.loads((ground / "made.json").read_text()))
        registry = Registry(ground.parent / "state" / "registry.sqlite")
        records = [registry.call(run["receipt"]["call_id"]) for run in (*runs, alone)]
        registry.close()
    [computed, reused, single] = [record for record in records if record is not None]
    for manifest, record in zip(manifests, (computed, reused), strict=True):
        assert (manifest["call"], manifest["approval"]) == (record.id, record.approval)
        assert manifest["inputs"] == [{"path": "dem.asc", "sha256": sha256(ground / "dem.asc")}]
        assert manifest["outputs"] == [
            {"path": f"{name}.tif", "step": name, "sha256": sha256(ground / f"{name}.tif")}
            for name in ("austria", "shade")
        ]
        image = {
            "reference": single.image_reference,
            "digest": single.image,
            "version": single.tool_version,
        }
        assert manifest["image"] == image
        austria, shade = manifest["steps"]
        for step in (austria, shade):
            assert step["image"] == image
            assert step["toolbox"] == {"name": "gdal", "version": single.catalogue}
        assert austria["transformations"] == [alone["transformation"]]
        assert austria["transformations"][0]["accuracy"] > 0
        assert shade["transformations"] == []
    assert [[row["used_again"] for row in manifest["steps"]] for manifest in manifests] == [
        [False, False],
        [True, True],
    ]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("document", "step"),
    [
        (mistaken("addresses_by_district", "sums", inputs=["missing.gpkg"]), "sums"),
        (mistaken("terrain_for_web", "degrees", dst_crs="EPSG:99999"), "degrees"),
        (mistaken("terrain_for_web", "shade", output="shade.xyzzy"), "shade"),
        (mistaken("flood_depth", "by_parcel", stat=["meen"]), "by_parcel"),
        (mistaken("flood_depth", "by_parcel", band=7), "by_parcel"),
        (mistaken("flood_depth", "depth", output="/elsewhere/depth.tif"), "depth"),
    ],
)
def test_mistake_in_later_step_is_found_before_running(ground: Path, document: dict[str, Any], step: str):
    before = files(ground)
    with serving(ground) as client:
        checked = client.call("workflow_check", workflow=document)
        assert [row["id"] for row in checked["steps"] if row["state"] == "wrong"] == [step]
        with pytest.raises(CallFailed) as caught:
            client.call("workflow_run", workflow=document)
        assert caught.value.error["check"]["step"] == step
        assert client.person.asked == []
    assert files(ground) == before


def text_of(client: GdalMcpClient, uri: str) -> str:
    return str(client.portal.call(client.client.read_resource, uri).contents[0].text)


def recorded_steps(ground: Path, call_id: str) -> list[Call]:
    registry = Registry(ground.parent / "state" / "registry.sqlite")
    try:
        assert [call.tool for call in registry.search().items if call.id == call_id] == ["workflow_run"]
        steps = list(registry.steps_of(call_id))
        assert not {call.id for call in steps} & {call.id for call in registry.search().items}
        return steps
    finally:
        registry.close()


def test_each_step_is_a_call_without_history_row(ground: Path):
    with serving(ground) as client:
        result = client.call("workflow_run", workflow="addresses_by_district.yaml")
        steps = recorded_steps(ground, result["receipt"]["call_id"])
        record = json.loads(text_of(client, f"gdal://calls/{result['receipt']['call_id']}"))
    assert [step.id for step in steps] == [step["call_id"] for step in result["steps"]]
    assert [step.outcome for step in steps] == ["OK", "OK"]
    assert [step["id"] for step in record["steps"]] == [step.id for step in steps]


def test_cancelled_workflow_stops_container_and_publishes_nothing(ground: Path):
    slow = {"input": "dem.asc", "dst_crs": "EPSG:3857", "size": [15000, 15000], "resampling": "lanczos"}
    document = {
        "workflow": 1,
        "name": "slow",
        "steps": [{"id": "big", "tool": "reproject", "arguments": {**slow, "output": "big.tif"}}],
        "outputs": {"big": {"from": "${steps.big}", "to": "big.tif"}},
    }
    (ground / "slow.json").write_text(json.dumps(document))
    before, state = files(ground), ground.parent / "state"
    words = [sys.executable, "-m", "gdal_mcp", "run", str(ground / "slow.json"), "--yes", *options(ground)]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: events(state, "call.started", "reproject") or run.poll() is not None)
    [started] = events(state, "call.started", "reproject")
    until(lambda: containers(started["call"]))
    run.send_signal(signal.SIGINT)
    run.wait()
    assert not containers(started["call"])
    assert files(ground) == before
    assert events(state, "call.finished", "workflow_run")[-1]["outcome"] == "CANCELLED"


def footprint(**more: Any) -> dict[str, Any]:
    """The outline of a copy of the terrain, in which GDAL writes the name of the file."""
    steps = [
        {"id": "copy", "tool": "convert", "arguments": {"input": "dem.asc", "output": "copy.tif"}},
        {
            "id": "outline",
            "tool": "raster_footprint",
            "arguments": {"input": "${steps.copy}", "output": "outline.gpkg", **more},
        },
    ]
    outputs = {"outline": {"from": "${steps.outline}", "to": "outline.gpkg"}}
    return {"workflow": 1, "name": "outline", "steps": steps, "outputs": outputs}


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "raster_mosaic", "arguments": {"input": ["${steps.copy}"], "output": "all.vrt"}},
        {"tool": "raster_index", "arguments": {"input": ["${steps.copy}"], "output": "all.gpkg"}},
        {"tool": "raster_footprint", "arguments": {"input": "${steps.copy}", "output": "all.gpkg"}},
        {
            "tool": "raster_convert",
            "arguments": {"input": "${steps.copy}", "output": "all.xml", "output_format": "VRT"},
        },
    ],
    ids=lambda step: step["tool"],
)
def test_step_only_naming_another_result_is_refused_early(ground: Path, step: dict[str, Any]):
    document = footprint()
    document["steps"][1] = {"id": "outline", **step}
    with serving(ground, "--toolsets", "core,raster,vector") as client:
        checked = client.call("workflow_check", workflow=document)
        assert [row["state"] for row in checked["steps"]] == ["fine", "wrong"]


def test_no_published_file_names_a_server_folder(ground: Path):
    private = str(ground.parent / "state").encode()
    with serving(ground, "--toolsets", "core,raster,vector") as client:
        client.call("workflow_run", workflow=footprint(no_location_field=True), manifest="made.json")
    assert not [name for name, content in files(ground).items() if private in content]
    assert str(ground).encode() not in files(ground)["made.json"]


def test_file_naming_another_result_unclearly_is_not_published(ground: Path):
    document = footprint()
    document["steps"][1] = {
        "id": "outline",
        "tool": "vector_sql",
        "arguments": {
            "input": "parcels.geojson",
            "sql": "SELECT parcel, '${steps.copy}' AS source FROM parcels",
            "output": "outline.gpkg",
        },
    }
    before = files(ground)
    with serving(ground, "--toolsets", "core,raster,vector") as client, pytest.raises(CallFailed) as caught:
        client.call("workflow_run", workflow=document)
    assert caught.value.error["check"]["code"] == "not_self_contained"
    assert files(ground) == before


def test_replay_reports_whether_workflow_results_are_equal(ground: Path):
    with serving(ground) as client:
        result = client.call("workflow_run", workflow="addresses_by_district.yaml", manifest="made.json")
    before, call = files(ground), result["receipt"]["call_id"]
    again = program(ground, "replay", call, "--json")
    assert again.returncode == 0, again.stdout
    assert json.loads(again.stdout)["same"] is True
    addresses = ground / "addresses.csv"
    head, _, *rest = addresses.read_text().splitlines()
    addresses.write_text("\n".join([head, *rest]) + "\n")
    changed = program(ground, "replay", call, "--json")
    assert changed.returncode == 1, changed.stdout
    report = json.loads(changed.stdout)
    assert [output["verdict"] for output in report["outputs"]] == ["differs"]
    assert [Path(row["path"]).name for row in report["changed"]] == ["addresses.csv"]
    assert files(ground) == {**before, "addresses.csv": addresses.read_bytes()}


def test_failed_step_publishes_nothing_and_keeps_earlier_results(ground: Path):
    document = mistaken("addresses_by_district", "sums", sql="SELECT json('{') AS broken FROM points")
    before = files(ground)
    with serving(ground) as client:
        with pytest.raises(CallFailed) as caught:
            client.call("workflow_run", workflow=document)
        assert caught.value.error["check"]["step"] == "sums"
        assert files(ground) == before
        right = client.call("workflow_run", workflow="addresses_by_district.yaml")
    assert [row.get("used_again", False) for row in right["steps"]] == [True, False]


def test_nothing_is_published_after_a_no(ground: Path):
    before = files(ground)
    with serving(ground) as client:
        client.person.yes = False
        with pytest.raises(CallFailed) as caught:
            client.call("workflow_run", workflow="flood_depth.yaml")
    assert caught.value.code == "DENIED"
    assert files(ground) == before


def test_killed_run_is_resumed_and_leaves_nothing(ground: Path):
    steps = ground.parent / "state" / "workflows"
    words = [
        sys.executable,
        "-m",
        "gdal_mcp",
        "run",
        str(ground / "terrain_for_web.yaml"),
        "--yes",
        *options(ground),
    ]
    before = files(ground)
    killed = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(steps.glob("*.json")) or killed.poll() is not None)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert files(ground) == before
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert any(row.get("used_again") for row in json.loads(ran.stdout)["steps"])
    assert len([folder for folder in steps.iterdir() if folder.is_dir() and folder.name != ".gdal-mcp"]) <= 2
    assert (ground / "relief.tif").exists()


def test_check_exit_code_and_report_name_wrong_step(ground: Path):
    (ground / "bad.json").write_text(json.dumps(mistaken("terrain_for_web", "degrees", dst_crs="EPSG:99999")))
    report = ground.parent / "report.xml"
    ran = program(ground, "run", str(ground / "bad.json"), "--check", "--junit", str(report))
    assert ran.returncode == Exit.REFUSED
    assert [
        case.get("name") for case in ET.parse(report).iter("testcase") if case.find("failure") is not None
    ] == ["degrees"]
    flood = str(ground / "flood_depth.yaml")
    assert program(ground, "run", str(ground / "bad.json"), "--yes").returncode == Exit.REFUSED
    assert program(ground, "run", flood, "--check").returncode == Exit.DONE
    assert program(ground, "run", flood, "--param", "level=high").returncode == Exit.USAGE
    assert program(ground, "run", flood).returncode == Exit.DENIED  # no terminal to ask on
    assert not (ground / "flood_depth.gpkg").exists()


def test_the_option_fresh_runs_every_step_again(ground: Path):
    document = {
        "workflow": 1,
        "name": "copy",
        "steps": [{"id": "copy", "tool": "convert", "arguments": {"input": "dem.asc", "output": "copy.tif"}}],
        "outputs": {"copy": {"from": "${steps.copy}", "to": "copy.tif", "overwrite": True}},
    }
    (ground / "copy.json").write_text(json.dumps(document))
    rows = []
    for options_given in ((), (), ("--fresh",)):
        ran = program(ground, "run", str(ground / "copy.json"), "--yes", *options_given)
        assert ran.returncode == Exit.DONE, ran.stdout
        rows += json.loads(ran.stdout)["steps"]
    first, reused, fresh = rows
    assert [row.get("used_again", False) for row in rows] == [False, True, False]
    started = [event["call"] for event in events(ground.parent / "state", "call.started", "convert")]
    assert started == [first["call_id"], fresh["call_id"]]
    assert reused["call_id"] == first["call_id"]


def test_recorded_calls_become_a_workflow_that_runs(ground: Path):
    with serving(ground, "--toolsets", "core,raster,vector") as client:
        calls = ({"input": "dem.asc", "output": "a.tif"}, {"input": "a.tif", "output": "b.tif"})
        ids = [client.call("convert", **arguments)["receipt"]["call_id"] for arguments in calls]
    printed = program(ground, "workflow", "from-calls", *ids)
    assert printed.returncode == 0, printed.stderr
    (ground / "made.yaml").write_text(printed.stdout)
    ran = program(ground, "run", str(ground / "made.yaml"), "--yes", "--param", "b_output=c.tif")
    assert ran.returncode == 0, ran.stdout
    assert (ground / "c.tif").read_bytes() == (ground / "b.tif").read_bytes()
