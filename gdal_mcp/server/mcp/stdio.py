"""Serves one client over standard input and output, until end of input, SIGTERM or SIGINT.

A request that the SDK cannot parse is answered here, because the SDK only logs it and the client would wait forever.
The answer has the request's id if it can still be read, else none, as JSON-RPC requires. Notifications and responses
get no answer.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import mcp_types as t
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from gdal_mcp.server.app import App
from gdal_mcp.server.mcp.background import end_if_unread, end_on_signal, get_ready, reap
from gdal_mcp.server.mcp.pipes import standard_streams
from gdal_mcp.server.mcp.server import build

_NOTIFICATION = "notifications/"  # the start of the method of each notification, and of no request
_ADVICE = "Send one JSON-RPC 2.0 message per line, as plain JSON: valid characters, numbers of fewer than 4300 digits, 200 levels deep and 64 MiB at most."


async def serve(app: App, *beside: Callable[[App], Coroutine[Any, Any, None]]) -> None:
    """Serves until the end of input. A signal cancels every call, waits for the containers and ends the process.

    A client that left may have passed its end of stdout on to a program that never reads it, so writing is not waited for
    without a limit. Tasks that run `beside` the server, such as a console, are cancelled at the end.
    """
    server = build(app)
    async with anyio.create_task_group() as group:
        serving = anyio.CancelScope()

        def ended() -> None:
            app.pipeline.activity.end()
            group.start_soon(end_if_unread, app)

        group.start_soon(end_on_signal, serving, app)
        for task in (get_ready, reap, *beside):
            group.start_soon(task, app)
        with serving:
            await run_stdio(server, ended)
        group.cancel_scope.cancel()


async def run_stdio(server: Server[Any], ended: Callable[[], None] = lambda: None) -> None:
    """Forwards messages to the server, and answers those that could not be parsed.

    Calls `ended` when the client has left: at the end of input, or when nobody reads the output any more.
    """
    accepted, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
    with standard_streams() as files:
        async with (
            stdio_server(*files) as (reading, writing),
            accepted,
            messages,
            anyio.create_task_group() as group,
        ):

            async def sort() -> None:
                try:
                    async with accepted, reading:
                        async for item in reading:
                            if (refused := _refused(item)) is not None:
                                await writing.send(SessionMessage(refused))
                            elif not isinstance(item, Exception):
                                await accepted.send(item)
                finally:
                    ended()

            group.start_soon(sort)
            await server.run(messages, writing, server.create_initialization_options())
            group.cancel_scope.cancel()


def _refused(item: SessionMessage | Exception) -> t.JSONRPCError | None:
    """The answer to a line that is no message for the server; None if it is one, or gets no answer."""
    return refusal(item) if isinstance(item, Exception) else unanswerable(item.message)


def unanswerable(message: t.JSONRPCMessage) -> t.JSONRPCError | None:
    """The answer to a request without a valid id, which the SDK treats as a notification; None for other messages."""
    if not isinstance(message, t.JSONRPCNotification) or message.method.startswith(_NOTIFICATION):
        return None
    text = f"The request has no id. Its id must be a string or a whole number. {_ADVICE}"
    return t.JSONRPCError(jsonrpc="2.0", id=None, error=t.ErrorData(code=t.INVALID_REQUEST, message=text))


def refusal(error: Exception) -> t.JSONRPCError | None:
    """The answer to a line that failed with this error; None if it gets no answer."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False)
    first, unreadable = problems[0], problems[0]["type"] == "json_invalid"
    if unreadable:
        message, why = _leniently(first["input"]), f": {first['ctx']['error']}"
    else:  # the line is JSON but not a message; the input of one of the problems is the whole line
        inputs = [problem["input"] for problem in problems]
        message = next(
            (value for value in inputs if isinstance(value, dict) and "method" in value), inputs[0]
        )
        why = ""
    if message == "" or (isinstance(message, dict) and not {"id", "method"} <= message.keys()):
        return None
    data = t.ErrorData(
        code=t.PARSE_ERROR if unreadable else t.INVALID_REQUEST,
        message=f"The message is not {'readable JSON' if unreadable else 'a JSON-RPC request'}{why}. {_ADVICE}",
    )
    request_id = message.get("id") if isinstance(message, dict) else None
    readable = (
        isinstance(request_id, str) and request_id.isprintable()
    )  # half of a surrogate pair cannot be written to the answer
    if not (readable or (isinstance(request_id, int) and not isinstance(request_id, bool))):
        request_id = None
    return t.JSONRPCError(jsonrpc="2.0", id=request_id, error=data)


def _leniently(line: Any) -> Any:
    """The line as JSON if Python can parse it somehow, "" for a blank line, else None."""
    if not (text := str(line).strip()):
        return ""
    try:
        # no id has so many digits
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 20 else 0, strict=False)
    except (ValueError, RecursionError):
        return None
