"""An approval is valid for what a call would see, and a recorded call that is repeated sees what it saw before."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gdal_mcp.approvals.model import ApprovalQuestion, Approver, Decision, NullApprover
from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.cli.replay import replay_call
from gdal_mcp.errors import Code
from gdal_mcp.policy.policy import Channel
from gdal_mcp.server.app import App, running
from tests.calling import called
from tests.security.scope.conftest import Inside

pytestmark = pytest.mark.engine


@dataclass
class Meanwhile:
    """A person who approves after something has happened."""

    happens: Callable[[], object]
    texts: list[str] = field(default_factory=list)

    def asks(self, ways: frozenset[Channel]) -> bool:
        return "terminal" in ways

    def answered(self) -> None:
        return None

    async def ask(self, question: ApprovalQuestion) -> Decision:
        self.texts.append(question.row.summary)
        self.happens()
        return Decision(approved=True, by="somebody", how="test", way="terminal")


def convert(app: App, source: str, output: str, approver: Approver) -> Reply:
    return called(app, "convert", {"input": source, "output": output}, approver)


@pytest.mark.claim("approval.changes-void-it")
def test_approval_does_not_cover_files_visible_later(inside: Inside):
    source, late = inside.workspace / "asked.csv", inside.workspace / "asked.csvt"
    source.write_text("id,name\n1,a\n")
    with running(inside.app.settings.model_copy(update={"approval": "writes"})) as app:
        person = Meanwhile(lambda: late.write_text('"String","String"\n'))
        refused = convert(app, "asked.csv", "asked.geojson", person)
        assert refused.error is not None
        assert refused.error.code is Code.APPROVAL_EXPIRED
        assert not (inside.workspace / "asked.geojson").exists()
        person.happens = lambda: None
        done = convert(app, "asked.csv", "asked.geojson", person)
        receipt = app.registry.call(done.call_id).receipt
    assert done.error is None, done.error
    assert receipt["mounts"] == [f"{source}:ro", f"{late}:ro"]
    assert [str(late) in text for text in person.texts] == [False, True]


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_replayed_call_is_compared_by_its_named_files(inside, capsys):
    """A GeoPackage contains the time of its creation, so both files are opened in a container to be compared."""
    reply = convert(inside.app, "zones.shp", "again.gpkg", NullApprover())
    assert reply.error is None, reply.error
    capsys.readouterr()
    assert replay_call(inside.app, reply.result["receipt"]["call_id"], as_json=True) == 0
    printed = capsys.readouterr().out
    report = json.loads(printed[printed.index("{\n") :])  # log lines come before it
    assert [row["verdict"] for row in report["outputs"]] == ["same_content"]
