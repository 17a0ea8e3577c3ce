"""Records of a call: before it and after it, whatever its outcome."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.invocation import Invocation, JobResult, Outcome
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.pipeline import Request
from gdal_mcp.calls.records import Records
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.policy.identity import local
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.registry import Call, Registry
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.toolbox import Described
from sandbox.outcome import Usage
from sandbox.outputs.store import Published, PublishedFile
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import GDAL, planned
from tests.unit.values import plan

HOST = SimpleNamespace(
    info=SimpleNamespace(name="Docker", version="20.10"),
    image=SimpleNamespace(reference="example/gdal", digest="sha256:11", version="3.13.3", standin=True),
    tier=lambda _settings: "runc",
)
DENIED = ToolError(Code.DENIED, Stage.APPROVAL, "said no.")
TIMEOUT = ToolError(Code.TIMEOUT, Stage.RUN, "too long.", untrusted={"stderr": "CANARY"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "in.tif").write_bytes(b"pixels")
    return folder


@pytest.fixture
def spaces(root: Path) -> Workspaces:
    return Workspaces((Workspace.at(root, writable=True),))


@pytest.fixture
def records(tmp_path: Path, root: Path) -> Iterator[Records]:
    settings = load_settings(workspaces=[str(root)], state_dir=str(tmp_path / "state"))
    registry = Registry(settings.state_dir / "registry.sqlite")
    yield Records(settings, AuditLog(settings.state_dir / "audit.jsonl"), registry, "server")
    registry.close()


def drafted(spaces: Workspaces, **more: Any) -> Draft:
    source = spaces.input("in.tif")
    target = Output(spaces.output("out.tif"))
    draft = Draft(Command("gdal", ("convert",), (str(source),), target.inside), (source,), (target,))
    return replace(draft, **more)


def ticket(draft: Draft | None = None, *, arguments: dict[str, Any] | None = None) -> Invocation:
    values = {"input": "in.tif"} if arguments is None else arguments
    invocation = Invocation(Request("convert", values, local("ann"), "test", NullApprover()))
    if draft is None:
        return invocation
    return planned(
        invocation, plan(draft, call_id=invocation.call_id, tool="convert"), HOST, "approved by ann"
    )


def started_call(records: Records, draft: Draft) -> Invocation:
    """A call that is recorded as started."""
    invocation = ticket(draft)
    records.record_start(invocation)
    return invocation


def end(
    records: Records, invocation: Invocation, done: JobResult | None, error: ToolError | None
) -> ToolError | None:
    return records.record_end(replace(invocation, outcome=Outcome(done), failure=error))


def finished(draft: Draft, **more: Any) -> JobResult:
    """The end of a call that published its first output."""
    target = draft.outputs[0].target
    target.path.write_bytes(b"made")
    file = PublishedFile(target, 4, hashlib.sha256(b"made").hexdigest())
    published = Published("undo", (file,), **more)
    return JobResult(Usage("cold"), "printed", None, "", (), (), "3.13.3", published=published)


def call_of(records: Records, invocation: Invocation) -> Call:
    call = records.registry.call(invocation.call_id)
    assert call is not None
    return call


def events(records: Records) -> list[dict[str, Any]]:
    lines = (records.settings.state_dir / "audit.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


def test_successful_call_is_recorded_with_all_its_parts(records: Records, spaces: Workspaces):
    draft = drafted(spaces)
    recorded: list[Call] = []
    records.listeners.append(recorded.append)
    invocation = started_call(records, draft)
    assert end(records, invocation, finished(draft), None) is None
    call = call_of(records, invocation)
    assert recorded == [call]
    assert (call.image, call.image_reference, call.catalogue) == ("sha256:11", "example/gdal", GDAL.version)
    assert (call.outcome, call.approval, call.arguments) == ("OK", "approved by ann", {"input": "in.tif"})
    [row] = call.inputs
    assert (row["path"], row["sha256"]) == (str(draft.inputs[0]), hashlib.sha256(b"pixels").hexdigest())
    assert [row["path"] for row in call.files] == [str(draft.outputs[0].target)]
    assert call.outputs == ({"path": str(draft.outputs[0].target), "kind": "dataset"},)
    assert records.registry.artifact(draft.outputs[0].target.uri) is not None
    assert events(records)[-1]["materials"] == [dict(row)]


def test_output_extents_are_recorded_per_layer_within_bounds(records, spaces):
    places = [spaces.output(name) for name in ("out.tif", "roads.gpkg", "bare.tif", "untold.tif")]
    draft = drafted(spaces, outputs=tuple(map(Output, places)))
    raster = Described({"wgs84": [15.0, 47.0, 16.0, 48.0]})
    layers = [
        {"wgs84": None}, {}, None,
        *({"wgs84": [float(west), 1.0, west + 1.0, 2.0]} for west in range(30)),
    ]  # fmt: skip
    invocation = started_call(records, draft)
    described = (raster, Described({"layers": layers}), Described({"layers": None}))
    end(records, invocation, replace(finished(draft), outputs=described), None)
    outputs = call_of(records, invocation).outputs
    assert [row["path"] for row in outputs] == list(map(str, places))
    assert outputs[0]["wgs84"] == [[15.0, 47.0, 16.0, 48.0]]
    assert outputs[1]["wgs84"] == [[west, 1.0, west + 1.0, 2.0] for west in range(20)]
    assert not [row for row in outputs[2:] if "wgs84" in row]


def test_input_replaced_by_the_call_is_not_changed(records: Records, spaces: Workspaces):
    source = spaces.input("in.tif")
    target = Output(source, update=True, replaces=(source,))
    draft = drafted(spaces, outputs=(target,))
    invocation = started_call(records, draft)
    source.path.unlink()
    end(records, invocation, finished(draft), None)
    [row] = call_of(records, invocation).inputs
    assert "changed" not in row
    assert row["sha256"] == hashlib.sha256(b"pixels").hexdigest()
    assert call_of(records, invocation).outputs == ({"path": str(source), "kind": "changed"},)


def test_an_input_that_somebody_else_replaced_is(records: Records, spaces: Workspaces):
    draft = drafted(spaces)
    invocation = started_call(records, draft)
    draft.inputs[0].path.unlink()
    end(records, invocation, finished(draft), None)
    [row] = call_of(records, invocation).inputs
    assert row["changed"] is True


def test_failed_call_keeps_inputs_and_gdal_messages_separate(records, spaces):
    invocation = started_call(records, drafted(spaces))
    end(records, invocation, None, TIMEOUT)
    call = call_of(records, invocation)
    assert (call.outcome, call.message, call.files, call.outputs) == ("TIMEOUT", "too long.", (), ())
    assert [Path(row["path"]).name for row in call.inputs] == ["in.tif"]
    assert "CANARY" in repr(call.receipt["untrusted"])
    assert "CANARY" not in repr(replace(call, receipt={})) + records.audit.path.read_text()


def test_lockdown_records_no_gdal_messages(records: Records, spaces: Workspaces):
    locked = replace(records, settings=records.settings.model_copy(update={"lockdown": True}))
    invocation = started_call(locked, drafted(spaces))
    end(locked, invocation, None, TIMEOUT)
    assert "CANARY" not in repr(call_of(locked, invocation))


def test_waiting_for_approval_is_not_denied(records: Records, spaces: Workspaces):
    invocation = ticket(drafted(spaces))
    waiting = ToolError(Code.DENIED, Stage.APPROVAL, "nobody decided yet.", confirmation={"approval": "q1"})
    end(records, invocation, None, waiting)
    call = call_of(records, invocation)
    assert (call.outcome, call.receipt["question"]) == ("WAITING", "q1")


def test_thumbnail_is_audited_but_not_in_history(records: Records, spaces: Workspaces):
    invocation = ticket(drafted(spaces))
    invocation = replace(
        invocation, request=replace(invocation.request, operation=Operation(in_history=False))
    )
    records.record_start(invocation)
    end(records, invocation, finished(drafted(spaces)), None)
    assert records.registry.call(invocation.call_id) is None
    assert invocation.call_id in records.audit.path.read_text()


@pytest.mark.parametrize("planned", [True, False])
def test_denied_call_has_an_end_record(records: Records, spaces: Workspaces, planned: bool):
    invocation = ticket(drafted(spaces) if planned else None)
    end(records, invocation, None, DENIED)
    call = call_of(records, invocation)
    assert (call.tool, call.outcome, call.finished is not None) == ("convert", "DENIED", True)
    assert bool(call.argv) is planned


def test_answer_without_container_is_only_audited(records: Records):
    invocation = ticket()
    records.record_event(invocation)
    assert end(records, invocation, None, None) is None
    assert [event["type"] for event in events(records)] == ["call.started", "call.finished"]
    assert records.registry.search().items == ()


@pytest.mark.claim("audit.no-record-no-run")
def test_nothing_starts_without_the_registry(records, spaces):
    records.registry.close()
    invocation = ticket(drafted(spaces))
    with pytest.raises(ToolError) as caught:
        records.record_start(invocation)
    assert caught.value.stage is Stage.AUDIT
    assert records.digesting == {}


def test_no_call_is_watched_once_it_has_ended(records: Records, spaces: Workspaces):
    for error in (None, TIMEOUT):
        draft = drafted(spaces)
        invocation = started_call(records, draft)
        end(records, invocation, None if error else finished(draft), error)
    assert records.digesting == {}


def test_answer_is_recognised_by_its_digest(records: Records, spaces: Workspaces):
    draft = drafted(spaces, outputs=())
    answers = []
    for printed, code, picture in (
        ("a", None, None), ("a", None, None), ("b", None, None), ("a", 1, None), ("a", None, b"png"),
    ):  # fmt: skip
        invocation = started_call(records, draft)
        done = JobResult(
            Usage("cold"), printed, None, "", (), (), "3.13.3", return_code=code, preview=picture
        )
        end(records, invocation, done, None)
        answers.append(call_of(records, invocation).printed)
    assert answers[0] == answers[1]
    assert len(set(answers)) == 4
