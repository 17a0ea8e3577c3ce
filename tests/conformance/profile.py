"""The fixture tools that the conformance suite asks for, behind the product's own code for tasks and progress.

No container and no GDAL: what is held to the protocol here is how calls become tasks, not what they compute.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

from gdal_mcp.mcp import jobs, tasks
from gdal_mcp.mcp.progress import Tell, relayed
from gdal_mcp.mcp.tasks import Context
from gdal_mcp.tasks import Keeping, Task, TaskStore

Tool = Callable[[t.CallToolRequestParams, Tell], Awaitable[jobs.Answer]]

SOON = 0.2  # seconds after which a call of this profile is a task
LATER = 0.5  # seconds after which one certainly is


def text(words: str, *, is_error: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=words)], is_error=is_error)


def question(key: str) -> t.InputRequiredResult:
    return questions(key)


def questions(*keys: str) -> t.InputRequiredResult:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}}}
    asked = {
        key: t.ElicitRequest(params=t.ElicitRequestFormParams(message=f"{key}?", requested_schema=schema))
        for key in keys
    }
    return t.InputRequiredResult(input_requests=asked, request_state="+".join(keys))


def given(params: t.CallToolRequestParams, key: str) -> dict[str, Any] | None:
    """The content of an answer, if there is one."""
    found = (params.input_responses or {}).get(key)
    return (found.content or {}) if isinstance(found, t.ElicitResult) else None


async def greet(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    return text(f"Hello, {(params.arguments or {}).get('name', 'you')}!")


async def slow_compute(params: t.CallToolRequestParams, tell: Tell) -> jobs.Answer:
    seconds = float((params.arguments or {}).get("seconds", 1))
    tell(0.5, "computing")
    await anyio.sleep(seconds)
    return text(f"computed for {seconds:g} s")


async def failing_job(_params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    await anyio.sleep(LATER)
    return text("this job always fails", is_error=True)


async def protocol_error_job(_params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    await anyio.sleep(LATER)
    raise RuntimeError("a fault that nobody expected: secret")


async def confirm_delete(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    answer = given(params, "confirm")
    if answer is None:
        await anyio.sleep(LATER)  # it is a task by the time it asks
        return question("confirm")
    return text("deleted" if answer.get("confirm") else "kept")


async def multi_input(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    answers = [given(params, key) for key in ("first", "second")]
    if None in answers:
        await anyio.sleep(LATER)
        return questions("first", "second")
    return text(" and ".join(str((answer or {}).get("name")) for answer in answers))


async def tool_with_task(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    answer = given(params, "user_name")
    if answer is None:
        return question("user_name")
    await anyio.sleep(LATER)
    return text(f"done for {answer.get('name')}")


TOOLS: dict[str, Tool] = {
    "greet": greet,
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
    "test_tool_with_task": tool_with_task,
}
ONLY_AS_TASKS = frozenset({"failing_job", "protocol_error_job"})


async def list_tools(_ctx: Context, _params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    schema: dict[str, Any] = {"type": "object"}
    return t.ListToolsResult(
        tools=[t.Tool(name=name, description=name, input_schema=schema) for name in TOOLS]
    )


async def call_tool(ctx: Context, params: t.CallToolRequestParams) -> Any:
    work = TOOLS.get(params.name)
    if work is None:
        raise MCPError(t.INVALID_PARAMS, "Unknown tool")
    if params.name in ONLY_AS_TASKS:
        tasks.require(ctx)
    if not tasks.offered(ctx):
        return await relayed(ctx, partial(work, params))
    job = partial(jobs.Job, "everybody", params, work)
    ended = await relayed(ctx, lambda tell: ctx.lifespan_context.call(job(tell)))
    return tasks.created(ended) if isinstance(ended, Task) else ended


def server(store: TaskStore, after: float = SOON, pending: set[str] | None = None) -> Server[Any]:
    """A server of the fixture tools, whose tasks are kept in `store`."""
    rules = jobs.Rules(after, answer_seconds=30.0)
    running = partial(jobs.running, store=store, rules=rules, pending=set() if pending is None else pending)
    made: Server[Any] = Server("conformance", version="0", lifespan=running, on_list_tools=list_tools)
    made.add_request_handler("tools/call", t.CallToolRequestParams, call_tool)
    tasks.serve_tasks(made, lambda _ctx: "everybody")
    made.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="x"))
    return made


def main(folder: str, port: str) -> None:
    """Serves over Streamable HTTP on this machine alone, with the tasks in a folder."""
    import uvicorn

    store = TaskStore(Path(folder) / "registry.sqlite", Keeping("conformance", lambda _server: True))
    uvicorn.run(server(store).streamable_http_app(), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
