"""fastmcp's client, which makes a type from each output schema, keeps every key of each answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import environment

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

VERSION = "4.2.3"
UV = Path(sys.prefix) / "bin" / "uv"
CALLS = {
    "info": {"path": "dem.tif"},
    "query": {"inputs": ["zones.gpkg"], "sql": "SELECT * FROM zones"},
    "convert": {"input": "dem.tif", "output": "out.tif"},
    "list_workspace": {},
}
CLIENT = """
import asyncio, json, os, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def main():
    command, calls = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    found = {}
    async with Client(StdioTransport(command[0], command[1:], env=dict(os.environ))) as client:
        for tool, arguments in calls.items():
            answer = await client.call_tool(tool, arguments)
            data = answer.data
            data = data if isinstance(data, dict) else vars(data)
            found[tool] = [sorted(data), sorted(answer.structured_content)]
    print(json.dumps(found))

asyncio.run(main())
"""


def test_client_program_receives_the_complete_answer(make_place):
    place = make_place("dem.tif", "zones.gpkg")
    words = [json.dumps(place.command("--approval", "never")), json.dumps(CALLS)]
    own = [UV, "run", "--quiet", "--isolated", "--no-project", "--with", f"fastmcp=={VERSION}"]
    ended = subprocess.run(
        [*own, "python", "-c", CLIENT, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment()},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    answers = json.loads(ended.stdout)
    assert set(answers) == set(CALLS)
    for tool, (data, sent) in answers.items():
        assert data == sent, tool
        assert data
