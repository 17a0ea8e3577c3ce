"""Planning has its own limit of threads, and ends when its call is cancelled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gdal_mcp.calls.bounded_threads import AT_ONCE
from gdal_mcp.policy.identity import local
from gdal_mcp.toolboxes.base import Arguments, ImmediateResult, Tool, schema_and_draft
from gdal_mcp.toolboxes.toolbox import Analysis, Toolbox
from tests.integration.memory_server import ANN, BEN, In, Server, World, memory_toolbox, server
from tests.integration.test_impatient_clients import connected
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unmeasured")]

CALLS, PRINCIPALS = 200, 50


@dataclass
class Planning:
    """A tool whose planning looks up one file again and again until `enough` is set, and counts its threads."""

    enough: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int = 0
    most: int = 0
    finished: int = 0  # plans that were completed

    def draft(self, arguments: In, context: Any) -> ImmediateResult:
        with self._counted():
            while not self.enough.wait(0.001):
                context.workspaces.input(arguments.path)
            self.finished += 1
        return ImmediateResult({"planned": 1})

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self.lock:
                self.now -= 1

    def toolbox(self, _world: World) -> Toolbox:
        answers = {"writes": False, "runs": False}
        tell = Tool(
            "tell",
            "Tell",
            "Tells.",
            **schema_and_draft(Arguments, lambda *_: ImmediateResult({"told": 1})),
            **answers,
        )
        plan = Tool("plan", "Plan", "Plans.", **schema_and_draft(In, self.draft), **answers)
        return memory_toolbox((tell, plan), Analysis(), operations=frozenset())


@pytest.fixture
def planning() -> Iterator[Planning]:
    new_planning = Planning()
    yield new_planning
    new_planning.enough.set()


@pytest.fixture
def memory_server(tmp_path: Path, planning: Planning) -> Iterator[Server]:
    with server(tmp_path, make_toolbox=planning.toolbox) as started:
        yield started
        planning.enough.set()


async def wait_for(condition: Any) -> None:
    await anyio.to_thread.run_sync(until, condition)


@pytest.mark.claim("resources.drafts-bounded")
async def test_many_principals_plan_within_the_thread_pool(memory_server: Server, planning: Planning):
    async with anyio.create_task_group() as group:
        for number in range(CALLS):
            who = local(f"p{number % PRINCIPALS}")
            group.start_soon(lambda who=who: memory_server.call("plan", who, path="in.bin"))
        await wait_for(lambda: planning.now == AT_ONCE)
        assert planning.most == AT_ONCE
        async with connected(memory_server) as wire:
            await wire.send("ping", 7)
            await wait_for(lambda: 7 in wire.answers)
        assert planning.finished == 0
        planning.enough.set()
    assert planning.finished == CALLS
    assert planning.most == AT_ONCE


@pytest.mark.claim("resources.drafts-bounded")
async def test_cancelled_planning_ends_and_frees_its_threads(memory_server: Server, planning: Planning):
    async with anyio.create_task_group() as group:
        for number in range(CALLS):
            who = local(f"p{number % PRINCIPALS}")
            group.start_soon(lambda who=who: memory_server.call("plan", who, path="in.bin"))
        await wait_for(lambda: planning.now == AT_ONCE)
        group.cancel_scope.cancel()
    await wait_for(lambda: planning.now == 0)
    assert planning.finished == 0
    for who in (ANN, BEN):
        assert (await memory_server.call("tell", who)).result == {"told": 1}
    assert memory_server.pipeline.active == set()
