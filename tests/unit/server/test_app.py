"""How a starting server treats the records of servers that are gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.registry import Call, Registry
from gdal_mcp.server.app import running
from gdal_mcp.settings import Settings, load_settings
from sandbox.errors import PathRefused
from sandbox.owner import Owner


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return load_settings(workspaces=[str(workspace)], state_dir=str(tmp_path / "state"))


@pytest.fixture
def registry(settings: Settings) -> Iterator[Registry]:
    new_registry = Registry(settings.state_dir / "registry.sqlite")
    yield new_registry
    new_registry.close()


def unfinished(registry: Registry, server: str) -> str:
    """A call that this server began and did not end."""
    call = registry.begin_call(Call(f"call-of-{server}", "ann", "info", {}, server=server)).id
    AuditLog(registry.path.with_name("audit.jsonl")).append({"type": "call.started", "call": call})
    return call


def outcome(registry: Registry, call: str) -> str:
    record = registry.call(call)
    assert record is not None
    return record.outcome


def test_call_of_living_server_is_left_alone(settings: Settings, registry: Registry):
    other = Owner(settings.state_dir / "servers")
    call = unfinished(registry, other.id)
    with running(settings):
        assert outcome(registry, call) == ""
    other.close()


@pytest.mark.claim("faults.server-killed")
def test_call_of_dead_server_is_ended_and_recorded(settings: Settings, registry: Registry):
    (settings.state_dir / "servers").mkdir()
    (settings.state_dir / "servers" / "deadbeefdeadbeef.lock").touch()  # no process holds it
    call = unfinished(registry, "deadbeefdeadbeef")
    with running(settings):
        assert outcome(registry, call) == "INTERNAL"


def test_workspace_that_is_no_folder_stops_the_start(settings: Settings, tmp_path: Path):
    (tmp_path / "file").touch()
    wrong = settings.model_copy(update={"workspaces": (tmp_path / "file",)})
    with pytest.raises(PathRefused), running(wrong):
        pass


def test_unusable_state_folder_stops_the_start(settings: Settings):
    settings.state_dir.mkdir()
    (settings.state_dir / "servers").touch()
    with pytest.raises(AuditUnavailable), running(settings):
        pass
