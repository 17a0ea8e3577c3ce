"""Who sees a workflow on the console and may run it again, and which results are then recomputed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.calls.workflows.store import StepResult, StepStore
from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.records.registry import Artifact, Call
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.console.workflows import Workflows, forget
from gdal_mcp.server.operations.forecasts import forecasts_of
from sandbox.workspace import Workspace, Workspaces
from tests.integration.memory_server import ANN, Server, server

WHOLE, STEP = "a1" * 8, "b2" * 8
OWNER = Viewer(replace(ANN, scopes=frozenset({READ})), "x")
OTHER = Viewer(Principal("token:other", frozenset({READ})), "y")
ADMIN = Viewer(replace(ANN, id="local:admin"), "z")


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Server]:
    """A server on which Ann's workflow of two steps completed the first and failed."""
    with server(tmp_path) as served:
        first_output = str(served.app.settings.state.workflows / "r" / "first.tif")
        target, source = str(served.root / "out.tif"), str(served.root / "in.bin")
        step = {"tool": "look", "command": "look", "state": "fine", "crs": None, "reused": None}
        forecast = {
            "principal": ANN.id, "name": "w", "title": "", "publishes": [target],
            "steps": [{"id": "first", "after": [], **step}, {"id": "second", "after": ["first"], **step}],
        }  # fmt: skip
        forecasts_of(served.app.settings).keep(WHOLE, json.dumps(forecast))
        registry = served.app.registry
        workflow_call = registry.begin_call(Call(WHOLE, ANN.id, "workflow_run", {"workflow": {}}))
        approved = f"step first of call {WHOLE}"
        step_call = registry.begin_call(Call(STEP, ANN.id, "look", {}, approval=approved, part_of=WHOLE))
        registry.add_artifacts(
            STEP, [Artifact(Path(first_output).as_uri(), first_output, "first.tif", 1, "image/tiff", "00")]
        )
        row = {"path": first_output, "driver": "GTiff", "crs": "EPSG:4326"}
        registry.finish_call(replace(step_call, outcome="OK", outputs=(row,), inputs=({"path": source},)))
        registry.finish_call(
            replace(workflow_call, outcome="GDAL_ERROR", message="step 'second': it failed.")
        )
        yield served


def refused(status: int) -> "pytest.RaisesExc[Refused]":
    return pytest.RaisesExc(Refused, check=lambda error: error.status == status)


def test_each_step_stands_where_its_record_says(ended: Server):
    shown = Workflows(ended.app).show(OWNER, WHOLE)
    assert [(step["id"], step["stands"]) for step in shown["steps"]] == [
        ("first", "done"),
        ("second", "failed"),
    ]
    assert shown["steps"][0]["came"]["crs"] == "EPSG:4326"
    assert shown["steps"][0]["call"] == STEP


def test_workflow_is_visible_only_to_owner_and_administrators(ended: Server):
    workflows = Workflows(ended.app)
    assert workflows.show(ADMIN, WHOLE)["id"] == WHOLE
    with refused(404):
        workflows.show(OTHER, WHOLE)
    with refused(404):
        workflows.show(OWNER, "../" * 4)


@pytest.mark.claim("console.steps-shown-to-those-who-see-all")
def test_step_picture_needs_every_workspace_the_steps_read(ended: Server, tmp_path: Path):
    workflows, all_of_it = Workflows(ended.app), ended.app.workspaces
    assert workflows.artifact(OWNER, all_of_it, WHOLE, "first").name == "first.tif"
    (tmp_path / "another").mkdir()
    less = Workspaces((Workspace.at(tmp_path / "another", writable=False),))
    with refused(404):
        workflows.artifact(OWNER, less, WHOLE, "first")


@pytest.mark.anyio
async def test_nobody_but_its_caller_runs_a_workflow_again(ended: Server):
    for viewer, status in ((ADMIN, 403), (OTHER, 404)):
        with refused(status):
            await Workflows(ended.app).retry(viewer, WHOLE, "second")


def test_forgotten_step_is_recomputed_and_others_stay(tmp_path: Path):
    store = StepStore(tmp_path)
    (tmp_path / "run").mkdir()
    for key, call in (("1" * 64, "one"), ("2" * 64, "two")):
        path = tmp_path / "run" / call
        path.write_bytes(b"x")
        store.put(StepResult(key, call, (str(path),), ("00",)), [path])
    forget(store, {"one"})
    assert store.find("1" * 64) is None
    assert store.find("2" * 64) is not None
