"""A connected client for tests, based on the SDK's: plain calls for synchronous tests, awaited ones for asynchronous
tests.

No person uses it: its `person` answers the server's questions, with yes unless that is changed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio.to_thread
import httpx2
import mcp_types as t
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

CALL_SECONDS: Final = 300.0  # seconds; a first call may wait for the attestation of the host


class CallFailed(Exception):
    """A call that the server answered with an error. `code` is one of its error codes, `error` the whole error."""

    def __init__(self, tool: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{tool}: {error.get('code', 'error')}: {error.get('message', error)}")
        self.code, self.error = str(error.get("code", "")), error


@dataclass
class Person:
    """Answers questions: `asked` has all questions so far, `yes` is the next answer."""

    yes: bool = True
    asked: list[str] = field(default_factory=list)

    async def __call__(self, context: object, params: t.ElicitRequestParams) -> t.ElicitResult:
        del context
        self.asked.append(params.message)
        return t.ElicitResult(action="accept", content={}) if self.yes else t.ElicitResult(action="decline")


@dataclass(frozen=True)
class GdalMcpClient:
    """A client of one server. `client` is the SDK's own; it lives on the event loop of `portal`."""

    portal: BlockingPortal
    client: Client
    person: Person

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured result. Raises CallFailed."""
        result = self.raw(tool, **arguments)
        structured = result.structured_content or {}
        if result.is_error:
            text = " ".join(content.text for content in result.content if isinstance(content, t.TextContent))
            raise CallFailed(tool, structured.get("error") or {"message": text})
        return structured

    async def acall(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Like `call`, for asynchronous tests, on any event loop."""
        return await anyio.to_thread.run_sync(lambda: self.call(tool, **arguments))

    def raw(self, tool: str, /, **arguments: Any) -> t.CallToolResult:
        """The result as in the protocol, with texts, pictures and links. An error is returned too."""
        result: t.CallToolResult = self.portal.call(self.client.call_tool, tool, arguments)
        return result

    def tools(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.portal.call(self.client.list_tools).tools)


@contextmanager
def connected(target: Any) -> Iterator[GdalMcpClient]:
    """A client for the argument of `mcp.Client`: StdioServerParameters, a URL or a transport. It ends with the block."""
    person = Person()
    with start_blocking_portal() as portal:
        client = Client(target, elicitation_callback=person, read_timeout_seconds=CALL_SECONDS)
        with portal.wrap_async_context_manager(client):
            yield GdalMcpClient(portal, client, person)


@asynccontextmanager
async def over_http(url: str, token: str, **headers: str) -> AsyncIterator[Any]:
    """The transport to a server over HTTP with a token. `headers` are sent too."""
    sent = {"Authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(headers=sent, timeout=CALL_SECONDS) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams
