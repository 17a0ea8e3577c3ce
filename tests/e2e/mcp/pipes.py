"""A server process on raw pipes: JSON-RPC lines are written and read unchanged, for messages that no correct client
sends.
"""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.mcp.talk import ERAS, HELLO, SERVE, enveloped, environment, program
from tests.forking import Forked

SECONDS = 120.0  # limit of waiting, far longer than any answer takes


@dataclass
class Pipes:
    """One server process. Every line of its stdout is stored, and must be JSON-RPC."""

    process: subprocess.Popen[bytes] | Forked
    era: str = "legacy"
    lines: list[str] = field(default_factory=list)
    _arrived: "queue.Queue[dict[str, Any] | None]" = field(default_factory=queue.Queue)
    _kept: list[dict[str, Any]] = field(default_factory=list)
    _next: int = 0

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = raw.decode("utf-8")
            self.lines.append(line)
            try:
                self._arrived.put(json.loads(line))
            except ValueError:
                self._arrived.put({"not JSON": line})
        self._arrived.put(None)

    def write(self, text: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() if isinstance(text, str) else text)
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Sends a request and returns its id."""
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": self._enveloped(params)}
        self.write(json.dumps(message) + "\n")
        return self._next

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": self._enveloped(params)}
        self.write(json.dumps(message) + "\n")

    def _enveloped(self, params: Mapping[str, Any] | None) -> dict[str, Any]:
        return enveloped(params, self.era, {"elicitation": {"form": {}}})

    def receive(self, seconds: float = SECONDS) -> dict[str, Any] | None:
        """The next message; None at the end of the server's output."""
        return self._kept.pop(0) if self._kept else self._arrived.get(timeout=seconds)

    def until(self, wanted: Any) -> dict[str, Any]:
        """The first message that `wanted` accepts; other messages are stored for later."""
        passed = []
        while (message := self.receive()) is not None:
            if wanted(message):
                self._kept = passed + self._kept
                return message
            passed.append(message)
        raise AssertionError(f"the server ended; it had said {passed}")

    def answer(self, identifier: int) -> dict[str, Any]:
        """The response to a request."""
        return self.until(lambda message: message.get("id") == identifier and "method" not in message)

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.send(method, params))

    def call(self, tool: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The result of a tool call, or the protocol's error."""
        answered = self.ask("tools/call", {"name": tool, "arguments": dict(arguments), **more})
        return answered.get("result") or {"protocol_error": answered["error"]}

    def hello(self, capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Initializes a client of the handshake era; does nothing in the modern era."""
        if self.era == ERAS[1]:
            return {}
        params = {**HELLO, "capabilities": dict(capabilities or {})}
        answered = self.ask("initialize", params)
        self.notify("notifications/initialized")
        return answered["result"]

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> int:
        """Starts a call; returns the id of its request once the job in the container reports progress."""
        params = {"name": tool, "arguments": dict(arguments), "_meta": {"progressToken": "p1"}}
        identifier = self.send("tools/call", params)
        self.until(
            lambda message: (
                message.get("method") == "notifications/progress" or message.get("id") == identifier
            )
        )
        return identifier

    def close(self) -> None:
        """Ends the process by the end of its input. A process that does not end fails the test, and is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.end()
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def end(self, seconds: float = SECONDS) -> int:
        """Waits for the process to end by itself and returns its exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code


@contextmanager
def piped(
    command: list[str], log: Path, *, era: str = "legacy", env: Mapping[str, str] | None = None
) -> Iterator[Pipes]:
    """A server process, whose input ends with the block."""
    full_environment = {**environment(), **(env or {})}
    with log.open("ab") as errors:
        process = (
            program().program(command[3:], full_environment, log)
            if command[:4] == SERVE
            else subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=full_environment,
                cwd=log.parent,
            )
        )
    with contextlib.closing(Pipes(process, era)) as pipes:
        yield pipes
