"""Calls that end when a test says so, and the table of jobs for them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as t

from gdal_mcp.records.tasks import Task, TaskStore
from gdal_mcp.server.mcp import jobs
from tests.e2e.conformance.profile import text

DONE = text("done")


@dataclass
class Call:
    """A call that ends when the test says so, and reports its outcome."""

    go: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)
    outcome: Any = field(default_factory=lambda: DONE)
    heard: list[dict[str, Any]] = field(default_factory=list)
    cancelled: bool = False
    writes: bool = False
    tell: Callable[[float, str], None] = lambda _fraction, _words: None

    async def work(self, params: t.CallToolRequestParams, tell: Callable[[float, str], None]) -> Any:
        self.heard.append({key: value.model_dump() for key, value in (params.input_responses or {}).items()})
        self.tell = tell
        self.begun.set()
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome.pop(0) if isinstance(self.outcome, list) else self.outcome

    def job(self, principal: str = "ann") -> jobs.TaskJob:
        params = t.CallToolRequestParams(name="warp", arguments={})
        return jobs.TaskJob(principal, params, self.work, lambda _fraction, _words: None, self.writes)


@dataclass
class Table:
    """The jobs of a running server, and its stores."""

    jobs: jobs.Jobs
    store: TaskStore
    pending: set[str]

    async def until(self, task: Task, *statuses: str) -> Task:
        """The task once it has one of these statuses."""
        while (current := await self.jobs.get(task.id, task.principal)).status not in statuses:
            await anyio.lowlevel.checkpoint()
        return current

    async def as_task(self, call: Call, principal: str = "ann", *, ends: bool = False) -> Task:
        """A task for this call, which continues to its outcome if `ends`."""
        task = await self.jobs.call(call.job(principal))
        assert isinstance(task, Task)
        await call.begun.wait()
        if ends:
            call.go.set()
        return task


@asynccontextmanager
async def table(
    path: Path, after: float = 0.0, answer_seconds: float = 600.0, store: TaskStore | None = None
) -> AsyncIterator[Table]:
    """With `after` 0 every call is a task at once, with infinity no call is."""
    store = store or TaskStore(path, "one", lambda _server: False, most=2)
    pending: set[str] = set()
    rules = jobs.Rules(after, answer_seconds)
    with anyio.fail_after(30):  # far above any duration here
        async with jobs.running(None, store, rules, pending) as running_jobs:  # type: ignore[arg-type]
            yield Table(running_jobs, store, pending)
    assert pending == set()
    assert "_db" not in store.__dict__  # closed
