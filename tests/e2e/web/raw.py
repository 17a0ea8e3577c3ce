"""The protocol over HTTP as raw messages, for messages that no correct client sends."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from gdal_mcp.server.mcp.tasks import EXTENSION
from tests.e2e.mcp.talk import ERAS, HELLO, META, enveloped
from tests.e2e.web.hosted import SECONDS, Hosted, bearer

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/cancel": "taskId",
    "tasks/update": "taskId",
}


@dataclass
class Raw:
    """A sender of messages with a token; `headers` and `session` can be set to anything."""

    hosted: Hosted
    token: str
    era: str = ERAS[1]
    session: str | None = None
    tasks: bool = False  # True if it supports forms and tasks, so that a long call becomes a task
    headers: dict[str, str] = field(default_factory=dict)

    def hello(self) -> "Raw":
        """Opens a session, which exists only in the older era."""
        if self.era == ERAS[0]:
            answer = self.send("initialize", HELLO)
            assert answer.status_code == 200, answer.text
            self.session = answer.headers["mcp-session-id"]
            self.send("notifications/initialized", notify=True)
        return self

    def send(
        self, method: str, params: Mapping[str, Any] | None = None, *, notify: bool = False
    ) -> httpx2.Response:
        with httpx2.Client(timeout=SECONDS, trust_env=False) as client:
            return client.post(**self._request(method, params, notify=notify))

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The reply, a result or a protocol error."""
        return reply(self.send(method, params))

    def call(self, tool: str, **arguments: Any) -> httpx2.Response:
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    @contextmanager
    def running_call(self, tool: str, **arguments: Any) -> Iterator[httpx2.Response]:
        """A call whose container reports progress; leaving the block drops the connection."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p1"}}
        with (
            httpx2.Client(timeout=SECONDS, trust_env=False) as client,
            client.stream("POST", **self._request("tools/call", params, notify=False)) as answer,
        ):
            lines = answer.iter_lines()
            assert any("notifications/progress" in line for line in lines), answer.status_code
            yield answer
            del lines

    def _request(self, method: str, params: Mapping[str, Any] | None, *, notify: bool) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "method": method, "params": self._enveloped(params)}
        content = json.dumps(message if notify else {**message, "id": 1})
        return {"url": self.hosted.url, "headers": self._headers(method, params or {}), "content": content}

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {**ACCEPT, **bearer(self.token)}
        if self.era == ERAS[1]:
            version = params.get("_meta", {}).get(f"{META}protocolVersion", self.era)
            headers |= {"MCP-Protocol-Version": version, "Mcp-Method": method}
            if method in NAMED:
                headers["Mcp-Name"] = str(params[NAMED[method]])
        elif self.session:
            headers |= {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": self.session}
        return {**headers, **self.headers}

    def _enveloped(self, params: Mapping[str, Any] | None) -> dict[str, Any]:
        taken = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}
        return enveloped(params, self.era, taken if self.tasks else {"extensions": {}})


def reply(answer: httpx2.Response) -> dict[str, Any]:
    """The response in the body of an answer, JSON or a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        message: dict[str, Any] = answer.json()
        return message
    data = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    rows = [json.loads(text) for text in data if text.strip()]
    [message] = [row for row in rows if "id" in row and "method" not in row]
    return message
