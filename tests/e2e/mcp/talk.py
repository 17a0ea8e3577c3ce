"""The SDK's own client with a real server process, for tests without async."""

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import mcp_types as t
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.server.app import App, running
from gdal_mcp.server.mcp.server import build
from gdal_mcp.settings import PREFIX, Settings, load_settings
from tests.forking import Forks

ERAS = ("legacy", "2026-07-28")
META = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
# eras for tests that do not depend on the era: the newer one in `make test`, both in `make test-all`
EITHER_ERA = (pytest.param(ERAS[0], marks=pytest.mark.nightly), ERAS[1])
OF_THE_ENGINE = ("GDAL_MCP_IMAGE", "GDAL_MCP_ENGINE", "GDAL_MCP_PATH_MAP", "GDAL_MCP_PIDS")
PASSED_ON = "KUBECONFIG PATH HOME DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG XDG_RUNTIME_DIR".split()


def environment(**more: str) -> dict[str, str]:
    """A server's environment, with only the engine and the image from that of the tests.

    No container waits for calls, so each existing container belongs to a call; `GDAL_MCP_POOL_MAX` in `more` changes
    that. Any number of calls may wait at the same time.
    """
    ours = {name: value for name, value in os.environ.items() if name in PASSED_ON}
    chosen = {name: value for name, value in os.environ.items() if name in OF_THE_ENGINE}
    patient = {"GDAL_MCP_QUEUE_LENGTH": "4000", "GDAL_MCP_QUEUE_SECONDS": "900"}
    # a call whose client cannot ask its user does not wait long for approval from elsewhere
    brief = {"GDAL_MCP_APPROVAL_WAIT": "0.5", "GDAL_MCP_CONSOLE": "off"}
    return {**ours, **chosen, **patient, **brief, "GDAL_MCP_POOL_MAX": "0", **more}


@functools.cache
def program() -> Forks:
    """The program, loaded for its first run and copied for each further one: a new interpreter takes a second or
    more.
    """
    return Forks.loaded(environment())


def enveloped(params: Mapping[str, Any] | None, era: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request in an era: in the newer one, each request contains the client's name and
    capabilities.
    """
    complete = dict(params or {})
    if era == ERAS[1]:
        named = {"protocolVersion": era, "clientInfo": CLIENT, "clientCapabilities": capabilities}
        complete["_meta"] = {
            **{META + key: value for key, value in named.items()},
            **complete.get("_meta", {}),
        }
    return complete


@dataclass(frozen=True)
class Place:
    """A workspace, and the state folder of the servers on it."""

    workspace: Path
    state: Path

    @classmethod
    def made(cls, folder: Path) -> "Place":
        place = cls(folder / "workspace", folder / "state")
        place.workspace.mkdir(parents=True)
        place.workspace.chmod(0o755)
        return place

    @property
    def options(self) -> list[str]:
        return ["--workspace", str(self.workspace), "--state-dir", str(self.state)]

    def command(self, *options: str) -> list[str]:
        return [*SERVE, *self.options, *options]

    def emptied(self) -> bool:
        """Removes everything except the attestation of this host. Returns False and removes nothing if a server died."""
        if self.owners or any((self.state / "views").glob("*")):
            return False
        attestation = self.state / "attestation-gdal.json"
        for path in (
            *self.workspace.iterdir(),
            *(self.state.iterdir() if self.state.is_dir() else (self.state,)),
        ):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != attestation:
                path.unlink(missing_ok=True)
        return True

    @property
    def audited(self) -> list[dict[str, Any]]:
        """The events of the audit log."""
        lines = (self.state / "audit.jsonl").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines]

    def copy(self, folder: Path, *names: str) -> "Place":
        """A separate workspace with copies of these files."""
        place = Place.made(folder)
        for name in names:
            place.path(name).write_bytes(self.path(name).read_bytes())
        return place

    @property
    def owners(self) -> set[str]:
        """The ids of the servers that have a lock here: living servers, and dead ones that no server has cleaned up
        yet.
        """
        return {path.stem for path in (self.state / "servers").glob("*.lock")}

    @property
    def staged(self) -> list[str]:
        folder = self.workspace / ".gdal-mcp" / "staging"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def path(self, name: str) -> Path:
        return self.workspace / name


SERVE = [sys.executable, "-m", "gdal_mcp", "serve"]


@dataclass
class Person:
    """The user, who answers the server's questions. `meanwhile` runs between a question and its answer."""

    action: str = "accept"
    asked: list[str] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    async def __call__(self, _context: Any, params: t.ElicitRequestParams) -> t.ElicitResult | t.ErrorData:
        self.asked.append(params.message)
        self.meanwhile()
        if self.action == "error":
            return t.ErrorData(code=t.INTERNAL_ERROR, message="no form here")
        return t.ElicitResult(action=self.action, content={} if self.action == "accept" else None)


@dataclass(repr=False)
class Talk:
    """One client of one server process."""

    portal: BlockingPortal
    client: Client
    person: Person
    log: Path
    progress: list[tuple[float, float | None]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # messages of progress notifications

    def call(self, tool: str, /, **arguments: Any) -> t.CallToolResult:
        return self.start(tool, **arguments).result(timeout=120)

    def start(self, tool: str, /, **arguments: Any) -> "Future[t.CallToolResult]":
        """Starts a call, whose progress becomes the client's. Cancelling the future abandons the call as the SDK
        does.
        """
        mine: list[tuple[float, float | None]] = []
        messages: list[str] = []
        self.progress, self.messages = mine, messages  # a notification of an earlier call may arrive late

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            mine.append((progress, total))
            messages.append(message or "")

        async def call() -> t.CallToolResult:
            return await self.client.call_tool(tool, arguments, progress_callback=tell)

        return self.portal.start_task_soon(call)

    def done(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call that must succeed."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.structured_content
        return result.structured_content

    def failed(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail with a tool error."""
        result = self.call(tool, **arguments)
        assert result.is_error, result.structured_content
        return result.structured_content["error"]

    def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Calls any other method of the SDK's client."""

        async def request() -> Any:
            return await getattr(self.client, method)(*arguments, **named)

        return self.portal.call(request)

    def record(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The stored record of the call with this result; it contains the complete receipt."""
        [content] = self.ask("read_resource", f"gdal://calls/{result['receipt']['call_id']}").contents
        stored: dict[str, Any] = json.loads(content.text)
        return stored

    @property
    def modern(self) -> bool:
        return self.client.protocol_version == ERAS[1]


@contextmanager
def talking(
    command: list[str],
    log: Path,
    *,
    era: str = ERAS[1],
    person: Person | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Talk]:
    """A client connected to a new server process, which ends with the block. Without a person, it cannot ask."""
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env={**environment(), **(env or {})}, cwd=log.parent
    )
    with log.open("a") as errors, start_blocking_portal() as portal:
        client = Client(stdio_client(parameters, errlog=errors), mode=era, elicitation_callback=person)
        with portal.wrap_async_context_manager(client):
            yield Talk(portal, client, person or Person(), log)


def settings_for(command: list[str], env: Mapping[str, str] | None = None) -> Settings:
    """The settings that the program derives from that command and environment."""
    own = {name: value for name, value in environment(**(env or {})).items() if name.startswith(PREFIX)}
    rest = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    words = vars(build_parser().parse_args(command[len(SERVE) - 1 :]))
    with mock.patch.dict(os.environ, {**rest, **own}, clear=True):
        return load_settings(**{name: words.get(name) for name in Settings.model_fields})


@contextmanager
def inside(
    command: list[str],
    *,
    era: str = ERAS[1],
    person: Person | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Talk]:
    """Like `talking`, with the server in this process, for tests that do not concern a process, its pipes or its log.

    Its calls run in containers as usual. It starts within a tenth of a second; a process needs two seconds. In the
    newer era, such a client gets no progress.
    """
    with running(settings_for(command, env)) as app, beside(app, era, person) as talk:
        yield talk


@contextmanager
def beside(app: App, era: str = ERAS[1], person: Person | None = None, model: Any = None) -> Iterator[Talk]:
    """A client of a server in this process. `model` answers the questions of the server to its model."""
    with start_blocking_portal() as portal:
        client = Client(build(app), mode=era, elicitation_callback=person, sampling_callback=model)
        with portal.wrap_async_context_manager(client):
            yield Talk(portal, client, person or Person(), app.settings.state_dir)
