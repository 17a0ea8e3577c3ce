"""Clients of a running server: the official SDK's, and a bare one for when the client's own time would show."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, Self

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.place import NotMeasurable, Place

Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def sdk_client(
    command: list[str],
    environment: Mapping[str, str],
    mode: Literal["auto", "legacy"] = "auto",
    *,
    quiet: bool = False,
) -> Iterator[Call]:
    """Starts a server over stdio; calls return structured results, or raise NotMeasurable for a tool's error."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(environment))
    with Path(os.devnull).open("w", encoding="utf-8") as unheard, start_blocking_portal() as portal:
        client = Client(stdio_client(parameters, errlog=unheard if quiet else sys.stderr), mode=mode)
        connection = portal.wrap_async_context_manager(client)
        connection.__enter__()

        def call(tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
            reply = portal.call(partial(client.call_tool, tool, dict(given)))
            if reply.is_error or reply.structured_content is None:
                raise NotMeasurable(f"{tool} failed: {str(reply.structured_content)[:500]}")
            return dict(reply.structured_content)

        try:
            yield call
        finally:  # without the exception, so that a failure of ours is not wrapped into a group
            connection.__exit__(None, None, None)


class BareClient:
    """One server process and a line of JSON at a time. Entering it makes the first request of its era."""

    def __init__(self, place: Place, *options: str, modern: bool = False, name: str = "server") -> None:
        self._modern = modern
        self._ids = count(1)
        self._process = subprocess.Popen(
            place.program("serve", *options, name=name),
            env=place.python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        try:
            if self._modern:
                self.ask("server/discover", {})
            else:
                who = {"name": "bench", "version": "0"}
                self.ask("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": who})
                self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of one request, when no other is under way. Raises NotMeasurable on an error."""
        number = self.begin(method, params)
        while (answer := self.next_answer())[0] != number:
            pass
        return answer[1]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> int:
        """Begins a call; returns its id."""
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def begin(self, method: str, params: Mapping[str, Any]) -> int:
        """Sends one request; returns its id."""
        number = next(self._ids)
        given = {**params, "_meta": _META} if self._modern else dict(params)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
        return number

    def next_answer(self) -> tuple[int, Mapping[str, Any]]:
        """The id and the result of whatever is answered next. Raises NotMeasurable on an error."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "method" in answer:
                continue
            if "result" not in answer or answer["result"].get("isError"):
                raise NotMeasurable(f"a request failed: {line[:500]!r}")
            return int(answer["id"]), dict(answer["result"])
        raise NotMeasurable("the server ended before it answered")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def resident_megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        row = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(row.split()[1]) * 1024 / 1e6

    def count(self, kind: Literal["fd", "task"]) -> int:
        """How many descriptors the server has open, or how many threads it has."""
        return len(list(Path(f"/proc/{self._process.pid}/{kind}").iterdir()))
