"""A second toolbox, with its own image, worker and tool, uses the pipeline without any special code in it."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.calls.longresults import store_of
from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.errors import Code
from gdal_mcp.plan import Command, Draft, Output, Work
from gdal_mcp.records.artifacts import ArtifactStore
from gdal_mcp.records.audit import tail
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.runtime.image import Image
from gdal_mcp.server.app import App, running
from gdal_mcp.server.console.service import ConsoleService
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.mcp.resources import Resources
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.base import Arguments, CallAnswer, DraftScope, Tool, draft_function, schema_of
from gdal_mcp.toolboxes.surface import Toolboxes
from gdal_mcp.toolboxes.toolbox import Execution, ImageSpec, Toolbox
from sandbox.program import worker_command
from tests.boxes import GDAL
from tests.calling import ANN, called, person
from tests.conftest import ENVIRONMENT, handler

pytestmark = pytest.mark.engine
NAME = "gdal-mcp-words:1.0"
COUNT = """
words = len(open(job["inputs"][0]).read().split())
if not words:
    return {"code": 1, "errors": [{"level": "error", "message": "no words"}]}
if job["outputs"]:
    open(job["outputs"][0]["path"], "w").write(str(words))
print(words, flush=True)
return {"code": 0, "tool_version": "1.0"}
"""


class CountArguments(Arguments):
    path: str
    output: str | None = None


def draft(arguments: CountArguments, scope: DraftScope) -> Draft:
    source = scope.workspaces.input(arguments.path)
    outputs = ()
    if arguments.output is not None:
        target = scope.workspaces.output(arguments.output)
        outputs = (Output(target, "file", replaces=(target,) if target.identity else ()),)
    return Draft(Command("count", (), (str(source),)), (source,), outputs, work=Work("words count"))


def present(answer: CallAnswer) -> Mapping[str, Any]:
    return {"words": int(answer.printed)}


COUNTER = Tool(
    "count_words", "Count words", "Counts words.", schema_of(CountArguments), draft_function(CountArguments, draft), writes=True, present=present, like="words count"
)  # fmt: skip
WORDS = Toolbox(
    name="words",
    title="The counter",
    version="1.0",
    image=ImageSpec({"words": NAME}),
    toolsets={"words": lambda: (COUNTER,)},
    operations=frozenset({"words count"}),
    execution=Execution(
        environment=lambda _limits, _digest: ENVIRONMENT,
        program=lambda idle: worker_command(handler(COUNT), idle_seconds=idle),
    ),
)


@pytest.fixture(scope="module")
def second(client: docker.DockerClient, image: Image) -> str:
    """An image different from GDAL's: the same files under another id."""
    recipe = f"FROM {image.reference}\nLABEL words=1\n"
    return str(client.images.build(fileobj=io.BytesIO(recipe.encode()), tag=NAME)[0].id)


@pytest.fixture
def app(second: str, tmp_path: Path) -> Iterator[App]:
    root = tmp_path / "ws"
    root.mkdir()
    for folder in (root, *root.parents[:4]):
        folder.chmod(folder.stat().st_mode | 0o055)
    (root / "in.txt").write_text("one two three")
    (root / "empty.txt").write_text("")
    (root / "out.txt").write_text("old")
    settings = load_settings(workspaces=[str(root)], state_dir=str(tmp_path / "state"), pool_max=2)
    with running(settings, boxes=Toolboxes((GDAL, WORDS))) as new_app:
        new_app.hosting.ready(WORDS)
        new_app.hosting.keep_warm()
        yield new_app


def counted(app: App, **arguments: str) -> Reply:
    return called(app, "count_words", arguments, person(yes=True))


def test_second_toolbox_reads_writes_records_and_undoes(app: App, second: str):
    root = app.workspaces.items[0].root
    read = counted(app, path="in.txt")
    assert (read.error, read.result["words"]) == (None, 3)
    receipt = read.result["receipt"]
    assert second.startswith(receipt["image_digest"])
    assert receipt["tool_version"] == "1.0"
    assert receipt["approval"].startswith("allowed")
    assert app.registry.call(receipt["call_id"]).receipt["toolbox"] == "words"

    written = counted(app, path="in.txt", output="out.txt")
    assert written.error is None
    assert (root / "out.txt").read_text() == "3"
    assert written.result["receipt"]["approval"].startswith("approved by ann")
    uri = (root / "out.txt").as_uri()
    resources = Resources(ArtifactStore(app.registry), app.workspaces, 1 << 20, store_of(app.settings))
    assert [str(resource.uri) for resource in resources.page(None, ANN.id).resources] == [uri]

    console = ConsoleService(app)
    viewer = Viewer(ANN, "window")
    assert "words" in str(console.call(viewer, written.call_id))

    console.undo(viewer, written.call_id)
    assert (root / "out.txt").read_text() == "old"
    assert verify(app.settings.state.audit).ok
    events = [entry.event for entry in tail(app.settings.state.audit, 20)]
    assert {event["where"]["toolbox"] for event in events if "where" in event} == {"words"}


def test_second_toolbox_failure_is_named_and_publishes_nothing(app: App):
    root = app.workspaces.items[0].root
    failed = counted(app, path="empty.txt", output="out.txt")
    assert failed.error is not None
    assert failed.error.code is Code.TOOL_ERROR
    assert failed.error.untrusted["words"] == ["no words"]
    assert (root / "out.txt").read_text() == "old"


def test_both_toolboxes_answer_under_separate_policy_names(app: App):
    assert {"count_words", "info"} <= set(app.surface.callable)
    assert {"words count", "raster info"} <= app.toolboxes.names
    without = app.toolboxes.surface(app.settings.model_copy(update={"exclude_tools": ("words count",)}))
    assert "count_words" not in without.callable
    assert "info" in without.callable
