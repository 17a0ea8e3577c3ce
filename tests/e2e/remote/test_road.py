"""Tools for which the server itself makes requests: policy, quota and record come before the first request.

Each is judged by the requests that a listener got.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.pipeline import Request
from gdal_mcp.errors import Code
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from tests import serving
from tests.calling import ANN, called, person
from tests.waiting import until

PAGE = b'{"type": "FeatureCollection", "features": []}'
LIST = b"<ListBucketResult><Contents><Key>f/x.tif</Key><Size>7</Size></Contents></ListBucketResult>"


class Listener:
    """Answers a search and a list, and stores each request with the audit log of that moment."""

    def __init__(self, audit: Path) -> None:
        self.asked: list[tuple[str, str]] = []
        self.respond: Callable[[serving.Handler], None] | None = None
        listener = self

        class Handler(serving.Handler):
            def respond(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                listener.asked.append((self.path, audit.read_text()))
                if listener.respond is not None:
                    listener.respond(self)
                    return
                self.answer(200, LIST if "list-type" in self.path else PAGE)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def calls(self) -> Mapping[str, dict[str, Any]]:
        return {
            "stac_search": {"api": f"{self.host}/stac"},
            "remote_list": {"prefix": "s3://maps/f/"},
        }


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    new_listener = Listener(tmp_path / "state" / "audit.jsonl")
    with serving.serving(new_listener.server):
        yield new_listener


Made = Callable[[str], App]


@pytest.fixture
def app(tmp_path: Path, listener: Listener) -> Iterator[Made]:
    """`app(policy)`: a server with that policy that reads from the listener. It has no engine."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    networks = {"networks": ["127.0.0.0/8"]}
    sources = [
        {"at": listener.host, "query": ["shown"], **networks},
        {"at": "s3://maps/", "endpoint": listener.host, **networks},
    ]
    with ExitStack() as stack:

        def run_app(policy: str = "") -> App:
            options: dict[str, Any] = {}
            if policy:
                (tmp_path / "policy.toml").write_text(policy)
                options = {"policy": str(tmp_path / "policy.toml")}
            settings = load_settings(
                workspaces=[str(workspace)],
                state_dir=str(tmp_path / "state"),
                engine="unix:///nonexistent.sock",
                remote={"source": sources},
                **options,
            )
            return stack.enter_context(running(settings))

        yield run_app


def code(app: App, tool: str, arguments: Mapping[str, Any]) -> str:
    reply = called(app, tool, arguments, person(yes=True))
    return str(reply.error.code) if reply.error else "OK"


@pytest.mark.claim("audit.no-record-no-run", "remote.finding-is-reading")
def test_with_a_cut_audit_log_no_request_leaves(app: Made, listener: Listener):
    server = app("")
    assert [code(server, *call) for call in listener.calls.items()] == ["OK", "OK"]
    before = len(listener.asked)
    log = server.settings.state.audit
    log.write_bytes(log.read_bytes()[:-40])
    assert [code(server, *call) for call in listener.calls.items()] == [Code.INTERNAL, Code.INTERNAL]
    assert len(listener.asked) == before


@pytest.mark.claim("identity.quotas", "remote.finding-is-reading")
@pytest.mark.parametrize("tool", ["stac_search", "remote_list"])
def test_call_rate_bounds_the_requests(app: Made, listener: Listener, tool: str):
    server = app(f'[[principal]]\nprincipals = ["{ANN.id}"]\ncalls_per_minute = 2\n')
    codes = [code(server, tool, listener.calls[tool]) for _ in range(6)]
    assert codes == ["OK"] * 2 + [Code.RATE_LIMITED] * 4
    assert len(listener.asked) == 2


@pytest.mark.claim("identity.quotas")
def test_calls_without_a_container_count_too(app: Made):
    server = app(f'[[principal]]\nprincipals = ["{ANN.id}"]\ncalls_per_minute = 2\n')
    codes = [code(server, "list_workspace", {}) for _ in range(4)]
    assert codes == ["OK"] * 2 + [Code.RATE_LIMITED] * 2


@pytest.mark.claim("remote.finding-is-reading", "args.rules-hold-for-what-runs")
@pytest.mark.parametrize("decision", ["deny", "require"])
def test_denying_or_asking_policy_stops_before_any_request(app: Made, listener: Listener, decision):
    server = app(f'[[rule]]\ntools = ["stac_search", "remote_list"]\ndecision = "{decision}"\n')
    assert [code(server, *call) for call in listener.calls.items()] == [Code.DENIED] * 2
    assert listener.asked == []


@pytest.mark.claim("remote.bounded")
def test_cancelled_search_requests_no_further_page(app: Made, listener: Listener):
    """Each page leads to another one, without end."""
    server = app("")
    first, going = threading.Event(), threading.Event()

    def page(handler: serving.Handler) -> None:
        link = {"rel": "next", "href": f"{listener.host}/stac/search?page={len(listener.asked)}"}
        feature = {"type": "Feature", "id": "x", "assets": {}, "properties": {}}
        first.set()
        going.wait(30)
        body = {"type": "FeatureCollection", "features": [feature], "links": [link]}
        handler.answer(200, json.dumps(body).encode())

    listener.respond = page
    request = Request("stac_search", listener.calls["stac_search"], ANN, "test", NullApprover())

    async def cancelled() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(server.pipeline.call, request)
            await anyio.to_thread.run_sync(first.wait)
            group.cancel_scope.cancel()

    anyio.run(cancelled)
    going.set()
    gateway = server.pipeline.drafting.gateway
    until(lambda: not gateway._daily._read.total() and not gateway._daily._requests.total())
    assert len(listener.asked) == 1


@pytest.mark.claim("args.rules-hold-for-what-runs")
def test_denied_tool_is_denied_without_a_container_too(app: Made):
    server = app('[[rule]]\ntools = ["list_workspace"]\ndecision = "deny"\n')
    assert code(server, "list_workspace", {}) == Code.DENIED


@pytest.mark.claim("remote.finding-is-reading")
def test_to_validate_a_search_asks_nobody(app: Made, listener: Listener):
    server = app("")
    for tool, arguments in listener.calls.items():
        assert code(server, "validate_call", {"tool": tool, "arguments": arguments}) == "OK"
    assert listener.asked == []


@pytest.mark.claim("audit.no-record-no-run")
def test_record_names_the_host_before_the_request(app: Made, listener: Listener):
    server = app("")
    called(server, "stac_search", {"api": f"{listener.host}/stac?shown=1&token=very-secret"})
    called(server, "remote_list", listener.calls["remote_list"])
    for (_, log), place in zip(listener.asked, (f"{listener.host}/stac", "s3://maps/f/"), strict=True):
        started = json.loads(log.splitlines()[-1])["event"]
        assert started["type"] == "call.started"
        assert any(address.startswith(place) for address in started["object"]["addresses"])
    searched, looked = sorted(server.registry.search(limit=9).items, key=lambda call: call.started)
    assert [call.outcome for call in (searched, looked)] == ["OK", "OK"]
    assert listener.host in json.dumps(searched.argv)
    assert [row["requests"] for row in searched.receipt["remote"]] == [1]
    ended = json.loads(server.settings.state.audit.read_text().splitlines()[-1])["event"]
    assert [(row["host"], row["requests"]) for row in ended["remote"]] == [("s3://maps", 1)]
    everything = [path.read_bytes() for path in server.settings.state_dir.rglob("*") if path.is_file()]
    assert everything
    assert not any(b"very-secret" in content for content in everything)
