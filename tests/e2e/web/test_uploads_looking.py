"""The published file is the file that arrived, whatever a container does to its copy."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.invocation import Invocation, Request
from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.policy.identity import local
from gdal_mcp.server.operations.uploading import Upload, reception
from sandbox.outputs.staging import StagingArea
from sandbox.template import Limits
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import planned
from tests.conftest import USER

CALL = "call-000001"


@pytest.fixture
def area(workspace: Path) -> StagingArea:
    return StagingArea(Workspace.at(workspace, writable=True))


def plan(area: StagingArea, name: str) -> Any:
    target = Workspaces((area.workspace,)).output(name)
    draft = Draft(Command("identify", ()), (), (Output(target),))
    return SimpleNamespace(call_id=CALL, tool="convert", draft=draft, limits=Limits())


@pytest.mark.claim("http.uploads")
def test_what_became_of_the_copy_is_not_published(area: StagingArea):
    unused = cast("Any", None)
    with reception(area, "in.csv", USER, 100) as arriving, area.open("copy-000001", USER) as copy:
        arriving.write(b"what arri")
        arriving.write(b"ved")
        copy.copy_from(arriving.staging, "in.csv")
        assert (copy.path / "in.csv").stat().st_uid == USER[0]
        (copy.path / "in.csv").write_bytes(b"another thing")
        (copy.path / "in.csv.aux.xml").write_bytes(b"and more of it")
        call = Invocation(Request("convert", {}, local("ann"), "test", NullApprover()))
        planned_call = planned(call, plan(area, "in.csv"))
        published = Upload(received=arriving).publish(planned_call, copy, unused)
    assert arriving.sha256 == published.files[0].sha256 == hashlib.sha256(b"what arrived").hexdigest()
    assert {path.name for path in area.workspace.root.iterdir()} == {".gdal-mcp", "in.csv"}
    assert (area.workspace.root / "in.csv").read_bytes() == b"what arrived"


def test_no_more_is_written_than_may_come(area: StagingArea):
    with reception(area, "in.csv", USER, 10) as arriving:
        arriving.write(b"0123456789")
        with pytest.raises(ToolError) as refused:
            arriving.write(b"x")
        assert refused.value.code is Code.OUTPUT_LIMIT
        assert arriving.size == 10
    assert list((area.workspace.root / ".gdal-mcp" / "staging").iterdir()) == []


def test_whatever_ends_a_reception_leaves_nothing_of_it(area: StagingArea):
    with pytest.raises(KeyError), reception(area, "in.csv", USER, 10) as arriving:
        arriving.write(b"some")
        raise KeyError
    assert list((area.workspace.root / ".gdal-mcp" / "staging").iterdir()) == []
    assert {path.name for path in area.workspace.root.iterdir()} == {".gdal-mcp"}
