"""Calls that outlive their requests: each ends exactly once, whichever side is faster."""

from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from gdal_mcp.records.schema import RegistryUnavailable
from gdal_mcp.records.tasks import Task, TaskStore
from tests.e2e.conformance.profile import questions, text
from tests.unit.records.jobs_kit import DONE, Call, table
from tests.unit.virtual_time import settle

pytestmark = pytest.mark.anyio

YES = {"action": "accept", "content": {"name": "x"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


async def test_timely_call_returns_directly_and_leaves_no_task(path: Path):
    async with table(path, after=600.0) as task_table:
        for outcome in (DONE, text("no", is_error=True), questions("name")):
            call = Call(outcome=outcome)
            call.go.set()
            assert await task_table.jobs.call(call.job()) == outcome
    assert not await anyio.Path(path).exists()


async def test_a_failure_in_time_is_the_requests_own(path: Path):
    async with table(path, after=600.0) as task_table:
        for failure, code in ((MCPError(-32602, "no"), -32602), (RuntimeError("secret"), -32603)):
            call = Call(outcome=failure)
            call.go.set()
            with pytest.raises(MCPError) as caught:
                await task_table.jobs.call(call.job())
            assert caught.value.error.code == code
            assert "secret" not in caught.value.error.message


async def test_long_call_becomes_task_with_stored_result(path: Path):
    async with table(path) as task_table:
        call = Call()
        task = await task_table.as_task(call)
        assert (task.status, task.principal) == ("working", "ann")
        assert task_table.store.get(task.id, "ann") is not None  # it was on disk before anybody was informed
        assert task_table.pending != set()
        call.tell(0.4, "warping")
        progress = await task_table.jobs.get(task.id, "ann")
        assert "warping" in progress.message
        assert "40%" in progress.message
        assert progress.updated >= task.updated
        call.go.set()
        ended = await task_table.until(task, "completed")
        assert ended.payload["content"] == [{"type": "text", "text": "done"}]
        assert task_table.store.get(task.id, "ann") == ended
        while task_table.pending:
            await anyio.lowlevel.checkpoint()
        assert task_table.jobs._live == {}


async def test_only_protocol_errors_fail_a_task(path: Path):
    for outcome, status, shown in (
        (text("no", is_error=True), "completed", {"isError": True}),
        (MCPError(-32001, "no"), "failed", {"code": -32001, "message": "no"}),
        (RuntimeError("secret"), "failed", {"code": -32603}),
    ):
        async with table(path.with_name(str(outcome))) as task_table:
            task = await task_table.as_task(Call(outcome=outcome), ends=True)
            ended = await task_table.until(task, "completed", "failed", "cancelled")
            assert ended.status == status
            assert ended.payload.items() >= shown.items()
            assert "secret" not in repr(ended)
            await task_table.as_task(Call(), ends=True)  # the server continues to run


async def test_a_cancelled_task_is_stopped_and_says_so(path: Path):
    async with table(path) as task_table:
        call = Call()
        task = await task_table.as_task(call)
        await task_table.jobs.cancel(task.id, "ann")
        ended = await task_table.until(task, "cancelled", "completed")
        assert (ended.status, ended.payload, call.cancelled) == ("cancelled", None, True)
        await task_table.jobs.cancel(task.id, "ann")  # a second time has no effect
        assert await task_table.jobs.get(task.id, "ann") == ended


async def test_a_strangers_task_is_as_absent_as_none(path: Path):
    async with table(path) as task_table:
        call = Call()
        task = await task_table.as_task(call)
        answers = []
        for task_id, principal in ((task.id, "bob"), ("no such", "ann"), ("no such", "bob")):
            for ask in (
                task_table.jobs.get(task_id, principal),
                task_table.jobs.cancel(task_id, principal),
                task_table.jobs.update(task_id, principal, {}),
            ):
                with pytest.raises(MCPError) as caught:
                    await ask
                answers.append(caught.value.error.model_dump())
        assert answers == [answers[0]] * 9
        assert answers[0]["code"] == -32602
        assert not call.cancelled
        call.go.set()
        await task_table.until(task, "completed")


async def test_a_cancelled_request_takes_its_call_along(path: Path):
    async with table(path, after=600.0) as task_table:
        call = Call()
        async with anyio.create_task_group() as group:
            group.start_soon(task_table.jobs.call, call.job())
            await call.begun.wait()
            group.cancel_scope.cancel()
        assert call.cancelled
        assert task_table.pending == set()
    assert not await anyio.Path(path).exists()


class Slow(TaskStore):
    """A store that waits for the test before and after it writes a new task."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "one", lambda _server: False)
        self.asked, self.go = anyio.Event(), anyio.Event()

    def create(self, principal: str, tool: str) -> Task | None:
        anyio.from_thread.run_sync(self.asked.set)
        task = super().create(principal, tool)
        anyio.from_thread.run(self.go.wait)
        return task


@pytest.mark.parametrize("cancelled", [False, True])
async def test_call_ending_while_task_is_written_returns_directly(path: Path, cancelled: bool):
    store = Slow(path)
    async with table(path, store=store) as task_table:
        jobs = task_table.jobs
        call = Call()
        answers = []

        async def ask() -> None:
            answers.append(await jobs.call(call.job()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await store.asked.wait()
            call.go.set()
            with anyio.CancelScope(shield=True):
                while jobs._pending:
                    await anyio.lowlevel.checkpoint()
            if cancelled:
                group.cancel_scope.cancel()
            store.go.set()
        assert cancelled or answers == [DONE]
        assert store._rows._db.execute("SELECT count(*) FROM tasks").fetchone()[0] == 0


async def test_cancelling_while_task_is_written_leaves_nothing_running(path: Path):
    store = Slow(path)
    async with table(path, store=store) as task_table:
        jobs = task_table.jobs
        call = Call()
        async with anyio.create_task_group() as group:
            group.start_soon(jobs.call, call.job())
            await store.asked.wait()
            group.cancel_scope.cancel()
            store.go.set()
        assert call.cancelled
        [row] = store._rows._db.execute("SELECT status FROM tasks").fetchall()
        assert row["status"] == "cancelled"


async def test_calls_over_task_bound_are_answered_at_end(path: Path):
    async with table(path) as task_table:
        for _ in range(2):
            await task_table.as_task(Call())
        third, answers = Call(), []

        async def ask() -> None:
            answers.append(await task_table.jobs.call(third.job()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await third.begun.wait()
            third.go.set()
        assert answers == [DONE]


async def test_unwritable_task_end_is_still_reported(path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise RegistryUnavailable("the disk is full")

    async with table(path) as task_table:
        task = await task_table.as_task(call := Call())
        monkeypatch.setattr(task_table.store, "end", full)
        call.go.set()
        ended = await task_table.until(task, "completed")
        assert ended.payload["content"] == [{"type": "text", "text": "done"}]


async def test_stopping_server_ends_tasks_that_successor_reports_failed(path: Path):
    call, tasks = Call(), []

    async with table(path) as task_table:
        tasks.append(await task_table.as_task(call))
    assert call.cancelled
    store = TaskStore(path, "two", lambda _server: False)
    assert store.get(tasks[0].id, "ann").status == "failed"
    store.close()


async def test_task_asks_and_continues_with_all_answers(path: Path):
    async with table(path) as task_table:
        call = Call(outcome=[questions("first", "second"), DONE])
        task = await task_table.as_task(call, ends=True)
        asking = await task_table.until(task, "input_required")
        assert asking.payload.keys() == {"first", "second"}
        assert asking.payload["first"]["method"] == "elicitation/create"
        await task_table.jobs.update(task.id, "ann", {"third": {"nonsense": 1}, "first": YES})
        await settle()
        assert (await task_table.jobs.get(task.id, "ann")).payload.keys() == {"second"}
        with pytest.raises(ValidationError):
            await task_table.jobs.update(task.id, "ann", {"second": {"action": 5}})
        # the question has its answer
        await task_table.jobs.update(task.id, "ann", {"first": {"nonsense": 1}})
        assert (await task_table.jobs.get(task.id, "ann")).payload.keys() == {"second"}
        await task_table.jobs.update(task.id, "ann", {"second": YES})
        await task_table.until(task, "completed")
        assert [sorted(answers) for answers in call.heard] == [[], ["first", "second"]]
        await task_table.jobs.update(task.id, "ann", {"first": YES})  # too late: ignored


@pytest.mark.claim("identity.answers-as-calls")
async def test_only_writers_answer_questions_of_writing_calls(path: Path):
    async with table(path) as task_table:
        task = await task_table.as_task(Call(outcome=[questions("name"), DONE], writes=True), ends=True)
        await task_table.until(task, "input_required")
        with pytest.raises(MCPError):
            await task_table.jobs.update(task.id, "ann", {"name": YES}, may_write=False)
        await settle()
        assert (await task_table.jobs.get(task.id, "ann")).status == "input_required"
        await task_table.jobs.update(task.id, "ann", {"name": YES}, may_write=True)
        await task_table.until(task, "completed")


async def test_no_key_asks_twice_in_one_task(path: Path):
    async with table(path) as task_table:
        call = Call(outcome=[questions("name"), questions("name"), questions("name"), DONE])
        task = await task_table.as_task(call, ends=True)
        keys: list[str] = []
        for _ in range(3):
            while (asking := await task_table.until(task, "input_required")).payload.keys() <= set(keys):
                await anyio.lowlevel.checkpoint()
            [key] = asking.payload
            keys.append(key)
            await task_table.jobs.update(task.id, "ann", {key: YES})
        await task_table.until(task, "completed")
        assert len(set(keys)) == 3
        assert [sorted(answers) for answers in call.heard] == [[], ["name"], ["name"], ["name"]]


@pytest.mark.parametrize("how", ["cancel", "silence"])
async def test_a_task_that_gets_no_answer_ends(path: Path, how: str):
    async with table(path, answer_seconds=0.05 if how == "silence" else 600.0) as task_table:
        task = await task_table.as_task(Call(outcome=[questions("name")]), ends=True)
        if how == "cancel":
            await task_table.until(task, "input_required")
            await task_table.jobs.cancel(task.id, "ann")
        assert (await task_table.until(task, "cancelled")).payload is None
