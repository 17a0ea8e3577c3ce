"""The start of a server: modules that its first answers do not load, and settings of its process."""

import gc
import io
import json
import subprocess
import sys
from typing import Any

import pytest

from gdal_mcp.cli import main as cli
from gdal_mcp.cli.exits import Exit

# a server over in-memory streams that requests its first answers itself
_FIRST_ANSWERS = """
import json, os, sys
import gdal_mcp.cli.main
from gdal_mcp.settings import load_settings
import anyio
from gdal_mcp.server.app import running
import gdal_mcp.server.mcp.stdio
from gdal_mcp.server.mcp.server import build
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

async def answers(app, greeting, meta):
    server = build(app)
    sending, reading = create_context_streams(1)
    writing, receiving = create_context_streams(1)
    async def ask(number, method, params):
        given = {**params, **meta}
        request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=given)
        await sending.send(SessionMessage(request))
        answer = (await receiving.receive()).message
        assert answer.id == number, answer
        return answer.result
    async with anyio.create_task_group() as group:
        group.start_soon(server.run, reading, writing, server.create_initialization_options())
        await ask(1, *greeting)
        if not meta:
            done = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
            await sending.send(SessionMessage(done))
        tools = (await ask(2, "tools/list", {}))["tools"]
        loaded = sorted(sys.modules)
        group.cancel_scope.cancel()
    return {"tools": [tool["name"] for tool in tools], "loaded": loaded}

workspace, state, era = sys.argv[1:]
who = {"name": "test", "version": "0"}
prefix = "io.modelcontextprotocol/"
meta = {prefix + "protocolVersion": "2026-07-28", prefix + "clientInfo": who, prefix + "clientCapabilities": {}}
hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}
settings = load_settings(workspaces=[workspace], state_dir=state)
with running(settings) as app:
    if era == "2026-07-28":
        told = anyio.run(answers, app, ("server/discover", {}), {"_meta": meta})
    else:
        told = anyio.run(answers, app, ("initialize", hello), {})
print(json.dumps(told))
sys.stdout.flush()
os._exit(0)
"""


def printed_json(code: str, *arguments: object) -> Any:
    """The JSON that a new process with that code prints."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_first_answers_wait_only_for_what_they_use(tmp_path, era):
    (tmp_path / "maps").mkdir()
    report = printed_json(_FIRST_ANSWERS, tmp_path / "maps", tmp_path / "state", era)
    assert "gdal_search" in report["tools"]
    unused = {"docker", "requests", "urllib3", "prometheus_client"}
    unused |= {"gdal_mcp.cli.doctor", "gdal_mcp.server.console.local_server"}
    assert not unused & set(report["loaded"])
    assert not [
        name for name in report["loaded"] if name.startswith(("gdal_mcp.toolboxes.augment", "jsonschema"))
    ]


def test_failed_start_leaves_garbage_collection_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))  # of a client that has disconnected
    assert (
        cli.main(["serve", "--workspace", str(tmp_path / "nowhere"), "--state-dir", str(tmp_path)])
        == Exit.USAGE
    )
    assert gc.isenabled()


def test_threads_of_a_standing_server_share_their_memory():
    """glibc's arenas are at multiples of 64 MiB; without the setting each of these threads has its own."""
    areas = printed_json(
        """
import json, sys, threading
from gdal_mcp.server.mcp.background import tune_runtime
tune_runtime()
filled, looked = threading.Barrier(9), threading.Barrier(9)
def fill():
    kept = [bytes(20_000) for _ in range(20)]
    filled.wait()
    looked.wait()
threads = [threading.Thread(target=fill) for _ in range(8)]
for one in threads: one.start()
filled.wait()
rows = [line.split() for line in open("/proc/self/maps")]
areas = [row[0] for row in rows if len(row) == 5 and row[1] == "rw-p" and not int(row[0].split("-")[0], 16) % (64 << 20)]
looked.wait()
for one in threads: one.join()
print(json.dumps(len(areas)))
"""
    )
    assert areas <= 1
