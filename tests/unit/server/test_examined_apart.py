"""The console examines this host in a separate process: the process that serves calls opens nothing twice."""

import json
from types import SimpleNamespace

from gdal_mcp.server.console.routes import _examined
from gdal_mcp.server.operations import examine as module
from gdal_mcp.settings import Settings, load_settings


def test_the_console_examines_this_host_in_another_process(workspace, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a second server was opened in this process")

    monkeypatch.setattr(module, "running", refuse)
    settings = load_settings(
        workspaces=(workspace,), state_dir=tmp_path / "state", engine=f"unix://{tmp_path}/no-engine.sock"
    )
    report = _examined(SimpleNamespace(settings=settings))
    rows = {(row["group"], row["name"]): row["state"] for row in report["rows"]}
    assert rows["engine", "ready"] == "failed"
    assert ("workspace", str(workspace)) in rows or any(group == "workspace" for group, _ in rows)
    assert "server" not in {group for group, _ in rows}


def test_settings_reach_the_other_process_unchanged(workspace, tmp_path):
    settings = load_settings(
        workspaces=(workspace,), state_dir=tmp_path / "state", memory="1GiB", approval="never",
        path_map="/data:/srv/data", toolsets=("raster",), cpus=1.5,
    )  # fmt: skip
    values = json.loads(json.dumps(settings.model_dump(mode="json", exclude_unset=True)))
    assert Settings(**values) == settings
