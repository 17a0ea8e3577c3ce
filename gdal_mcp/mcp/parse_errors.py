"""Answers the requests that the SDK cannot read. It only logs them, and whoever asked would wait for ever.

A request whose id can still be read is answered by that id, any other line that is no message by none, as JSON-RPC says.
A notification and an answer are never answered.
"""

import json
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as t
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_ADVICE = "Send one JSON-RPC 2.0 message per line, as plain JSON: whole characters, numbers of fewer than 4300 digits, 200 levels deep at most."


class Answered:
    """A server's incoming messages without what could not be read, which is answered here."""

    def __init__(
        self, reading: ReadStream[SessionMessage | Exception], writing: WriteStream[SessionMessage]
    ) -> None:
        self._reading = reading
        self._writing = writing

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent; the SDK runs its handler there."""
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
    """The answer to a line that failed with this error; None where none is due."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False)
    first, unreadable = problems[0], problems[0]["type"] == "json_invalid"
    # of a JSON that is no message, some problem is about the whole of it
    given = _leniently(first["input"]) if unreadable else max((one["input"] for one in problems), key=_whole)
    if given == "" or (isinstance(given, dict) and not {"id", "method"} <= given.keys()):
        return None
    why = f": {first['ctx']['error']}" if unreadable else ""
    said = t.ErrorData(
        code=t.PARSE_ERROR if unreadable else t.INVALID_REQUEST,
        message=f"The message is no {'JSON that can be read' if unreadable else 'JSON-RPC request'}{why}. {_ADVICE}",
    )
    return t.JSONRPCError(jsonrpc="2.0", id=_identifier(given), error=said)


def _whole(part: Any) -> bool:
    return isinstance(part, dict) and "method" in part


def _leniently(line: Any) -> Any:
    """The line as JSON if Python can make anything of it, the empty text for one of blanks, else None."""
    text = str(line).strip()
    try:
        return json.loads(text, parse_int=_short, strict=False) if text else ""
    except (ValueError, RecursionError):
        return None


def _short(digits: str) -> int:
    return int(digits) if len(digits) < 20 else 0  # what no id needs is not read


def _identifier(given: Any) -> str | int | None:
    one = given.get("id") if isinstance(given, dict) else None
    readable = isinstance(one, str) and one.isprintable()  # half of a surrogate pair cannot be written back
    return one if readable or (isinstance(one, int) and not isinstance(one, bool)) else None
