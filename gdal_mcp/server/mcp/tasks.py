"""The extension `io.modelcontextprotocol/tasks` (SEP-2663) of protocol 2026-07-28, in its wire format.

Invariants:
* only a request that declares the extension is answered by a task; older protocols do not have it;
* a request for the task of another principal is answered as if the task did not exist;
* `tasks/update` of a task without open questions succeeds and changes nothing.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.policy.identity import WRITE, Principal
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.records.tasks import Task
from gdal_mcp.server.mcp.jobs import Jobs

EXTENSION: Final = "io.modelcontextprotocol/tasks"
CAPABILITY: Final[Mapping[str, Any]] = {"extensions": {EXTENSION: {}}}
_POLLS: Final = (0.5, 5.0)  # seconds between two polls: the first for a young task, the second for an old one
_PAYLOADS: Final = {"completed": "result", "failed": "error", "input_required": "inputRequests"}

Context = ServerRequestContext[Any]
Who = Callable[[Context], Principal]


class TaskParams(t.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    """Answers by the keys of their questions. Answers to questions that are not open are ignored."""

    input_responses: dict[str, Any]


def created(task: Task) -> dict[str, Any]:
    return {"resultType": "task", **_task_fields(task)}


def _task_fields(task: Task) -> dict[str, Any]:
    now = time.time()
    lifetime = task.expires_at(now) - task.created
    age = (task.updated if task.ended else now) - task.created  # constant after the task has ended
    wire: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": time_text(task.created),
        "lastUpdatedAt": time_text(task.updated),
        "ttlMs": int(lifetime * 1000),
        "pollIntervalMs": int(min(max(age / 10, _POLLS[0]), _POLLS[1]) * 1000),
    }
    if task.message:
        wire["statusMessage"] = task.message
    return wire


def offered(ctx: Context) -> bool:
    """True if this request declares the extension."""
    capabilities = ctx.session.client_capabilities
    declared = (capabilities.extensions or {}) if capabilities else {}
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in declared


def require(ctx: Context) -> None:
    """Raises MCPError unless the request declares the extension."""
    if not offered(ctx):
        message = f"This needs the extension {EXTENSION}, which the request does not declare."
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": CAPABILITY})


def _checked(ctx: Context, params: TaskParams) -> Jobs:
    """Checks a request of the extension. Over HTTP, the header for routing must name the task."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(t.METHOD_NOT_FOUND, "Method not found")
    require(ctx)
    headers = getattr(ctx.request, "headers", None)
    if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != params.task_id:
        raise MCPError(t.HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request's taskId")
    assert isinstance(ctx.lifespan_context, Jobs)
    return ctx.lifespan_context


def serve_tasks(server: Server[Any], who: Who) -> None:
    """Adds the extension and its methods to a server whose lifespan is `jobs.running`.

    `who` returns the sender of a request.
    """

    async def get(ctx: Context, params: TaskParams) -> dict[str, Any]:
        task = await _checked(ctx, params).get(params.task_id, who(ctx).id)
        key = _PAYLOADS.get(task.status)
        return {**_task_fields(task), **({key: task.payload or {}} if key else {})}

    async def update(ctx: Context, params: UpdateParams) -> dict[str, Any]:
        sender = who(ctx)
        await _checked(ctx, params).update(
            params.task_id, sender.id, params.input_responses, may_write=sender.holds(WRITE)
        )
        return {}

    async def cancel(ctx: Context, params: TaskParams) -> dict[str, Any]:
        await _checked(ctx, params).cancel(params.task_id, who(ctx).id)
        return {}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, get)
    server.add_request_handler("tasks/update", UpdateParams, update)
    server.add_request_handler("tasks/cancel", TaskParams, cancel)
