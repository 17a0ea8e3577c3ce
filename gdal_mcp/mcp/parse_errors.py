"""Answers the requests that the SDK cannot parse: it only logs them, and the client would wait for ever.

The answer has the request's id if that can still be read, else none, as JSON-RPC says. Notifications and responses get none.
"""

import json
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as t
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_ADVICE = "Send one JSON-RPC 2.0 message per line, as plain JSON: valid characters, numbers of fewer than 4300 digits, 200 levels deep at most."


class Answered:
    """A server's incoming messages, without those that could not be parsed, which are answered here."""

    def __init__(
        self, reading: ReadStream[SessionMessage | Exception], writing: WriteStream[SessionMessage]
    ) -> None:
        self._reading = reading
        self._writing = writing

    @property
    def last_context(self) -> Any:
        """The context of the last message; the SDK runs its handler there."""
        return getattr(self._reading, "last_context", None)

    async def receive(self) -> SessionMessage:
        while isinstance(item := await self._reading.receive(), Exception):
            if (refused := refusal(item)) is not None:
                await self._writing.send(SessionMessage(refused))
        return item

    async def aclose(self) -> None:
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        await self._reading.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._reading.__aexit__(kind, value, trace)


def refusal(error: Exception) -> t.JSONRPCError | None:
    """The answer to a line that failed with this error; None if it gets no answer."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False)
    first, unreadable = problems[0], problems[0]["type"] == "json_invalid"
    if unreadable:
        given, why = _leniently(first["input"]), f": {first['ctx']['error']}"
    else:  # JSON, but no message: one of the problems is about the whole of it
        inputs = [one["input"] for one in problems]
        given = next((one for one in inputs if isinstance(one, dict) and "method" in one), inputs[0])
        why = ""
    if given == "" or (isinstance(given, dict) and not {"id", "method"} <= given.keys()):
        return None
    said = t.ErrorData(
        code=t.PARSE_ERROR if unreadable else t.INVALID_REQUEST,
        message=f"The message is no {'JSON that can be read' if unreadable else 'JSON-RPC request'}{why}. {_ADVICE}",
    )
    one = given.get("id") if isinstance(given, dict) else None
    readable = isinstance(one, str) and one.isprintable()  # half of a surrogate pair cannot be written back
    if not (readable or (isinstance(one, int) and not isinstance(one, bool))):
        one = None
    return t.JSONRPCError(jsonrpc="2.0", id=one, error=said)


def _leniently(line: Any) -> Any:
    """The line as JSON if Python can parse it at all, "" for a blank line, else None."""
    text = str(line).strip()

    def short(digits: str) -> int:
        return int(digits) if len(digits) < 20 else 0  # no id needs more digits

    try:
        return json.loads(text, parse_int=short, strict=False) if text else ""
    except (ValueError, RecursionError):
        return None
