"""A bounded number of drafts is made at a time: one principal's hanging draft delays no other, and every caller gets
an answer.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import anyio
import anyio.to_thread
import pytest

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.bounded_threads import BoundedThreads
from gdal_mcp.calls.entitlements import EntitlementResolver, Entitlements
from gdal_mcp.calls.pipeline import Pipeline, Reply, Request
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.policy.identity import Principal, local
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.base import Arguments, ImmediateResult, Tool, draft_function, schema_of
from tests.boxes import GDAL
from tests.waiting import until

pytestmark = pytest.mark.anyio

ANN, BEN, EVE = (local(name) for name in ("ann", "ben", "eve"))
SOON = 0.3  # seconds that callers wait, in tests of waiting
NEVER = 600.0


@dataclass
class Hanging:
    """A tool whose drafts do not end until the test allows it."""

    let_go: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int = 0
    most: int = 0

    def draft(self, *_: object) -> ImmediateResult:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.let_go.wait()
        with self.lock:
            self.now -= 1
        return ImmediateResult({"let": "go"})

    @property
    def tool(self) -> Tool:
        draft = draft_function(Arguments, self.draft)
        return Tool("hang", "Hang", "Hangs.", schema_of(Arguments), draft, writes=False, runs=False)


@dataclass(frozen=True)
class _Offering(EntitlementResolver):
    hang: Hanging = field(default_factory=Hanging)

    def of(self, principal: str) -> Entitlements:
        reach = super().of(principal)
        tools = MappingProxyType({**reach.surface.callable, "hang": self.hang.tool})
        boxes = {**reach.surface.toolboxes, "hang": GDAL}
        return replace(reach, surface=replace(reach.surface, callable=tools, toolboxes=boxes))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    root = tmp_path_factory.mktemp("drafting")
    (root / "ws").mkdir()
    with running(load_settings(workspaces=[str(root / "ws")], state_dir=str(root / "state"))) as application:
        yield application


def turns(at_once: int, per_principal: int, seconds: float) -> BoundedThreads:
    return BoundedThreads(
        "testing", seconds, at_once=at_once, per_principal=per_principal, queue_seconds=seconds
    )


@contextmanager
def hanging(app: App, drafts: BoundedThreads) -> Iterator[tuple[Hanging, Pipeline]]:
    """Such a tool with the server's pipeline."""
    hang = Hanging()
    reaches = _Offering(app.entitlements.full, app.entitlements.policy, app.entitlements.toolboxes, hang=hang)
    try:
        yield hang, replace(app.pipeline, entitlements=reaches, drafts=drafts)
    finally:
        hang.let_go.set()


async def call(pipeline: Pipeline, who: Principal, tool: str = "hang") -> Reply:
    arguments = {"query": "hillshade"} if tool == "gdal_search" else {}
    return await pipeline.call(Request(tool, arguments, who, "test", NullApprover()))


async def hung(hang: Hanging, count: int) -> None:
    """Returns when this many drafts are in progress."""
    await anyio.to_thread.run_sync(until, lambda: hang.now == count)


@pytest.mark.claim("resources.drafts-hold-nobody")
async def test_hanging_drafts_of_one_principal_delay_nobody_else(app: App):
    with hanging(app, turns(3, 2, NEVER)) as (hang, pipeline):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call, pipeline, ANN)
            await hung(hang, 2)
            for _ in range(3):
                assert (await call(pipeline, BEN, "gdal_search")).error is None
            assert hang.now == 2
            hang.let_go.set()
        assert hang.most == 2
        assert (await call(pipeline, ANN)).result == {"let": "go"}


@pytest.mark.claim("resources.drafts-bounded")
async def test_simultaneous_drafts_are_limited_to_the_threads(app: App):
    with hanging(app, turns(3, 2, NEVER)) as (hang, pipeline):
        async with anyio.create_task_group() as group:
            for who in (ANN, BEN, EVE) * 2:
                group.start_soon(call, pipeline, who)
            await hung(hang, 3)
            hang.let_go.set()
        assert hang.most == 3


@pytest.mark.claim("resources.drafts-bounded")
async def test_hanging_draft_times_out_and_counts_until_finished(app: App):
    with hanging(app, turns(3, 1, SOON)) as (hang, pipeline):
        slow, late = await call(pipeline, ANN), await call(pipeline, ANN)
        assert slow.error is not None
        assert late.error is not None
        assert (slow.error.code, late.error.code) == (Code.TIMEOUT, Code.BUSY)
        assert late.error.retry_after is not None
        assert hang.now == 1
        hang.let_go.set()
        await hung(hang, 0)
        assert (await call(pipeline, ANN)).error is None


async def test_abandoned_draft_frees_its_turn_with_its_thread(app: App):
    with hanging(app, turns(2, 1, NEVER)) as (hang, pipeline):
        async with anyio.create_task_group() as group:
            group.start_soon(call, pipeline, ANN)  # has the turn
            await hung(hang, 1)
            group.start_soon(call, pipeline, ANN)  # waits for the turn
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert hang.now == 1
        hang.let_go.set()
        assert (await call(pipeline, ANN)).error is None


@pytest.mark.parametrize("kind", [ToolError, KeyError])
async def test_error_in_draft_propagates_and_frees_the_turn(kind: type[Exception]):
    def fails() -> None:
        raise kind(Code.NOT_FOUND, Stage.RESOLVE, "not there.")

    drafts = turns(1, 1, NEVER)
    for _ in range(3):
        with pytest.raises(kind):
            await drafts.run("ann", fails)
    with anyio.fail_after(30):
        while drafts._lines:  # callers are forgotten once the threads have ended
            gc.collect()
            await anyio.sleep(0.001)
