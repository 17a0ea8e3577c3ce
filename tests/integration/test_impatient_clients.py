"""Clients that give up early: their calls continue, the same call sent again joins, and the result can be read later."""

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.errors import Code
from gdal_mcp.plan import Command, Draft, PrintedOutput
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.server.mcp.server import build
from gdal_mcp.toolboxes.base import Tool, schema_and_draft
from gdal_mcp.toolboxes.toolbox import Analysis, Toolbox
from gdal_mcp.tools.look import LIST_WORKSPACE
from tests.e2e.mcp.talk import ERAS, enveloped
from tests.integration.memory_server import ANN, BEN, In, Server, World, memory_toolbox, server
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unmeasured")]


async def eventually(condition: Any) -> None:
    await anyio.to_thread.run_sync(until, condition)


@dataclass
class Wire:
    """A client that reads and writes JSON-RPC messages itself, like one with a time limit."""

    sending: Any
    era: str
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)

    async def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": enveloped(params, self.era, {})}
        if number is not None:
            message["id"] = number
        await self.sending.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

    async def call(self, number: int, tool: str, **arguments: Any) -> None:
        await self.send("tools/call", number, name=tool, arguments=arguments)

    async def answer(self, number: int) -> dict[str, Any]:
        await eventually(lambda: number in self.answers)
        return json.loads(self.answers[number]["result"]["content"][0]["text"])  # type: ignore[no-any-return]

    async def give_up(self, number: int, reason: str) -> None:
        await self.send("notifications/cancelled", requestId=number, reason=reason)


@asynccontextmanager
async def connected(memory_server: Server, era: str = ERAS[0]) -> AsyncIterator[Wire]:
    mcp_server = build(memory_server.app, who=lambda _ctx: ANN)
    sending, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    outbox, received = anyio.create_memory_object_stream[SessionMessage](100)
    wire = Wire(sending, era)

    async def read() -> None:
        async for item in received:
            text = item.message.model_dump(by_alias=True, mode="json", exclude_none=True)
            if "id" in text and "method" not in text:
                wire.answers[text["id"]] = text

    async with sending, received, anyio.create_task_group() as group:
        group.start_soon(mcp_server.run, inbox, outbox, mcp_server.create_initialization_options())
        group.start_soon(read)
        client = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        if era == ERAS[0]:
            await wire.send("initialize", 0, **client)
            await wire.send("notifications/initialized")
        yield wire
        group.cancel_scope.cancel()


def started(memory_server: Server) -> int:
    return len([job for job in memory_server.world.jobs if job != "describe"])


def running(memory_server: Server) -> int:
    return len(memory_server.pipeline.activity.all())


async def let_go(memory_server: Server) -> None:
    """Lets containers end after a call was cancelled, because in-memory containers cannot be killed."""
    await eventually(lambda: any(call.scope.cancel_called for call in memory_server.pipeline.activity.all()))
    memory_server.world.gate.set()


@pytest.mark.parametrize("era", ERAS)
async def test_call_continues_after_client_timeout_with_readable_result(tmp_path: Path, era: str):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server, era) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.give_up(1, "McpError: MCP error -32001: Request timed out")
            await eventually(lambda: all(call.waiting == 0 for call in memory_server.pipeline.activity.all()))
            memory_server.world.gate.set()
            await eventually(lambda: running(memory_server) == 0)
            assert (memory_server.root / "out.bin").read_bytes() == b"made"
            await wire.call(2, "look", path="in.bin")
            [row] = (await wire.answer(2))["waiting_results"]
            await wire.call(3, "look", path="in.bin")
            assert "waiting_results" not in await wire.answer(3)
            assert 1 not in wire.answers
        stored = memory_server.pipeline.results.read(row["call_id"], 0, 1 << 20, ANN.id)
        assert stored is not None
        assert json.loads(stored[0])["outputs"][0]["path"] == str(memory_server.root / "out.bin")
        assert (row["tool"], row["outcome"]) == ("make", "OK")
        assert memory_server.pipeline.results.read(row["call_id"], 0, 1 << 20, BEN.id) is None
        context: Any = type("Context", (), {"settings": memory_server.app.settings, "principal": ANN.id})()
        answer = LIST_WORKSPACE.draft({"result": row["call_id"]}, context)
        assert answer.result["result"] == json.loads(stored[0])  # type: ignore[union-attr]


