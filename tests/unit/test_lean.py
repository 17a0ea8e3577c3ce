"""The start of the server: what is imported for the first answers, and models of the SDK that are built late.

Each process here is a new one: this one has imported everything already, and not leanly.
"""

import gc
import json
import subprocess
import sys
from typing import Any

import pytest

from gdal_mcp import cli
from gdal_mcp.commands.exits import Exit

_LEAN = """
import json, sys, threading
from gdal_mcp.mcp.lean import lean_imports
with lean_imports():
    import mcp_types, mcp_types.methods
    import mcp.server.lowlevel.server, mcp.server.request_state, mcp.server.stdio
"""
_EAGER = "import json, sys\nimport mcp, mcp.server, mcp_types, mcp_types.methods\n"

# the names and schemas of everything of the SDK that is defined by Pydantic, asked for far from where it was defined
_SCHEMAS = """
import pydantic
def found():
    for path, module in sorted(sys.modules.items()):
        if path.partition(".")[0] in ("mcp", "mcp_types"):
            yield from ((f"{path}.{name}", one) for name, one in vars(module).items())
def schema(one):
    try:
        return one.json_schema() if isinstance(one, pydantic.TypeAdapter) else one.model_json_schema()
    except pydantic.errors.PydanticInvalidForJsonSchema as error:
        return str(error)
def late(one):
    return not (one.pydantic_complete if isinstance(one, pydantic.TypeAdapter) else one.__pydantic_complete__)
ours = {
    name: one
    for name, one in found()
    if isinstance(one, pydantic.TypeAdapter)
    or (isinstance(one, type) and issubclass(one, pydantic.BaseModel) and one is not pydantic.BaseModel)
}
unbuilt = [name for name, one in ours.items() if late(one)]
print(json.dumps({"late": unbuilt, "schemas": {name: schema(one) for name, one in ours.items()}}))
"""

# a server over streams in memory, which asks itself for its first answers
_FIRST_ANSWERS = """
import json, os, sys
import gdal_mcp.cli
from gdal_mcp.settings import load_settings
from gdal_mcp.mcp.lean import lean_imports
with lean_imports():
    import anyio
    from gdal_mcp.app import running
    import gdal_mcp.mcp.stdio
    from gdal_mcp.mcp.server import build
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


def told_by(code: str, *arguments: object) -> Any:
    """What a new process of that code prints, as JSON."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_the_first_answers_wait_for_nothing_that_they_do_not_use(tmp_path, era):
    (tmp_path / "maps").mkdir()
    told = told_by(_FIRST_ANSWERS, tmp_path / "maps", tmp_path / "state", era)
    assert "gdal_search" in told["tools"]
    unused = {"docker", "requests", "urllib3", "uvicorn", "httpx2", "jsonschema", "prometheus_client"}
    unused |= {
        "mcp.client",
        "mcp.server.mcpserver",
        "gdal_mcp.host.image",
        "gdal_mcp.commands.doctor",
        "gdal_mcp.commands.stats",
    }
    assert not unused & set(told["loaded"])


@pytest.mark.nightly
def test_what_is_built_late_is_what_would_have_been_built_early():
    late, early = told_by(_LEAN + _SCHEMAS), told_by(_EAGER + _SCHEMAS)
    assert len(late["late"]) > 400
    assert late["schemas"].items() <= early["schemas"].items()


def test_threads_that_use_an_unbuilt_model_at_once_all_get_the_right_value():
    told = told_by(
        _LEAN
        + """
from mcp_types import CallToolResult, client_request_adapter
from mcp_types.jsonrpc import jsonrpc_message_adapter
line = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "info"}}'
call = {"method": "tools/call", "params": {"name": "info", "arguments": {"path": "a.tif"}}}
content = [{"type": "text", "text": "yes"}]
uses = [
    lambda: jsonrpc_message_adapter.validate_json(line).id,
    lambda: client_request_adapter.validate_python(call).params.arguments["path"],
    lambda: CallToolResult.model_validate({"content": content}).model_dump()["content"][0]["text"],
    lambda: CallToolResult(content=content).content[0].text,
]
assert not CallToolResult.__pydantic_complete__ and not client_request_adapter.pydantic_complete
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(16), []
def use(one):
    start.wait()
    try:
        found.append(one())
    except BaseException as error:
        found.append(repr(error))
threads = [threading.Thread(target=use, args=(uses[number % len(uses)],)) for number in range(16)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps(sorted(map(str, found))))
"""
    )
    assert told == sorted(["7", "a.tif", "yes", "yes"] * 4)


def test_a_refused_value_is_refused_by_a_model_that_was_not_built_yet():
    told = told_by(
        _LEAN
        + """
import pydantic
from mcp_types import CallToolRequestParams, client_request_adapter
def refused(use):
    try:
        use()
    except pydantic.ValidationError as error:
        return [list(one["loc"]) for one in error.errors()]
given = {"method": "tools/call", "params": {"arguments": {}}}
print(json.dumps([
    refused(lambda: CallToolRequestParams.model_validate({"arguments": {}})),
    any("name" in place for place in refused(lambda: client_request_adapter.validate_python(given))),
]))
"""
    )
    assert told == [[["name"]], True]


def test_nothing_outlives_the_block_but_what_it_imported():
    told = told_by(
        """
import json, sys, pydantic
before = [vars(pydantic.BaseModel)["model_config"], vars(pydantic.BaseModel)["model_rebuild"], pydantic.TypeAdapter.__init__]
from gdal_mcp.mcp.lean import lean_imports
try:
    with lean_imports():
        import mcp_types
        raise KeyError
except KeyError:
    pass
after = [vars(pydantic.BaseModel)["model_config"], vars(pydantic.BaseModel)["model_rebuild"], pydantic.TypeAdapter.__init__]
class Mine(pydantic.BaseModel):
    size: int
import uvicorn
print(json.dumps([
    all(one is other for one, other in zip(before, after, strict=True)),
    Mine.__pydantic_complete__,
    pydantic.TypeAdapter(int | str).pydantic_complete,
    uvicorn.__name__,
]))
"""
    )
    assert told == [True, True, True, "uvicorn"]


def test_a_package_that_has_not_run_gives_every_name_it_has_and_no_other():
    told = told_by(
        _LEAN
        + """
import mcp, mcp.server
assert "mcp.client" not in sys.modules and "mcp.server.mcpserver" not in sys.modules
from mcp.server import *
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(8), []
def ask():
    start.wait()
    found.append(mcp.Client.__name__)
threads = [threading.Thread(target=ask) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
from mcp.server.lowlevel.server import Server as defined
print(json.dumps([
    found, hasattr(mcp, "nothing_of_that_name"), Server is defined, MCPServer.__name__, type(mcp).__name__
]))
"""
    )
    assert told == [["Client"] * 8, False, True, "MCPServer", "module"]


def test_a_server_that_cannot_start_leaves_the_collector_on(tmp_path):
    assert (
        cli.main(["serve", "--workspace", str(tmp_path / "nowhere"), "--state-dir", str(tmp_path)])
        == Exit.USAGE
    )
    assert gc.isenabled()


def test_threads_of_a_standing_server_share_their_memory():
    """glibc's areas lie at multiples of 64 MiB; without the setting each of these threads has one."""
    told = told_by(
        """
import json, sys, threading
from gdal_mcp.mcp.process import stand
stand()
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
    assert told <= 1
