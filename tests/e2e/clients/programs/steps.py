"""The steps that every client performs with its own API. Runs in the client's own environment, without this project.

A program calls `main` with a class that has the steps. It prints one JSON object: for each step `true`, or the reason
for a failure. A step for which a client has no method raises `Missing`.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

SECONDS = 60.0
PATIENCE = 20.0  # seconds until a call whose cancellation has arrived must have ended


class Missing(Exception):
    """The client lacks a method for this step; the text names it."""


class Setup:
    """The server to start, or its address and headers, and the data for the steps."""

    def __init__(self, words):
        setup = json.loads(words)
        self.command, self.environment = setup["command"], setup["environment"]
        self.workspace, self.state = Path(setup["workspace"]), Path(setup["state"])
        self.approve, self.long = setup["approve"], setup["long"]
        self.url, self.headers = setup["url"], setup["headers"]

    def audited(self):
        path = self.state / "audit.jsonl"
        return path.read_text() if path.exists() else ""


class Client:
    """The methods that a program implements. `call` returns the structured result of a call, or its text read as
    JSON.
    """

    def __init__(self, setup):
        self.setup, self.asked, self.progress = setup, 0, []

    async def tools(self):
        raise NotImplementedError

    async def call(self, tool, arguments):
        raise NotImplementedError

    async def resource(self, uri):
        raise Missing("no call that reads a resource")

    async def picture(self, tool, arguments):
        raise Missing("no picture in an answer")

    async def cancel(self, tool, arguments, is_running):
        raise Missing("no call that cancels")

    async def abandon(self, call, is_running):
        """Waits until the container of the call is at work, and then cancels the call as the client does."""
        task = asyncio.create_task(call)
        while not is_running():
            await asyncio.sleep(0.05)
        task.cancel()


async def listing(client):
    assert {"info", "convert", "preview"} <= set(await client.tools())


async def reading(client):
    facts = await client.call("info", {"path": "rgb.tif"})
    assert len(facts["size"]) == 2, facts


def approve(command):
    """Approves the waiting call in another terminal."""
    rows = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    for row in rows:
        subprocess.run([*command, row["id"], "--yes"], capture_output=True, check=True)


async def writing(client):
    """Makes a call that writes. The client asks the person; for a client that cannot ask, the server's own command is used."""
    arguments = {"input": "rgb.tif", "output": "written.tif"}
    answer = await client.call("convert", arguments)
    if client.asked == 0:
        assert not (client.setup.workspace / "written.tif").exists()
        approve(client.setup.approve)
        await client.call("convert", arguments)
    assert (client.setup.workspace / "written.tif").exists(), answer
    if client.asked == 0:
        raise Missing("no question to its user; approved with `gdal-mcp approve`, then sent again")


async def progressing(client):
    if not client.asked:
        raise Missing("not tried, as its calls wait for approval elsewhere")
    size = {"dst_crs": "EPSG:3857", "size": [1500, 1500], "resampling": "lanczos"}
    await client.call("reproject", {"input": "rgb.tif", "output": "big.tif", **size})
    if not client.progress:
        raise Missing("no progress")


async def cancelling(client):
    def is_running():
        _, named, rest = client.setup.audited().rpartition("long.tif")
        return bool(named) and '"call.started"' in rest

    if not client.asked:
        raise Missing("not tried, as its calls wait for approval elsewhere")
    await client.cancel("reproject", client.setup.long, is_running)
    await client.call("info", {"path": "rgb.tif"})  # everything that was sent before it has arrived
    deadline = time.monotonic() + PATIENCE
    while '"CANCELLED"' not in client.setup.audited():
        if time.monotonic() > deadline:
            raise Missing("gives up waiting without a word to the server; the call runs on")
        await asyncio.sleep(0.05)


async def resource(client):
    answer = await client.call("info", {"path": "rgb.tif"})
    uri = f"gdal://calls/{answer['receipt']['call_id']}"
    assert "info" in await client.resource(uri)


async def picture(client):
    assert (await client.picture("preview", {"path": "rgb.tif", "max_size": 64}))[1:4] == b"PNG"


STEPS = {
    "lists": listing,
    "reads": reading,
    "writes with approval": writing,
    "shows progress": progressing,
    "cancels": cancelling,
    "reads a resource": resource,
    "gets a picture": picture,
}


async def attempt(step, client):
    try:
        await asyncio.wait_for(step(client), SECONDS * 2)
    except Missing as missing:
        return str(missing)
    except BaseException as error:  # noqa: BLE001 - whatever a library raises is the result of this step
        return f"FAILED: {type(error).__name__}: {error}"[:2000]
    return True


async def run(connect, setup, results):
    async with connect(setup) as client:
        for name, step in STEPS.items():
            results[name] = await attempt(step, client)


def main(connect):
    results = {}
    try:
        asyncio.run(run(connect, Setup(sys.argv[1]), results))
    # a library may fail when it closes, if the answer of a cancelled call arrives then; no step tests that
    except BaseException:  # printed, and re-raised if a step has no result
        traceback.print_exc()
        if len(results) < len(STEPS):
            raise
    print(json.dumps(results))
    sys.stdout.flush()
    os._exit(0)  # some libraries leave threads behind
