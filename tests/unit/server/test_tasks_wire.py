"""The tasks extension in protocol messages: which clients are offered it, and its terms."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from gdal_mcp.records.tasks import TaskStore
from gdal_mcp.server.mcp import jobs, tasks
from gdal_mcp.server.mcp.tasks import EXTENSION
from tests.e2e.conformance import profile
from tests.e2e.mcp.talk import HELLO, enveloped

pytestmark = pytest.mark.anyio

MODERN, LEGACY = "2026-07-28", "2025-11-25"
TASKS = {"extensions": {EXTENSION: {}}}
METHODS = {"tasks/get": {}, "tasks/cancel": {}, "tasks/update": {"inputResponses": {}}}


class Line:
    """A client that can write any message. `capabilities` are part of each request."""

    def __init__(self, reading: Any, writing: Any, version: str, capabilities: dict[str, Any]) -> None:
        self._reading, self._writing = reading, writing
        self.version, self.capabilities = version, capabilities
        self.heard: list[dict[str, Any]] = []
        self._next = 0

    async def send(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        self._next += 1
        message = {"jsonrpc": "2.0", "method": method, "params": self._enveloped(params, meta)}
        await self._writing.send(SessionMessage(t.JSONRPCRequest(id=self._next, **message)))
        return self._next

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": self._enveloped(params, {})}
        await self._writing.send(SessionMessage(t.JSONRPCNotification(**message)))

    def _enveloped(self, params: dict[str, Any] | None, meta: dict[str, Any]) -> dict[str, Any]:
        parameters = {**(params or {}), **({"_meta": meta} if meta else {})}
        return enveloped(parameters, self.version, self.capabilities)

    async def answer(self, identifier: int) -> dict[str, Any]:
        """The response; earlier messages are stored in `heard`."""
        while True:
            message = (await self._reading.receive()).message.model_dump(by_alias=True, exclude_none=True)
            if message.get("id") == identifier:
                return message
            self.heard.append(message)

    async def ask(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        return await self.answer(await self.send(method, params, **meta))

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return (await self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]

    async def hello(self) -> dict[str, Any]:
        parameters = {**HELLO, "capabilities": self.capabilities}
        response = await self.ask("initialize", parameters)
        await self.notify("notifications/initialized")
        return response["result"]

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        task: dict[str, Any] = {"status": ""}
        while task["status"] not in statuses:
            task = (await self.ask("tasks/get", {"taskId": task_id}))["result"]
        return task


Talk = Callable[..., AbstractAsyncContextManager[Line]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """`talk(after=..., version=..., capabilities=...)` is a client of a new server."""

    @asynccontextmanager
    async def line(
        after: float = 0.0, version: str = MODERN, capabilities: dict[str, Any] = TASKS
    ) -> AsyncIterator[Line]:
        store = TaskStore(tmp_path / "registry.sqlite", "one", lambda _server: True)
        server = profile.server(store, after)
        async with (
            create_client_server_memory_streams() as ((reading, writing), theirs),
            anyio.create_task_group() as group,
        ):
            group.start_soon(server.run, *theirs, server.create_initialization_options())
            with anyio.fail_after(30):  # far above any duration here
                yield Line(reading, writing, version, capabilities)
            group.cancel_scope.cancel()

    return line


async def test_extension_is_announced_only_to_new_protocol(talk: Talk):
    async with talk() as line:
        capabilities = (await line.ask("server/discover"))["result"]["capabilities"]
        assert capabilities["extensions"][EXTENSION] == {}
        assert "tasks" not in capabilities
    async with talk(version=LEGACY) as line:
        capabilities = (await line.hello())["capabilities"]
        assert EXTENSION not in str(capabilities)
        assert "tasks" not in capabilities


async def test_older_protocol_has_no_tasks(talk: Talk):
    async with talk(version=LEGACY) as line:
        await line.hello()
        assert (await line.call("slow_compute", seconds=0.5))["content"]
        for method, params in METHODS.items():
            assert (await line.ask(method, {"taskId": "x", **params}))["error"]["code"] == -32601


async def test_a_client_without_the_extension_gets_no_task(talk: Talk):
    for capabilities in ({}, {"tasks": {}}, {"extensions": {"io.modelcontextprotocol/ui": {}}}):
        async with talk(capabilities=capabilities) as line:
            result = await line.call("slow_compute", seconds=0.5)
            assert result["resultType"] == "complete"
            assert result["content"]
            created = await line.ask(
                "tools/call",
                {"name": "slow_compute", "arguments": {"seconds": 60}},
                **{"io.modelcontextprotocol/clientCapabilities": TASKS},
            )
            task_id = created["result"]["taskId"]
            for method, params in METHODS.items():
                for identifier in (task_id, "no such"):
                    error = (await line.ask(method, {"taskId": identifier, **params}))["error"]
                    assert error["code"] == -32021
                    assert error["data"] == {"requiredCapabilities": TASKS}


async def test_task_is_flat_in_protocol_terms(talk: Talk):
    base = set("taskId status createdAt lastUpdatedAt ttlMs pollIntervalMs resultType _meta".split())

    async with talk() as line:
        task = await line.call("slow_compute", seconds=60)
        assert task["resultType"] == "task"
        assert base <= task.keys() <= base | {"statusMessage"}
        assert task["ttlMs"] >= 3_600_000
        assert isinstance(task["pollIntervalMs"], int)
        for moment in (task["createdAt"], task["lastUpdatedAt"]):
            assert datetime.fromisoformat(moment).tzinfo is not None
        working = (await line.ask("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert (working["resultType"], working["status"]) == ("complete", "working")
        assert base <= working.keys() <= base | {"statusMessage"}
        for removed in ("tasks/list", "tasks/result"):
            assert (await line.ask(removed, {"taskId": task["taskId"]}))["error"]["code"] == -32601
        acknowledged = (await line.ask("tasks/cancel", {"taskId": task["taskId"]}))["result"]
        assert acknowledged.keys() <= {"resultType", "_meta"}
        cancelled = await line.until(task["taskId"], "cancelled", "completed")
        assert cancelled["status"] == "cancelled"
        assert base <= cancelled.keys() <= base | {"statusMessage"}


def test_http_routing_header_must_name_the_task():
    table = jobs.Jobs.__new__(jobs.Jobs)
    session = SimpleNamespace(client_capabilities=t.ClientCapabilities(extensions={EXTENSION: {}}))
    parameters = tasks.TaskParams(task_id="abc")

    def checked(**headers: str) -> Any:
        request = SimpleNamespace(headers={name.replace("_", "-"): text for name, text in headers.items()})
        ctx = SimpleNamespace(
            protocol_version=MODERN, session=session, request=request, lifespan_context=table
        )
        return tasks._checked(ctx, parameters)  # type: ignore[arg-type]

    for name in ("abc", "=?base64?YWJj?="):
        assert checked(mcp_name=name) is table
    for headers in ({"mcp_name": "abd"}, {}):
        with pytest.raises(MCPError) as caught:
            checked(**headers)
        assert caught.value.error.code == -32020


async def test_request_about_unknown_task_has_invalid_parameters(talk: Talk):
    async with talk() as line:
        for method, params in (
            ("tasks/get", {}),
            ("tasks/get", {"taskId": 5}),
            ("tasks/get", {"taskId": "no such"}),
            ("tasks/get", {"taskId": "a\0b"}),
            ("tasks/cancel", {"taskId": "no such"}),
            ("tasks/update", {"taskId": "no such", "inputResponses": {}}),
            ("tasks/update", {"taskId": "no such"}),
            ("tasks/update", {"taskId": "no such", "inputResponses": [1]}),
        ):
            assert (await line.ask(method, params))["error"]["code"] == -32602, (method, params)


async def test_progress_moves_into_the_task_once_answered(talk: Talk):
    async with talk(after=0.3) as line:
        identifier = await line.send(
            "tools/call", {"name": "slow_compute", "arguments": {"seconds": 60}}, progressToken="p"
        )
        task = (await line.answer(identifier))["result"]
        assert [notification["params"]["progress"] for notification in line.heard] == [0.5]
        line.heard.clear()
        working = await line.until(task["taskId"], "working")
        assert "computing" in working["statusMessage"]
        assert "50%" in working["statusMessage"]
        assert line.heard == []


async def test_cancelled_notification_does_not_cancel_a_task(talk: Talk):
    async with talk() as line:
        identifier = await line.send("tools/call", {"name": "slow_compute", "arguments": {"seconds": 0.5}})
        task = (await line.answer(identifier))["result"]
        await line.notify("notifications/cancelled", {"requestId": identifier, "reason": "x"})
        assert (await line.until(task["taskId"], "cancelled", "completed"))["status"] == "completed"


async def test_question_before_task_is_answered_by_calling_again(talk: Talk):
    async with talk(after=0.4) as line:
        question = await line.call("test_tool_with_task")
        assert question["resultType"] == "input_required"
        again = {
            "name": "test_tool_with_task",
            "arguments": {},
            "requestState": question["requestState"],
            "inputResponses": {"user_name": {"action": "accept", "content": {"name": "Ann"}}},
        }
        task = (await line.ask("tools/call", again))["result"]
        assert task["resultType"] == "task"
        assert task.keys().isdisjoint({"requestState", "inputRequests"})
        ended = await line.until(task["taskId"], "completed")
        assert "Ann" in ended["result"]["content"][0]["text"]
