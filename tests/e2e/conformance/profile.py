"""The server that the conformance suite requires, made from parts of the product: only the work of its tools differs.

Calls, tasks, progress, questions with their sealed state, subscriptions, capabilities, cache hints and errors go
through the code of `gdal_mcp.server.mcp`. There is no container and no GDAL.
"""

import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
from mcp.server.context import CallNext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ServerEvent

from gdal_mcp.policy.identity import Principal
from gdal_mcp.records.tasks import Task, TaskStore
from gdal_mcp.server.mcp import icons, jobs, tasks
from gdal_mcp.server.mcp.progress import Tell, with_progress
from gdal_mcp.server.mcp.resources import not_found
from gdal_mcp.server.mcp.server import ProtocolServer, reject_cursor
from gdal_mcp.server.mcp.subscriptions import Subscriptions
from gdal_mcp.server.mcp.tasks import Context
from tests.e2e.conformance import everything
from tests.e2e.conformance.everything import text

Tool = Callable[[t.CallToolRequestParams, Tell], Awaitable[jobs.Answer]]

EVERYBODY = Principal("everybody")
LISTS = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
SOON = 0.2  # seconds after which a call of this profile is a task
LATER = 1.5  # seconds after which a call certainly is a task


def question(key: str) -> t.InputRequiredResult:
    return questions(key)


def questions(*keys: str) -> t.InputRequiredResult:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}}}
    requests = {
        key: t.ElicitRequest(params=t.ElicitRequestFormParams(message=f"{key}?", requested_schema=schema))
        for key in keys
    }
    return t.InputRequiredResult(input_requests=requests, request_state="+".join(keys))


def answer_content(params: t.CallToolRequestParams, key: str) -> dict[str, Any] | None:
    """The content of an answer, if there is one."""
    response = (params.input_responses or {}).get(key)
    return (response.content or {}) if isinstance(response, t.ElicitResult) else None


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
    answer = answer_content(params, "confirm")
    if answer is None:
        await anyio.sleep(LATER)  # it is a task by the time it asks
        return question("confirm")
    return text("deleted" if answer.get("confirm") else "kept")


async def multi_input(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    answers = [answer_content(params, key) for key in ("first", "second")]
    if None in answers:
        await anyio.sleep(LATER)
        return questions("first", "second")
    return text(" and ".join(str((answer or {}).get("name")) for answer in answers))


async def tool_with_task(params: t.CallToolRequestParams, _tell: Tell) -> jobs.Answer:
    answer = answer_content(params, "user_name")
    if answer is None:
        return question("user_name")
    await anyio.sleep(LATER)
    return text(f"done for {answer.get('name')}")


TASK_TOOLS: dict[str, Tool] = {
    "greet": greet, "slow_compute": slow_compute, "failing_job": failing_job,
    "protocol_error_job": protocol_error_job, "confirm_delete": confirm_delete,
    "multi_input": multi_input, "test_tool_with_task": tool_with_task,
}  # fmt: skip
ONLY_AS_TASKS = frozenset({"failing_job", "protocol_error_job"})


def alone(tool: Tool) -> everything.Tool:
    """A tool that needs nothing from its request."""
    return lambda _ctx, params, tell: tool(params, tell)


class Handlers:
    """The product's handlers, with the suite's tools."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions(
            self.who, self._readable, t.SubscriptionFilter(**dict.fromkeys(LISTS, True))
        )
        own = {name: alone(tool) for name, tool in TASK_TOOLS.items()}
        self._tools = {**everything.tools(self._publish), **own}

    def who(self, _ctx: Context) -> Principal:
        return EVERYBODY

    async def observe_cancellation(self, ctx: Context, call_next: CallNext) -> Any:
        return await call_next(ctx)

    def _publish(self, event: ServerEvent) -> None:
        self.subscriptions.publish(EVERYBODY.id, (event,))

    async def _readable(self, _who: Principal, uris: Sequence[str]) -> list[str]:
        return [uri for uri in uris if everything.resource(uri) is not None]

    def input_schema(self, name: str) -> dict[str, Any]:
        return everything.SCHEMAS.get(name, {"type": "object"})

    async def list_tools(self, _ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        reject_cursor(params)
        named = ((name, self.input_schema(name)) for name in self._tools)
        tools = [t.Tool(name=name, description=name, input_schema=schema) for name, schema in named]
        return t.ListToolsResult(tools=tools)

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> Any:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(t.INVALID_PARAMS, "Unknown tool")
        if params.name in ONLY_AS_TASKS:
            tasks.require(ctx)
        work = partial(tool, ctx)
        if not tasks.offered(ctx):
            return await with_progress(ctx, partial(work, params))
        job = partial(jobs.TaskJob, EVERYBODY.id, params, work)
        ended = await with_progress(ctx, lambda tell: ctx.lifespan_context.call(job(tell)))
        return tasks.created(ended) if isinstance(ended, Task) else ended

    async def list_prompts(
        self, _ctx: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        reject_cursor(params)
        prompts = [
            t.Prompt(
                name=name, description=name, icons=[icons.PROMPT],
                arguments=[t.PromptArgument(name=argument, description=argument, required=True) for argument in arguments],
            )
            for name, arguments in everything.PROMPTS.items()
        ]  # fmt: skip
        return t.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, _ctx: Context, params: t.GetPromptRequestParams
    ) -> t.GetPromptResult | t.InputRequiredResult:
        return everything.prompt(params)

    async def list_resources(
        self, _ctx: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        reject_cursor(params)
        resources = everything.RESOURCES.items()
        rows = [t.Resource(uri=uri, name=uri, mime_type=kind) for uri, kind in resources]
        return t.ListResourcesResult(resources=rows)

    async def list_templates(
        self, _ctx: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListResourceTemplatesResult:
        reject_cursor(params)
        template = t.ResourceTemplate(
            name="data", uri_template=everything.TEMPLATE, description="data", icons=[icons.RECORD]
        )
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        resource = everything.resource(str(params.uri))
        if resource is None:
            raise not_found(str(params.uri), ctx.protocol_version)
        return t.ReadResourceResult(contents=[resource])

    async def complete(self, _ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))

    async def set_level(self, _ctx: Context, _params: t.SetLevelRequestParams) -> t.EmptyResult:
        return t.EmptyResult()


def server(store: TaskStore, after: float = SOON, pending: set[str] | None = None) -> ProtocolServer:
    """A server of the fixture tools, which stores its tasks in `store`."""
    handlers = Handlers()
    rules = jobs.Rules(after, answer_seconds=30.0)
    calls = partial(jobs.running, store=store, rules=rules, pending=set() if pending is None else pending)
    conformance_server = ProtocolServer(
        "conformance", handlers, calls, 60.0, shared=False, version="0", icons=[icons.SERVER]
    )
    conformance_server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, handlers.set_level)
    return conformance_server


def main(folder: str) -> None:
    """Serves over Streamable HTTP on a free port of loopback, with the tasks in a folder; prints its address first."""
    import uvicorn

    store = TaskStore(Path(folder) / "registry.sqlite", "conformance", lambda _server: True)
    config = uvicorn.Config(server(store).streamable_http_app(), log_level="warning")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