@pytest.mark.claim("resources.sent-again-joins")
async def test_repeated_equal_call_joins_the_running_one(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.give_up(1, "timeout")
            await wire.call(2, "make", path="in.bin", output="out.bin")
            await eventually(
                lambda: any(call.waiting for call in memory_server.pipeline.activity.all() if call.plan)
            )
            memory_server.world.gate.set()
            assert (await wire.answer(2))["outputs"][0]["path"] == str(memory_server.root / "out.bin")
            await wire.call(3, "look", path="in.bin")
            assert "waiting_results" not in await wire.answer(3), "the second request received it"
        assert memory_server.world.jobs.count("make") == 1
        assert [
            event["outcome"][:6] for event in memory_server.events() if event["type"] == "call.joined"
        ] == ["joined"]


async def test_call_cancelled_for_another_reason_ends(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.give_up(1, "the user pressed stop")
            await let_go(memory_server)
            await eventually(lambda: running(memory_server) == 0)
        assert memory_server.events()[-1]["outcome"] == "CANCELLED"
        assert not (memory_server.root / "out.bin").exists()


async def test_a_cancelled_request_has_no_reply(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        replies: list[Reply] = []
        scope = anyio.CancelScope()

        async def make() -> None:
            with scope:
                replies.append(await memory_server.make())

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            await eventually(lambda: started(memory_server) == 1)
            scope.cancel()
            await let_go(memory_server)
        assert replies == []


async def test_a_server_that_ends_waits_for_no_client(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.give_up(1, "timed out")
            await eventually(lambda: all(call.waiting == 0 for call in memory_server.pipeline.activity.all()))
            memory_server.pipeline.activity.end()
            await let_go(memory_server)
            await eventually(lambda: running(memory_server) == 0)
        assert memory_server.events()[-1]["outcome"] == "CANCELLED"


@pytest.mark.parametrize("young", [True, False])
async def test_slow_reading_call_can_be_joined(tmp_path: Path, young: bool):
    with server(tmp_path, concurrent=4) as memory_server:
        memory_server.pipeline.activity.join_reads_after = 60.0 if young else 0.0
        memory_server.world.gate.clear()
        replies: list[Reply] = []

        async def look() -> None:
            replies.append(await memory_server.call("look", path="in.bin"))

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            await eventually(lambda: started(memory_server) == 1)
            group.start_soon(look)
            group.start_soon(lambda: memory_server.call("look", BEN, path="in.bin"))
            await eventually(lambda: started(memory_server) == (3 if young else 2))
            if not young:
                await eventually(
                    lambda: any(call.waiting == 2 for call in memory_server.pipeline.activity.all())
                )
            memory_server.world.gate.set()
        assert len({reply.call_id for reply in replies}) == (2 if young else 1)
        assert memory_server.world.jobs.count("look") == (3 if young else 2), (
            "another principal's call is its own"
        )


class Shown(In):
    shown: str


def _show(arguments: Shown, context: Any) -> Draft:
    """Runs the same command whatever is shown, like `validate_call` for different calls with the same inputs."""
    source = context.workspaces.input(arguments.path)
    printed = PrintedOutput(present=lambda _answer: {"shown": arguments.shown})
    return Draft(Command("show", (), (str(source),)), (source,), printed=printed)


def showing(_world: World) -> Toolbox:
    show = Tool("show", "Show", "Reads.", **schema_and_draft(Shown, _show), writes=False)
    return memory_toolbox((show,), Analysis(), operations=frozenset())


async def test_same_plan_with_other_arguments_is_not_joined(tmp_path: Path):
    with server(tmp_path, concurrent=4, make_toolbox=showing) as memory_server:
        memory_server.pipeline.activity.join_reads_after = 0.0
        memory_server.world.gate.clear()
        answers: dict[str, str] = {}

        async def show(text: str) -> None:
            reply = await memory_server.call("show", path="in.bin", shown=text)
            answers[text] = reply.result["shown"]

        async with anyio.create_task_group() as group:
            group.start_soon(show, "first")
            await eventually(lambda: started(memory_server) == 1)
            group.start_soon(show, "second")
            await eventually(
                lambda: (
                    started(memory_server) == 2
                    or any(call.waiting == 2 for call in memory_server.pipeline.activity.all())
                )
            )
            memory_server.world.gate.set()
        assert answers == {"first": "first", "second": "second"}


async def test_joined_call_outlives_its_first_request(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        replies: list[Reply] = []

        async def make() -> None:
            replies.append(await memory_server.make())

        async with anyio.create_task_group() as second, anyio.create_task_group() as first:
            first.start_soon(memory_server.make)
            await eventually(lambda: started(memory_server) == 1)
            second.start_soon(make)
            await eventually(lambda: any(call.waiting == 2 for call in memory_server.pipeline.activity.all()))
            first.cancel_scope.cancel()
            memory_server.world.gate.set()
        assert [reply.error for reply in replies] == [None]
        assert memory_server.world.jobs.count("make") == 1


@pytest.mark.parametrize("era", ERAS)
async def test_call_ends_when_all_its_requests_are_cancelled(tmp_path: Path, era: str):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server, era) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.call(2, "make", path="in.bin", output="out.bin")
            await eventually(lambda: any(call.waiting == 2 for call in memory_server.pipeline.activity.all()))
            for number in (1, 2):
                await wire.give_up(number, "the user pressed stop")
            await let_go(memory_server)
            await eventually(lambda: running(memory_server) == 0)
        ended = [event["outcome"] for event in memory_server.events() if event["type"] == "call.finished"]
        assert ended == ["CANCELLED"] * 2
        assert not (memory_server.root / "out.bin").exists()


async def test_call_sent_again_does_not_join_the_cancelled_one(tmp_path: Path):
    """The user pressed stop and then changed their mind, while the container is still being removed."""
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.give_up(1, "the user pressed stop")
            await eventually(
                lambda: any(call.scope.cancel_called for call in memory_server.pipeline.activity.all())
            )
            await wire.call(2, "make", path="in.bin", output="out.bin")
            await eventually(
                lambda: (
                    started(memory_server) == 2
                    or any(event["type"] == "call.joined" for event in memory_server.events())
                )
            )
            memory_server.world.gate.set()
            assert "error" not in await wire.answer(2)
        assert (memory_server.root / "out.bin").read_bytes() == b"made"


async def test_call_does_not_end_while_a_request_joins_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first request is cancelled while the record of the second is written to a slow disk."""
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        joining, written = threading.Event(), threading.Event()
        append = AuditLog.append

        def slowly(log: AuditLog, event: dict[str, Any]) -> object:
            if event["type"] == "call.joined":
                joining.set()
                written.wait(60)
            return append(log, event)

        monkeypatch.setattr(AuditLog, "append", slowly)
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(lambda: started(memory_server) == 1)
            await wire.call(2, "make", path="in.bin", output="out.bin")
            await eventually(joining.is_set)
            await wire.give_up(1, "the user pressed stop")
            first = next(call for call in memory_server.pipeline.activity.all() if call.plan)
            await eventually(first.reason.is_set)
            await eventually(lambda: first.waiting < 2)
            written.set()
            memory_server.world.gate.set()
            assert "error" not in await wire.answer(2)


async def test_client_that_times_out_during_a_question_asks_once(tmp_path: Path):
    """The same call sent again waits for the same answer."""
    with server(tmp_path, approval_wait=60.0) as memory_server:
        questions = memory_server.app.approvals.approvals
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            await eventually(questions.pending)
            await wire.give_up(1, "Request timed out")
            await eventually(lambda: all(call.waiting == 0 for call in memory_server.pipeline.activity.all()))
            await wire.call(2, "make", path="in.bin", output="out.bin")
            await eventually(
                lambda: (
                    len(questions.pending()) > 1
                    or any(call.waiting for call in memory_server.pipeline.activity.all() if call.plan)
                )
            )
            memory_server.decide()
            assert "error" not in await wire.answer(2)
        assert memory_server.states() == ["consumed"]
        assert memory_server.world.jobs.count("make") == 1


async def test_person_cancelling_a_joined_call_ends_it(tmp_path: Path):
    with server(tmp_path, approval="never") as memory_server:
        memory_server.world.gate.clear()
        replies: list[Reply] = []

        async def make() -> None:
            replies.append(await memory_server.make())

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            await eventually(lambda: started(memory_server) == 1)
            group.start_soon(make)
            await eventually(lambda: any(call.waiting == 2 for call in memory_server.pipeline.activity.all()))
            [first] = [call for call in memory_server.pipeline.activity.all() if call.waiting == 2]
            memory_server.pipeline.activity.cancel(first.call_id, "ann")
            await let_go(memory_server)
        assert [reply.error and reply.error.code for reply in replies] == [Code.CANCELLED] * 2
        assert not (memory_server.root / "out.bin").exists()


async def test_long_answer_is_named_only_once(tmp_path: Path):
    """Some clients discard an answer without notice."""
    with server(tmp_path, approval="never") as memory_server:
        memory_server.pipeline.missed_replies.patient_seconds = 0.0
        async with connected(memory_server) as wire:
            await wire.call(1, "make", path="in.bin", output="out.bin")
            first = await wire.answer(1)
            assert "waiting_results" not in first
            memory_server.pipeline.missed_replies.patient_seconds = 60.0
            await wire.call(2, "look", path="in.bin")
            [row] = (await wire.answer(2))["waiting_results"]
        assert row["call_id"] == first["receipt"]["call_id"]
