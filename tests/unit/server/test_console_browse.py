"""Who may create folders on the console, and where."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.policy.identity import APPROVE, READ, WRITE, Principal
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.browse import Browse
from gdal_mcp.server.console.sessions import Viewer
from sandbox.workspace import Workspaces
from tests.integration.memory_server import server


def viewer(*scopes: str) -> Viewer:
    return Viewer(Principal("local:ann", frozenset(scopes)), "x")


def refused(status: int) -> "pytest.RaisesExc[Refused]":
    return pytest.RaisesExc(Refused, check=lambda error: error.status == status)


@pytest.mark.claim("console.folders-recorded")
def test_folder_creation_needs_rights_and_is_recorded_first(tmp_path: Path):
    with server(tmp_path) as served:
        browse, places = Browse(served.app), served.app.workspaces
        for scopes in ((READ,), (READ, WRITE), (READ, APPROVE)):
            with refused(403):
                browse.make_folder(viewer(*scopes), places, "new")
        assert not (served.root / "new").exists()
        browse.make_folder(viewer(READ, WRITE, APPROVE), places, "new")
        assert (served.root / "new").is_dir()
        assert [event["type"] for event in served.events()] == ["folder.started", "folder.finished"]
        with refused(409):
            browse.make_folder(viewer(READ, WRITE, APPROVE), places, "new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders for others")
def test_folder_made_by_root_gets_parent_owner(tmp_path: Path):
    with server(tmp_path) as served:
        os.chown(served.root, 1234, 4321)
        Browse(served.app).make_folder(viewer(READ, WRITE, APPROVE), served.app.workspaces, "new")
        status = (served.root / "new").stat()
        assert (status.st_uid, status.st_gid) == (1234, 4321)


def test_no_folder_is_made_where_calls_cannot_write(tmp_path: Path):
    with server(tmp_path) as served:
        workspaces = served.app.workspaces
        read_only = Workspaces(tuple(replace(workspace, writable=False) for workspace in workspaces.items))
        with refused(409):
            Browse(served.app).make_folder(viewer(READ, WRITE, APPROVE), read_only, "new")
        with refused(409):
            Browse(served.app).make_folder(viewer(READ, WRITE, APPROVE), workspaces, "missing/new")
        assert [path.name for path in served.root.iterdir() if not path.name.startswith(".")] == ["in.bin"]
