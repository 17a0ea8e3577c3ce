"""Attacks through workflows: results of another caller, outdated results, and files that could be lost."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.testing.client import CallFailed, GdalMcpClient
from tests.integration.workflow_kit import events, files, make_ground, serving
from tests.waiting import until

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Field:
    """A server on a workspace with data."""

    root: Path
    client: GdalMcpClient

    @property
    def store(self) -> Path:
        return self.root.parent / "state" / "workflows"

    def run(self, document: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The result of `workflow_run`, or its error."""
        try:
            return self.client.call("workflow_run", workflow=document, **more)
        except CallFailed as failure:
            return {"error": failure.error}

    def state_of(self, document: dict[str, Any]) -> str:
        return str(self.client.call("workflow_check", workflow=document)["state"])


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    root = make_ground(tmp_path_factory.mktemp("workflows"))
    with serving(root, "--toolsets", "all", "--approval", "never", "--no-preview") as client:
        yield Field(root, client)


def copying(source: str, target: str, *before: dict[str, Any]) -> dict[str, Any]:
    """A workflow that publishes a copy of a raster, after other steps."""
    arguments = {"input": source, "output": "copied.tif"}
    copy = {
        "id": "copy",
        "tool": "convert",
        "arguments": arguments,
        "after": [step["id"] for step in before],
    }
    outputs = {"copy": {"from": "${steps.copy}", "to": target, "overwrite": True}}
    return {"workflow": 1, "name": "copying", "steps": [*before, copy], "outputs": outputs}


def changed(field: Field, path: str, value: int) -> None:
    """Makes a raster of one value."""
    arguments = {"input": ["dem.asc"], "calc": [f"X*0+{value}"], "output": path, "overwrite": True}
    field.client.call("gdal_write", algorithm="raster calc", arguments=arguments)


def digest(field: Field, path: str) -> str:
    arguments = {"input": path, "checksum": True}
    answer = field.client.call("gdal_read", algorithm="raster info", arguments=arguments)
    return json.dumps([band.get("checksum") for band in answer["bands"]])


@pytest.mark.claim("identity.others-unseen")
def test_results_of_another_run_are_inaccessible(field: Field):
    assert "error" not in field.run(copying("dem.asc", "first.tif"))
    [private] = field.store.glob("*/copy/copied.tif")
    inside = [str(private), str(private.parent), str(private.parent.parent), str(field.store)]
    calls = [("info", {"path": path}) for path in inside]
    calls += [("list_workspace", {"path": path}) for path in inside]
    listed = {"recursive": True, "force-recursive": True, "output": "l.csv"}
    calls += [("dataset identify", {"filename": [path], **listed}) for path in inside]
    for tool, arguments in calls:
        steps = [{"id": "a", "tool": tool, "arguments": arguments}]
        assert field.state_of({"workflow": 1, "name": "thief", "steps": steps}) == "wrong", (tool, arguments)
    for path in (str(private), f"{private.parent}/../copy/{private.name}"):
        assert field.run(copying(path, "stolen.tif"))["error"]["code"] == "PATH_NOT_ALLOWED"
    assert not (field.root / "stolen.tif").exists()


@pytest.mark.claim("approval.workflow-as-checked")
def test_result_is_unused_once_a_named_file_changed(field: Field):
    changed(field, "source.tif", 1)
    arguments = {"input": ["source.tif"], "output": "names.vrt"}
    field.client.call("gdal_write", algorithm="raster mosaic", arguments=arguments)
    digests = []
    for value in (1, 7):
        changed(field, "source.tif", value)
        assert "error" not in field.run(copying("names.vrt", "named.tif"))
        assert digest(field, "named.tif") == digest(field, "source.tif")
        digests.append(digest(field, "named.tif"))
    assert len(set(digests)) == 2


@pytest.mark.claim("approval.workflow-as-checked")
def test_result_is_never_stored_under_outdated_input_content(field: Field):
    changed(field, "before.tif", 1)
    changed(field, "after.tif", 9)
    true, was = digest(field, "before.tif"), (field.root / "before.tif").read_bytes()
    slow = {
        "id": "slow",
        "tool": "reproject",
        "arguments": {"input": "dem.asc", "dst_crs": "EPSG:3857", "size": [2000, 2000], "output": "slow.tif"},
    }

    def swap() -> None:
        until(lambda: bool(events(field.root.parent / "state", "call.started", "reproject")), seconds=120)
        os.replace(field.root / "after.tif", field.root / "before.tif")

    thread = threading.Thread(target=swap)
    thread.start()
    ended = field.run(copying("before.tif", "raced.tif", slow))
    thread.join()
    assert ended["error"]["check"]["code"] == "input_changed"
    assert not (field.root / "raced.tif").exists()
    (field.root / "before.tif").write_bytes(was)
    assert "error" not in field.run(copying("before.tif", "raced.tif"))
    assert digest(field, "raced.tif") == true


@pytest.mark.claim("outputs.inputs-kept")
def test_a_manifest_replaces_manifests_alone(field: Field):
    before = files(field.root)
    for name in ("dem.asc", "districts.geojson", "addresses.csv"):
        assert "error" in field.run(copying("dem.asc", "m.tif"), manifest=name)
    assert files(field.root) == before
    for _ in range(2):
        assert "error" not in field.run(copying("dem.asc", "m.tif"), manifest="made.json")


@pytest.mark.claim("paths.inside")
def test_path_leaving_the_workspace_is_refused_everywhere(field: Field):
    outside = field.root.parent / "outside.tif"
    outside.write_text("kept")
    (field.root / "link.tif").symlink_to(outside)
    (field.root / "up").symlink_to(field.root.parent)
    refused = "PATH_NOT_ALLOWED"
    for path in ("../outside.tif", str(outside), "up/outside.tif", ".gdal-mcp/x.tif", "link.tif"):
        assert field.run(copying("dem.asc", path))["error"]["code"] == refused, path
        assert field.run(copying("dem.asc", "ok.tif"), manifest=path)["error"]["code"] == refused, path
        document = copying("${parameters.p}", "ok.tif") | {"parameters": {"p": {"type": "path"}}}
        assert field.run(document, parameters={"p": path})["error"]["code"] == refused, path
    assert outside.read_text() == "kept"
    (field.root / "link.tif").unlink()
    (field.root / "up").unlink()


@pytest.mark.claim("resources.server-goes-on")
def test_a_short_document_cannot_stand_for_gigabytes(field: Field):
    steps = [{"id": "a", "tool": "info", "arguments": {"path": "${parameters.p}" * 2000}}]
    document = {"workflow": 1, "name": "bomb", "parameters": {"p": {"type": "string"}}, "steps": steps}
    arguments = {"workflow": document, "parameters": {"p": "x" * 200_000}}
    assert field.client.call("workflow_check", **arguments)["state"] == "wrong"
